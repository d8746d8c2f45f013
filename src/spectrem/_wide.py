"""Numbers of any size, and sums of their products along rows: the inner loops of the engine of derivations.

A number is ``mantissa * 2**exponent``, its exponent a whole number of its own, so that neither products of a thousand
potentials nor potentials of ``exp(-1e15)`` leave the range, and nothing is rounded but mantissas. 0 has the exponent
-inf. A table of them has mantissas before exponents and ends with MARGIN numbers that are not used, since rows are read
LANES numbers at a time. A place counts the numbers before an entry.

Where ``hard`` is true, sums of products become largest sums: exponents are scores in nats, and mantissas are one.
"""

from __future__ import annotations

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import LANES, larger, largest, load, load_some, power_of_two, spread, store, total

MARGIN = LANES
# The most that exponents are, in nats: sums of ten thousand of them are still far from the largest double.
_FARTHEST = 1e303
_LARGEST = np.finfo(np.float64).max
_LOG_2 = math.log(2.0)
# the same in two parts, of which products with whole numbers below 2**21 are exact
_LOG_2_HIGH, _LOG_2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")


@njit(cache=True, nogil=True, error_model="numpy")
def number_of(score, top, unit, hard):  # type: ignore[no-untyped-def]
    """The number exp((score - top) / unit) as mantissa and exponent; 1 and the score if hard."""
    if hard or score == -np.inf:
        return 1.0, score
    # impossible are only scores of -inf, whatever a difference over the unit may be
    power = max((score - top) / unit, -_FARTHEST)
    exponent = np.rint(power / _LOG_2)
    rest = power - exponent * _LOG_2_HIGH - exponent * _LOG_2_LOW
    return math.exp(min(max(rest, -0.5), 0.5)), exponent


@njit(cache=True, nogil=True, error_model="numpy")
def unit_of(scores, gamma):  # type: ignore[no-untyped-def]
    """Gamma, or a larger unit where differences of scores over gamma would leave the range of exponents."""
    low, high = np.inf, -np.inf
    for score in scores.flat:
        if score > -np.inf:
            low, high = min(low, score), max(high, score)
    return max(gamma, min(high - low, _LARGEST) / _FARTHEST)


@njit(cache=True, nogil=True, error_model="numpy")
def nats(number, unit, tops):  # type: ignore[no-untyped-def]
    """tops + unit * log(number), which keeps its digits where the two terms cancel."""
    mantissa, exponent = number
    return tops + unit * (exponent * _LOG_2_HIGH) + unit * (exponent * _LOG_2_LOW + math.log(mantissa))


@njit(cache=True, nogil=True, error_model="numpy")
def add(hard, one, other):  # type: ignore[no-untyped-def]
    """The sum of two numbers, over the larger one of their powers of two."""
    if one[1] < other[1]:
        one, other = other, one
    if hard or other[1] == -np.inf:
        return one
    return one[0] + other[0] * np.exp2(max(other[1] - one[1], -1e4)), one[1]


@njit(cache=True, nogil=True, error_model="numpy")
def _exponents(left, l_at, right, r_at, count):  # type: ignore[no-untyped-def]
    """The largest exponent of the products of two rows, and a vector of the last ones, which are not whole vectors."""
    l_at, r_at, whole = l_at + left.strides[0] // 8, r_at + right.strides[0] // 8, count // LANES * LANES
    last = load_some(left, l_at + whole, count - whole, -np.inf) + load(right, r_at + whole)
    top = last
    for k in range(0, whole, LANES):
        top = larger(top, load(left, l_at + k) + load(right, r_at + k))
    return largest(top), last


@njit(cache=True, nogil=True, error_model="numpy")
def _product(left, l_at, right, r_at, exponents):  # type: ignore[no-untyped-def]
    """Products of mantissas, times powers of two."""
    return load(left, l_at) * load(right, r_at) * power_of_two(larger(exponents, spread(-1023.0)))


@njit(cache=True, nogil=True, error_model="numpy")
def sum_products(hard, left, l_at, right, r_at, count):  # type: ignore[no-untyped-def]
    """Mantissa and exponent of the sum over k < count of left[l_at + k] * right[r_at + k]."""
    top, last = _exponents(left, l_at, right, r_at, count)
    if top == -np.inf or hard:
        return 1.0, top
    l_exponent, r_exponent, whole = l_at + left.strides[0] // 8, r_at + right.strides[0] // 8, count // LANES * LANES
    so_far = _product(left, l_at + whole, right, r_at + whole, last - spread(top))
    for k in range(0, whole, LANES):
        exponents = load(left, l_exponent + k) + load(right, r_exponent + k) - spread(top)
        so_far = so_far + _product(left, l_at + k, right, r_at + k, exponents)
    mantissa, exponent = math.frexp(total(so_far))
    return mantissa, exponent + top


@njit(cache=True, nogil=True, error_model="numpy")
def fill_terms(left, l_at, right, r_at, count, terms, at):  # type: ignore[no-untyped-def]
    """Fill ``terms[at : at + count]`` with the products of two rows over 2**exponent.

    Returns the sum of terms and the exponent, -inf where all products are 0. Vectors are stored, so that there must be
    room behind the terms.
    """
    top, last = _exponents(left, l_at, right, r_at, count)
    if top == -np.inf:
        for k in range(at, at + count):
            terms[k] = 0.0
        return 0.0, top
    l_exponent, r_exponent, whole = l_at + left.strides[0] // 8, r_at + right.strides[0] // 8, count // LANES * LANES
    so_far = _product(left, l_at + whole, right, r_at + whole, last - spread(top))
    store(terms, at + whole, so_far)
    for k in range(0, whole, LANES):
        exponents = load(left, l_exponent + k) + load(right, r_exponent + k) - spread(top)
        term = _product(left, l_at + k, right, r_at + k, exponents)
        store(terms, at + k, term)
        so_far = so_far + term
    return total(so_far), top


@njit(cache=True, nogil=True, error_model="numpy")
def share(mass, left, l_at, right, r_at, count, terms, to_left, tl_at, to_right, tr_at):  # type: ignore[no-untyped-def]
    """Divide a mass among the products of two rows, in proportion; each adds its share to the masses of both factors.

    Shares add up to the mass whatever was rounded. ``terms`` has room for the row. Nothing is divided where all
    products are 0.
    """
    if mass == 0.0:
        return
    sum_of_terms, top = fill_terms(left, l_at, right, r_at, count, terms, 0)
    if top == -np.inf:
        return
    for k in range(0, count, LANES):
        part = load(terms, k) / spread(sum_of_terms) * spread(mass)  # all of it, to the last bit, for an only term
        store(to_left, tl_at + k, load(to_left, tl_at + k) + part)
        store(to_right, tr_at + k, load(to_right, tr_at + k) + part)
