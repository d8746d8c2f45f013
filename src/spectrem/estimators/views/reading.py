"""Read the data and labels of every view of `Views`, and hold them against each other."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from spectrem._arrays import Bools
from spectrem._validate import as_integers
from spectrem.constraints import check_columns, check_values
from spectrem.data.frames import as_frame
from spectrem.estimators.classification.maxent_classifier import (
    MaxEntClassifier,
    make_model,
    merge_proportional,
)
from spectrem.estimators.crf.crf_tagger import CRFTagger, read_sentences
from spectrem.estimators.declare import check_parameters, parameters_of
from spectrem.estimators.table_input import UNLABELLED, read_targets, row_columns
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.loglinear import LogLinearShard, Merged

_PRIOR = frozenset({"C", "l1_ratio", "m_steps", "m_tol"})
USED = {
    MaxEntClassifier: _PRIOR | {"fit_intercept", "classes"},
    CRFTagger: _PRIOR | {"features", "tags", "pairs", "edge_features", "scheme", "min_count"},
}
"""The estimators that can be views, and the parameters that count when they are."""


class View(NamedTuple):
    """An estimator to be fitted, and the labels that it learns from.

    Attributes
    ----------
    estimator : MaxEntClassifier or CRFTagger
        With all fitted attributes but its weights and the course of training.
    known : ndarray of shape (n_own_instances,), bool
        Rows with a label or a distribution, sentences where all tokens have one.
    complete : bool
        Whether the known instances have every label, so that the view can start from them.
    model : LogLinearModel or PairModel
    merged : Merged or None
        The features of a classifier.
    """

    estimator: Any
    known: Bools
    complete: bool
    model: Any
    merged: Merged | None = None


class Instances(NamedTuple):
    """The same instances as all views see them.

    Attributes
    ----------
    members : dict of view -> LogLinearShard
    n : int
    columns : dict of name -> ndarray of shape (n,)
        For constraints, beside those of the members.
    """

    members: dict[str, LogLinearShard]
    n: int
    columns: dict[str, NDArray]


def label_column(name: str, *, chain: bool) -> str:
    """The name of the labels of one view in constraints over several."""
    return f"{name}_{'tag' if chain else 'label'}"


def labels_of(view: Any) -> list[Any]:
    """The labels of a view by their numbers."""
    return list(view.tags_) if isinstance(view, CRFTagger) else view.classes_.tolist()


def check_views(settings: Any) -> None:
    """Raise `InvalidInputError` if estimators cannot be views together, or have parameters that `Views` has for all."""
    for name, estimator in settings.views:
        used = next((names for cls, names in USED.items() if isinstance(estimator, cls)), None)
        if used is None:
            raise InvalidInputError(
                f"views[{name!r}] must be a MaxEntClassifier or a CRFTagger, got {quoted(estimator)}; other "
                "classifiers can be trained on agreed labels by SelfTrainer"
            )
        for parameter, (default, _) in parameters_of(estimator).items():
            value = getattr(estimator, parameter)
            if parameter not in used and not (value is default or value == default):
                raise InvalidInputError(
                    f"views[{name!r}] must leave {parameter} at {default!r}, got {quoted(value)}; give it to Views, "
                    "for all views together"
                )
    chains = {name: isinstance(estimator, CRFTagger) for name, estimator in settings.views}
    if settings.agreement == "full" and len(set(chains.values())) > 1:
        listed = ", ".join(label_column(name, chain=chain) for name, chain in chains.items())
        raise InvalidInputError(
            f'agreement must not be "full" between classifiers and taggers, got both; tie them by constraints over '
            f"{listed}"
        )


def read_training(
    settings: Any, X: Any, y: Any, columns: Any, owners: Mapping[str, ArrayLike] | None
) -> tuple[dict[str, View], Instances]:
    """Read what `Views.fit` takes.

    Raises
    ------
    InvalidInputError
        If something breaks its rule, or views do not fit each other.
    """
    check_views(settings)
    parts, labels = _split(settings, X), _targets(settings, y)
    # In full agreement, constraints and columns are those of the instances as the first view sees them.
    constraints, of_view = (settings.constraints, columns) if settings.agreement == "full" else ((), None)
    views: dict[str, View] = {}
    members: dict[str, LogLinearShard] = {}
    for name, estimator in settings.views:
        views[name], members[name] = _read(clone(estimator), parts[name], labels.get(name), constraints, of_view)
        of_view = None
    instances = _join(settings, members, columns, owners)
    _check_constraints(settings, views, instances)
    return views, instances


def read_more(settings: Any, X: Any, columns: Any, owners: Mapping[str, ArrayLike] | None) -> Instances:
    """Read what `Views.predict` takes; see `read_training`."""
    parts, members = _split(settings, X), dict[str, LogLinearShard]()
    constraints, of_view = (settings.constraints, columns) if settings.agreement == "full" else ((), None)
    for name, view in settings.views_.items():
        if isinstance(view, CRFTagger):
            text = _under(view, constraints)._read(parts[name], None, of_view)
            members[name] = LogLinearShard.whole(text.features, text.lengths, None, text.columns)
        else:
            features, _ = view._read(parts[name], None)
            members[name] = LogLinearShard.whole(features, columns=row_columns((of_view,), features.n_choices, "Views"))
        of_view = None
    return _join(settings, members, columns, owners)


def _read(estimator: Any, X: Any, y: Any, constraints: Any, columns: Any) -> tuple[View, LogLinearShard]:
    """Read the training data of a view, and set all fitted attributes of its estimator but the weights."""
    check_parameters(estimator)
    if isinstance(estimator, CRFTagger):
        read = read_sentences(_under(estimator, constraints), X, y, None, columns)
        estimator.features_, estimator.tags_, estimator.model_ = read.features, read.tags, read.model
        estimator.n_features_in_, estimator.n_steps_ = read.model.support.n_features, 0
        member = LogLinearShard.whole(read.text.features, read.text.lengths, read.labels, read.text.columns)
        return View(estimator, read.known, bool(read.known.any()), read.model), member
    features, _ = estimator._read(X, None, reset=True)
    if y is None:
        y = np.full(features.n_choices, UNLABELLED)
    targets = read_targets(y, estimator.classes, features.n_choices)
    merged = merge_proportional(estimator, features)
    model = make_model(estimator, merged.features.n_features, targets.classes)
    complete = bool((targets.allowed[targets.known] > 0).any(axis=0).all())
    estimator.classes_ = targets.classes
    named = row_columns((columns,), features.n_choices, "Views")
    member = LogLinearShard.whole(merged.features, None, targets.labels, named)
    return View(estimator, targets.known, complete, model, merged), member


def _under(tagger: CRFTagger, constraints: Any) -> CRFTagger:
    """The same tagger, which also reads what constraints need, such as words."""
    constrained = copy.copy(tagger)
    constrained.constraints = constraints
    return constrained


def _split(settings: Any, X: Any) -> dict[str, Any]:
    """The data of every view."""
    names, groups = [name for name, _ in settings.views], settings.feature_groups
    grouped = groups is not None and not isinstance(X, Mapping)
    of_views: Any = groups if grouped else X
    if not isinstance(of_views, Mapping) or set(of_views) != set(names):
        got = ", ".join(map(str, of_views)) if isinstance(of_views, Mapping) else quoted(of_views)
        raise InvalidInputError(
            f"{'feature_groups' if grouped else 'X'} must map every view, {', '.join(names)}, to what it sees, got "
            f"{got}; of one matrix, feature_groups says which columns a view sees"
        )
    return {name: _some_columns(X, groups[name], name) if grouped else X[name] for name in names}


def _some_columns(X: Any, listed: Any, view: str) -> Any:
    """Columns of a matrix by number, or of a frame by name."""
    frame = as_frame(X, "X")
    known: list[Any] = frame.columns if frame is not None else list(range(X.shape[1]))
    wanted = np.asarray(listed).tolist()
    unknown = set(wanted) - set(known)
    if unknown:
        raise InvalidInputError(
            f"feature_groups[{view!r}] must list columns of X, got {sorted(unknown, key=repr)[0]!r}, and X has "
            f"{', '.join(map(repr, known[:5]))}, ...; give numbers of columns, or names of a frame"
        )
    if frame is not None:
        return frame[:, [known.index(name) for name in wanted]].to_native()
    table: Any = X
    return (table.tocsc() if sp.issparse(X) else np.asarray(X))[:, wanted]


def _targets(settings: Any, y: Any) -> dict[str, Any]:
    """The labels of every view, as far as they are known."""
    names = [name for name, _ in settings.views]
    if not isinstance(y, Mapping):
        return dict.fromkeys(names, y)
    unknown = [name for name in y if name not in names]
    if settings.agreement == "full" or unknown:
        raise InvalidInputError(
            "y must be the labels that all views share in full agreement, and otherwise may map views "
            f"({', '.join(names)}) to theirs, got {quoted(unknown[0]) if unknown else 'a mapping'}; correct it"
        )
    return dict(y)


def _join(
    settings: Any, members: Mapping[str, LogLinearShard], columns: Any, owners: Mapping[str, ArrayLike] | None
) -> Instances:
    """Members with their owners, of the same instances."""
    owned = {name: as_integers(numbers, f"owners[{name!r}]") for name, numbers in (owners or {}).items()}
    strange = [name for name in owned if name not in members or settings.agreement == "full"]
    if strange:
        raise InvalidInputError(
            f"owners must be of views ({', '.join(members)}) that do not agree fully, got {strange[0]!r}; leave it out"
        )
    sizes = {name: member.n_instances for name, member in members.items() if name not in owned}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{n} of {name!r}" for name, n in sizes.items())
        raise InvalidInputError(
            f"X must have the same rows or sentences in every view, got {listed}; leave out those that a view lacks, "
            "or say by owners what they are parts of"
        )
    taggers = [(name, member) for name, member in members.items() if member.lengths is not None]
    if not isinstance(settings.agreement, list | tuple) and len(taggers) == len(members) and not owned:
        (first, one), *others = taggers
        for name, member in others:
            if not np.array_equal(member.sizes, one.sizes):
                bad = int(np.argmax(member.sizes != one.sizes))
                raise InvalidInputError(
                    f"X must have the same tokens in every view, got {member.sizes[bad]} of {name!r} and "
                    f"{one.sizes[bad]} of {first!r} in sentence {bad}; give the same sentences"
                )
    largest = max((int(numbers.max(initial=-1)) for numbers in owned.values()), default=-1)
    n = next(iter(sizes.values()), largest + 1)
    named = {} if settings.agreement == "full" else row_columns((columns,), n, "Views")
    return Instances({name: replace(one, owners=owned.get(name)) for name, one in members.items()}, n, named)


def _check_constraints(settings: Any, views: Mapping[str, View], instances: Instances) -> None:
    """Hold constraints, and views that agree fully, against the labels there are."""
    names = {name: labels_of(view.estimator) for name, view in views.items()}
    if settings.agreement != "full":
        listed = [settings.constraints, [] if isinstance(settings.agreement, Mapping) else settings.agreement]
        for name, view in views.items():
            check_values(listed, label_column(name, chain=view.model.chain), names[name])
        check_values(listed, "view", list(views))
        check_columns(listed, instances.columns)
        return
    first, *others = names
    for name in others:
        if names[name] != names[first]:
            raise InvalidInputError(
                f"views must have the same labels in full agreement, got {names[first]!r:.100} of {first!r} and "
                f"{names[name]!r:.100} of {name!r}; give them the same classes or tags, or map labels to groups by "
                "agreement"
            )
    for label in ("tag", "label", "previous"):
        check_values(settings.constraints, label, names[first])
    check_columns(settings.constraints, instances.members[first].columns)
