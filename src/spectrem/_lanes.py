"""Sums of products, and largest sums, of several instances side by side: the inner loops of kernels over trees.

A *lane* is one instance of a group of LANES. A table of a group is flat, and holds the numbers of one entry together,
one per lane: entry k of lane l stands at ``k * LANES + l``. What a kernel does to an entry it does to all lanes at
once, with vector instructions and the sums in registers (``_vectors``); an entry takes two vectors.

Tables may be pairs, of values and of their slopes along a direction, which ``_vectors`` says more of.

Places and steps count numbers, so that those of entries are multiples of LANES. A sum of one product multiplies.
Lanes never meet: what a lane gets does not depend on the others, nor on its place.

Numba compiles a function once more for every integer that is written in a call of it. Steps are written, since loops of
known steps are faster; places are variables, ``np.int64(0)``.
"""

from __future__ import annotations

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import LANES as _HALF
from spectrem._vectors import larger, load, spread, store

LANES = 2 * _HALF


@njit(cache=True, nogil=True, error_model="numpy")
def sum_products(out, at, left, l_at, l_step, right, r_at, r_step, count):  # type: ignore[no-untyped-def]
    """out[at] = sum over k < count of left[l_at + k * l_step] * right[r_at + k * r_step], in every lane."""
    one, other = spread(0.0), spread(0.0)
    for _ in range(count):
        one = one + load(left, l_at) * load(right, r_at)
        other = other + load(left, l_at + _HALF) * load(right, r_at + _HALF)
        l_at, r_at = l_at + l_step, r_at + r_step
    store(out, at, one)
    store(out, at + _HALF, other)


@njit(cache=True, nogil=True, error_model="numpy")
def add_products(out, at, left, l_at, l_step, right, r_at, r_step, count):  # type: ignore[no-untyped-def]
    """The same, added to what is there."""
    one, other = load(out, at), load(out, at + _HALF)
    for _ in range(count):
        one = one + load(left, l_at) * load(right, r_at)
        other = other + load(left, l_at + _HALF) * load(right, r_at + _HALF)
        l_at, r_at = l_at + l_step, r_at + r_step
    store(out, at, one)
    store(out, at + _HALF, other)


@njit(cache=True, nogil=True, error_model="numpy")
def raise_to_sum(out, at, left, l_at, l_step, right, r_at, r_step, count):  # type: ignore[no-untyped-def]
    """The same, or what is there if that is larger."""
    one, other = load(out, at), load(out, at + _HALF)
    for _ in range(count):
        one = larger(one, load(left, l_at) + load(right, r_at))
        other = larger(other, load(left, l_at + _HALF) + load(right, r_at + _HALF))
        l_at, r_at = l_at + l_step, r_at + r_step
    store(out, at, one)
    store(out, at + _HALF, other)


@njit(cache=True, nogil=True, error_model="numpy")
def largest_sum(out, at, left, l_at, l_step, right, r_at, r_step, count):  # type: ignore[no-untyped-def]
    """out[at] = max over k < count of left[l_at + k * l_step] + right[r_at + k * r_step]; -inf of none."""
    store(out, at, spread(-np.inf))
    store(out, at + _HALF, spread(-np.inf))
    raise_to_sum(out, at, left, l_at, l_step, right, r_at, r_step, count)


@njit(cache=True, nogil=True, error_model="numpy")
def combine(hard, out, at, left, l_at, l_step, right, r_at, r_step, count):  # type: ignore[no-untyped-def]
    """The largest sum if hard, else the sum of products."""
    if hard:
        largest_sum(out, at, left, l_at, l_step, right, r_at, r_step, count)
    else:
        sum_products(out, at, left, l_at, l_step, right, r_at, r_step, count)


@njit(cache=True, nogil=True, error_model="numpy")
def combine_more(hard, out, at, left, l_at, l_step, right, r_at, r_step, count):  # type: ignore[no-untyped-def]
    """The same, with what is there."""
    if hard:
        raise_to_sum(out, at, left, l_at, l_step, right, r_at, r_step, count)
    else:
        add_products(out, at, left, l_at, l_step, right, r_at, r_step, count)


@njit(cache=True, nogil=True, error_model="numpy")
def copy_numbers(out, at, source, s_at, count):  # type: ignore[no-untyped-def]
    """out[at : at + count] = source[s_at : s_at + count], for whole entries."""
    for k in range(0, count, _HALF):
        store(out, at + k, load(source, s_at + k))


@njit(cache=True, nogil=True, error_model="numpy")
def fill(out, at, count, number):  # type: ignore[no-untyped-def]
    """out[at : at + count] = number, for whole entries."""
    for k in range(0, count, _HALF):
        store(out, at + k, spread(number))


@njit(cache=True, nogil=True, error_model="numpy")
def extent_of(members, lengths):  # type: ignore[no-untyped-def]
    """The lengths of the shortest and of the longest of some sentences, 0 without any."""
    shortest, longest = 0 if len(members) == 0 else lengths[members[0]], 0
    for member in members:
        shortest, longest = min(shortest, lengths[member]), max(longest, lengths[member])
    return shortest, longest


@njit(cache=True, nogil=True, error_model="numpy")
def empty_table(n_entries):  # type: ignore[no-untyped-def]
    """An array of ``n_entries * LANES`` numbers that starts where a cache line does, so that no entry takes two."""
    numbers = np.empty((n_entries + 1) * LANES)
    start = -(numbers.ctypes.data // 8) % LANES
    return numbers[start : start + n_entries * LANES]


@njit(cache=True, nogil=True, error_model="numpy")
def empty_tables(arrays, n_entries):  # type: ignore[no-untyped-def]
    """As many tables as there are arrays in a tuple, one or two."""
    if len(arrays) == 1:
        return (empty_table(n_entries),)
    return empty_table(n_entries), empty_table(n_entries)


@njit(cache=True, nogil=True, error_model="numpy")
def as_numbers(tables):  # type: ignore[no-untyped-def]
    """One table alone, or a pair as it is: what `load` takes for a table of vectors, or of dual numbers."""
    if len(tables) == 1:
        return tables[0]
    return tables


@njit(cache=True, nogil=True, error_model="numpy")
def empty_numbers(arrays, n_entries):  # type: ignore[no-untyped-def]
    """A table of vectors for one array, of dual numbers for two."""
    return as_numbers(empty_tables(arrays, n_entries))
