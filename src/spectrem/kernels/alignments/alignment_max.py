"""The best alignment of the alignment chain, one sentence pair at a time; see `alignment` for the scores.

Jumps wider than W share a potential: running maxima over all of them make a pass cost J x I x min(I, W).
"""

import numpy as np

from spectrem._compiled import njit
from spectrem.kernels.alignments.alignment import tails


@njit(cache=True, nogil=True, error_model="numpy")
def _best_moves(best, jump, leave, top, came_from):
    """Best way to every source position; of equally good ones the leftmost, as if all were tried in order."""
    n_in, n_out, width = len(best), len(top), len(jump) // 2
    before, low, after, high = tails(width, 1)
    below, below_at = -np.inf, 0
    for i in range(n_out):
        if before <= i:
            candidate = best[i - before] + (jump[low] + leave[i - before])
            if candidate > below:
                below, below_at = candidate, i - before
        most, most_at = below, below_at
        for p in range(max(0, i - before + 1), min(n_in, i + after)):
            candidate = best[p] + (jump[width + 1 + i - p] + leave[p])
            if candidate > most:
                most, most_at = candidate, p
        top[i], came_from[i] = most, most_at
    above, above_at = -np.inf, 0
    for p in range(n_in - 1, after - 1, -1):
        candidate = best[p] + (jump[high] + leave[p])
        if candidate >= above:
            above, above_at = candidate, p
        if above > top[p - after]:
            top[p - after], came_from[p - after] = above, above_at


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(scores, active, weights, values, choices, expected):
    """Best alignment of every active instance; ``choices`` (flat over target positions): I is NULL, -2 impossible."""
    source_lengths, target_lengths, offsets, unary, jump, departure, end = scores
    width = (len(jump) - 1) // 2
    begin = 0
    for n in range(len(source_lengths)):
        rows, columns = target_lengths[n], source_lengths[n]
        first, begin = begin, begin + rows
        if not active[n] or rows == 0:
            continue
        score = unary[offsets[n] : offsets[n] + rows * (columns + 1)].reshape(rows, columns + 1)
        best = np.full(columns + 1, -np.inf)
        best[0] = 0.0
        came_from, top = np.empty((rows, columns), np.int32), np.empty(columns)
        linked = np.zeros((rows, columns + 1), np.bool_)
        for j in range(rows):
            following = best + score[j, columns]
            _best_moves(best, jump, departure[columns], top, came_from[j])
            for i in range(columns):
                if top[i] + score[j, i] >= following[i + 1] and top[i] + score[j, i] > -np.inf:
                    following[i + 1] = top[i] + score[j, i]
                    linked[j, i + 1] = True
            best = following
        for p in range(columns + 1):
            best[p] += end[min(columns - p, len(end) - 1)]
        p = int(np.argmax(best))
        values[n] = best[p]
        if best[p] == -np.inf:
            choices[first : first + rows] = -2
            continue
        expected.end[min(columns - p, len(end) - 1)] += weights[n]
        for j in range(rows - 1, -1, -1):
            if linked[j, p]:
                choices[first + j] = p - 1
                previous = came_from[j, p - 1]
                d = min(max(p - previous, -width), width)
                expected.jump[d + width] += weights[n]
                expected.departure[columns, previous] += weights[n]
                p = previous
            else:
                choices[first + j] = columns
