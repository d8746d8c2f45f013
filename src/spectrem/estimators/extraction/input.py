"""Sentences as features and labels of mentions and of ordered pairs of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.data import FeatureIndex, RelationSentence, mention_features, pair_features
from spectrem.data.features import CONTEXTS, TokenFeatures
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.loglinear import Features, Labels, Member
from spectrem.structures._ragged import offsets_of, positions_of

# Products of two probabilities below this are not worth a feature.
_LEAST = 1e-3
# Contexts that fewer training pairs have are not combined with types.
_OFTEN = 3


class Indexes(NamedTuple):
    """Names of the features of mentions and of pairs, with their numbers."""

    mention: FeatureIndex
    pair: FeatureIndex


class Mentions(NamedTuple):
    """Sentences as arrays, their mentions and pairs numbered from sentence to sentence.

    Attributes
    ----------
    n_sentences : int
    mention, pair : Features
        Of every mention, and of every ordered pair of two of one sentence.
    mention_owner, pair_owner : ndarray of int64
        The sentence of each.
    arguments : ndarray of shape (n_pairs, 2), int64
        The two mentions of every pair, by their numbers in the sentence.
    text : ndarray of shape (n_mentions,), str
    """

    n_sentences: int
    mention: Features
    pair: Features
    mention_owner: Ints
    pair_owner: Ints
    arguments: Ints
    text: NDArray[np.str_]

    @property
    def numbered_arguments(self) -> Ints:
        """The two mentions of every pair by their numbers among all, shape (n_pairs, 2)."""
        starts = offsets_of(np.bincount(self.mention_owner, minlength=self.n_sentences))[:-1]
        return self.arguments + starts[self.pair_owner][:, None]

    def members(self, pair: Features, types: Labels | None, relations: Labels | None) -> dict[str, Member]:
        """What shards of the joint model are cut from; ``pair`` are all features of pairs."""
        first, second = self.arguments.T
        return {
            "mention": Member(self.mention, labels=types, columns={"text": self.text}, owners=self.mention_owner),
            "pair": Member(pair, labels=relations, columns={"first": first, "second": second}, owners=self.pair_owner),
        }


def check_sentences(sentences: Any) -> list[RelationSentence]:
    """A list of sentences.

    Raises
    ------
    InvalidInputError
        If something else is among them.
    """
    single = isinstance(sentences, RelationSentence) or not hasattr(sentences, "__iter__")
    listed = [sentences] if single else list(sentences)
    for number, one in enumerate(listed):
        if not isinstance(one, RelationSentence):
            raise InvalidInputError(
                f"sentences must be RelationSentence, got {quoted(one)} for sentence {number}; make them of words and "
                "mentions, or read them with spectrem.data.read_relations"
            )
    return listed


def learn_sentences(sentences: Sequence[RelationSentence], min_count: int) -> tuple[Mentions, Indexes]:
    """Number the features of training sentences, and encode them."""
    mention, mentions = FeatureIndex.learn(map(mention_features, sentences), min_count)
    pair, pairs = FeatureIndex.learn(map(pair_features, sentences), min_count)
    indexes = Indexes(mention, pair)
    return _arrays_of(sentences, indexes, mentions, pairs), indexes


def encode_sentences(sentences: Sequence[RelationSentence], indexes: Indexes) -> Mentions:
    """The known features of new sentences."""
    mentions = indexes.mention.encode(map(mention_features, sentences))
    return _arrays_of(sentences, indexes, mentions, indexes.pair.encode(map(pair_features, sentences)))


def choose_contexts(data: Mentions, indexes: Indexes) -> Ints:
    """The features of pairs that are combined with types: those that tell how mentions stand, and are not rare."""
    starts = tuple(sign + start for sign in "<>" for start in CONTEXTS)
    often = np.bincount(data.pair.indices, minlength=data.pair.n_features) >= _OFTEN
    names = enumerate(indexes.pair.names)
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
    k, pair = probabilities.shape[1], data.pair
    first, second = data.numbered_arguments.T
    both = (probabilities[first][:, :, None] * probabilities[second][:, None, :]).reshape(-1, k * k)
    both[both < _LEAST] = 0.0
    number = np.full(pair.n_features, -1)
    number[contexts] = np.arange(len(contexts))
    entries = np.flatnonzero(number[pair.indices] >= 0)
    rows = np.searchsorted(pair.indptr, entries, side="right") - 1
    columns = number[pair.indices[entries]][:, None] * (k * k) + np.arange(k * k)
    starts = np.searchsorted(rows, np.arange(pair.n_choices + 1)) * (k * k)
    shape = (pair.n_choices, len(contexts) * k * k)
    kinds = sp.csr_array((both[rows].ravel(), columns.ravel(), starts), shape)
    kinds.eliminate_zeros()
    return Features.of(sp.hstack([pair.matrix, kinds], format="csr"))


def number_labels(values: Iterable[str | None], names: Sequence[str], what: str) -> Ints:
    """The number of every label, -1 where it is not known.

    Raises
    ------
    InvalidInputError
        If a label is not among the names.
    """
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(names)} | {None: -1}
    try:
        return np.array([numbers[value] for value in values], np.int64)
    except KeyError as error:
        raise InvalidInputError(
            f"{what}s must be those of all labels, {', '.join(names)}, got {quoted(error.args[0])}; list it in {what}s"
        ) from None


def labels_of(numbers: Ints, n_labels: int) -> Labels:
    """The labels that are allowed: the one that is known, or all."""
    sizes = np.where(numbers < 0, n_labels, 1)
    own = np.repeat(numbers, sizes)
    return Labels(offsets_of(sizes), np.where(own < 0, positions_of(sizes), own), 1.0 / np.repeat(sizes, sizes))


def relations_of(sentence: RelationSentence, no_relation: str) -> list[str | None]:
    """The relation of every pair of a sentence, None where it is not known."""
    given = sentence.relations
    return [None] * len(sentence.pairs) if given is None else [given.get(pair, no_relation) for pair in sentence.pairs]


def known_sentences(n: int, *labels: tuple[Ints, Ints]) -> Bools:
    """Sentences of which all labels are known; labels are given as numbers with the sentence of each."""
    known = np.ones(n, np.bool_)
    for numbers, owners in labels:
        known[owners[numbers < 0]] = False
    return known


def _arrays_of(
    sentences: Sequence[RelationSentence], indexes: Indexes, mentions: TokenFeatures, pairs: TokenFeatures
) -> Mentions:
    n = len(sentences)
    arguments = [pair for sentence in sentences for pair in sentence.pairs]
    text = [sentence.text(mention) for sentence in sentences for mention in range(len(sentence.mentions))]
    return Mentions(
        n,
        Features(mentions.indptr, mentions.indices, mentions.values, len(indexes.mention)),
        Features(pairs.indptr, pairs.indices, pairs.values, len(indexes.pair)),
        np.repeat(np.arange(n), mentions.lengths),
        np.repeat(np.arange(n), pairs.lengths),
        np.array(arguments, np.int64).reshape(-1, 2),
        np.array(text, np.str_),
    )
