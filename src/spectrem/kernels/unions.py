"""Sums of counts by entry, each of which lists the entries that it has in increasing order."""

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def add_at(total, entries, values):
    """``total[entries] += values``; entries may repeat."""
    for k in range(len(entries)):
        total[entries[k]] += values[k]


@njit(cache=True, nogil=True, error_model="numpy")
def merge(a, first, second, b, other_first, other_second, union, out, other_out):
    """Two counts of every entry that is in ``a`` or ``b``, sums of what the two have; returns how many entries."""
    i, j, n = 0, 0, 0
    # Without branches: which of the two comes next cannot be predicted.
    while i < len(a) and j < len(b):
        x, y = a[i], b[j]
        from_a, from_b = x <= y, y <= x
        union[n] = min(x, y)
        out[n] = from_a * first[i] + from_b * other_first[j]
        other_out[n] = from_a * second[i] + from_b * other_second[j]
        i += from_a
        j += from_b
        n += 1
    for k in range(i, len(a)):
        union[n], out[n], other_out[n] = a[k], first[k], second[k]
        n += 1
    for k in range(j, len(b)):
        union[n], out[n], other_out[n] = b[k], other_first[k], other_second[k]
        n += 1
    return n
