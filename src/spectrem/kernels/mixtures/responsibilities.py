"""Posteriors of mixture components, in place of their scores; every row has the same number of components."""

import math

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def soft_pass(scores, gamma, weights, values):
    """``gamma * logsumexp(scores / gamma)`` of every row; scores become posteriors times the row's weight."""
    for n in range(len(scores)):
        row = scores[n]
        top = -np.inf
        for k in range(len(row)):
            top = max(top, row[k])
        values[n] = top
        if top == -np.inf:
            row[:] = 0.0
            continue
        total = 0.0
        for k in range(len(row)):
            row[k] = math.exp((row[k] - top) / gamma)
            total += row[k]
        values[n] += gamma * math.log(total)
        share = weights[n] / total
        for k in range(len(row)):
            row[k] *= share


@njit(cache=True, nogil=True, error_model="numpy")
def hard_pass(scores, weights, values):
    """The largest score of every row; the first that has it takes the row's weight, the others 0."""
    for n in range(len(scores)):
        row = scores[n]
        best = 0
        for k in range(1, len(row)):
            if row[k] > row[best]:
                best = k
        values[n] = row[best]
        row[:] = 0.0
        if values[n] > -np.inf:
            row[best] = weights[n]
