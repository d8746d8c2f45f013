"""First classifiers, of mentions and of pairs, whose predictions describe pairs for the one that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.data import RelationSentence
from spectrem.estimators.extraction.input import Indexes, Mentions, choose_contexts, labels_of, typed_features
from spectrem.models.loglinear import Features, LogLinearModel, Optimiser, Support, WeightPrior, build_shards

_FOLDS = 5  # of labelled sentences, whose labels are inferred from the other folds
_LEAST = 1e-6  # probability in a logarithm
_UNIT = 3.0  # nats: of log-odds as a feature, whose weight has the prior of those that are 0 or 1
_SOURCES = 6  # of features of relations: see `related_features`


class Names(NamedTuple):
    """Labels by their numbers; the first relation is that of pairs that have none."""

    types: tuple[str, ...]
    relations: tuple[str, ...]


class Guide(NamedTuple):
    """What describes pairs by the probable labels of others.

    Attributes
    ----------
    theta : ndarray of shape (n_weights,)
        Weights of a classifier of mentions.
    contexts : ndarray of int64
        Features of pairs that are combined with types.
    pairs : ndarray of shape (n_weights,), or None
        Weights of a classifier of pairs, if they are described by relations, too.
    bonus : float
        Nats that relations gain in `predict` by default: see `worthwhile_bonus`.
    """

    theta: Floats
    contexts: Ints
    pairs: Floats | None = None
    bonus: float = 0.0


def n_pair_features(indexes: Indexes, names: Names, contexts: Ints, related: bool) -> int:
    """The number of features of pairs, for the classifier that is kept."""
    typed = len(indexes.pair) + len(contexts) * len(names.types) ** 2
    return typed + (_SOURCES * (len(names.relations) - 1) if related else 0)


def make_member(settings: Any, n_features: int, names: Sequence[str]) -> LogLinearModel:
    """The model of mentions or of pairs of a RelationExtractor."""
    prior, optimiser = WeightPrior(1.0 / settings.C), Optimiser(settings.m_steps, settings.m_tol)
    return LogLinearModel(Support(n_features, len(names)), prior=prior, optimiser=optimiser, names=list(names))


def exact(model: LogLinearModel, tol: float) -> LogLinearModel:
    """The model with as many steps of its M-step as the tolerance needs."""
    return replace(model, optimiser=Optimiser(tol=tol))


def infer_labels(model: LogLinearModel, theta: Floats, features: Features) -> Floats:
    """Probabilities of the labels of mentions or pairs, shape (n, n_labels)."""
    found = np.zeros((features.n_choices, model.n_labels))
    for shard in build_shards(features, n_labels=model.n_labels):
        _, marginals = model.structure(shard).smoothed_max(model.scores(theta, shard), 1.0)
        found[shard.instances] = model.distributions(shard, marginals)
    return found


def learn_guide(
    settings: Any,
    data: Mentions,
    indexes: Indexes,
    sentences: Sequence[RelationSentence],
    names: Names,
    labels: tuple[Ints, Ints],
    weight: Floats,
) -> tuple[Guide, Features]:
    """First classifiers, and the features of all pairs by predictions that were not trained on them.

    ``labels`` are the types of mentions and the relations of pairs, -1 where they are not known.
    """
    types, relations = labels
    theta, kinds = _learn(
        make_member(settings, data.mention.n_features, names.types),
        settings, data.mention, data.mention_owner, types, sentences, weight,
    )  # fmt: skip
    contexts = choose_contexts(data, indexes)
    features = typed_features(data, contexts, kinds)
    if not settings.relation_features:
        return Guide(theta, contexts), features
    pairs, related = _learn(
        make_member(settings, features.n_features, names.relations),
        settings, features, data.pair_owner, relations, sentences, weight,
    )  # fmt: skip
    bonus = worthwhile_bonus(related, relations, weight[data.pair_owner])
    return Guide(theta, contexts, pairs, bonus), related_features(data, features, related)


def describe_pairs(settings: Any, guide: Guide, data: Mentions, names: Names) -> Features:
    """The features of pairs of new sentences."""
    mention = make_member(settings, data.mention.n_features, names.types)
    features = typed_features(data, guide.contexts, infer_labels(mention, guide.theta, data.mention))
    if guide.pairs is None:
        return features
    pair = make_member(settings, features.n_features, names.relations)
    return related_features(data, features, infer_labels(pair, guide.pairs, features))


def related_features(data: Mentions, features: Features, probabilities: Floats) -> Features:
    """Features of pairs, with those of probable relations of other pairs.

    For every relation: its log-odds beside none by the first classifier; its probability for the same mentions the
    other way round; and the largest probability among all other pairs with the same first argument, with the same
    second, and with either argument in any place.

    Parameters
    ----------
    data : Mentions
    features : Features
    probabilities : ndarray of shape (n_pairs, n_relations)
        The first is that of no relation.
    """
    first, second = data.numbered_arguments.T
    n, m = len(first), len(data.mention_owner)
    codes, backward = first * m + second, second * m + first
    order = np.argsort(codes)
    reverse = order[np.searchsorted(codes[order], backward)]
    ends = np.concatenate([first, second])
    columns = []
    for own in probabilities[:, 1:].T:
        either = best_of_others(ends, np.concatenate([own, own]))
        columns += [
            np.log(np.maximum(own, _LEAST) / np.maximum(probabilities[:, 0], _LEAST)) / _UNIT,
            own[reverse],
            best_of_others(first, own),
            best_of_others(second, own),
            either[:n],
            either[n:],
        ]
    related = sp.csr_array(np.stack(columns, axis=1)) if columns else sp.csr_array((n, 0))
    return Features.of(sp.hstack([features.matrix, related], format="csr"))


def worthwhile_bonus(probabilities: Floats, relations: Ints, weights: Floats) -> float:
    """What the scores of relations must gain so that choosing the best label serves F1, nats.

    With an F1 of F, a relation is worth predicting from the probability F/2 on, and not from 1/2 ([Lipton2014]): its
    log-odds gain log(2/F - 1). F is the mean over relations of what the most probable labels
    reach, at least 0.1.

    Parameters
    ----------
    probabilities : ndarray of shape (n_pairs, n_relations)
        By classifiers that were not trained on these pairs; the first is that of no relation.
    relations : ndarray of shape (n_pairs,), int
        -1 where it is not known.
    weights : ndarray of shape (n_pairs,)

    Examples
    --------
    Of two relations one is found:

    >>> probabilities = np.array([[0.1, 0.9], [0.6, 0.4], [0.9, 0.1]])
    >>> round(worthwhile_bonus(probabilities, np.array([1, 1, 0]), np.ones(3)), 12) == round(float(np.log(2)), 12)
    True
    """
    n = probabilities.shape[1]
    known = relations >= 0
    found, own, weight = probabilities[known].argmax(axis=1), relations[known], weights[known]
    right = np.bincount(own[found == own], weight[found == own], n)
    total = np.bincount(own, weight, n) + np.bincount(found, weight, n)
    scores = (2 * right / np.maximum(total, np.finfo(float).tiny))[1:][total[1:] > 0]
    return float(np.log(2.0 / max(float(scores.mean()), 0.1) - 1.0)) if len(scores) else 0.0


def best_of_others(group: Ints, values: Floats) -> Floats:
    """The largest value among the other entries of the same group; 0 where there is none.

    Examples
    --------
    >>> best_of_others(np.array([0, 0, 0, 1]), np.array([0.2, 0.7, 0.5, 0.9])).tolist()
    [0.7, 0.5, 0.7, 0.0]
    """
    if not len(group):
        return np.zeros(0)
    order = np.lexsort((values, group))
    sizes = np.bincount(group, minlength=1)
    last = np.cumsum(sizes) - 1
    largest, second = order[np.maximum(last, 0)], order[np.maximum(last - 1, 0)]
    own = np.where(np.arange(len(group)) == largest[group], second[group], largest[group])
    return np.where(sizes[group] > 1, values[own], 0.0)


def _learn(
    model: LogLinearModel,
    settings: Any,
    features: Features,
    owners: Ints,
    labels: Ints,
    sentences: Sequence[RelationSentence],
    weight: Floats,
) -> tuple[Floats, Floats]:
    """The weights of a classifier, and labels of all by classifiers that were not trained on them."""
    model = exact(model, settings.m_tol)
    # Sentences of the same words are in the same fold.
    numbers: dict[tuple[str, ...], int] = {}
    labelled = np.unique(owners[labels >= 0]).tolist()
    fold = np.full(len(sentences), -1)
    fold[labelled] = [numbers.setdefault(sentences[n].words, len(numbers)) % _FOLDS for n in labelled]
    own = fold[owners]

    def fit(among: Bools) -> Floats:
        chosen = np.flatnonzero(among & (labels >= 0))
        known = np.ones(len(chosen), np.bool_)
        allowed = labels_of(labels[chosen], model.n_labels)
        return model.fit(
            build_shards(features.take(chosen), labels=allowed, known=known, weights=weight[owners[chosen]])
        )

    theta = fit(np.ones(len(labels), np.bool_))
    found = infer_labels(model, theta, features)
    for number in range(_FOLDS if len(numbers) > 1 else 0):
        held_out = np.flatnonzero(own == number)
        if len(held_out):
            found[held_out] = infer_labels(model, fit(own != number), features.take(held_out))
    return theta, found
