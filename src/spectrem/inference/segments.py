"""Sums, maxima and members by label or row."""

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Floats, Ints


def sum_by(label: Ints, values: Floats, n: int) -> Floats:
    """Sum of the values of each label, shape (n,).

    Examples
    --------
    >>> sum_by(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 3)
    array([1., 0., 5.])
    """
    if n == 1:
        return np.array([values.sum()], np.float64)
    return np.bincount(label, values, n).astype(np.float64, copy=False)


def max_by(label: Ints, values: Floats, n: int) -> Floats:
    """Largest of the nonnegative values of each label, 0 where there is none, shape (n,).

    Examples
    --------
    >>> max_by(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 3)
    array([1., 0., 3.])
    """
    if n == 1:
        return np.array([values.max(initial=0.0)])
    out = np.zeros(n)
    np.maximum.at(out, label, values)
    return out


def share_equally(label: Ints, weight: Floats, total: Floats) -> Floats:
    """The share of one copy of each entry in the total of its label, when entries count ``weight`` times.

    Examples
    --------
    >>> share_equally(np.array([0, 0, -1]), np.array([1.0, 3.0, 1.0]), np.array([8.0]))
    array([2., 2., 0.])
    """
    if len(total) == 1 and label.min(initial=0) >= 0:
        return np.broadcast_to(total / max(weight.sum(), 1e-300), len(label))
    inside = label >= 0
    size = sum_by(label[inside], weight[inside], len(total))
    return np.append(total / np.where(size > 0, size, 1.0), 0.0)[label]


def members_of(label: Ints, n: int) -> tuple[Ints, Ints]:
    """The entries of every label, label after label, and where each label begins; entries of label -1 are left out.

    Examples
    --------
    >>> members_of(np.array([1, -1, 0, 1]), 2)
    (array([2, 0, 3]), array([0, 1, 3]))
    """
    if n == 1 and label.min(initial=0) == 0:
        return np.arange(len(label)), np.array([0, len(label)])
    order = np.argsort(label, kind="stable")
    edges = np.searchsorted(label[order], np.arange(n + 1))
    return order[edges[0] :], edges - edges[0]


def row_maxima(matrix: sp.csr_array, column: Floats | None = None) -> Floats:
    """Largest ``|entry| * column`` of every row, 0 for those without entries.

    Examples
    --------
    >>> row_maxima(sp.csr_array([[1.0, -2.0], [0.0, 0.0]]), np.array([3.0, 1.0]))
    array([3., 0.])
    """
    largest, filled = np.zeros(len(matrix.indptr) - 1), np.flatnonzero(np.diff(matrix.indptr))
    size = np.abs(matrix.data) if column is None else np.abs(matrix.data) * column[matrix.indices]
    if len(filled):
        largest[filled] = np.maximum.reduceat(size, matrix.indptr[filled])
    return largest
