"""Sources of votes that copy each other, found by how often they agree beyond what the labels explain.

Two sources that vote independently given the label agree as often as their tables say. What they agree more than that
is their residual agreement. Votes of sources that are nearly copies count less where they agree, so that a rule that is
there three times speaks once.

Sums of rules, which change what is learnt, are of whole multiples of a power of two and stay below 2**53 of it: they
are exact, and neither the order of items nor that of sources changes a bit.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spectrem._arrays import Bools, Floats, Ints
from spectrem.kernels import votes as kernel
from spectrem.models.votes import scale_of
from spectrem.structures._ragged import rows_of

# Pairs count as dependent from so many standard deviations and this similarity on; variances are at least this.
_LEAST_Z, _LEAST_SIMILARITY, _LEAST_VARIANCE = 3.0, 0.5, 0.09
# Similarities are multiples of it.
_UNIT = 2.0**-20
# Sums of so many bits are exact.
_BITS = 52


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
    sizes: NDArray[np.integer], cells: NDArray[np.integer], n_sources: int, posteriors: Floats, weights: Floats
) -> Agreement:
    """How much more often rules agree than independent ones would, which vote as often for a label in every class.

    Parameters
    ----------
    sizes, cells
        Votes of items, as in `spectrem.models.votes.VoteShard`.
    n_sources : int
    posteriors : ndarray of shape (n_items, n_classes)
    weights : ndarray of shape (n_items,)

    Examples
    --------
    Two sources that always agree on 40 items of either class, and a third that votes as it likes:

    >>> votes = np.stack([np.arange(40) % 2, np.arange(40) % 2, np.arange(40) // 2 % 2], axis=1)
    >>> cells = (np.arange(3) * 2 + votes).ravel()
    >>> pairs = agreement_of_rules(np.full(40, 3), cells, 3, np.full((40, 2), 0.5), np.ones(40))
    >>> pairs.first[pairs.dependent].tolist(), pairs.second[pairs.dependent].tolist()
    ([0], [1])
    """
    k = posteriors.shape[1]
    scale = scale_of(math.fsum(weights), _BITS)
    weighted, whole = np.rint(posteriors * (weights * scale)[:, None]), np.rint(weights * scale)
    says = [_matrix(sizes, cells, n_sources, k, label) for label in range(k)]
    agreed = sparse.triu(sum(one.T @ sparse.diags_array(whole) @ one for one in says), 1).tocoo()
    first, second = agreed.coords[0].astype(np.int64), agreed.coords[1].astype(np.int64)
    n_expected, variance, of_class = np.zeros(agreed.nnz), np.zeros(agreed.nnz), weighted.sum(axis=0)
    for one in says:
        rate = np.divide(one.T @ weighted, of_class, out=np.zeros((n_sources, k)), where=of_class > 0)
        here, there = rate[first], rate[second]
        n_expected += (here * there) @ (of_class / scale)
        variance += (here * (1 - here) * there * (1 - there)) @ (of_class / scale)
    votes: Floats = np.sum([one.T @ whole for one in says], axis=0) / scale
    return _compare(first, second, agreed.data / scale, n_expected, variance, np.minimum(votes[first], votes[second]))


def agreement_of_answers(
    sizes: NDArray[np.integer], cells: NDArray[np.integer], n_sources: int, posteriors: Floats, weights: Floats
) -> Agreement:
    """How much more often answers agree than independent ones would, where two sources answer for the same items.

    Each of the two answers in every class as it does on these very items. Posteriors are best those of the first step
    of EM, which still listen to all sources alike: copies that outvote the others are right by labels that they have
    made themselves, and then need no explanation.

    Parameters
    ----------
    sizes, cells, n_sources, posteriors, weights
        As in `agreement_of_rules`.

    Examples
    --------
    >>> votes = np.stack([np.arange(40) % 2] * 2 + [np.arange(40) // 2 % 2, np.arange(40) // 4 % 2], axis=1)
    >>> cells = (np.arange(4) * 2 + votes).ravel()
    >>> pairs = agreement_of_answers(np.full(40, 4), cells, 4, np.full((40, 2), 0.5), np.ones(40))
    >>> pairs.first[pairs.dependent].tolist(), pairs.second[pairs.dependent].tolist()
    ([0], [1])
    """
    pieces = zip(*(np.array_split(one, len(sizes) >> 16 or 1) for one in (weights, sizes)), strict=True)
    squares = chain.from_iterable(weight * size.astype(np.float64) ** 2 for weight, size in pieces)
    scale = scale_of(math.fsum(squares), _BITS)
    most = min(n_sources * (n_sources - 1) // 2, len(cells) * int(sizes.max(initial=0)) // 2)
    first, second, numbers = np.empty(most, np.int64), np.empty(most, np.int64), np.empty((most, 3))
    n_pairs = kernel.agree(sizes, cells, n_sources, posteriors, weights, scale, first, second, numbers)
    n_agreements, n_expected, n_items = numbers[:n_pairs].T / scale
    variance = n_expected * (1 - n_expected / np.maximum(n_items, 1e-300))
    return _compare(first[:n_pairs], second[:n_pairs], n_agreements, n_expected, variance, n_items)


def copies_in(
    sizes: NDArray[np.integer], cells: NDArray[np.integer], members: Bools, posteriors: Floats, strengths: Floats
) -> tuple[Ints, Floats]:
    """Votes of a group of sources beside one by a better source of the group, and how often these say the same.

    Sources are the better the more of their votes are expected to be right.

    Parameters
    ----------
    sizes, cells, posteriors
        As in `agreement_of_rules`.
    members : ndarray of shape (n_sources,), bool
        The sources of the group.
    strengths : ndarray of shape (n_votes,)
        How much every vote counts.

    Returns
    -------
    copies : ndarray of shape (n_copies,), int64
        Numbers of the votes.
    counts : ndarray of shape (n_sources, n_classes, n_classes), [source, vote of the best source, its vote]

    Examples
    --------
    >>> sizes, cells = np.array([2, 2, 1]), np.array([0, 2, 1, 2, 3])
    >>> posteriors = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1]])
    >>> copies, counts = copies_in(sizes, cells, np.array([True, True]), posteriors, np.ones(5))
    >>> copies.tolist(), counts[1].tolist()
    ([1, 3], [[1.0, 0.0], [1.0, 0.0]])
    """
    k, item = posteriors.shape[1], rows_of(sizes)
    source, label = np.divmod(cells.astype(np.int64), k)
    scale = scale_of(math.fsum(strengths), _BITS)
    right = np.bincount(source, np.rint(strengths * posteriors[item, label] * scale), len(members))
    votes = np.flatnonzero(members[source])
    votes = votes[np.lexsort((source[votes], -right[source[votes]], item[votes]))]
    _, first, of_item = np.unique(item[votes], return_index=True, return_inverse=True)
    best = votes[first][of_item]
    beside = source[votes] != source[best]
    copies, best = votes[beside], best[beside]
    place = (source[copies] * k + label[best]) * k + label[copies]
    counts = np.bincount(place, np.rint(strengths[copies] * scale), len(members) * k * k) / scale
    return copies, counts.reshape(-1, k, k)


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
    sizes: NDArray[np.integer],
    cells: NDArray[np.integer],
    n_sources: int,
    n_classes: int,
    pairs: Ints,
    similarity: Floats,
) -> Floats:
    """How much every vote counts: 1 / (1 + similarities to the other sources that give the same vote on the item).

    Parameters
    ----------
    sizes, cells, n_sources, n_classes
        As in `agreement_of_rules`.
    pairs : ndarray of shape (n_pairs, 2)
        Numbers of dependent sources.
    similarity : ndarray of shape (n_pairs,)

    Examples
    --------
    >>> vote_weights(np.array([2, 2]), np.array([0, 2, 0, 3]), 2, 2, np.array([[0, 1]]), np.array([1.0])).tolist()
    [0.5, 0.5, 1.0, 1.0]
    """
    weights, item = np.ones(len(cells)), rows_of(sizes)
    between = sparse.coo_array((similarity, (pairs[:, 0], pairs[:, 1])), (n_sources, n_sources))
    for label in range(n_classes):
        at = np.flatnonzero(cells % n_classes == label)
        others = (_matrix(sizes, cells, n_sources, n_classes, label) @ (between + between.T)).tocsr()
        weights[at] += np.asarray(others[item[at], cells[at] // n_classes]).ravel()
    return 1.0 / weights


def _matrix(
    sizes: NDArray[np.integer], cells: NDArray[np.integer], n_sources: int, n_classes: int, label: int
) -> sparse.csr_array:
    """1 where a source votes for the label on an item, however often; shape (n_items, n_sources)."""
    at = cells % n_classes == label
    where = (rows_of(sizes)[at], cells[at] // n_classes)
    matrix = sparse.coo_array((np.ones(len(where[0])), where), (len(sizes), n_sources)).tocsr()
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix
