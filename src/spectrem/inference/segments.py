"""Sums and maxima by label."""

import numpy as np
from numpy.typing import NDArray


def sum_by(label: NDArray[np.int64], values: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Sum of the values of each label, shape (n,).

    Examples
    --------
    >>> sum_by(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 3)
    array([1., 0., 5.])
    """
    if n == 1:
        return np.array([values.sum()], np.float64)
    return np.bincount(label, values, n).astype(np.float64, copy=False)


def max_by(label: NDArray[np.int64], values: NDArray[np.float64], n: int) -> NDArray[np.float64]:
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
