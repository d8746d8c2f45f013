"""Features of mentions of entities and of pairs, and first classifiers whose predictions describe pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.corpus import Local
from spectrem.data import FeatureIndex, RelationSentence, mention_features, pair_features
from spectrem.data.features import CONTEXTS
from spectrem.models.loglinear import Features, Labels, LogLinearModel, LogLinearShard, build_shards
from spectrem.models.loglinear.optimise import fit_known
from spectrem.structures._ragged import offsets_of, positions_of

N_SOURCES = 6
"""Features of a pair for every relation, see `related_features`."""

_TEMPLATES = {"mention": mention_features, "pair": pair_features}
_FOLDS = 5  # of labelled sentences, whose labels are inferred from the other folds
_OFTEN = 3  # contexts that fewer training pairs have are not combined with types
_LEAST_PRODUCT = 1e-3  # of the probabilities of two types, to be a feature
_LEAST = 1e-6  # probability in a logarithm
_UNIT = 3.0  # nats: of log-odds as a feature, whose weight has the prior of those that are 0 or 1


class Mentions(NamedTuple):
    """Sentences as arrays, their mentions and pairs numbered from sentence to sentence.

    Attributes
    ----------
    members : dict of "mention" and "pair" -> LogLinearShard
        All mentions, and all ordered pairs of two of one sentence, with their features and columns for constraints.
    owners : dict of "mention" and "pair" -> ndarray of int64
        The sentence of each.
    arguments : ndarray of shape (n_pairs, 2), int64
        The two mentions of every pair, by their numbers among all.
    """

    members: dict[str, LogLinearShard]
    owners: dict[str, Ints]
    arguments: Ints


def encode_sentences(
    sentences: Sequence[RelationSentence], indexes: Mapping[str, FeatureIndex] | None = None, min_count: int = 1
) -> tuple[Mentions, Mapping[str, FeatureIndex]]:
    """Sentences by the numbers of their features: those of ``indexes`` or, in training, new ones."""
    if indexes is None:
        learned = {key: FeatureIndex.learn(map(of, sentences), min_count) for key, of in _TEMPLATES.items()}
        indexes = {key: index for key, (index, _) in learned.items()}
        tokens = {key: encoded for key, (_, encoded) in learned.items()}
    else:
        tokens = {key: indexes[key].encode(map(of, sentences)) for key, of in _TEMPLATES.items()}
    owners = {key: np.repeat(np.arange(len(sentences)), encoded.lengths) for key, encoded in tokens.items()}
    text = [sentence.text(mention) for sentence in sentences for mention in range(len(sentence.mentions))]
    places = np.array([pair for sentence in sentences for pair in sentence.pairs], np.int64).reshape(-1, 2)
    columns: dict[str, dict[str, NDArray]] = {
        "mention": {"text": np.array(text, np.str_)},
        "pair": {"first": places[:, 0], "second": places[:, 1]},
    }
    members = {}
    for key, (_, indptr, indices, values) in tokens.items():
        features = Features(indptr, indices, values, len(indexes[key]))
        members[key] = LogLinearShard.whole(features, columns=columns[key], owners=owners[key])
    starts = offsets_of(tokens["mention"].lengths)[:-1]
    return Mentions(members, owners, places + starts[owners["pair"]][:, None]), indexes


def labels_of(numbers: Ints, n_labels: int) -> Labels:
    """The labels that are allowed: the one that is known, or all where the number is -1."""
    sizes = np.where(numbers < 0, n_labels, 1)
    repeated = np.repeat(numbers, sizes)
    labels = np.where(repeated < 0, positions_of(sizes), repeated)
    return Labels(offsets_of(sizes), labels, 1.0 / np.repeat(sizes, sizes))


@dataclass(frozen=True, eq=False)
class FirstClassifiers:
    """First classifiers, by whose predictions pairs are described to the model that is kept.

    Attributes
    ----------
    mention : LogLinearModel
        The classifier of mentions.
    theta : ndarray of shape (n_weights,)
        Its weights.
    contexts : ndarray of int64
        Features of pairs that are combined with types.
    pair : LogLinearModel or None
        A classifier of pairs, if they are described by relations, too.
    pairs : ndarray of shape (n_weights,), or None
        Its weights.
    bonus : float
        Nats that relations gain in `predict` by default: see `worthwhile_bonus`.
    """

    mention: LogLinearModel
    theta: Floats
    contexts: Ints
    pair: LogLinearModel | None = None
    pairs: Floats | None = None
    bonus: float = 0.0

    def describe(self, data: Mentions) -> Features:
        """The features of the pairs of new sentences."""
        probabilities = infer_labels(self.mention, self.theta, data.members["mention"].features)
        features = typed_features(data, self.contexts, probabilities)
        if self.pair is None or self.pairs is None:
            return features
        return related_features(data, features, infer_labels(self.pair, self.pairs, features))


def learn_first_classifiers(
    make: Callable[[int, Sequence[str]], LogLinearModel],
    names: Mapping[str, Sequence[str]],
    data: Mentions,
    indexes: Mapping[str, FeatureIndex],
    sentences: Sequence[RelationSentence],
    labels: Mapping[str, Ints],
    weights: Floats,
    *,
    related: bool,
) -> tuple[FirstClassifiers, Features]:
    """First classifiers, and the features of all pairs by predictions that were not trained on them.

    Parameters
    ----------
    make : callable
        From a number of features and the names of labels to a model.
    names : mapping of "mention" and "pair" -> sequence of str
        All types, and all relations.
    data, indexes, sentences
        Of training.
    labels : mapping of "mention" and "pair" -> ndarray of int64
        By number, -1 where they are not known.
    weights : ndarray of shape (n_sentences,)
    related : bool
        Whether pairs are described by relations, too.
    """

    def learn(key: str, features: Features) -> tuple[LogLinearModel, Floats, Floats]:
        model = make(features.n_features, names[key])
        return model, *_learn(model, features, data.owners[key], labels[key], sentences, weights)

    mention, theta, probabilities = learn("mention", data.members["mention"].features)
    contexts = choose_contexts(data.members["pair"].features, indexes["pair"])
    features = typed_features(data, contexts, probabilities)
    if not related:
        return FirstClassifiers(mention, theta, contexts), features
    pair, pairs, probabilities = learn("pair", features)
    bonus = worthwhile_bonus(probabilities, labels["pair"], weights[data.owners["pair"]])
    first = FirstClassifiers(mention, theta, contexts, pair, pairs, bonus)
    return first, related_features(data, features, probabilities)


def choose_contexts(pair: Features, index: FeatureIndex) -> Ints:
    """The features of pairs that are combined with types: those that tell how mentions stand, and are not rare."""
    starts = tuple(sign + start for sign in "<>" for start in CONTEXTS)
    often = np.bincount(pair.indices, minlength=pair.n_features) >= _OFTEN
    names = enumerate(index.names)
    return np.array([n for n, name in names if often[n] and (name in ("<", ">") or name.startswith(starts))], np.int64)


def typed_features(data: Mentions, contexts: Ints, probabilities: Floats) -> Features:
    """All features of pairs, with those of the types of both mentions in every context.

    Parameters
    ----------
    data : Mentions
    contexts : ndarray of int64
        Features of pairs.
    probabilities : ndarray of shape (n_mentions, n_types)
        Their product is the value of a feature.
    """
    n_types, pair = probabilities.shape[1], data.members["pair"].features
    n_both = n_types**2
    first, second = data.arguments.T
    both = (probabilities[first][:, :, None] * probabilities[second][:, None, :]).reshape(-1, n_both)
    both[both < _LEAST_PRODUCT] = 0.0
    number = np.full(pair.n_features, -1)
    number[contexts] = np.arange(len(contexts))
    entries = np.flatnonzero(number[pair.indices] >= 0)
    rows = np.searchsorted(pair.indptr, entries, side="right") - 1
    columns = number[pair.indices[entries]][:, None] * n_both + np.arange(n_both)
    starts = np.searchsorted(rows, np.arange(pair.n_choices + 1)) * n_both
    shape = (pair.n_choices, len(contexts) * n_both)
    typed = sp.csr_array((both[rows].ravel(), columns.ravel(), starts), shape)
    typed.eliminate_zeros()
    return Features.of(sp.hstack([pair.matrix, typed], format="csr"))


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
    first, second = data.arguments.T
    n, n_mentions = len(first), len(data.owners["mention"])
    codes, backward = first * n_mentions + second, second * n_mentions + first
    order = np.argsort(codes)
    reverse = order[np.searchsorted(codes[order], backward)]
    ends = np.concatenate([first, second])
    columns = []
    for values in probabilities[:, 1:].T:
        either = best_of_others(ends, np.concatenate([values, values]))
        columns += [
            np.log(np.maximum(values, _LEAST) / np.maximum(probabilities[:, 0], _LEAST)) / _UNIT,
            values[reverse],
            best_of_others(first, values),
            best_of_others(second, values),
            either[:n],
            either[n:],
        ]
    related = sp.csr_array(np.stack(columns, axis=1)) if columns else sp.csr_array((n, 0))
    return Features.of(sp.hstack([features.matrix, related], format="csr"))


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
    other = np.where(np.arange(len(group)) == largest[group], second[group], largest[group])
    return np.where(sizes[group] > 1, values[other], 0.0)


def worthwhile_bonus(probabilities: Floats, relations: Ints, weights: Floats) -> float:
    """The nats that the scores of relations must gain so that choosing the best label serves F1.

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
    One of two relations is predicted:

    >>> probabilities = np.array([[0.1, 0.9], [0.6, 0.4], [0.9, 0.1]])
    >>> round(worthwhile_bonus(probabilities, np.array([1, 1, 0]), np.ones(3)), 12) == round(float(np.log(2)), 12)
    True
    """
    n, known = probabilities.shape[1], relations >= 0
    predicted, gold, weight = probabilities[known].argmax(axis=1), relations[known], weights[known]
    right = np.bincount(gold[predicted == gold], weight[predicted == gold], n)
    total = np.bincount(gold, weight, n) + np.bincount(predicted, weight, n)
    scores = (2 * right / np.maximum(total, np.finfo(float).tiny))[1:][total[1:] > 0]
    return float(np.log(2.0 / max(float(scores.mean()), 0.1) - 1.0)) if len(scores) else 0.0


def infer_labels(model: LogLinearModel, theta: Floats, features: Features) -> Floats:
    """Probabilities of the labels of mentions or pairs, shape (n, n_labels)."""
    tables = []
    for shard in build_shards(features, n_labels=model.n_labels):
        _, marginals = model.structure(shard).smoothed_max(model.scores(theta, shard), 1.0)
        tables.append(model.distributions(shard, marginals))
    return np.concatenate(tables)


def _learn(
    model: LogLinearModel,
    features: Features,
    owners: Ints,
    labels: Ints,
    sentences: Sequence[RelationSentence],
    weights: Floats,
) -> tuple[Floats, Floats]:
    """The weights of a classifier, and labels of all by classifiers that were not trained on them."""
    # Sentences of the same words are in the same fold.
    fold_of: dict[tuple[str, ...], int] = {}
    labelled = np.unique(owners[labels >= 0]).tolist()
    folds = np.full(len(sentences), -1)
    folds[labelled] = [fold_of.setdefault(sentences[n].words, len(fold_of)) % _FOLDS for n in labelled]
    fold = folds[owners]

    def fit(among: Bools) -> Floats:
        chosen = np.flatnonzero(among & (labels >= 0))
        allowed, known = labels_of(labels[chosen], model.n_labels), np.ones(len(chosen), np.bool_)
        shards = build_shards(features.take(chosen), labels=allowed, known=known, weights=weights[owners[chosen]])
        return fit_known(model, Local(shards), optimiser=replace(model.optimiser, max_steps=None)).point

    theta = fit(np.ones(len(labels), np.bool_))
    probabilities = infer_labels(model, theta, features)
    for number in range(_FOLDS if len(fold_of) > 1 else 0):
        held_out = np.flatnonzero(fold == number)
        if len(held_out):
            probabilities[held_out] = infer_labels(model, fit(fold != number), features.take(held_out))
    return theta, probabilities
