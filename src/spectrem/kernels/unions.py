"""Sums of counts by entry, each of which lists the entries that it has in increasing order."""

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def add_at(total, entries, values):
    """``total[entries] += values``; entries may repeat."""
    for k in range(len(entries)):
        total[entries[k]] += values[k]


@njit(cache=True, nogil=True, error_model="numpy")
def count_union(a, b):
    """Number of entries that are in ``a`` or ``b``."""
    i, j, n = 0, 0, 0
    # Without branches: which of the two comes next cannot be predicted.
    while i < len(a) and j < len(b):
        x, y = a[i], b[j]
        i += x <= y
        j += y <= x
        n += 1
    return n + len(a) - i + len(b) - j


@njit(cache=True, nogil=True, error_model="numpy")
def merge(a, first, second, b, other_first, other_second, union):
    """Add the two counts of every entry of ``b`` to those of ``a``, whose arrays have room for both at their end.

    Fills ``union``, as long as there are entries in ``a`` or ``b``. Begins with the last entry, so that no count of
    ``a`` is overwritten before it is read.
    """
    i, j, n = len(a) - 1, len(b) - 1, len(union) - 1
    while i >= 0 and j >= 0:
        x, y = a[i], b[j]
        from_a, from_b = x >= y, y >= x
        union[n] = max(x, y)
        first[n] = from_a * first[i] + from_b * other_first[j]
        second[n] = from_a * second[i] + from_b * other_second[j]
        i -= from_a
        j -= from_b
        n -= 1
    for k in range(i, -1, -1):
        union[n], first[n], second[n] = a[k], first[k], second[k]
        n -= 1
    for k in range(j, -1, -1):
        union[n], first[n], second[n] = b[k], other_first[k], other_second[k]
        n -= 1


@njit(cache=True, nogil=True, error_model="numpy")
def spread(entries, values):
    """Move the value of every entry to its place, from the beginning of an array that ends in zeros."""
    for k in range(len(entries) - 1, -1, -1):
        value = values[k]
        values[k] = 0.0
        values[entries[k]] = value
