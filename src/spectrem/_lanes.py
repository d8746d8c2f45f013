"""Sums of products, and largest sums, of several instances side by side: the inner loops of kernels over trees.

A *lane* is one instance of a group of LANES. A table of a group is flat, and holds the numbers of one entry together,
one per lane: entry k of lane l stands at ``k * LANES + l``. What a kernel does to an entry it does to all lanes at
once, with vector instructions and the sums in registers (``_vectors``); an entry takes two vectors.

Places and steps count numbers, so that those of entries are multiples of LANES. A sum of one product multiplies.
Lanes never meet: what a lane gets does not depend on the others, nor on its place.
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
def longest_of(members, lengths):  # type: ignore[no-untyped-def]
    """The length of the longest of some sentences, 0 without any."""
    longest = 0
    for member in members:
        longest = max(longest, lengths[member])
    return longest


@njit(cache=True, nogil=True, error_model="numpy")
def empty_table(n_entries):  # type: ignore[no-untyped-def]
    """An array of ``n_entries * LANES`` numbers that starts where a cache line does, so that no entry takes two."""
    numbers = np.empty((n_entries + 1) * LANES)
    start = -(numbers.ctypes.data // 8) % LANES
    return numbers[start : start + n_entries * LANES]


@njit(cache=True, nogil=True, error_model="numpy")
def load_arcs(members, lengths, offsets, values, never, always, n, stride, table):  # type: ignore[no-untyped-def]
    """Put values of the arcs of some sentences, at most LANES, into a table indexed [dependent, head].

    Sentence m has ``values[offsets[m]:offsets[m + 1]]``; the longest has n words, and rows are ``stride`` apart. Words
    beyond the end of a shorter one hang one on the other, the first of them on the last word: these arcs have the value
    ``always``, all others of such words ``never``. So they change no sum of products, and no largest sum.
    """
    table[: n * stride] = never
    for lane in range(LANES):
        size = 0
        if lane < len(members):
            size = lengths[members[lane]]
            own = values[offsets[members[lane]] : offsets[members[lane] + 1]]
            for d in range(size):
                row = table[d * stride : d * stride + size * LANES]
                for h in range(size):
                    row[h * LANES + lane] = own[d * size + h]
        for d in range(size, n):
            table[d * stride + max(d - 1, 0) * LANES + lane] = always


@njit(cache=True, nogil=True, error_model="numpy")
def load_valence(members, lengths, offsets, values, never, n, stride, first, later, stops):  # type: ignore[no-untyped-def]
    """Put values of the parts of some trees with valence, at most LANES, into tables.

    Sentence m has ``values[offsets[m]:offsets[m + 1]]``: arcs [dependent, head, first or later child], then stops, four
    for every word. Of n words, those beyond the end of a sentence have the value ``never``.
    """
    first[: n * stride], later[: n * stride], stops[: 4 * n * LANES] = never, never, never
    for lane in range(len(members)):
        size = lengths[members[lane]]
        own = values[offsets[members[lane]] : offsets[members[lane] + 1]]
        for d in range(size):
            row, other = first[d * stride : (d + 1) * stride], later[d * stride : (d + 1) * stride]
            for h in range(size):
                row[h * LANES + lane] = own[2 * (d * size + h)]
                other[h * LANES + lane] = own[2 * (d * size + h) + 1]
        for k in range(4 * size):
            stops[k * LANES + lane] = own[2 * size * size + k]
