"""Features that are the same up to a factor, merged into one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem.models.loglinear.features import Features
from spectrem.structures._ragged import ranges_of


@dataclass(frozen=True, eq=False)
class Merged:
    """Features of which none is another times a factor, and how those that were merged hang together.

    Under a Gaussian prior with one variance the best weights of such features are in proportion to their factors,
    since the likelihood sees one direction of them only. Of text, most features occur in one row and merge with all
    others that occur in that row alone: the optimum stays where it was, with a fraction of the parameters.

    Attributes
    ----------
    features : Features
        Each group as one feature whose sum of squares is that of all.
    group : ndarray of shape (n_features,), int64
        The merged feature of every feature, -1 for those that no choice has.
    share : ndarray of shape (n_features,)
        The weight of a feature is this times the weight of its group; the squares of a group add up to 1.
    """

    features: Features
    group: Ints
    share: Floats

    def expand(self, weights: Floats) -> Floats:
        """Weights of all features from those of the groups, shapes (n_features, k) and (n_groups, k)."""
        found = self.share[:, None] * weights[np.maximum(self.group, 0)]
        found[self.group < 0] = 0.0
        return found


def merge_features(features: Features) -> Merged:
    """Merge the features whose values, choice by choice, are in one proportion, of those that `Features.of` makes.

    Examples
    --------
    >>> merged = merge_features(Features.of([[3.0, 4.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]))
    >>> merged.features.matrix.toarray().tolist(), merged.group.tolist(), merged.share.tolist()
    ([[5.0, 1.0], [0.0, 1.0]], [0, 0, 1, -1], [0.6, 0.8, 1.0, 0.0])
    """
    columns = sp.csc_array(features.matrix)
    n, starts = features.n_features, columns.indptr[:-1].astype(np.int64)
    sizes = np.diff(columns.indptr).astype(np.int64)
    used = np.flatnonzero(sizes)
    first = np.zeros(n)
    first[used] = columns.data[starts[used]]
    pattern = columns.data / np.repeat(first, sizes)
    representative = _representatives(columns.indices.astype(np.int64), pattern, starts, sizes, used)
    chosen, index = np.unique(representative[used], return_inverse=True)
    group = np.full(n, -1)
    group[used] = index
    norm = np.sqrt(np.bincount(index, first[used] ** 2, len(chosen)))
    share = np.zeros(n)
    share[used] = first[used] / norm[index]
    kept = ranges_of(starts[chosen], sizes[chosen])
    data = pattern[kept] * np.repeat(norm, sizes[chosen])
    indptr = np.concatenate([[0], np.cumsum(sizes[chosen])])
    merged = sp.csc_array((data, columns.indices[kept], indptr), shape=(features.n_choices, len(chosen)))
    return Merged(Features.of(merged.tocsr()), group, share)


def _representatives(rows: Ints, pattern: Floats, starts: Ints, sizes: Ints, used: Ints) -> Ints:
    """For every feature the first one with the same pattern, shape (n_features,)."""
    code = _codes(rows, pattern, starts[used])
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    found = np.arange(len(sizes))
    found[used] = used[first[inverse]]
    # Codes may agree by chance: what differs from its representative stands for itself.
    other = used[found[used] != used]
    same = sizes[other] == sizes[found[other]]
    found[other[~same]] = other[~same]
    other = other[same]
    own, its = ranges_of(starts[other], sizes[other]), ranges_of(starts[found[other]], sizes[other])
    differs = (rows[own] != rows[its]) | (pattern[own] != pattern[its])
    wrong = np.unique(np.repeat(other, sizes[other])[differs])
    found[wrong] = wrong
    return found


def _codes(rows: Ints, pattern: Floats, starts: Ints) -> NDArray[np.uint64]:
    """A number for every column that begins at ``starts``, the same for those with the same rows and pattern."""
    if not len(starts):
        return np.zeros(0, np.uint64)
    mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ pattern.view(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return np.add.reduceat(mixed, starts)
