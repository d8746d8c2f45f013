"""One `CRFTagger.fit`: from features, labels and settings to trained weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints import check_values
from spectrem.constraints.compilation.compile import flatten
from spectrem.constraints.compilation.draft import used_columns
from spectrem.corpus import Corpus
from spectrem.estimators.crf.input import TokenText
from spectrem.estimators.crf.labels import TokenLabels
from spectrem.estimators.crf.pairs import PairModel
from spectrem.estimators.homes import stage_folder
from spectrem.estimators.tagging.text import Tag, check_tag
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant, EStep, FitStatus, Record, Stopping, run_em
from spectrem.models.loglinear import (
    Features,
    Labels,
    LogLinearModel,
    LogLinearShard,
    Optimiser,
    Support,
    WeightPrior,
    build_shards,
)
from spectrem.models.loglinear.lbfgs import Ending
from spectrem.models.loglinear.model import known_counts
from spectrem.models.loglinear.optimise import maximise
from spectrem.structures._ragged import offsets_of, positions_of

# Where an M-step ends when no step raises its objective any more, it is as good as converged.
_STATUS = {
    Ending.CONVERGED: FitStatus.CONVERGED,
    Ending.STALLED: FitStatus.CONVERGED,
    Ending.STEPS: FitStatus.FIXED_ITERATIONS,
}


class Trained(NamedTuple):
    """What training found.

    Attributes
    ----------
    tags : tuple of str or int
        By number.
    order : ndarray of shape (n_features,), int64
        Features as the model numbers them, by their numbers before.
    model : LogLinearModel
    theta : ndarray of shape (n_weights,)
    history : list of Record
    status : FitStatus
    n_steps : int
        Steps of L-BFGS on the sentences with all labels.
    """

    tags: tuple[Tag, ...]
    order: Ints
    model: LogLinearModel
    theta: Floats
    history: list[Record]
    status: FitStatus
    n_steps: int


def train(
    tagger: Any,
    text: TokenText,
    labels: TokenLabels,
    weights: Floats,
    place: Callable[[Iterable[LogLinearShard]], Corpus],
    *,
    reorders: bool,
) -> Trained:
    """Train with the settings of a CRFTagger, which have been checked.

    Where it ``reorders`` features, those with weights for many tags come first, which is quicker.

    Raises
    ------
    InvalidInputError
        If settings, sentences and labels do not fit each other.
    """
    tags = learn_tags(tagger.tags, labels)
    check_constraints(tagger.constraints, tags)
    known, numbered = labels.known(), labels.numbered(tags)
    learns = tagger.unlabelled_weight > 0 and bool((~known & (text.lengths > 0)).any())
    if not known.any() and not (learns and (tagger.constraints or (labels.kind >= 0).any())):
        raise InvalidInputError(
            "y must label some token, got none; without labels or constraints nothing says what tags mean"
        )
    support, transitions = choose_pairs(tagger, len(tags), text, labels, numbered)
    order = support.order() if reorders else np.arange(support.n_features)
    if reorders:
        support, text = support.take(order), text._replace(features=_reordered(text.features, order))
    model = model_of(tagger, tags, support, transitions)
    chosen = text.lengths > 0 if learns else known
    corpus = place(
        _shards(model, text, numbered, known, chosen, weights * np.where(known, 1, tagger.unlabelled_weight))
    )
    theta, n_steps, started = model.initial(), 0, time.perf_counter()
    if known.any():
        best = maximise(model, theta, corpus.sum(known_counts, model), corpus, known=True)
        theta, n_steps = best.point, best.n_steps
        if not learns:
            log_prior = model.log_prior(theta)
            record = Record(1.0, -best.value, -best.value - log_prior, 0.0, time.perf_counter() - started, log_prior)
            if tagger.on_iteration is not None:
                tagger.on_iteration(record)
            return Trained(tags, order, model, theta, [record], _STATUS[best.ending], n_steps)
    result = run_em(
        with_pairs(model, tagger.constraints),
        corpus,
        theta,
        EStep(
            tagger.constraints,
            warm_start=True,
            dual_steps=tagger.dual_steps or None,
            infeasible=tagger.infeasible,
        ),
        schedule=tagger.schedule or Constant(tagger.gamma),
        stopping=Stopping(tagger.max_iter, tagger.tol),
        on_iteration=tagger.on_iteration,
        checkpoint=stage_folder(tagger, "em"),
    )
    return Trained(tags, order, model, result.params, list(result.history), result.status, n_steps)


def choose_pairs(
    tagger: Any, n: int, text: TokenText, labels: TokenLabels, numbered: Labels
) -> tuple[Support, Ints | None]:
    """The pairs of features and tags, and of two tags, that ``tagger.pairs`` says have a weight."""
    if tagger.pairs == "all":
        return Support(text.features.n_features, n), None
    sizes = np.diff(numbered.offsets)
    seen = np.where(labels.kind < 0, 0, sizes)
    listed = numbered.labels[np.repeat(labels.kind >= 0, sizes)]
    support = Support.observed(text.features, offsets_of(seen), listed, n)
    return support, _observed_transitions(labels, numbered, n)


def model_of(tagger: Any, tags: Sequence[Tag], support: Support, transitions: Ints | None) -> LogLinearModel:
    """The model of a tagger's settings."""
    return LogLinearModel(
        support,
        chain=True,
        transitions=transitions,
        prior=WeightPrior((1.0 - tagger.l1_ratio) / tagger.C, tagger.l1_ratio / tagger.C),
        optimiser=Optimiser(tagger.m_steps, tagger.m_tol),
        names=names_of(tags),
    )


def names_of(tags: Sequence[Tag]) -> list[str] | None:
    """What constraints call tags; None for those that are their own numbers."""
    return None if list(tags) == list(range(len(tags))) else [str(tag) for tag in tags]


def with_pairs(model: LogLinearModel, constraints: Any) -> Any:
    """The model, or where a constraint names the tag before, the same with parts that say it."""
    return PairModel(model) if any("previous" in used_columns(one) for one in flatten(constraints)) else model


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
    if given is None:
        found = labels.tags
        if not found:
            raise InvalidInputError("tags must be given where y holds no labels, got none; list them in tags")
        return found
    if isinstance(given, str):
        raise InvalidInputError(f"tags must be a sequence of tags, got the string {given!r}; put it in a list")
    tags = tuple(check_tag(tag, "tags") for tag in given)
    repeated = next((tag for k, tag in enumerate(tags) if tag in tags[:k]), None)
    if not tags or repeated is not None:
        what = "none" if not tags else f"{repeated!r} twice"
        raise InvalidInputError(f"tags must be distinct and at least one, got {what}; list every tag once")
    return tags


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


def _shards(
    model: LogLinearModel, text: TokenText, labels: Labels, known: Bools, chosen: Bools, weights: Floats
) -> list[LogLinearShard]:
    """Shards of the sentences that training looks at."""
    columns = text.columns
    features, lengths = text.features, text.lengths
    if not chosen.all():
        n, tokens = len(lengths), np.flatnonzero(np.repeat(chosen, lengths))
        columns = {name: c[chosen] if len(c) == n else c[tokens] for name, c in columns.items()}
        columns["sentence"] = np.flatnonzero(chosen)
        features, labels = features.take(tokens), labels.take(tokens)
        lengths, known, weights = lengths[chosen], known[chosen], weights[chosen]
    return build_shards(
        features, lengths, labels, known, weights, columns, n_weights=model.n_weights, n_labels=model.n_labels
    )
