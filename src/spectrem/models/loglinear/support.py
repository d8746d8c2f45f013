"""Which pairs of a feature and a label have a weight: all, or those that somebody names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_count, as_integers
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.loglinear import features as kernel
from spectrem.kernels.loglinear import tables
from spectrem.models.loglinear.features import Features
from spectrem.structures._ragged import offsets_of, ranges_of

_NONE = np.zeros(0, np.int64)
_NO_VALUES = np.zeros(0)
# Features with so many labels are added up by rows of a table.
_WIDE = 6


@dataclass(frozen=True, eq=False)
class Support:
    """The pairs of features and labels that have a weight.

    Weights of all pairs together are one flat array: feature after feature, within each the labels in increasing
    order.

    Attributes
    ----------
    n_features, n_labels : int
    indptr : ndarray of shape (n_features + 1,), int64, or None
        Feature f has the weights ``indptr[f]:indptr[f + 1]``; None where every feature has one for every label.
    labels : ndarray of shape (n_weights,), uint8 or int32, or None
        The label of every weight.

    Examples
    --------
    >>> Support(n_features=3, n_labels=2).n_weights
    6
    >>> seen = Support.pairs([0, 2, 2], [1, 0, 1], n_features=3, n_labels=2)
    >>> seen.n_weights, seen.table(np.array([5.0, 6.0, 7.0])).tolist()
    (3, [[0.0, 5.0], [0.0, 0.0], [6.0, 7.0]])
    """

    n_features: int
    n_labels: int
    indptr: NDArray[np.int64] | None = None
    labels: NDArray[np.integer] | None = None

    @classmethod
    def pairs(cls, features: ArrayLike, labels: ArrayLike, n_features: int, n_labels: int) -> Support:
        """The pairs in two lists; a pair may be listed several times.

        Raises
        ------
        InvalidInputError
            If the lists differ in length, or a number is out of range.
        """
        rows, columns = as_integers(features, "features"), as_integers(labels, "labels")
        n, k = as_count(n_features, "n_features", minimum=0), as_count(n_labels, "n_labels", minimum=1)
        if len(rows) != len(columns):
            raise InvalidInputError(
                f"features and labels must have one length, got {len(rows)} and {len(columns)}; list pairs"
            )
        for name, found, size in (("features", rows, n), ("labels", columns, k)):
            if len(found) and not 0 <= found.min() <= found.max() < size:
                bad = found[(found < 0) | (found >= size)][0]
                raise InvalidInputError(f"{name} must be in 0..{size - 1}, got {bad}; raise n_{name} or drop the pair")
        cells = np.unique(rows * k + columns)
        return cls._of_cells(cells, n, k)

    @classmethod
    def observed(cls, features: Features, offsets: Ints, labels: Ints, n_labels: int) -> Support:
        """The pairs of a feature and a label that some choice has together.

        Parameters
        ----------
        features : Features
        offsets, labels : ndarrays
            Choice c may have the labels ``labels[offsets[c]:offsets[c + 1]]``.
        n_labels : int
        """
        # Label after label, so that no list of all pairs, which may be long, is ever made.
        n, found = features.n_features, []
        for label in range(n_labels):
            seen = np.zeros(n, np.bool_)
            kernel.mark(features.indptr, features.indices, offsets, labels, label, seen)
            found.append(np.flatnonzero(seen) * n_labels + label)
        return cls._of_cells(np.sort(np.concatenate(found)), n, n_labels)

    @classmethod
    def _of_cells(cls, cells: Ints, n_features: int, n_labels: int) -> Support:
        if len(cells) == n_features * n_labels:
            return cls(n_features, n_labels)
        kind = np.uint8 if n_labels <= 256 else np.int32
        indptr = np.searchsorted(cells, np.arange(n_features + 1) * n_labels)
        return cls(n_features, n_labels, indptr.astype(np.int64), (cells % n_labels).astype(kind))

    @property
    def n_weights(self) -> int:
        """Number of pairs."""
        return self.n_features * self.n_labels if self.labels is None else len(self.labels)

    def listed(self) -> tuple[Ints, Ints]:
        """Feature and label of every weight."""
        if self.indptr is None or self.labels is None:
            features, labels = np.divmod(np.arange(self.n_weights), self.n_labels)
            return features, labels
        return np.repeat(np.arange(self.n_features), np.diff(self.indptr)), self.labels.astype(np.int64)

    def table(self, weights: Floats) -> Floats:
        """Weights as an array of shape (n_features, n_labels), with 0 for pairs without one."""
        if self.indptr is None or self.labels is None:
            return weights.reshape(self.n_features, self.n_labels).copy()
        found = np.zeros((self.n_features, self.n_labels))
        found[np.repeat(np.arange(self.n_features), np.diff(self.indptr)), self.labels] = weights
        return found

    def add_scores(self, features: Features, weights: Floats, scores: Floats) -> None:
        """Add the scores of all labels of all choices, nats, to an array of shape (n_choices, n_labels)."""
        if self.indptr is None or self.labels is None:
            table = weights.reshape(-1, self.n_labels)
            if features.table is None:
                tables.add_scores(*_entries(features), table, scores)
            else:
                scores += features.table @ table
            return
        wide = self._wide_table(features)
        wide.ravel()[self._wide_places[: wide.size]] = weights[: len(self._wide_places[: wide.size])]
        kernel.add_scores(*_entries(features), self.indptr, self.labels, weights, wide, scores)

    def add_counts(self, features: Features, shares: Floats, counts: Floats) -> None:
        """Add to ``counts``, one per weight, the sum of a feature's values times the share of the label.

        ``shares`` has the shape (n_choices, n_labels): of every label, how much of it the choice has.
        """
        if self.indptr is None or self.labels is None:
            table = counts.reshape(-1, self.n_labels)
            if features.table is None:
                tables.add_counts(*_entries(features), shares, table)
            else:
                table += features.table.T @ shares
            return
        wide = self._wide_table(features)
        kernel.add_counts(*_entries(features), self.indptr, self.labels, shares, wide, counts)
        places = self._wide_places[: wide.size]
        counts[: len(places)] += wide.ravel()[places]

    def per_weight(self, of_features: Floats) -> Floats:
        """The value of its feature for every weight, shape (n_weights,)."""
        return np.repeat(of_features, self.n_labels if self.indptr is None else np.diff(self.indptr))

    def order(self) -> Ints:
        """The features, those with many labels first: numbered in this order, they are added up most quickly.

        Otherwise they keep their order, so that features which occur together, as those first met in one place do, lie
        close together in memory.
        """
        if self.indptr is None:
            return np.arange(self.n_features)
        return np.argsort(np.diff(self.indptr) < _WIDE, kind="stable")

    def take(self, features: Ints) -> Support:
        """The pairs of these features, numbered in this order."""
        if self.indptr is None or self.labels is None:
            return Support(len(features), self.n_labels)
        sizes = np.diff(self.indptr)[features]
        own = self.labels[ranges_of(self.indptr[:-1][features], sizes)]
        return Support(len(features), self.n_labels, offsets_of(sizes), own)

    @cached_property
    def _wide_places(self) -> Ints:
        """The place of the first weights in a table of the first features, as far as these have `_WIDE` labels."""
        if self.indptr is None or self.labels is None:
            return _NONE
        narrow = np.diff(self.indptr) < _WIDE
        n_wide = int(np.argmax(narrow)) if narrow.any() else self.n_features
        rows = np.repeat(np.arange(n_wide), np.diff(self.indptr[: n_wide + 1]))
        return rows * self._n_places + self.labels[: len(rows)]

    @property
    def _n_places(self) -> int:
        return -(-self.n_labels // kernel.LANES) * kernel.LANES

    def _wide_table(self, features: Features) -> Floats:
        """Zeros for the first features, or an empty table where making it would cost more than it gains."""
        places = self._wide_places
        n_wide = int(places[-1]) // self._n_places + 1 if len(places) else 0
        return np.zeros((n_wide if n_wide <= len(features.indices) else 0, self._n_places))


def _entries(features: Features) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.floating]]:
    values = _NO_VALUES if features.values is None else features.values
    return features.indptr, features.indices, values
