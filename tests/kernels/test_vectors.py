"""Vectors as values in kernels against NumPy."""

import numpy as np
import pytest

from spectrem._compiled import njit
from spectrem._logs import exponentials, exponentiate
from spectrem._vectors import (
    LANES,
    add_whole,
    any_below,
    dual,
    exponent,
    larger,
    largest,
    least_positive,
    load,
    load_one,
    load_some,
    of_whole,
    power_of_two,
    slope,
    spread,
    store,
    to_whole,
    total,
    value,
    where_zero,
)


@njit(error_model="numpy")
def run_operations(left, right, number, out):
    a, b = load(left, 1), load(right, 2)
    found = (
        a + b, a * b, a / b, larger(a, b), least_positive(a, b), spread(number), a - b, load_one(left, 3), a + a * b,
    )  # fmt: skip
    for k in range(9):
        store(out, (k + 1) * LANES, found[k])
    return any_below(a, b)


@pytest.mark.parametrize("below", [0, 1, LANES])
def test_operations_of_every_lane(below):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=LANES), np.array([2.5, -1.0, 0.5, 1e-300, 3.0, -0.25, 1.0, 0.0])
    a = np.where(np.arange(LANES) < LANES - below, b + abs(a), b - abs(a))
    left, right = np.append(np.nan, a), np.append([np.nan, np.nan], b)
    out = np.zeros((11, LANES))
    assert run_operations(left, right, 7.5, out.ravel()) == (below > 0)
    with np.errstate(divide="ignore"):
        least = np.where((b > 0) & (b < a), b, a)
        expected = [a + b, a * b, a / b, np.maximum(a, b), least, np.full(LANES, 7.5), a - b, np.full(LANES, a[2])]
    np.testing.assert_array_equal(out[1:9], expected)
    np.testing.assert_allclose(out[9], a + a * b, rtol=1e-12)
    assert not out[[0, 10]].any()


@njit(error_model="numpy")
def run_duals(left, right, vector, out):
    a, b, c = load(left, 1), load(right, 2), load(vector, 0)
    powers = spread(1.0)
    for _ in range(2):
        powers = powers * a + c
    results = (
        a + b, a - b, a * b, a / b, c + a, a - c, c * a, c / a, larger(a, b), larger(c, a), powers,
        where_zero(c, a, b), where_zero(larger(a, c) - a, spread(3.0), b), dual(value(a), slope(b)),
    )  # fmt: skip
    for k in range(14):
        store(out, k * LANES, results[k])
    store(out, 14 * LANES, where_zero(b - b, c, slope(c)))
    return any_below(value(a), slope(a))


def test_dual_numbers_carry_slopes():
    """Slopes equal differences along the direction; a vector beside them is constant, and so is one that is stored."""
    rng = np.random.default_rng(4)
    (a, da), (b, db) = rng.normal(size=(2, 2, LANES))
    c, out, step = rng.normal(size=LANES), np.full((2, 16 * LANES), np.nan), 1e-6
    c[2] = 0.0
    pairs = [
        (np.append(np.zeros(at), one), np.append(np.zeros(at), slope)) for one, slope, at in ((a, da, 1), (b, db, 2))
    ]
    assert run_duals(*pairs, c, (out[0], out[1])) == (a < da).any()
    values, slopes = out.reshape(2, 16, LANES)

    def results(by):
        x, y = a + by * da, b + by * db
        return np.array([
            x + y, x - y, x * y, x / y, c + x, x - c, c * x, c / x, np.maximum(x, y), np.maximum(c, x), (x + c) * x + c,
            np.where(c == 0.0, x, y), np.where(x >= c, 3.0, y), a + by * db, c,
        ])  # fmt: skip

    np.testing.assert_allclose(values[:15], results(0.0), rtol=1e-14)
    np.testing.assert_allclose(slopes[:15], (results(step) - results(-step)) / (2 * step), rtol=1e-6, atol=1e-8)
    assert np.isnan(out[:, 15 * LANES :]).all()


@njit(error_model="numpy")
def run_powers(numbers, whole, out):
    store(out, 0, exponent(load(numbers, 0)))
    store(out, LANES, power_of_two(load(whole, 0)))


def test_powers_of_two_are_exact():
    numbers = np.array([1.0, -1.0, 0.75, 3.999, 0.0, 2.0**-1022, np.finfo(float).max, 1e-310])
    whole = np.array([-1022.0, 1023.0, 0.0, 1.0, -1.0, -1023.0, -53.0, 1000.0])
    out = np.zeros((2, LANES))
    run_powers(numbers, whole, out.ravel())
    np.testing.assert_array_equal(out[0], [0, 0, -1, 1, 0, -1022, 1023, 0])
    np.testing.assert_array_equal(out[1], np.where(whole < -1022, 0.0, np.exp2(whole)))


@njit(error_model="numpy")
def run_across(numbers, count, rest, out):
    some = load_some(numbers, 1, count, rest)
    store(out, 0, some)
    return total(some), largest(some)


@pytest.mark.parametrize("count", [-1, 0, 3, LANES, LANES + 1])
def test_some_numbers_and_what_all_lanes_make(count):
    numbers, out = np.array([9.0, *2.0 ** np.arange(LANES)]), np.empty(LANES)
    expected = np.where(np.arange(LANES) < count, numbers[1:], -3.0)
    assert run_across(numbers, count, -3.0, out) == (expected.sum(), expected.max())
    np.testing.assert_array_equal(out, expected)


@njit(error_model="numpy")
def run_whole(left, right, numbers, out, sums):
    a, b = load(left, 0), load(right, 0)
    store(sums, 0, add_whole(a, b))
    store(sums, LANES, to_whole(load(numbers, 0)))
    store(out, 0, of_whole(a))
    store(out, LANES, exponentials(load(numbers, LANES)))


def test_whole_numbers_and_exponentials():
    rng = np.random.default_rng(2)
    left, right = (rng.integers(-(2**61), 2**61, LANES) for _ in range(2))
    numbers = np.concatenate(
        [np.array([0.5, 1.5, -2.5, 2.0**50 + 0.75, 0.0, -0.3, 7.0, -(2.0**50)]), -rng.exponential(30, 8)]
    )
    numbers[-3:] = 0.0, -707.9, -np.inf
    out, sums = np.zeros(2 * LANES), np.zeros(2 * LANES, np.int64)
    run_whole(left, right, numbers, out, sums)
    np.testing.assert_array_equal(sums, [*(left + right), *np.rint(numbers[:LANES]).astype(np.int64)])
    np.testing.assert_array_equal(out[:LANES], left.astype(np.float64))
    np.testing.assert_allclose(out[LANES:-1], np.exp(numbers[LANES:-1]), rtol=4e-16)
    assert 0 < out[-1] < 1e-307


@pytest.mark.parametrize("size", [0, 1, LANES, 3 * LANES + 5])
def test_exponentials_have_the_same_bits_at_any_place(size):
    rng = np.random.default_rng(size)
    numbers = np.concatenate([-rng.exponential(200, size), [-np.inf, 0.0, -707.0, -60.0]])[:size]
    once, small = numbers.copy(), numbers < np.log(1e-100)
    assert exponentiate(once, 1e-100) == small.any()
    np.testing.assert_allclose(once, np.where(small, 0.0, np.exp(numbers)), rtol=4e-16)
    for k in range(size):
        alone = numbers[k : k + 1].copy()
        exponentiate(alone, 1e-100)
        assert alone[0] == once[k]
