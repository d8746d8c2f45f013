"""Forward-backward of the alignment chain in log space, where probabilities leave the range of a double.

Every sum is of terms less their largest, and the running sums over clipped jumps grow by ``log1p``, which keeps the
digits of small terms. From the last target position on, what is known of a position is shared out among those before
it: posteriors are probabilities, and agree with each other, however large the scores, whose sums lose digits then.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out
from spectrem.kernels.alignments.alignment import tails


@njit(cache=True, nogil=True, error_model="numpy")
def _log_add(a, b):
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + np.log1p(np.exp(b - a))


@njit(cache=True, nogil=True, error_model="numpy")
def _log_spread(source, moves, out):
    """`spread` of logarithms, forward."""
    n_in, n_out, width = len(source), len(out), len(moves) // 2
    before, low, after, high = tails(width, 1)
    below = -np.inf
    for o in range(n_out):
        if before <= o < n_in + before:
            below = _log_add(below, source[o - before])
        top, clipped = -np.inf, below + moves[low]
        first, stop = max(0, o - before + 1), min(n_in, o + after)
        for k in range(first, stop):
            top = max(top, source[k] + moves[width + 1 + o - k])
        total = 0.0
        if top > -np.inf:
            for k in range(first, stop):
                total += np.exp(source[k] + moves[width + 1 + o - k] - top)
        out[o] = _log_add(clipped, top + np.log(total) if top > -np.inf else top)
    above = -np.inf
    for k in range(n_in - 1, after - 1, -1):
        above = _log_add(above, source[k])
        if k - after < n_out:
            out[k - after] = _log_add(out[k - after], above + moves[high])


@njit(cache=True, nogil=True, error_model="numpy")
def _share_moves(weight, source, arrived, moves, terms, counts, left):
    """Share out what arrived at every position among the moves there and where they left; both are probabilities.

    ``left`` is added to, and so are the ``counts`` of moves, times a weight.
    """
    n_in, n_out, width = len(source), len(arrived), len(moves) // 2
    before, low, after, high = tails(width, 1)
    # Sums over the first sources, and over the last ones; then the mass of all that leaves from them by a clipped move.
    below, above = np.full(n_in + 1, -np.inf), np.full(n_in + 1, -np.inf)
    for k in range(n_in):
        below[k + 1] = _log_add(below[k], source[k])
        above[n_in - 1 - k] = _log_add(above[n_in - k], source[n_in - 1 - k])
    first_mass, last_mass = np.zeros(n_in + 1), np.zeros(n_in + 1)
    for o in range(n_out):
        if arrived[o] == 0.0:
            continue
        head, tail = min(max(0, o - before + 1), n_in), min(n_in, o + after)
        n = tail - head
        terms[n], terms[n + 1] = below[head] + moves[low], above[tail] + moves[high]
        for k in range(n):
            terms[k] = source[head + k] + moves[width + 1 + o - head - k]
        share_out(terms[: n + 2], 1.0)
        for k in range(n):
            counts[width + 1 + o - head - k] += weight * arrived[o] * terms[k]
            left[head + k] += arrived[o] * terms[k]
        counts[low] += weight * arrived[o] * terms[n]
        counts[high] += weight * arrived[o] * terms[n + 1]
        first_mass[head] += arrived[o] * terms[n]
        last_mass[tail] += arrived[o] * terms[n + 1]
    for k in range(n_in - 1, -1, -1):
        # Of the first k + 1 sources, the last one or any before it.
        terms[0], terms[1] = source[k], below[k]
        if first_mass[k + 1] > 0.0:
            share_out(terms[:2], 1.0)
            left[k] += first_mass[k + 1] * terms[0]
            first_mass[k] += first_mass[k + 1] * terms[1]
    for k in range(n_in):
        terms[0], terms[1] = source[k], above[k + 1]
        if last_mass[k] > 0.0:
            share_out(terms[:2], 1.0)
            left[k] += last_mass[k] * terms[0]
            last_mass[k + 1] += last_mass[k] * terms[1]


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
        leaving, present, left = np.empty(columns + 1), np.empty(columns + 1), np.empty(columns + 1)
        terms = np.empty(columns + 3)
        position = np.full((rows + 1, columns + 1), -np.inf)
        position[0, 0] = 0.0
        for j in range(rows):
            for p in range(columns + 1):
                leaving[p] = position[j, p] + depart[p]
                position[j + 1, p] = position[j, p] + score[j, columns] / gamma
            _log_spread(leaving, moves, real[j, :columns])
            for i in range(columns):
                real[j, i] += score[j, i] / gamma
                position[j + 1, i + 1] = _log_add(position[j + 1, i + 1], real[j, i])
        for p in range(columns + 1):
            present[p] = position[rows, p] + end[min(columns - p, len(end) - 1)] / gamma
        total = log_sum(present, 1.0)
        values[n] = gamma * total
        if total == -np.inf:
            real[:, :] = 0.0
            continue
        share_out(present, 1.0)
        for p in range(columns + 1):
            expected.end[min(columns - p, len(end) - 1)] += weights[n] * present[p]
        for j in range(rows - 1, -1, -1):
            for i in range(columns):
                terms[0], terms[1] = real[j, i], position[j, i + 1] + score[j, columns] / gamma
                real[j, i] = 0.0
                if present[i + 1] > 0.0:
                    share_out(terms[:2], 1.0)
                    real[j, i] = present[i + 1] * terms[0]
                    present[i + 1] *= terms[1]
            real[j, columns] = present.sum()
            for p in range(columns + 1):
                leaving[p] = position[j, p] + depart[p]
            left[:] = 0.0
            _share_moves(weights[n], leaving, real[j, :columns], moves, terms, expected.jump, left)
            for p in range(columns + 1):
                expected.departure[columns, p] += weights[n] * left[p]
                present[p] += left[p]
