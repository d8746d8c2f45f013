"""Binary trees over the spans of sentences: scores of spans, sums over trees, and best trees.

Spans stand by start, then by end; the parts of span s are 2 s, constituent, and 2 s + 1, distituent. A tree scores the
sum over all spans as if none were a constituent, and for every constituent its gain, the difference of its two scores.
Single words and the whole sentence are always constituents. Where a span cannot be a distituent, spans that cross it
cannot be constituents, and a binary tree without any of those has it: such a span gains nothing, and its score as a
constituent belongs to every tree. So all gains are finite, or -inf for what no tree may have.

Sums are found of LANES sentences side by side; ``_lanes`` says how they share a table, whose entries are indexed
[start, end]. Lengths of sentences that follow each other should differ little: spans outside a sentence hold zeros. The
potential of a span is at most QUARTER: there are fewer than ``4 ** (n - 1)`` binary trees over n words, so that the
sums over trees inside of a span, and outside of it, are at most 4, and nothing overflows. What underflows is less than
1e-300 for each of fewer than n ** 3 products: where the total of a sentence is above LEAST, nothing that counts is
missing. Other sentences keep their ``status`` for the engine of derivations. So should those of more than LONGEST
words: one of them takes a sixth of the time there of a group of them here. Slopes of potentials (see ``_vectors``) give
those of shares, too, for which the same holds as long as the largest number of a direction is far from that range.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._lanes import (
    LANES,
    add_products,
    as_numbers,
    copy_numbers,
    empty_numbers,
    empty_tables,
    extent_of,
    fill,
    sum_products,
)

LONGEST = 200
QUARTER = 0.25
LEAST = 1e-250


# ---- scores of spans ------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _first(n, start):
    """The place of the span of the one word at ``start``, among those of a sentence of n words."""
    return start * n - start * (start - 1) // 2


@njit(cache=True, nogil=True, error_model="numpy")
def _close(n, start, end, gains):
    """No span that crosses ``start:end`` may be a constituent."""
    for i in range(start):
        row = _first(n, i) - i - 1
        for j in range(start + 1, end):
            gains[row + j] = -np.inf
    for i in range(start + 1, end):
        row = _first(n, i) - i - 1
        for j in range(end + 1, n + 1):
            gains[row + j] = -np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def find_gains(lengths, offsets, unary, gamma, active, gains, exponents, base, tops):
    """Fill gains of all spans (nats) and, by sentence, the score of no constituent and the largest gain.

    ``exponents`` of spans between words and the whole sentence become (gain - largest) / gamma, at most 0. ``base`` is
    -inf for a sentence without any possible tree that shows here already, in which case gains are not to be read.
    Inactive sentences are left alone.
    """
    for n in range(len(lengths)):
        if not active[n]:
            continue
        size = lengths[n]
        scores = unary[2 * offsets[n] : 2 * offsets[n + 1]]
        gain, scaled = gains[offsets[n] : offsets[n + 1]], exponents[offsets[n] : offsets[n + 1]]
        total, s, n_forced = 0.0, 0, 0
        for start in range(size):
            for end in range(start + 1, size + 1):
                as_one, apart = scores[2 * s], scores[2 * s + 1]
                if end - start == 1 or end - start == size:
                    total += as_one
                    gain[s] = 0.0
                elif apart == -np.inf:
                    total += as_one
                    gain[s] = 0.0
                    n_forced += 1
                else:
                    total += apart
                    gain[s] = as_one - apart
                s += 1
        if n_forced > 0:
            s = 0
            for start in range(size):
                for end in range(start + 1, size + 1):
                    if 1 < end - start < size and scores[2 * s + 1] == -np.inf:
                        _close(size, start, end, gain)
                    s += 1
        top, s = -np.inf, 0
        for start in range(size):
            for end in range(start + 1, size + 1):
                if 1 < end - start < size:
                    top = max(top, gain[s])
                s += 1
        if size > 2 and top == -np.inf:
            total = -np.inf
        base[n], tops[n] = total, top
        if total > -np.inf:
            s = 0
            for start in range(size):
                for end in range(start + 1, size + 1):
                    if 1 < end - start < size:
                        scaled[s] = (gain[s] - top) / gamma
                    s += 1


@njit(cache=True, nogil=True, error_model="numpy")
def fill_parts(lengths, offsets, unary, possible, shares, marginals):
    """Posteriors of the parts of all possible sentences from those of their spans, which may be wrong by rounding."""
    for n in range(len(lengths)):
        if not possible[n]:
            continue
        size, s = lengths[n], offsets[n]
        for start in range(size):
            for end in range(start + 1, size + 1):
                always = end - start == 1 or end - start == size or unary[2 * s + 1] == -np.inf
                share = 1.0 if always else min(max(shares[s], 0.0), 1.0)
                marginals[2 * s] = share
                marginals[2 * s + 1] = 1.0 - share
                s += 1


# ---- sums over trees, LANES sentences side by side -----------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _load(members, lengths, offsets, potentials, certain, stride, weights):
    """Potentials of the spans of a group, or their slopes, zero for spans beyond the end.

    ``certain`` is that of single words and whole sentences: 1, or 0 of slopes.
    """
    weights[:] = 0.0
    for lane in range(len(members)):
        size, s = lengths[members[lane]], offsets[members[lane]]
        for start in range(size):
            row = weights[start * stride : (start + 1) * stride]
            for end in range(start + 2, size + 1):
                row[end * LANES + lane] = potentials[s + end - start - 1] * QUARTER
            row[(start + 1) * LANES + lane] = certain
            s += size - start
        if size > 1:
            weights[size * LANES + lane] = certain


@njit(cache=True, nogil=True, error_model="numpy")
def _inside(n, stride, weights, inside, spare):
    zero, lanes = np.int64(0), np.int64(LANES)
    for start in range(n - 1, -1, -1):
        first = start * stride + (start + 1) * LANES
        copy_numbers(inside, first, weights, first, lanes)
        for end in range(start + 2, n + 1):
            at, cuts = start * stride + end * LANES, end - start - 1
            sum_products(spare, zero, inside, first, LANES, inside, at + stride, stride, cuts)
            sum_products(inside, at, spare, zero, 0, weights, at, 0, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(n, stride, weights, inside, outside, spare):
    """Sums outside of spans times their potentials; shares of spans take the place of ``weights``.

    ``outside`` holds what is outside of whole sentences, and zeros elsewhere in its first row.
    """
    zero, lanes = np.int64(0), np.int64(LANES)
    for start in range(n):
        for end in range(n, start + 1, -1):
            at, row = start * stride + end * LANES, end * stride + (end + 1) * LANES
            if start > 0:
                fill(outside, at, LANES, 0.0)
            add_products(outside, at, outside, at + LANES, LANES, inside, row, LANES, n - end)
            add_products(outside, at, outside, end * LANES, stride, inside, start * LANES, stride, start)
            sum_products(spare, zero, outside, at, 0, inside, at, 0, 1)
            sum_products(outside, at, outside, at, 0, weights, at, 0, 1)
            copy_numbers(weights, at, spare, zero, lanes)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, lengths, offsets, potentials, log_totals, status):
    """Log of the total over trees, and the share of those that have each span, of the sentences in ``order``.

    ``potentials[0]`` of spans lie in [0, 1]; totals are those of potentials times QUARTER, of spans neither single
    words nor whole sentences. Shares take their place, and ``status`` becomes 0, where this succeeds; nothing else is
    written for other sentences. ``potentials[1]``, where there is one, holds slopes of potentials along a direction,
    whose place those of shares take.
    """
    _, most = extent_of(order, lengths)
    # an odd number of cache lines keeps the entries of a column from competing for the same places
    size = (most + 1) * ((most + 1) | 1)
    tables = empty_tables(potentials, size), empty_tables(potentials, size), empty_tables(potentials, size)
    weights, inside, outside = as_numbers(tables[0]), as_numbers(tables[1]), as_numbers(tables[2])
    zero, spare = np.int64(0), empty_numbers(potentials, np.int64(1))
    for begin in range(0, len(order), LANES):
        members = order[begin : begin + LANES]
        n = lengths[members[0]]
        stride = ((n + 1) | 1) * LANES
        for k in range(len(potentials)):
            _load(members, lengths, offsets, potentials[k], 1.0 - k, stride, tables[0][k][: (n + 1) * stride])
        _inside(n, stride, weights, inside, spare)
        fill(outside, zero, stride, 0.0)
        for lane in range(len(members)):
            member, end = members[lane], lengths[members[lane]] * LANES + lane
            total = tables[1][0][end]
            if total >= LEAST:
                tables[2][0][end] = 1.0 / total
                if len(potentials) == 2:
                    tables[2][1][end] = -tables[1][1][end] / total / total
                log_totals[member], status[member] = math.log(total), 0
        _outside(n, stride, weights, inside, outside, spare)
        for lane in range(len(members)):
            size, s = lengths[members[lane]], offsets[members[lane]]
            if status[members[lane]] == 0:
                for start in range(size):
                    for k in range(len(potentials)):
                        row = tables[0][k][start * stride : (start + 1) * stride]
                        for end in range(start + 2, size + 1):
                            potentials[k][s + end - start - 1] = row[end * LANES + lane]
                    s += size - start


# ---- best trees -----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(lengths, offsets, unary, gains, possible, values, marginals):
    """Score and indicators of the best trees of the sentences that are ``possible``, which is updated.

    Among equals every span is cut at its first place. The value is the sum of the scores of the parts taken.
    """
    most = 0
    for n in range(len(lengths)):
        if possible[n]:
            most = max(most, lengths[n])
    best, cuts = np.empty((most + 1, most + 1)), np.empty((most + 1, most + 1), np.int64)
    stack = np.empty((most + 1, 2), np.int64)
    for n in range(len(lengths)):
        if not possible[n]:
            continue
        size, gain = lengths[n], gains[offsets[n] : offsets[n + 1]]
        for start in range(size - 1, -1, -1):
            row = start * size - start * (start - 1) // 2 - start - 1
            best[start, start + 1] = 0.0
            for end in range(start + 2, size + 1):
                top, cut = best[start, start + 1] + best[start + 1, end], start + 1
                for k in range(start + 2, end):
                    if best[start, k] + best[k, end] > top:
                        top, cut = best[start, k] + best[k, end], k
                best[start, end], cuts[start, end] = top + gain[row + end], cut
        if size > 0 and best[0, size] == -np.inf:
            possible[n] = False
            values[n] = -np.inf
            continue
        taken = marginals[2 * offsets[n] : 2 * offsets[n + 1]]
        taken[1::2] = 1.0
        height = 0
        if size > 0:
            stack[0, 0], stack[0, 1] = 0, size
            height = 1
        while height > 0:
            height -= 1
            start, end = stack[height, 0], stack[height, 1]
            s = start * size - start * (start - 1) // 2 + end - start - 1
            taken[2 * s], taken[2 * s + 1] = 1.0, 0.0
            if end - start > 1:
                cut = cuts[start, end]
                stack[height, 0], stack[height, 1] = start, cut
                stack[height + 1, 0], stack[height + 1, 1] = cut, end
                height += 2
        values[n] = 0.0
        for s in range(len(gain)):
            values[n] += unary[2 * (offsets[n] + s)] if taken[2 * s] > 0.0 else unary[2 * (offsets[n] + s) + 1]
