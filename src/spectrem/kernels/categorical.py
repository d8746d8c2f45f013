"""Smoothed max and max of independent categorical positions, grouped into instances.

Instance n owns the positions ``group_offsets[n]:group_offsets[n + 1]`` and position p the labels
``unary[offsets[p]:offsets[p + 1]]``; one impossible position makes its instance impossible.
"""

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(group_offsets, offsets, unary, gamma, active, values, marginals):
    """Log-sum-exp of every position of the active instances, less its maximum, so no underflow can harm."""
    for n in range(len(group_offsets) - 1):
        if not active[n]:
            continue
        value = 0.0
        for p in range(group_offsets[n], group_offsets[n + 1]):
            top = -np.inf
            for k in range(offsets[p], offsets[p + 1]):
                top = max(top, unary[k])
            if top == -np.inf:
                value = -np.inf
                break
            total = 0.0
            for k in range(offsets[p], offsets[p + 1]):
                marginals[k] = math.exp((unary[k] - top) / gamma)
                total += marginals[k]
            for k in range(offsets[p], offsets[p + 1]):
                marginals[k] /= total
            value += top + gamma * math.log(total)
        values[n] = value
        if value == -np.inf:
            for k in range(offsets[group_offsets[n]], offsets[group_offsets[n + 1]]):
                marginals[k] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(group_offsets, offsets, unary, active, values, choices):
    """First best label of every position; ``choices`` is -1 throughout an impossible instance."""
    for n in range(len(group_offsets) - 1):
        if not active[n]:
            continue
        value = 0.0
        for p in range(group_offsets[n], group_offsets[n + 1]):
            top = -np.inf
            choices[p] = -1
            for k in range(offsets[p], offsets[p + 1]):
                if unary[k] > top:
                    top = unary[k]
                    choices[p] = k - offsets[p]
            value += top
        values[n] = value
        if value == -np.inf:
            for p in range(group_offsets[n], group_offsets[n + 1]):
                choices[p] = -1
