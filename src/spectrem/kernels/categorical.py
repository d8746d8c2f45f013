"""Smoothed max and max of independent categorical positions, grouped into instances.

Instance n owns the positions ``group_offsets[n]:group_offsets[n + 1]`` and position p the labels
``unary[offsets[p]:offsets[p + 1]]``; one impossible position makes its instance impossible.
"""

import math

import numpy as np

from spectrem._compiled import njit


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


@njit(cache=True, nogil=True, error_model="numpy")
def shift_kinds(kind, width, unary, prices, gamma, shifted, tops):
    """`shift_rows` of instances of ``width`` labels; one of kind k pays prices[k * width], prices[k * width + 1] ..."""
    for n in range(len(kind)):
        start, column = n * width, kind[n] * width
        top = -np.inf
        for k in range(width):
            s = unary[start + k] - prices[column + k]
            shifted[start + k] = s
            top = max(top, s)
        tops[n] = top
        least = top if top > -np.inf else 0.0
        for k in range(start, start + width):
            shifted[k] = (shifted[k] - least) / gamma


@njit(cache=True, nogil=True, error_model="numpy")
def add_up_kinds(kind, width, parts, weights, total):
    """Add the numbers of instances of ``width`` labels, times their weights, to those of their kinds."""
    for n in range(len(kind)):
        start, column = n * width, kind[n] * width
        for k in range(width):
            total[column + k] += weights[n] * parts[start + k]


@njit(cache=True, nogil=True, error_model="numpy")
def sort_kinds(kind, width, unary, gamma, weights, places, shifted, sorted_weights, tops):
    """Sort instances of ``width`` labels by kind: their scores, less their maximum and over gamma, and their weights.

    ``places[k]`` is where the next instance of kind k goes; ``tops`` are sums of weighted maxima by kind. One weight is
    that of all instances.
    """
    step = 1 if len(weights) > 1 else 0
    for n in range(len(kind)):
        start, k = n * width, kind[n]
        top = -np.inf
        for j in range(start, start + width):
            top = max(top, unary[j])
        tops[k] += weights[n * step] * top
        place = places[k]
        places[k] += 1
        sorted_weights[place * step] = weights[n * step]
        for j in range(width):
            shifted[place * width + j] = (unary[start + j] - top) / gamma


@njit(cache=True, nogil=True, error_model="numpy")
def sum_kinds(offsets, width, exponentials, weights, factors, active, values, expected):
    """Sums over the instances that `sort_kinds` sorted, whose labels count ``factors`` times, by kind.

    Instances of kind k are ``offsets[k]:offsets[k + 1]``. Fills their weighted marginals and the logarithms of their
    normalisers where kinds are active. Whether no normaliser is so small that it may have lost digits.
    """
    step = 1 if len(weights) > 1 else 0
    for kind in range(len(offsets) - 1):
        column, value, product = kind * width, 0.0, 1.0
        for n in range(offsets[kind], offsets[kind + 1] if active[kind] else 0):
            start, total = n * width, 0.0
            for j in range(width):
                total += exponentials[start + j] * factors[column + j]
            if not total > 1e-150:
                return False
            share = weights[n * step] / total
            for j in range(width):
                expected[column + j] += share * exponentials[start + j]
            if step:
                value += weights[n] * math.log(total)
            else:  # one logarithm for many normalisers
                product *= total
                if not 1e-150 < product < 1e150:
                    value += weights[0] * math.log(product)
                    product = 1.0
        values[kind] = value + weights[0] * math.log(product)
        for j in range(column, column + width):
            expected[j] *= factors[j]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def shift_rows(offsets, unary, indptr, indices, data, prices, gamma, shifted, tops):
    """``shifted = (unary - prices of the rows, less its maximum per instance) / gamma``; ``tops`` are those maxima.

    ``indptr, indices, data`` hold the parts of every row, so that few long loops are run, not many short ones.
    """
    for k in range(len(unary)):
        shifted[k] = unary[k]
    for r in range(len(prices)):
        price = prices[r]
        if price != 0.0:
            for e in range(indptr[r], indptr[r + 1]):
                shifted[indices[e]] -= data[e] * price
    for n in range(len(offsets) - 1):
        start, stop = offsets[n], offsets[n + 1]
        top = -np.inf
        for k in range(start, stop):
            top = max(top, shifted[k])
        tops[n] = top
        least = top if top > -np.inf else 0.0
        for k in range(start, stop):
            shifted[k] = (shifted[k] - least) / gamma


@njit(cache=True, nogil=True, error_model="numpy")
def normalise_rows(offsets, gamma, tops, exponentials):
    """Turn exponentials into marginals and ``tops`` into values, in place."""
    for n in range(len(offsets) - 1):
        start, stop = offsets[n], offsets[n + 1]
        if tops[n] == -np.inf:
            continue
        total = 0.0
        for k in range(start, stop):
            total += exponentials[k]
        tops[n] += gamma * math.log(total)
        share = 1.0 / total
        for k in range(start, stop):
            exponentials[k] *= share
