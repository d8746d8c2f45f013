"""Vectors as values in kernels against NumPy."""

import numpy as np
import pytest

from spectrem._compiled import njit
from spectrem._vectors import LANES, any_below, larger, least_positive, load, spread, store


@njit(error_model="numpy")
def run_operations(left, right, number, out):
    a, b = load(left, 1), load(right, 2)
    found = (a + b, a * b, a / b, larger(a, b), least_positive(a, b), spread(number), a + a * b)
    for k in range(7):
        store(out, (k + 1) * LANES, found[k])
    return any_below(a, b)


@pytest.mark.parametrize("below", [0, 1, LANES])
def test_operations_of_every_lane(below):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=LANES), np.array([2.5, -1.0, 0.5, 1e-300, 3.0, -0.25, 1.0, 0.0])
    a = np.where(np.arange(LANES) < LANES - below, b + abs(a), b - abs(a))
    left, right = np.append(np.nan, a), np.append([np.nan, np.nan], b)
    out = np.zeros((9, LANES))
    assert run_operations(left, right, 7.5, out.ravel()) == (below > 0)
    with np.errstate(divide="ignore"):
        least = np.where((b > 0) & (b < a), b, a)
        expected = [a + b, a * b, a / b, np.maximum(a, b), least, np.full(LANES, 7.5)]
    np.testing.assert_array_equal(out[1:7], expected)
    np.testing.assert_allclose(out[7], a + a * b, rtol=1e-12)
    assert not out[[0, 8]].any()
