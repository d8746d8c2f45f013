"""Forward-backward of the alignment chain in log space, where probabilities leave the range of a double.

All is in nats, and every sum is of terms less their largest. Backwards, every last source position divides its
probability among those before it, so that what comes out are probabilities whatever was rounded. Moves of clipped width
share a score: their sources are one term, and what it gets is divided by running sums.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out
from spectrem.kernels.alignments.alignment import tails


@njit(cache=True, nogil=True, error_model="numpy")
def _add(a, b, gamma):
    """gamma * log(exp(a / gamma) + exp(b / gamma))."""
    top = max(a, b)
    return top if top == -np.inf else top + gamma * np.log1p(np.exp((min(a, b) - top) / gamma))


@njit(cache=True, nogil=True, error_model="numpy")
def _running_sums(leaving, gamma, below):
    """Fill the scores of leaving one of the positions up to each."""
    for p in range(len(leaving)):
        below[p] = _add(below[p - 1], leaving[p], gamma) if p > 0 else leaving[p]


@njit(cache=True, nogil=True, error_model="numpy")
def _arrive(i, moves, leaving, below, above, terms):
    """Fill the scores of moves to i, first those of clipped width to the right and to the left, then all others.

    Returns the first position that these come from, and how many terms there are.
    """
    width = len(moves) // 2
    before, low, after, high = tails(width, 1)
    terms[0] = below[i - before] + moves[low] if i >= before else -np.inf
    terms[1] = above[i + after] + moves[high] if i + after < len(leaving) else -np.inf
    first, stop = max(0, i - before + 1), min(len(leaving), i + after)
    for p in range(first, stop):
        terms[2 + p - first] = leaving[p] + moves[width + 1 + i - p]
    return first, 2 + stop - first


@njit(cache=True, nogil=True, error_model="numpy")
def _divide_tails(leaving, below, gamma, mass, left):
    """Divide the probability of leaving one of the positions up to each among them; ``left`` takes it."""
    pair, carried = np.empty(2), 0.0
    for p in range(len(leaving) - 1, -1, -1):
        carried += mass[p]
        if carried > 0.0:
            pair[0], pair[1] = leaving[p], below[p - 1] if p > 0 else -np.inf
            share_out(pair, gamma)
            left[p] += carried * pair[0]
            carried *= pair[1]


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(scores, gamma, chosen, weights, values, marginals, expected):
    """`alignment.sum_pass` in log space, several times slower, for the instances ``chosen``.

    Impossible ones get value -inf.
    """
    source_lengths, target_lengths, offsets, unary, jump, departure, end = scores
    before, low, after, high = tails(len(jump) // 2, 1)
    for n in range(len(source_lengths)):
        if not chosen[n]:
            continue
        rows, columns = target_lengths[n], source_lengths[n]
        at, depart = offsets[n], departure[columns, : columns + 1]
        score = unary[at : at + rows * (columns + 1)].reshape(rows, columns + 1)
        real = marginals[at : at + rows * (columns + 1)].reshape(rows, columns + 1)
        leaving, below, above = np.empty(columns + 1), np.empty(columns + 1), np.empty(columns + 1)
        position, terms, pair = np.full((rows + 1, columns + 1), -np.inf), np.empty(columns + 3), np.empty(2)
        position[0, 0] = 0.0
        for j in range(rows):
            leaving[:] = position[j] + depart
            _running_sums(leaving, gamma, below)
            _running_sums(leaving[::-1], gamma, above[::-1])
            position[j + 1, 0] = position[j, 0] + score[j, columns]
            for i in range(columns):
                _, count = _arrive(i, jump, leaving, below, above, terms)
                real[j, i] = log_sum(terms[:count], gamma) + score[j, i]
                position[j + 1, i + 1] = _add(position[j, i + 1] + score[j, columns], real[j, i], gamma)
        present = np.empty(columns + 1)
        for p in range(columns + 1):
            present[p] = position[rows, p] + end[min(columns - p, len(end) - 1)]
        values[n] = log_sum(present, gamma)
        if values[n] == -np.inf:
            real[:, :] = 0.0
            continue
        share_out(present, gamma)
        for p in range(columns + 1):
            expected.end[min(columns - p, len(end) - 1)] += weights[n] * present[p]
        stayed, left, tail = np.empty(columns + 1), np.empty(columns + 1), np.empty((2, columns + 1))
        for j in range(rows - 1, -1, -1):
            leaving[:] = position[j] + depart
            _running_sums(leaving, gamma, below)
            _running_sums(leaving[::-1], gamma, above[::-1])
            stayed[:], left[:], tail[:] = 0.0, 0.0, 0.0
            stayed[0] = present[0]
            for i in range(columns):
                if present[i + 1] == 0.0:
                    real[j, i] = 0.0
                    continue
                pair[0], pair[1] = position[j, i + 1] + score[j, columns], real[j, i]
                share_out(pair, gamma)
                stayed[i + 1], real[j, i] = present[i + 1] * pair[0], present[i + 1] * pair[1]
                if real[j, i] == 0.0:
                    continue
                first, count = _arrive(i, jump, leaving, below, above, terms)
                share_out(terms[:count], gamma)
                for k in range(count):
                    terms[k] *= real[j, i]
                    if k > 1:
                        left[first + k - 2] += terms[k]
                        expected.jump[len(jump) // 2 + 1 + i - (first + k - 2)] += weights[n] * terms[k]
                if terms[0] > 0.0:
                    tail[0, i - before] += terms[0]
                if terms[1] > 0.0:
                    tail[1, i + after] += terms[1]
                expected.jump[low] += weights[n] * terms[0]
                expected.jump[high] += weights[n] * terms[1]
            _divide_tails(leaving, below, gamma, tail[0], left)
            _divide_tails(leaving[::-1], above[::-1], gamma, tail[1, ::-1], left[::-1])
            real[j, columns] = stayed.sum()
            for p in range(columns + 1):
                expected.departure[columns, p] += weights[n] * left[p]
                present[p] = stayed[p] + left[p]
