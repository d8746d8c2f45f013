"""One `CRFTagger.fit`: from features, labels and settings to trained weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints import check_columns, check_values
from spectrem.constraints.compilation.compile import flatten
from spectrem.constraints.compilation.draft import used_columns
from spectrem.corpus import Corpus
from spectrem.data.features import FeatureIndex
from spectrem.estimators.conventions import row_weights
from spectrem.estimators.crf.input import TokenText, read_training
from spectrem.estimators.crf.labels import TokenLabels, read_labels
from spectrem.estimators.crf.pairs import PairModel
from spectrem.estimators.crf.scheme import check_labels, possible_moves
from spectrem.estimators.labelled import fit_labelled
from spectrem.estimators.tagging.text import Tag, check_tags
from spectrem.estimators.training import estep_of, learn_unlabelled, report_labelled
from spectrem.exceptions import InvalidInputError
from spectrem.learning import FitStatus, Record
from spectrem.models.loglinear import (
    AgreedModel,
    Features,
    Labels,
    LogLinearModel,
    LogLinearShard,
    Optimiser,
    Support,
    WeightPrior,
    build_shards,
)
from spectrem.reports import ConstraintReport, ConstraintSummary
from spectrem.structures._ragged import offsets_of, positions_of


class Trained(NamedTuple):
    """What training found.

    Attributes
    ----------
    n_sentences : int
        That it was given.
    features : FeatureIndex or None
        Of the features by the numbers of the model; None for the columns of a matrix.
    tags : tuple of str or int
        By number.
    model : LogLinearModel or PairModel
    theta : ndarray of shape (n_weights,)
    history : list of Record
    status : FitStatus
    n_steps : int
        Steps of L-BFGS on the sentences with all labels.
    constraints : tuple of ConstraintReport
    summaries : sequence of ConstraintSummary
    """

    n_sentences: int
    features: FeatureIndex | None
    tags: tuple[Tag, ...]
    model: Any
    theta: Floats
    history: list[Record]
    status: FitStatus
    n_steps: int
    constraints: tuple[ConstraintReport, ...] = ()
    summaries: tuple[ConstraintSummary, ...] = ()


class _Task(NamedTuple):
    """What there is to be trained, and on which shards."""

    n_sentences: int
    features: FeatureIndex | None
    tags: tuple[Tag, ...]
    model: Any
    shards: list[LogLinearShard]
    any_known: bool
    learns: bool


def train(
    tagger: Any,
    place: Callable[[Iterable[LogLinearShard]], Corpus],
    sentences: Any,
    y: Any,
    sample_weight: Any,
    lengths: Any,
    columns: Mapping[str, Any] | None,
) -> Trained:
    """Train with the settings of a CRFTagger, which have been checked, on what `CRFTagger.fit` takes.

    ``place`` makes the corpus of the shards.

    Raises
    ------
    InvalidInputError
        If settings, sentences and labels do not fit each other.
    """
    # what is read takes as much memory as the shards made of it, and is dropped before training
    n_sentences, index, tags, model, shards, any_known, learns = _prepare(
        tagger, sentences, y, sample_weight, lengths, columns
    )
    corpus = place(shards)
    del shards
    theta, n_steps = model.initial(), 0
    if any_known:
        theta, n_steps, record, status = fit_labelled(tagger, model, corpus, goes_on=learns)
    constrained, estep = with_pairs(model, tagger.constraints), estep_of(tagger)
    if not learns:
        reports = report_labelled(tagger, constrained, corpus, theta, estep)
        return Trained(n_sentences, index, tags, model, theta, [record], status, n_steps, *reports)
    found = learn_unlabelled(tagger, constrained, corpus, theta, estep)
    history = list(found.history)
    return Trained(n_sentences, index, tags, model, found.params, history, found.status, n_steps, *found.reports)


def _prepare(
    tagger: Any, sentences: Any, y: Any, sample_weight: Any, lengths: Any, columns: Mapping[str, Any] | None
) -> _Task:
    """Read and check everything, choose the weights, and cut the shards."""
    read = read_sentences(tagger, sentences, y, lengths, columns)
    n, known = len(read.text.lengths), read.known
    counts = row_weights(sample_weight, n, "sentence")
    present = (read.text.lengths > 0) & (counts > 0)
    check_constraints(tagger.constraints, read.tags)
    check_columns(tagger.constraints, read.text.columns)
    learns, any_known = tagger.unlabelled_weight > 0 and bool((~known & present).any()), bool((known & present).any())
    if not any_known and not (learns and (tagger.constraints or read.any_label)):
        raise InvalidInputError(
            "y must label some token, got none; without labels or constraints nothing says what tags mean"
        )
    weights = counts * np.where(known, 1.0, tagger.unlabelled_weight)
    shards = build_shards(
        read.text.features, read.text.lengths, read.labels, known, weights, read.text.columns, counts=counts,
        present=present if learns or tagger.constraints else present & known,
        n_weights=read.model.n_weights, n_labels=read.model.n_labels,
    )  # fmt: skip
    return _Task(n, read.features, read.tags, read.model, shards, any_known, learns)


class ReadText(NamedTuple):
    """Sentences and their labels, as training needs them.

    Attributes
    ----------
    text : TokenText
    features : FeatureIndex or None
    tags : tuple of str or int
    labels : Labels
        Tokens without any may have all.
    known : ndarray of shape (n_sentences,), bool
        Sentences where every token has a label or a distribution.
    any_label : bool
        Whether something is known of the label of some token.
    model : LogLinearModel or PairModel
    """

    text: TokenText
    features: FeatureIndex | None
    tags: tuple[Tag, ...]
    labels: Labels
    known: Bools
    any_label: bool
    model: Any


def read_sentences(tagger: Any, sentences: Any, y: Any, lengths: Any, columns: Mapping[str, Any] | None) -> ReadText:
    """Read what `CRFTagger.fit` takes, number features and tags, and choose the pairs of them that have a weight.

    Raises
    ------
    InvalidInputError
        If settings, sentences and labels do not fit each other.
    """
    text, index = read_training(tagger, sentences, lengths, columns)
    n = len(text.lengths)
    if not text.lengths.sum():
        raise InvalidInputError(f"X must hold a token to train on, got {n} sentences without any")
    labels = read_labels([None] * n if y is None else y, text.lengths, tagger.tags, stacked=lengths is not None)
    tags = learn_tags(tagger.tags, labels)
    known, numbered = labels.known(), labels.numbered(tags)
    possible = possible_moves(tagger.scheme, tags)
    if possible is not None:
        check_labels(possible, tagger.scheme, tags, text.lengths, numbered, known)
    support, transitions = choose_pairs(tagger, len(tags), text, labels, numbered)
    if index is not None:
        # in an order in which they are added up quickly
        order = support.order()
        support, index = support.take(order), index.take(order)
        text = text._replace(features=_reordered(text.features, order))
    chosen_features = _edge_features(tagger, index)
    edges = None if chosen_features is None else _edge_pairs(tagger, len(tags), text, labels, numbered, chosen_features)
    model = model_of(tagger, tags, support, transitions, edges)
    return ReadText(text, index, tags, numbered, known, bool((labels.kind >= 0).any()), model)


def choose_pairs(
    tagger: Any, n: int, text: TokenText, labels: TokenLabels, numbered: Labels
) -> tuple[Support, Ints | None]:
    """The pairs of features and tags, and of two tags, that ``tagger.pairs`` says have a weight."""
    if tagger.pairs == "all":
        return Support(text.features.n_features, n), None
    listed = _listed(labels, numbered)
    support = Support.observed(text.features, listed.offsets, listed.labels, n)
    return support, _observed_transitions(labels, numbered, n)


def _listed(labels: TokenLabels, numbered: Labels) -> Labels:
    """The labels of tokens, none where ``y`` says nothing of a token."""
    sizes, given = np.diff(numbered.offsets), labels.kind >= 0
    return Labels(offsets_of(sizes * given), numbered.labels[np.repeat(given, sizes)])


def _edge_features(tagger: Any, index: FeatureIndex | None) -> Bools | None:
    """The features that transitions depend on; None without ``edge_features``."""
    if not tagger.edge_features:
        return None
    if index is None:
        raise InvalidInputError(
            "edge_features must be () where tokens are rows of a matrix, whose columns have no names"
        )
    starts = (tagger.edge_features,) if isinstance(tagger.edge_features, str) else tuple(tagger.edge_features)
    chosen = np.array([name.startswith(starts) for name in index.names], np.bool_)
    if not chosen.any():
        raise InvalidInputError(
            f"edge_features must begin the name of some feature, got {', '.join(starts)}; names are such as "
            f"{', '.join(index.names[:3])}"
        )
    return chosen


def _edge_pairs(tagger: Any, n: int, text: TokenText, labels: TokenLabels, numbered: Labels, chosen: Bools) -> Support:
    """The pairs of chosen features and transitions, ``before * n + tag``, that have a weight."""
    n_features = text.features.n_features
    if tagger.pairs == "all":
        own = np.flatnonzero(chosen)
        return Support.pairs(np.repeat(own, n * n), np.tile(np.arange(n * n), len(own)), n_features, n * n)
    listed = _listed(labels, numbered)
    left, right = listed.neighbours(labels.lengths)
    cells = listed.labels[left] * n + listed.labels[right]
    sizes = np.diff(listed.offsets)
    per_token = np.where(positions_of(labels.lengths) > 0, sizes * np.roll(sizes, 1), 0)
    return Support.observed(text.features.where(chosen), offsets_of(per_token), cells, n * n)


def model_of(
    tagger: Any, tags: Sequence[Tag], support: Support, transitions: Ints | None, edges: Support | None = None
) -> Any:
    """The model of a tagger's settings: a `LogLinearModel`, or a `PairModel` where transitions depend on features."""
    model = LogLinearModel(
        support,
        chain=True,
        transitions=transitions,
        possible=possible_moves(tagger.scheme, tags),
        prior=WeightPrior((1.0 - tagger.l1_ratio) / tagger.C, tagger.l1_ratio / tagger.C),
        optimiser=Optimiser(tagger.m_steps, tagger.m_tol, memory=6),
        names=names_of(tags),
    )
    return model if edges is None else PairModel(model, edges)


def names_of(tags: Sequence[Tag]) -> list[str] | None:
    """What constraints call tags; None for those that are their own numbers."""
    return None if list(tags) == list(range(len(tags))) else [str(tag) for tag in tags]


def with_pairs(model: Any, constraints: Any) -> Any:
    """The model, or where a constraint names the tag before, the same with parts that say it."""
    if not any("previous" in used_columns(one) for one in flatten(constraints)):
        return model
    if isinstance(model, AgreedModel):
        return AgreedModel({name: with_pairs(view, constraints) for name, view in model.members.items()})
    return model if isinstance(model, PairModel) else PairModel(model)


def check_constraints(constraints: Any, tags: Sequence[Tag]) -> None:
    """Raise `InvalidInputError` if a constraint names a tag that does not exist."""
    names = names_of(tags) or tags
    for name in ("tag", "label", "previous"):
        check_values(constraints, name, names)


def learn_tags(given: Sequence[Tag] | None, labels: TokenLabels) -> tuple[Tag, ...]:
    """The tags of all states.

    Raises
    ------
    InvalidInputError
        If tags repeat, or nothing says which there are.
    """
    if given is not None:
        return check_tags(given)
    if not labels.tags:
        raise InvalidInputError("tags must be given where y holds no labels, got none; list them in tags")
    return labels.tags


def _reordered(features: Features, order: Ints) -> Features:
    numbers = np.empty_like(order)
    numbers[order] = np.arange(len(order))
    return features.renumbered(numbers)


def pairs_of(support: Support) -> tuple[Ints, Ints]:
    """Feature and label of every weight."""
    if support.indptr is None or support.labels is None:
        found = np.divmod(np.arange(support.n_weights), support.n_labels)
        return found[0], found[1]
    return np.repeat(np.arange(support.n_features), np.diff(support.indptr)), support.labels.astype(np.int64)


def _observed_transitions(labels: TokenLabels, numbered: Labels, n: int) -> Ints:
    """Pairs of tags that two neighbouring tokens may have by their labels, as ``before * n + tag``, increasing."""
    later = np.flatnonzero(positions_of(labels.lengths) > 0)
    later = later[(labels.kind[later] >= 0) & (labels.kind[later - 1] >= 0)]
    together = labels.kind[later - 1] * max(len(labels.kinds), 1) + labels.kind[later]
    _, first = np.unique(together, return_index=True)
    seen = np.zeros((n, n), np.bool_)
    bounds = numbered.offsets
    for token in later[first].tolist():
        before = numbered.labels[bounds[token - 1] : bounds[token]]
        seen[np.ix_(before, numbered.labels[bounds[token] : bounds[token + 1]])] = True
    return np.flatnonzero(seen.ravel())
