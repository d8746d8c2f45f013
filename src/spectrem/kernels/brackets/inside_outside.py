"""Inside-outside over binary trees in probabilities, LANES sentences side by side.

``_lanes`` says how sentences share a table; entries are indexed [start, end]. Lengths of sentences that follow each
other should differ little: spans outside a sentence hold zeros.

The potential of a span is at most QUARTER: there are fewer than ``4 ** (n - 1)`` binary trees over n words, so that the
sums over trees inside of a span, and outside of it, are at most 4, and nothing overflows. What underflows is less than
1e-300 for each of fewer than n ** 3 products: where the total of a sentence is above LEAST, nothing that counts is
missing. Other sentences keep their ``status`` for the engine of derivations. So should those of more than LONGEST
words: one of them takes a sixth of the time there of a group of them here.
"""

import math

from spectrem._compiled import njit
from spectrem._lanes import LANES, add_products, empty_table, extent_of, sum_products

LONGEST = 200
QUARTER = 0.25
LEAST = 1e-250


@njit(cache=True, nogil=True, error_model="numpy")
def _load(members, lengths, offsets, potentials, stride, weights):
    """Potentials of the spans of a group, one for single words and whole sentences, zero for spans beyond the end."""
    weights[:] = 0.0
    for lane in range(len(members)):
        size, s = lengths[members[lane]], offsets[members[lane]]
        for start in range(size):
            row = weights[start * stride : (start + 1) * stride]
            for end in range(start + 2, size + 1):
                row[end * LANES + lane] = potentials[s + end - start - 1] * QUARTER
            row[(start + 1) * LANES + lane] = 1.0
            s += size - start
        if size > 1:
            weights[size * LANES + lane] = 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _inside(n, stride, weights, inside, spare):
    for start in range(n - 1, -1, -1):
        first = start * stride + (start + 1) * LANES
        inside[first : first + LANES] = weights[first : first + LANES]
        for end in range(start + 2, n + 1):
            at, cuts = start * stride + end * LANES, end - start - 1
            sum_products(spare, 0, inside, first, LANES, inside, at + stride, stride, cuts)
            sum_products(inside, at, spare, 0, 0, weights, at, 0, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(n, stride, weights, inside, outside, spare):
    """Sums outside of spans times their potentials; shares of spans take the place of ``weights``.

    ``outside`` holds what is outside of whole sentences, and zeros elsewhere in its first row.
    """
    for start in range(n):
        for end in range(n, start + 1, -1):
            at, row = start * stride + end * LANES, end * stride + (end + 1) * LANES
            if start > 0:
                outside[at : at + LANES] = 0.0
            add_products(outside, at, outside, at + LANES, LANES, inside, row, LANES, n - end)
            add_products(outside, at, outside, end * LANES, stride, inside, start * LANES, stride, start)
            sum_products(spare, 0, outside, at, 0, inside, at, 0, 1)
            sum_products(outside, at, outside, at, 0, weights, at, 0, 1)
            weights[at : at + LANES] = spare[:LANES]


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, lengths, offsets, potentials, log_totals, shares, status):
    """Log of the total over trees, and the share of those that have each span, of the sentences in ``order``.

    ``potentials`` of spans lie in [0, 1]; totals are those of potentials times QUARTER, of spans neither single words
    nor whole sentences. ``status`` becomes 0 where this succeeds, and nothing else is written for other sentences.
    """
    _, most = extent_of(order, lengths)
    # an odd number of cache lines keeps the entries of a column from competing for the same places
    columns = (most + 1) | 1
    weights, inside = empty_table((most + 1) * columns), empty_table((most + 1) * columns)
    outside, spare = empty_table((most + 1) * columns), empty_table(1)
    for begin in range(0, len(order), LANES):
        members = order[begin : begin + LANES]
        n = lengths[members[0]]
        stride = ((n + 1) | 1) * LANES
        _load(members, lengths, offsets, potentials, stride, weights[: (n + 1) * stride])
        _inside(n, stride, weights, inside, spare)
        outside[:stride] = 0.0
        for lane in range(len(members)):
            member, total = members[lane], inside[lengths[members[lane]] * LANES + lane]
            if total >= LEAST:
                outside[lengths[member] * LANES + lane] = 1.0 / total
                log_totals[member], status[member] = math.log(total), 0
        _outside(n, stride, weights, inside, outside, spare)
        for lane in range(len(members)):
            size, s = lengths[members[lane]], offsets[members[lane]]
            if status[members[lane]] == 0:
                for start in range(size):
                    row = weights[start * stride : (start + 1) * stride]
                    for end in range(start + 2, size + 1):
                        shares[s + end - start - 1] = row[end * LANES + lane]
                    s += size - start
