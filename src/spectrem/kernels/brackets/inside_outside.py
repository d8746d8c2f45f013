"""Inside-outside over binary trees in probabilities, WIDTH sentences side by side.

Numbers of one span stand together, one per sentence of the group (its lane), and the spans of one start, or of one end,
in a row: every sum over places to cut a span is then the sum of products of two rows, which the compiler turns into
vector instructions. Both rows are kept, by start and by end. The longest sentence of a group takes the first lane, and
lengths should differ little: spans outside a sentence hold zeros.

The potential of a span is at most QUARTER: there are fewer than ``4 ** (n - 1)`` binary trees over n words, so that the
sums over trees inside of a span, and outside of it, are at most 4, and nothing overflows. What underflows is less than
1e-300 for each of fewer than n ** 3 products: where the total of a sentence is above LEAST, nothing that counts is
missing. Other sentences keep their ``status`` for ``inside_outside_wide``. So should those of more than LONGEST words:
one of them takes a sixth of the time there of a group of them here.
"""

import math

import numpy as np

from spectrem._compiled import njit

WIDTH = 16
LONGEST = 200
QUARTER = 0.25
LEAST = 1e-250


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_products(left, right, total):
    """total[lane] += sum_k left[k, lane] * right[k, lane], four by four; both flat, lanes next to each other."""
    n = len(left) // WIDTH
    k = 0
    while k + 4 <= n:
        a, b = left[k * WIDTH : (k + 4) * WIDTH], right[k * WIDTH : (k + 4) * WIDTH]
        for lane in range(WIDTH):
            total[lane] = (
                total[lane]
                + a[lane] * b[lane]
                + a[WIDTH + lane] * b[WIDTH + lane]
                + a[2 * WIDTH + lane] * b[2 * WIDTH + lane]
                + a[3 * WIDTH + lane] * b[3 * WIDTH + lane]
            )
        k += 4
    while k < n:
        a, b = left[k * WIDTH : (k + 1) * WIDTH], right[k * WIDTH : (k + 1) * WIDTH]
        for lane in range(WIDTH):
            total[lane] = total[lane] + a[lane] * b[lane]
        k += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _load(members, lengths, offsets, potentials, longest, by_start, by_end):
    """Potentials of the spans of several words into the rows of the group, one for single words and whole sentences."""
    by_start[: longest + 1] = 0.0
    by_end[: longest + 1] = 0.0
    for lane in range(len(members)):
        size, s = lengths[members[lane]], offsets[members[lane]]
        for start in range(size):
            by_start[start, (start + 1) * WIDTH + lane] = 1.0
            by_end[start + 1, start * WIDTH + lane] = 1.0
            for end in range(start + 2, size + 1):
                by_start[start, end * WIDTH + lane] = potentials[s + end - start - 1] * QUARTER
            s += size - start
        if size > 1:
            by_start[0, size * WIDTH + lane] = 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, lengths, offsets, potentials, log_totals, shares, status):
    """Log of the total over trees, and the share of those that have each span, of the sentences in ``order``.

    ``potentials`` of spans lie in [0, 1]; totals are those of potentials times QUARTER, of spans neither single words
    nor whole sentences. ``status`` becomes 0 where this succeeds, and nothing else is written for other sentences.
    """
    most = 0
    for n in order:
        most = max(most, lengths[n])
    row = (most + 1) * WIDTH
    # Sums inside of spans by start and by end; then sums outside of spans times their potentials.
    inside, inside_by_end = np.empty((most + 1, row)), np.empty((most + 1, row))
    outside, outside_by_end = np.empty((most + 1, row)), np.empty((most + 1, row))
    weights = np.empty((most + 1, row))
    total, scale, sizes = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH, np.int64)
    for begin in range(0, len(order), WIDTH):
        members = order[begin : begin + WIDTH]
        longest = lengths[members[0]]
        _load(members, lengths, offsets, potentials, longest, weights, inside_by_end)
        sizes[:] = 0
        for lane in range(len(members)):
            sizes[lane] = lengths[members[lane]]
        for start in range(longest - 1, -1, -1):
            own = inside[start]
            at = (start + 1) * WIDTH
            own[at : at + WIDTH] = weights[start, at : at + WIDTH]
            for end in range(start + 2, longest + 1):
                total[:] = 0.0
                _add_products(
                    own[(start + 1) * WIDTH : end * WIDTH], inside_by_end[end, (start + 1) * WIDTH : end * WIDTH], total
                )
                at = end * WIDTH
                potential, there, here = weights[start, at : at + WIDTH], own[at : at + WIDTH], start * WIDTH
                same = inside_by_end[end, here : here + WIDTH]
                for lane in range(WIDTH):
                    there[lane] = total[lane] * potential[lane]
                    same[lane] = there[lane]
        for lane in range(WIDTH):
            scale[lane] = 0.0
            if lane < len(members):
                found = inside[0, sizes[lane] * WIDTH + lane]
                if found >= LEAST:
                    n = members[lane]
                    scale[lane], log_totals[n], status[n] = 1.0 / found, math.log(found), 0
        for start in range(longest):
            for end in range(longest, start + 1, -1):
                total[:] = 0.0
                if start == 0:
                    for lane in range(WIDTH):
                        # The whole sentence; its potential and what is outside are one.
                        total[lane] = scale[lane] if sizes[lane] == end else 0.0
                _add_products(
                    outside[start, (end + 1) * WIDTH : (longest + 1) * WIDTH],
                    inside[end, (end + 1) * WIDTH : (longest + 1) * WIDTH],
                    total,
                )
                _add_products(outside_by_end[end, : start * WIDTH], inside_by_end[start, : start * WIDTH], total)
                at, here = end * WIDTH, start * WIDTH
                potential, sums = weights[start, at : at + WIDTH], inside[start, at : at + WIDTH]
                there, same = outside[start, at : at + WIDTH], outside_by_end[end, here : here + WIDTH]
                for lane in range(WIDTH):
                    there[lane] = total[lane] * potential[lane]
                    same[lane] = there[lane]
                for lane in range(len(members)):
                    size = sizes[lane]
                    if end <= size and scale[lane] > 0.0:
                        s = offsets[members[lane]] + start * size - start * (start - 1) // 2 + end - start - 1
                        shares[s] = total[lane] * sums[lane]
