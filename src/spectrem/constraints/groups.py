"""Numbering the distinct tuples of several columns, without a Python loop over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NO_GROUP = -1


def number_groups(
    columns: Sequence[NDArray], size: int, missing: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct tuples of ``columns`` in increasing order of the tuples.

    Parameters
    ----------
    columns : sequence of ndarrays of shape (size,)
        Numbers or text, the most significant column first. Without columns there is one group, even if
        ``size`` is 0.
    size : int
    missing : ndarray of shape (size,), bool, optional
        Entries that belong to no group.

    Returns
    -------
    group : ndarray of shape (size,), int64
        Number of each entry's group, -1 for missing ones.
    first : ndarray of shape (n_groups,), int64
        The first entry of each group.

    Examples
    --------
    >>> import numpy as np
    >>> number_groups([np.array(["b", "a", "b"]), np.array([1, 7, 0])], 3)
    (array([2, 0, 1]), array([1, 2, 0]))
    """
    if not columns:
        return np.zeros(size, dtype=np.int64), np.zeros(1, dtype=np.int64)
    entries = None if missing is None or not missing.any() else np.flatnonzero(~missing)
    kept = [column if entries is None else column[entries] for column in columns]
    n = size if entries is None else len(entries)
    key, span = np.zeros(n, dtype=np.int64), 1
    for column in kept:
        codes, n_codes = _codes(column)
        if span * n_codes > _table_limit(n):
            key, span = _dense(key, span)
        if span == 1:
            key = codes
        else:
            key = key * n_codes
            key += codes
        span *= n_codes
    key, span = _dense(key, span)
    position = np.empty(span, dtype=np.int64)
    position[key[::-1]] = np.arange(n - 1, -1, -1)  # a repeated index keeps the last value: the first entry
    if entries is None:
        return key, position
    group = np.full(size, NO_GROUP, dtype=np.int64)
    group[entries] = key
    return group, entries[position]


def _table_limit(n: int) -> int:
    return 8 * n + 1024


def _codes(column: NDArray) -> tuple[NDArray[np.int64], int]:
    """Integers in [0, n_codes) in the order of the column's values."""
    if len(column) == 0:
        return np.zeros(0, dtype=np.int64), 1
    if column.dtype.kind in "iub":
        low, high = int(column.min()), int(column.max())
        if high - low < _table_limit(len(column)):
            codes = column.astype(np.int64, copy=False)
            return (codes - low if low else codes), high - low + 1
    # Runs of equal values are common (a direction, a sentence's label), so sort only their heads.
    starts = np.flatnonzero(np.concatenate([[True], column[1:] != column[:-1]]))
    values, codes = np.unique(column[starts], return_inverse=True)
    return np.repeat(codes.astype(np.int64), np.diff(starts, append=len(column))), len(values)


def _dense(key: NDArray[np.int64], span: int) -> tuple[NDArray[np.int64], int]:
    """Renumber keys in [0, span) without gaps, keeping their order."""
    if span > _table_limit(len(key)):
        values, key = np.unique(key, return_inverse=True)
        return key.astype(np.int64), len(values)
    present = np.zeros(span, dtype=np.bool_)
    present[key] = True
    number = np.cumsum(present, dtype=np.int32 if span < 2**31 else np.int64)
    if number[-1] == span:
        return key, span
    return number[key].astype(np.int64) - 1, int(number[-1])
