"""The estimators that can be views: what is read of each, and how it is filled with what was learnt."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Bools, Floats
from spectrem.estimators.classification.maxent_classifier import (
    MaxEntClassifier,
    coefficients_of,
    fitted_model,
    make_model,
    merge_proportional,
)
from spectrem.estimators.crf.crf_tagger import CRFTagger, names_of, read_sentences
from spectrem.estimators.declare import check_parameters, parameters_of
from spectrem.estimators.table_input import UNLABELLED, read_targets, row_columns
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.loglinear import Member


class Seen(NamedTuple):
    """What a view sees of the training data.

    Attributes
    ----------
    member : Member
    names : sequence
        Labels by number, as constraints call them.
    known : ndarray of shape (n_own_instances,), bool
        Rows with a label or a distribution, sentences where all tokens have one.
    soft : ndarray of shape (n_own_instances,), bool
        Those of them where it is a distribution.
    complete : bool
        Whether the known instances have every label, so that the view can start from them.
    model : LogLinearModel or PairModel
    fill : callable
        From the estimator and its weights: gives the estimator what it learnt.
    """

    member: Member
    names: Sequence[Any]
    known: Bools
    soft: Bools
    complete: bool
    model: Any
    fill: Callable[[Any, Floats], None]


class Kind(NamedTuple):
    """A class of estimators that can be views.

    Attributes
    ----------
    estimator : type
    used : frozenset of str
        Parameters that count when the estimator is a view.
    chain : bool
    read : callable
        From the estimator, X, y, columns and constraints over its own columns to `Seen`.
    read_more : callable
        From a fitted estimator, X, columns and constraints to `Member`.
    model : callable
        From a fitted estimator to its model and weights.
    names : callable
        From a fitted estimator to its labels by number.
    """

    estimator: Any
    used: frozenset[str]
    chain: bool
    read: Callable[..., Seen]
    read_more: Callable[..., Member]
    model: Callable[[Any], tuple[Any, Floats]]
    names: Callable[[Any], Sequence[Any]]

    def label_column(self, name: str) -> str:
        """What constraints over several views call the labels of a view of this kind."""
        return label_column(name, self.chain)


def label_column(name: str, chain: bool) -> str:
    """What constraints over several views call the labels of one."""
    return f"{name}_{'tag' if chain else 'label'}"


def kind_of(name: str, estimator: Any) -> Kind:
    """The kind of a view.

    Raises
    ------
    InvalidInputError
        If it cannot be one, or has a parameter that `Views` has for all views together.
    """
    kind = next((one for one in KINDS if isinstance(estimator, one.estimator)), None)
    if kind is None:
        raise InvalidInputError(
            f"views[{name!r}] must be a MaxEntClassifier or a CRFTagger, got {quoted(estimator)}; other classifiers "
            "can be trained on agreed labels by SelfTrainer"
        )
    for parameter, (default, _) in parameters_of(estimator).items():
        value = getattr(estimator, parameter)
        if parameter not in kind.used and not (value is default or value == default):
            raise InvalidInputError(
                f"views[{name!r}] must leave {parameter} at {default!r}, got {quoted(value)}; give it to Views, for "
                "all views together"
            )
    return kind


def _read_rows(estimator: MaxEntClassifier, X: Any, y: Any, columns: Any, constraints: Any) -> Seen:
    check_parameters(estimator)
    features, _ = estimator._read(X, None, reset=True)
    if y is None:
        y = np.full(features.n_choices, UNLABELLED)
    targets = read_targets(y, estimator.classes, features.n_choices)
    merged = merge_proportional(estimator, features)
    model = make_model(estimator, merged.features.n_features, targets.classes)

    def fill(found: MaxEntClassifier, theta: Floats) -> None:
        found.classes_ = targets.classes
        found.coef_, found.intercept_ = coefficients_of(model, theta, merged)

    own = row_columns((columns,), features.n_choices, "Views")
    return Seen(
        Member(merged.features, None, targets.labels, own),
        targets.classes.tolist(),
        targets.known,
        targets.known & (targets.allowed.max(axis=1) < 1),
        bool((targets.allowed[targets.known] > 0).any(axis=0).all()),
        model,
        fill,
    )


def _read_more_rows(estimator: MaxEntClassifier, X: Any, columns: Any, constraints: Any) -> Member:
    features, _ = estimator._read(X, None)
    return Member(features, columns=row_columns((columns,), features.n_choices, "Views"))


def _read_tokens(tagger: CRFTagger, X: Any, y: Any, columns: Any, constraints: Any) -> Seen:
    check_parameters(tagger)
    read = read_sentences(_under(tagger, constraints), X, y, None, columns)
    lengths, labels = read.text.lengths, read.labels
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    several = np.bincount(sentence, np.diff(labels.offsets) > 1, len(lengths)) > 0

    def fill(found: CRFTagger, theta: Floats) -> None:
        found.features_, found.n_features_in_ = read.features, read.model.support.n_features
        found.tags_, found.model_, found.theta_, found.n_steps_ = read.tags, read.model, theta, 0

    return Seen(
        Member(read.text.features, lengths, labels, read.text.columns),
        names_of(read.tags) or list(read.tags),
        read.known,
        read.known & several,
        bool(read.known.any()),
        read.model,
        fill,
    )


def _under(tagger: CRFTagger, constraints: Any) -> CRFTagger:
    """The same tagger, reading what constraints need, such as words."""
    found = copy.copy(tagger)
    found.constraints = constraints
    return found


def _read_more_tokens(tagger: CRFTagger, X: Any, columns: Any, constraints: Any) -> Member:
    text = _under(tagger, constraints)._read(X, None, columns)
    return Member(text.features, text.lengths, None, text.columns)


_PRIOR = frozenset({"C", "l1_ratio", "m_steps", "m_tol"})
ROWS = Kind(
    MaxEntClassifier,
    _PRIOR | {"fit_intercept", "classes"},
    False,
    _read_rows,
    _read_more_rows,
    fitted_model,
    lambda found: found.classes_.tolist(),
)
TOKENS = Kind(
    CRFTagger,
    _PRIOR | {"features", "tags", "pairs", "edge_features", "scheme", "min_count"},
    True,
    _read_tokens,
    _read_more_tokens,
    lambda tagger: (tagger.model_, tagger.theta_),
    lambda tagger: list(tagger.tags_),
)
KINDS = (ROWS, TOKENS)
