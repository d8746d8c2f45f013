"""Sums of products of numbers with exponents of their own, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out
from spectrem._wide import MARGIN, add, nats, number_of, share, sum_products, unit_of


@njit(error_model="numpy")
def run_sum(hard, left, right, count):
    return sum_products(hard, left, 1, right, 2, count)


@njit(error_model="numpy")
def run_share(mass, left, right, count, terms, to_left, to_right):
    share(mass, left, 1, right, 2, count, terms, to_left, 3, to_right, 0)


def random_table(rng, columns, spread):
    """One row of numbers, some of them 0, and its exact values."""
    table = np.zeros((2, 1, columns + MARGIN))
    table[0, 0], table[1, 0] = rng.uniform(0.5, 2.0, columns + MARGIN), rng.integers(-spread, spread, columns + MARGIN)
    table[1, 0, rng.random(columns + MARGIN) < 0.2] = -np.inf
    exact = [Fraction(0) if e == -np.inf else Fraction(m) * Fraction(2) ** int(e) for m, e in table[:, 0].T]
    return table, exact


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
@pytest.mark.parametrize("spread", [5, 3000])
def test_sums_of_products_and_shares_are_exact(count, spread):
    rng = np.random.default_rng(count)
    (left, exact_left), (right, exact_right) = random_table(rng, 45, spread), random_table(rng, 45, spread)
    products = [exact_left[1 + k] * exact_right[2 + k] for k in range(count)]
    total = sum(products, Fraction(0))
    mantissa, exponent = run_sum(False, left, right, count)
    if total == 0:
        assert exponent == -np.inf
    else:
        assert abs(Fraction(mantissa) * Fraction(2) ** int(exponent) / total - 1) < 1e-14
    terms, to_left, to_right = np.empty(60), np.ones(60), np.ones(60)
    run_share(0.75, left, right, count, terms, to_left, to_right)
    expected = [0.75 * float(product / total) if total else 0.0 for product in products]
    for found, start in ((to_left, 3), (to_right, 0)):
        np.testing.assert_allclose(found[start : start + count], 1.0 + np.array(expected), rtol=1e-14)
        assert (np.delete(found, np.arange(start, start + count)) == 1.0).all()
    assert run_sum(True, left, right, count)[1] == max(
        left[1, 0, 1 : 1 + count] + right[1, 0, 2 : 2 + count], default=-np.inf
    )


def test_an_only_product_gets_all_of_the_mass():
    rng = np.random.default_rng(0)
    for _ in range(200):
        left, right = random_table(rng, 20, 5)[0], random_table(rng, 20, 5)[0]
        left[1, 0], right[1, 0] = np.arange(20 + MARGIN) * 1e6, 0.0
        to_left, to_right = np.zeros(40), np.zeros(40)
        run_share(0.3, left, right, 13, np.empty(40), to_left, to_right)
        assert to_left[3 + 12] == to_right[12] == 0.3


@pytest.mark.parametrize("gamma", [0.3, 1.0, 1e-320])
def test_numbers_of_scores(gamma):
    scores = np.array([1e15 - 3.0, 1e15, -np.inf, -1e15, 0.0])
    unit = unit_of(scores, gamma)
    assert unit == (gamma if gamma > 1e-300 else 2e15 / 1e303)
    numbers = [number_of(score, 1e15, unit, False) for score in scores]
    assert numbers[1] == (1.0, 0.0)
    assert numbers[2][1] == -np.inf
    for k in np.flatnonzero(np.isfinite(scores)):
        np.testing.assert_allclose(nats(numbers[k], unit, 1e15), scores[k], rtol=1e-15, atol=0.5)
    np.testing.assert_allclose(nats(numbers[0], unit, 0.0), -3.0, rtol=1e-14)
    assert [number_of(score, 0.0, 1.0, True) for score in scores] == [(1.0, score) for score in scores]


def test_a_logarithm_keeps_its_digits_where_terms_cancel():
    assert abs(nats(number_of(-5999.5, 0.0, 1.0, False), 1.0, 6000.0) - 0.5) < 1e-15


def test_sums_of_two_numbers():
    assert add(False, (1.5, 3.0), (1.0, 2.0)) == (2.0, 3.0)
    assert add(True, (1.0, 3.0), (1.0, 2.5)) == (1.0, 3.0)
    assert add(False, (1.5, -1e15), (1.0, -np.inf)) == (1.5, -1e15)
    assert add(False, (1.0, -np.inf), (1.0, -np.inf))[1] == -np.inf


def test_log_sums():
    terms = np.array([1e15, 1e15, -np.inf])
    assert log_sum(np.array([0.0, 0.0]), 0.5) == 0.5 * np.log(2.0)
    assert log_sum(terms[2:], 1.0) == log_sum(terms[:0], 1.0) == -np.inf
    share_out(terms, 1e-300)
    assert terms.tolist() == [0.5, 0.5, 0.0]
