"""The best binary tree of every sentence."""

import numpy as np

from spectrem._compiled import njit


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
        size, own = lengths[n], gains[offsets[n] : offsets[n + 1]]
        for start in range(size - 1, -1, -1):
            row = start * size - start * (start - 1) // 2 - start - 1
            best[start, start + 1] = 0.0
            for end in range(start + 2, size + 1):
                top, cut = best[start, start + 1] + best[start + 1, end], start + 1
                for k in range(start + 2, end):
                    if best[start, k] + best[k, end] > top:
                        top, cut = best[start, k] + best[k, end], k
                best[start, end], cuts[start, end] = top + own[row + end], cut
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
        for s in range(len(own)):
            values[n] += unary[2 * (offsets[n] + s)] if taken[2 * s] > 0.0 else unary[2 * (offsets[n] + s) + 1]
