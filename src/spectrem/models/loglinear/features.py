"""Sparse features of choices: rows of a table, tokens of a text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.data.features import LARGEST_VALUE
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.loglinear.features import sort_rows
from spectrem.structures._ragged import offsets_of

_MOST_FEATURES = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Features:
    """The features of every choice, as compressed rows; immutable, and small to send and to keep.

    A feature whose value is 0 is one that the choice does not have: no row holds it.

    Attributes
    ----------
    indptr : ndarray of shape (n_choices + 1,), int64
        Choice c has the entries ``indptr[c]:indptr[c + 1]``.
    indices : ndarray of shape (n_entries,), int32
        The feature of every entry, from 0.
    values : ndarray of shape (n_entries,), float32 or float64, or None
        The value of every entry, finite; None where all are 1. Of a feature that a choice has twice the values add up.
    n_features : int
        Features are numbered below this.

    Examples
    --------
    >>> features = Features.of([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    >>> features.indices.tolist(), features.values.tolist(), features.n_choices
    ([0, 2], [2.0, 1.0], 2)
    >>> Features.of([[1, 0, 0], [0, 1, 0]]).values is None
    True
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.floating] | None
    n_features: int

    @classmethod
    def of(cls, matrix: Any) -> Features:
        """The features of a matrix of shape (n_choices, n_features), dense or sparse.

        They depend on its numbers alone, to the bit, and not on how it stores them: those that are 0 are left out,
        several of one place are added up, and the features of a choice increase.

        Parameters
        ----------
        matrix : array-like, or sparse matrix or array
            Numbers, finite. Those of type float32 stay so; others become float64.

        Raises
        ------
        InvalidInputError
            If there are other axes than two, or a value is NaN, infinite or 1e100 and more in size.
        """
        if not sp.issparse(matrix):
            matrix = np.asarray(matrix)
            if matrix.ndim != 2:
                raise InvalidInputError(
                    f"features must have the shape (n_choices, n_features), got {matrix.shape}; put one choice in a row"
                )
        n_features = int(matrix.shape[1])
        if n_features > _MOST_FEATURES:
            raise InvalidInputError(
                f"features must be at most {_MOST_FEATURES}, got {n_features}; hash them into fewer columns"
            )
        indptr, indices, data = _compressed(matrix)
        values: NDArray[np.floating] = data.astype(np.float32 if data.dtype == np.float32 else np.float64)
        usable = np.abs(values) < np.float64(LARGEST_VALUE)
        if not usable.all():
            at = int(np.argmin(usable))
            row, kind = int(np.searchsorted(indptr, at, side="right")) - 1, "finite"
            advice = "replace or impute it"
            if np.isfinite(values[at]):
                kind, advice = f"below {LARGEST_VALUE:g} in size", "give it in larger units"
            raise InvalidInputError(
                f"features must be {kind}, got {values[at]} in row {row}, column {indices[at]}; {advice}"
            )
        return cls(
            indptr.astype(np.int64), indices.astype(np.int32), None if (values == 1).all() else values, n_features
        )

    @property
    def n_choices(self) -> int:
        """Number of rows or tokens."""
        return len(self.indptr) - 1

    def take(self, rows: NDArray[np.int64]) -> Features:
        """The features of the choices of these numbers, in their order."""
        sizes = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.repeat(self.indptr[:-1][rows] - indptr[:-1], sizes) + np.arange(indptr[-1])
        values = None if self.values is None else self.values[entries]
        return Features(indptr, self.indices[entries], values, self.n_features)

    def where(self, chosen: NDArray[np.bool_]) -> Features:
        """The chosen features alone, under their numbers; the others are left out of all choices."""
        kept = chosen[self.indices]
        before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        values = None if self.values is None else self.values[kept]
        return Features(before[self.indptr], self.indices[kept], values, self.n_features)

    def renumbered(self, numbers: NDArray[np.int64]) -> Features:
        """The same with ``numbers[f]`` for feature f, a permutation; the features of a choice increase."""
        indices = numbers.astype(np.int32)[self.indices]
        values = None if self.values is None else self.values.copy()
        sort_rows(self.indptr, indices, np.zeros(0) if values is None else values)
        return Features(self.indptr, indices, values, self.n_features)

    @cached_property
    def table(self) -> NDArray[np.floating] | None:
        """Values as an array of shape (n_choices, n_features), where at least half are not 0; else None.

        Products with it as a whole are then quicker than those with single values.
        """
        shape = (self.n_choices, self.n_features)
        if self.values is None or 2 * len(self.indices) < shape[0] * shape[1]:
            return None
        if (np.diff(self.indptr) == shape[1]).all() and (self.indices.reshape(shape) == np.arange(shape[1])).all():
            return self.values.reshape(shape)
        whole: NDArray[np.floating] = sp.csr_array((self.values, self.indices, self.indptr), shape=shape).toarray()
        return whole

    @property
    def matrix(self) -> sp.csr_array:
        """As a SciPy array of shape (n_choices, n_features), float64."""
        values = np.ones(len(self.indices)) if self.values is None else self.values.astype(np.float64)
        return sp.csr_array((values, self.indices, self.indptr), shape=(self.n_choices, self.n_features))


def _compressed(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows of a matrix: where they start, and the columns, in increasing order, and values of what is not 0 there."""
    if isinstance(matrix, np.ndarray):
        kept = matrix != 0
        columns = np.broadcast_to(np.arange(matrix.shape[1], dtype=np.int32), matrix.shape)
        return offsets_of(np.count_nonzero(kept, axis=1)), columns[kept], matrix[kept]
    rows = sp.csr_array(matrix)
    if not rows.has_canonical_format or not rows.data.all():
        rows = rows.copy()  # it may share its arrays with the matrix
        rows.sum_duplicates()
        rows.eliminate_zeros()
    return rows.indptr, rows.indices, rows.data
