"""Sums and shares of what is given by logarithms, and exponentials."""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import LANES, any_below, larger, load, power_of_two, spread, store


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
    """The first place up to which shares add up to ``rest``, which is above 0 and at most 1.

    The last share above 0 is chosen where rounding keeps the sum of all of them below ``rest``.
    """
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
    """exp of every lane of a vector, at most 0, to the last two bits; below -708 that of -708.

    With r = a - n log(2), |r| <= log(2) / 2, this is 2**n (1 + r + r**2 p(r)). The polynomial p agrees with
    (exp(r) - 1 - r) / r**2 in the ten points of Chebyshev; its even and its odd terms are summed side by side.
    """
    a = larger(spread(-708.0), a)
    n = (a * spread(_PER_LOG_2) + spread(_ROUNDING)) - spread(_ROUNDING)
    r = (a - n * spread(_LOG_2)) - n * spread(_REST)
    square = r * r
    odd = spread(2.5100375832561234e-08) * square + spread(2.7557268480310024e-06)
    even = spread(2.7620075879983367e-07) * square + spread(2.4801521322368692e-05)
    odd, even = odd * square + spread(0.00019841269863040545), even * square + spread(0.0013888888917196719)
    odd, even = odd * square + spread(0.008333333333330065), even * square + spread(0.041666666666624164)
    odd, even = odd * square + spread(0.16666666666666669), even * square + spread(0.5000000000000001)
    return (spread(1.0) + (r + square * (odd * r + even))) * power_of_two(n)


@njit(cache=True, nogil=True, error_model="numpy")
def exponentiate(numbers: np.ndarray, least: float) -> bool:
    """Replace numbers, at most 0, by their exponentials, those below ``least`` by 0; returns whether there were such.

    ``least`` is above 1e-307. A number gives the same bits wherever it stands and on every machine, which NumPy's
    exponential does not. On processors without AVX-512, where NumPy takes one number after another, this takes vectors.
    """
    whole, any_small, last = len(numbers) // LANES * LANES, False, np.zeros(LANES)
    rest = numbers[whole:]
    for k in range(len(rest)):
        last[k] = rest[k]
    for at in range(0, whole, LANES):
        any_small |= _exponentiate(numbers, at, least)
    any_small |= _exponentiate(last, 0, least)
    for k in range(len(rest)):
        rest[k] = last[k]
    return any_small


@njit(cache=True, nogil=True, error_model="numpy")
def _exponentiate(numbers, at, least):  # type: ignore[no-untyped-def]
    """As `exponentiate`, of the LANES numbers from ``at`` on."""
    vector = exponentials(load(numbers, at))
    store(numbers, at, vector)
    if not any_below(vector, spread(least)):
        return False
    for k in range(at, at + LANES):
        if numbers[k] < least:
            numbers[k] = 0.0
    return True
