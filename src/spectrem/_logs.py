"""Sums and shares of what is given by logarithms, for kernels in log space."""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import larger, power_of_two, spread


@njit(cache=True, nogil=True, error_model="numpy")
def log_sum(terms: np.ndarray, gamma: float) -> float:
    """gamma * log(sum(exp(terms / gamma))); in nats throughout, so that no division by gamma overflows."""
    top = -np.inf
    for k in range(len(terms)):
        top = max(top, terms[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(len(terms)):
        total += math.exp((terms[k] - top) / gamma)
    return top + gamma * math.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def share_out(terms: np.ndarray, gamma: float) -> None:
    """``terms`` become their shares, exp(terms / gamma) over the sum of these; some term must be finite."""
    top, total = -np.inf, 0.0
    for k in range(len(terms)):
        top = max(top, terms[k])
    for k in range(len(terms)):
        terms[k] = math.exp((terms[k] - top) / gamma)
        total += terms[k]
    for k in range(len(terms)):
        terms[k] /= total


@njit(cache=True, nogil=True, error_model="numpy")
def choose(shares: np.ndarray, rest: float) -> int:
    """Where shares add up to ``rest``, above 0 and at most 1, or the last above 0, should rounding keep them below."""
    chosen = -1
    for k in range(len(shares)):
        if shares[k] > 0.0 and rest > 0.0:
            chosen, rest = k, rest - shares[k]
    return chosen


# 1 / log(2), and log(2) as a number of 32 bits and the rest, whose products with whole numbers are exact.
_PER_LOG_2, _LOG_2, _REST = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
_ROUNDING = 1.5 * 2.0**52


@njit(cache=True, nogil=True, error_model="numpy")
def exponentials(a):  # type: ignore[no-untyped-def]
    """exp of every lane of a vector, at most 0, to the last two bits; below -708 that of -708."""
    a = larger(spread(-708.0), a)
    n = (a * spread(_PER_LOG_2) + spread(_ROUNDING)) - spread(_ROUNDING)
    r = (a - n * spread(_LOG_2)) - n * spread(_REST)
    series = spread(1.0 / 6227020800.0)
    series = series * r + spread(1.0 / 479001600.0)
    series = series * r + spread(1.0 / 39916800.0)
    series = series * r + spread(1.0 / 3628800.0)
    series = series * r + spread(1.0 / 362880.0)
    series = series * r + spread(1.0 / 40320.0)
    series = series * r + spread(1.0 / 5040.0)
    series = series * r + spread(1.0 / 720.0)
    series = series * r + spread(1.0 / 120.0)
    series = series * r + spread(1.0 / 24.0)
    series = series * r + spread(1.0 / 6.0)
    series = series * r + spread(0.5)
    series = series * r + spread(1.0)
    return (series * r + spread(1.0)) * power_of_two(n)
