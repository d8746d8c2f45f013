"""Sources of votes that copy each other, found by how often they agree beyond what the labels explain.

Two sources that vote independently given the label agree as often as their tables say. What they agree more than that
is their residual agreement. Votes of sources that are nearly copies count less where they agree, so that a rule that is
there three times speaks once.

Sums of rules, which change what is learnt, are of whole multiples of a power of two and stay below 2**53 of it: they
are exact, and neither the order of items nor that of sources changes a bit.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spectrem._arrays import Bools, Floats, Ints
from spectrem.models.votes import scale_of
from spectrem.structures._ragged import ranges_of, rows_of

# Pairs count as dependent from so many standard deviations and this similarity on; variances are at least this.
_LEAST_Z, _LEAST_SIMILARITY, _LEAST_VARIANCE = 3.0, 0.5, 0.09
# Similarities are multiples of it.
_UNIT = 2.0**-20
# Sums of so many bits are exact.
_BITS = 52
# Pairs of answers that are looked at together.
_MOST_PAIRS = 1 << 20


class Agreement(NamedTuple):
    """Pairs of sources that agree at all, the smaller number first.

    Attributes
    ----------
    first, second : ndarrays of shape (n_pairs,), int64
    n_agreements, n_expected : ndarrays of shape (n_pairs,)
        Items on which both give the same vote, and how many were expected of independent sources, by weight.
    z : ndarray of shape (n_pairs,)
        The difference in standard deviations.
    similarity : ndarray of shape (n_pairs,)
        The share of what could agree beyond expectation that does, in [0, 1]: 1 for exact copies and for sources whose
        votes are a part of those of another.
    dependent : ndarray of shape (n_pairs,), bool
        Whether z is above 3 and the similarity at least one half.
    """

    first: Ints
    second: Ints
    n_agreements: Floats
    n_expected: Floats
    z: Floats
    similarity: Floats
    dependent: Bools


def agreement_of_rules(
    offsets: Ints, cells: NDArray[np.integer], n_sources: int, posteriors: Floats, weights: Floats
) -> Agreement:
    """How much more often rules agree than independent ones would, which vote as often for a label in every class.

    Parameters
    ----------
    offsets, cells
        Votes of items, as in `spectrem.models.votes.VoteShard`.
    n_sources : int
    posteriors : ndarray of shape (n_items, n_classes)
    weights : ndarray of shape (n_items,)

    Examples
    --------
    Two sources that always agree on 40 items of either class, and a third that votes as it likes:

    >>> votes = np.stack([np.arange(40) % 2, np.arange(40) % 2, np.arange(40) // 2 % 2], axis=1)
    >>> cells = (np.arange(3) * 2 + votes).ravel()
    >>> pairs = agreement_of_rules(np.arange(0, 121, 3), cells, 3, np.full((40, 2), 0.5), np.ones(40))
    >>> pairs.first[pairs.dependent].tolist(), pairs.second[pairs.dependent].tolist()
    ([0], [1])
    """
    k = posteriors.shape[1]
    scale = scale_of(math.fsum(weights), _BITS)
    weighted, whole = np.rint(posteriors * (weights * scale)[:, None]), np.rint(weights * scale)
    says = [_matrix(offsets, cells, n_sources, k, label) for label in range(k)]
    agreed = sparse.triu(sum(one.T @ sparse.diags_array(whole) @ one for one in says), 1).tocoo()
    first, second = agreed.coords[0].astype(np.int64), agreed.coords[1].astype(np.int64)
    n_expected, variance, sizes = np.zeros(agreed.nnz), np.zeros(agreed.nnz), weighted.sum(axis=0)
    for one in says:
        rate = np.divide(one.T @ weighted, sizes, out=np.zeros((n_sources, k)), where=sizes > 0)
        here, there = rate[first], rate[second]
        n_expected += (here * there) @ (sizes / scale)
        variance += (here * (1 - here) * there * (1 - there)) @ (sizes / scale)
    votes: Floats = np.sum([one.T @ whole for one in says], axis=0) / scale
    return _compare(first, second, agreed.data / scale, n_expected, variance, np.minimum(votes[first], votes[second]))


def agreement_of_answers(offsets: Ints, cells: NDArray[np.integer], log_joint: Floats, table: Floats) -> Agreement:
    """How much more often answers agree than independent ones would, where other sources say what the labels are.

    Copies outvote the others, and by labels that they have made themselves they are right and need no explanation. So
    labels are those that are left when the answers of both are taken out, and so are their tables.

    Parameters
    ----------
    offsets, cells
        As in `agreement_of_rules`.
    log_joint : ndarray of shape (n_items, n_classes)
        Logarithms of the joint probabilities of classes and answers, nats.
    table : ndarray of shape (n_sources, n_classes, n_classes), [source, class, vote]
        Probabilities of answers, above 0.

    Examples
    --------
    >>> votes = np.stack([np.arange(40) % 2] * 2 + [np.arange(40) // 2 % 2, np.arange(40) // 4 % 2], axis=1)
    >>> cells = (np.arange(4) * 2 + votes).ravel()
    >>> table = np.tile([[0.7, 0.3], [0.3, 0.7]], (4, 1, 1))
    >>> joint = np.log(table[np.arange(4), :, votes]).sum(axis=1)
    >>> pairs = agreement_of_answers(np.arange(0, 161, 4), cells, joint, table)
    >>> pairs.first[pairs.dependent].tolist(), pairs.second[pairs.dependent].tolist()
    ([0], [1])
    """
    n_sources, k, _ = table.shape
    of_cell = np.log(table).transpose(0, 2, 1).reshape(-1, k)
    size = np.diff(offsets)
    later = offsets[1:][rows_of(size)] - np.arange(len(cells)) - 1  # answers after each one on its item
    parts = np.searchsorted(np.cumsum(later), np.arange(_MOST_PAIRS, later.sum(), _MOST_PAIRS))
    runs = list(pairwise([0, *parts.tolist(), len(cells)]))

    def pairs_of(first: int, last: int) -> tuple[Ints, Ints, Ints]:
        """Pairs of answers on an item, and the number of each pair of sources."""
        one = np.repeat(np.arange(first, last), later[first:last])
        other = ranges_of(np.arange(first, last) + 1, later[first:last])
        source, of_other = cells[one] // k, cells[other] // k
        return one, other, np.minimum(source, of_other) * n_sources + np.maximum(source, of_other)

    keys = np.unique(np.concatenate([np.unique(pairs_of(*run)[2]) for run in runs]))
    n_agreements, counts = np.zeros(len(keys)), np.zeros((2, k, len(keys) * k))
    item = rows_of(size)
    for run in runs:
        one, other, key = pairs_of(*run)
        at = np.searchsorted(keys, key)
        n_agreements += np.bincount(at, cells[one] % k == cells[other] % k, len(keys))
        rest = log_joint[item[one]] - of_cell[cells[one]] - of_cell[cells[other]]
        rest = np.exp(rest - rest.max(axis=1, keepdims=True))
        rest /= rest.sum(axis=1, keepdims=True)
        for number, votes in enumerate((one, other)):
            for label in range(k):
                counts[number, label] += np.bincount(at * k + cells[votes] % k, rest[:, label], len(keys) * k)
    by_answer = counts.reshape(2, k, len(keys), k)
    n_items = by_answer[0].sum(axis=2)
    n_expected = np.divide(
        (by_answer[0] * by_answer[1]).sum(axis=2), n_items, out=np.zeros_like(n_items), where=n_items > 0
    )
    most = n_items.sum(axis=0)
    expected = n_expected.sum(axis=0)
    where = (keys // n_sources, keys % n_sources, n_agreements)
    return _compare(*where, expected, expected * (1 - expected / np.maximum(most, 1e-300)), most)


def _compare(
    first: Ints, second: Ints, n_agreements: Floats, n_expected: Floats, variance: Floats, most: Floats
) -> Agreement:
    """The rest of what `Agreement` says; ``most`` is how often both could agree."""
    z = (n_agreements - n_expected) / np.sqrt(np.maximum(variance, _LEAST_VARIANCE))
    similarity = np.clip((n_agreements - n_expected) / np.maximum(most - n_expected, 1e-9), 0.0, 1.0)
    similarity = np.rint(similarity / _UNIT) * _UNIT
    dependent = (z > _LEAST_Z) & (similarity >= _LEAST_SIMILARITY)
    return Agreement(first, second, n_agreements, n_expected, z, similarity, dependent)


def vote_weights(
    offsets: Ints, cells: NDArray[np.integer], n_sources: int, n_classes: int, pairs: Ints, similarity: Floats
) -> Floats:
    """How much every vote counts: 1 / (1 + similarities to the other sources that give the same vote on the item).

    Parameters
    ----------
    offsets, cells, n_sources, n_classes
        As in `agreement_of_rules`.
    pairs : ndarray of shape (n_pairs, 2)
        Numbers of dependent sources.
    similarity : ndarray of shape (n_pairs,)

    Examples
    --------
    >>> vote_weights(np.array([0, 2, 4]), np.array([0, 2, 0, 3]), 2, 2, np.array([[0, 1]]), np.array([1.0])).tolist()
    [0.5, 0.5, 1.0, 1.0]
    """
    weights, item = np.ones(len(cells)), rows_of(np.diff(offsets))
    between = sparse.coo_array((similarity, (pairs[:, 0], pairs[:, 1])), (n_sources, n_sources))
    for label in range(n_classes):
        at = np.flatnonzero(cells % n_classes == label)
        others = (_matrix(offsets, cells, n_sources, n_classes, label) @ (between + between.T)).tocsr()
        weights[at] += np.asarray(others[item[at], cells[at] // n_classes]).ravel()
    return 1.0 / weights


def _matrix(offsets: Ints, cells: NDArray[np.integer], n_sources: int, n_classes: int, label: int) -> sparse.csr_array:
    """1 where a source votes for the label on an item, however often; shape (n_items, n_sources)."""
    at = cells % n_classes == label
    where = (rows_of(np.diff(offsets))[at], cells[at] // n_classes)
    matrix = sparse.coo_array((np.ones(len(where[0])), where), (len(offsets) - 1, n_sources)).tocsr()
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix
