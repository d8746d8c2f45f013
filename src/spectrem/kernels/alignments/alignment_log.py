"""Forward-backward of the alignment chain in log space, where probabilities leave the range of a double.

Every sum is of terms less their largest, and the running sums over clipped jumps grow by ``log1p``, which keeps the
digits of small terms.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem.kernels.alignments.alignment import tails


@njit(cache=True, nogil=True, error_model="numpy")
def _log_add(a, b):
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + np.log1p(np.exp(b - a))


@njit(cache=True, nogil=True, error_model="numpy")
def _log_spread(source, moves, step, out):
    """`spread` of logarithms."""
    n_in, n_out, width = len(source), len(out), len(moves) // 2
    before, low, after, high = tails(width, step)
    below = -np.inf
    for o in range(n_out):
        if before <= o < n_in + before:
            below = _log_add(below, source[o - before])
        top, clipped = -np.inf, below + moves[low]
        first, stop = max(0, o - before + 1), min(n_in, o + after)
        for k in range(first, stop):
            top = max(top, source[k] + moves[width + 1 + step * (o - k)])
        total = 0.0
        if top > -np.inf:
            for k in range(first, stop):
                total += np.exp(source[k] + moves[width + 1 + step * (o - k)] - top)
        out[o] = _log_add(clipped, top + np.log(total) if top > -np.inf else top)
    above = -np.inf
    for k in range(n_in - 1, after - 1, -1):
        above = _log_add(above, source[k])
        if k - after < n_out:
            out[k - after] = _log_add(out[k - after], above + moves[high])


@njit(cache=True, nogil=True, error_model="numpy")
def _log_count_moves(weight, source, target, moves, total, counts):
    """`count_moves` of logarithms; ``total`` is that of the pair."""
    n_in, n_out, width = len(source), len(target), len(moves) // 2
    before, low, after, high = tails(width, 1)
    below = -np.inf
    for o in range(n_out):
        if before <= o < n_in + before:
            below = _log_add(below, source[o - before])
        counts[low] += weight * np.exp(below + moves[low] + target[o] - total)
        for k in range(max(0, o - before + 1), min(n_in, o + after)):
            at = width + 1 + o - k
            counts[at] += weight * np.exp(source[k] + moves[at] + target[o] - total)
    above = -np.inf
    for k in range(n_in - 1, after - 1, -1):
        above = _log_add(above, source[k])
        if k - after < n_out:
            counts[high] += weight * np.exp(above + moves[high] + target[k - after] - total)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(scores, gamma, chosen, weights, values, marginals, expected):
    """`alignment.sum_pass` in log space, several times slower, for the instances ``chosen``.

    Impossible ones get value -inf.
    """
    source_lengths, target_lengths, offsets, unary, jump, departure, end = scores
    moves = jump / gamma
    for n in range(len(source_lengths)):
        if not chosen[n]:
            continue
        rows, columns = target_lengths[n], source_lengths[n]
        at = offsets[n]
        score = unary[at : at + rows * (columns + 1)].reshape(rows, columns + 1)
        real = marginals[at : at + rows * (columns + 1)].reshape(rows, columns + 1)
        depart = departure[columns, : columns + 1] / gamma
        leaving, left, beta = np.empty(columns + 1), np.empty(columns + 1), np.empty(columns + 1)
        arrive = np.empty(columns)
        position = np.full((rows + 1, columns + 1), -np.inf)
        position[0, 0] = 0.0
        for j in range(rows):
            for p in range(columns + 1):
                leaving[p] = position[j, p] + depart[p]
                position[j + 1, p] = position[j, p] + score[j, columns] / gamma
            _log_spread(leaving, moves, 1, real[j, :columns])
            for i in range(columns):
                real[j, i] += score[j, i] / gamma
                position[j + 1, i + 1] = _log_add(position[j + 1, i + 1], real[j, i])
        total = -np.inf
        for p in range(columns + 1):
            beta[p] = end[min(columns - p, len(end) - 1)] / gamma
            total = _log_add(total, position[rows, p] + beta[p])
        values[n] = gamma * total
        if total == -np.inf:
            real[:, :] = 0.0
            continue
        for p in range(columns + 1):
            count = weights[n] * np.exp(position[rows, p] + beta[p] - total)
            expected.end[min(columns - p, len(end) - 1)] += count
        for j in range(rows - 1, -1, -1):
            for i in range(columns):
                arrive[i] = score[j, i] / gamma + beta[i + 1]
                real[j, i] = np.exp(real[j, i] + beta[i + 1] - total)
            _log_spread(arrive, moves, -1, left)
            if weights[n] != 0.0:
                for p in range(columns + 1):
                    leaving[p] = position[j, p] + depart[p]
                _log_count_moves(weights[n], leaving, arrive, moves, total, expected.jump)
            null = 0.0
            for p in range(columns + 1):
                stay, go = score[j, columns] / gamma + beta[p], depart[p] + left[p]
                null += np.exp(position[j, p] + stay - total)
                expected.departure[columns, p] += weights[n] * np.exp(position[j, p] + go - total)
                beta[p] = _log_add(stay, go)
            real[j, columns] = null
