"""The relations of words to heads that are decided: a maximum-entropy classifier of arcs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem._heads import UNKNOWN_HEAD
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
from spectrem.models.parsing import MISSING, Atoms
from spectrem.structures._ragged import offsets_of, positions_of

_BITS = 20
N_FEATURES = 1 << _BITS
_FORM, _TAG, _FINE = range(3)
# Atoms in place of missing words: of the head of a root, beyond the ends of a sentence, of the child of a leaf.
_ROOT, _END, _CHILDLESS = 1, 2, 3
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# When training ends; to go on to a thousandth of the objective takes thrice as long and finds no more right relations.
_TOL, _MOST_STEPS = 0.01, 30


@dataclass(frozen=True, eq=False)
class RelationModel:
    """``p(relation | arc)``.

    Attributes
    ----------
    names : tuple of str
        The relations by number.
    model : LogLinearModel
    theta : ndarray of shape (n_weights,)
    """

    names: tuple[str, ...]
    model: LogLinearModel
    theta: Floats

    def label(self, lengths: Ints, atoms: Atoms, heads: Ints) -> list[str]:
        """The most probable relation of every word to its head; ``_`` where it has none."""
        features = arc_features(lengths, atoms, heads)
        shards = build_shards(features, n_labels=len(self.names))
        table = np.concatenate([self.model.scores(self.theta, shard).unary for shard in shards])
        best = np.array(self.names, object)[table.reshape(-1, len(self.names)).argmax(axis=1)]
        best[heads == UNKNOWN_HEAD] = MISSING
        return list(best)


def relation_model(names: Sequence[str], support: Support, C: float) -> LogLinearModel:
    """The model of these relations, whose weights have the variance C."""
    return LogLinearModel(
        support, prior=WeightPrior(1.0 / C), optimiser=Optimiser(_MOST_STEPS, _TOL, memory=6), names=names
    )


def relation_shards(
    lengths: Ints, atoms: Atoms, heads: Ints, relations: Sequence[str], words: Ints, weights: Floats
) -> tuple[tuple[str, ...], Support, list[LogLinearShard]]:
    """Names of relations, the pairs of features and relations that occur together, and shards to learn from.

    Parameters
    ----------
    lengths, atoms, heads
        As of `arc_features`.
    relations : sequence of str
        Of the words to learn from.
    words : ndarray of int64
        The numbers of these among all words.
    weights : ndarray of shape (n_tokens,)
        Weights of all words.
    """
    names, numbers = np.unique(np.array(relations), return_inverse=True)
    features = arc_features(lengths, atoms, heads).take(words)
    labels = Labels(np.arange(len(words) + 1), numbers.astype(np.int64), np.ones(len(words)))
    support = Support.observed(features, labels.offsets, labels.labels, len(names))
    shards = build_shards(
        features,
        labels=labels,
        known=np.ones(len(words), np.bool_),
        weights=weights[words],
        n_weights=support.n_weights,
        n_labels=len(names),
    )
    return tuple(map(str, names)), support, shards


def arc_features(lengths: Ints, atoms: Atoms, heads: Ints) -> Features:
    """Hashed features of the arc to every word from its head.

    Parameters
    ----------
    lengths : ndarray of shape (n_sentences,), int64
    atoms : ndarray of shape (n_tokens, 3), uint32
    heads : ndarray of shape (n_tokens,), int64
        Positions in the sentence, -1 for the root; those of words without a known head do not matter.
    """
    n, position = len(atoms), positions_of(lengths)
    start = np.repeat(offsets_of(lengths)[:-1], lengths)
    size = np.repeat(lengths, lengths)
    table = np.concatenate([atoms, np.repeat(np.array([[_ROOT], [_END], [_CHILDLESS]], np.uint32), 3, axis=1)])
    token = np.arange(n)
    head = np.where(heads >= 0, start + np.maximum(heads, 0), n)
    before = np.where(position > 0, token - 1, n + 1)
    after = np.where(position < size - 1, token + 1, n + 1)
    # of the children of a word, the first and the last: writes in order, so that the last one stays
    first, last = np.full(n + 1, n + 2), np.full(n + 1, n + 2)
    first[head[::-1]] = token[::-1]
    last[head] = token
    side = np.where(heads < 0, 0, np.where(heads > position, 1, 2)) * 8
    reach = side + np.minimum(np.abs(heads - position), 7)
    tag, fine, form = table[:, _TAG], table[:, _FINE], table[:, _FORM]
    templates = (
        *((tag[token],), (fine[token],), (form[token],), (form[token], fine[token])),
        *((tag[token], tag[head], reach), (fine[token], fine[head], side), (tag[token], tag[head], side)),
        *((form[token], form[head]), (form[token], tag[head], side), (tag[token], form[head], side)),
        *((fine[token], form[head], side), (tag[before], tag[token], side), (tag[token], tag[after], side)),
        *((form[before], tag[token], tag[head]), (form[token], fine[head], side)),
        *((tag[token], tag[head], form[first[:n]], side), (tag[token], tag[head], tag[last[:n]], side)),
        *((fine[token], fine[first[:n]], side), (tag[token], form[head], form[first[:n]])),
    )
    indices = np.empty((n, len(templates)), np.int32)
    for k, columns in enumerate(templates):
        indices[:, k] = _hashed(k, columns, n)
    indptr = np.arange(n + 1) * len(templates)
    return Features(indptr, indices.ravel(), None, N_FEATURES)


def _hashed(seed: int, columns: Sequence[NDArray], n: int) -> NDArray[np.uint64]:
    """A number below ``2 ** _BITS`` for every row; products are modulo 2^64."""
    h = np.full(n, seed + 1, np.uint64)
    for column in columns:
        h = (h ^ (h >> np.uint64(29))) * _MULTIPLIER + column.astype(np.uint64)
    h = (h ^ (h >> np.uint64(32))) * _MULTIPLIER
    return h >> np.uint64(64 - _BITS)
