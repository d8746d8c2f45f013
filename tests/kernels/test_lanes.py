"""Sums over lanes against NumPy."""

import numpy as np
import pytest

from spectrem._compiled import njit
from spectrem._lanes import LANES, add_products, empty_table, largest_sum, load_arcs, raise_to_sum, sum_products


@njit()
def run_sum(out, left, right, at, step, count):
    sum_products(out, LANES, left, at, step, right, LANES, 2 * LANES, count)


@njit()
def run_add(out, left, right, at, step, count):
    add_products(out, LANES, left, at, step, right, LANES, 2 * LANES, count)


@njit()
def run_largest(out, left, right, at, step, count):
    largest_sum(out, LANES, left, at, step, right, LANES, 2 * LANES, count)


@njit()
def run_raise(out, left, right, at, step, count):
    raise_to_sum(out, LANES, left, at, step, right, LANES, 2 * LANES, count)


@pytest.mark.parametrize("count", [-1, 0, 1, 2, 7])
@pytest.mark.parametrize("step", [0, 1, 3])
def test_folds_over_entries(count, step):
    rng = np.random.default_rng(0)
    left, right, out = rng.normal(size=(30, LANES)), rng.normal(size=(30, LANES)), rng.normal(size=(3, LANES))
    right[5, 3] = -np.inf
    entries = np.arange(max(count, 0))
    own, other = left[2 + step * entries], right[1 + 2 * entries]
    flat = (left.ravel(), right.ravel(), 2 * LANES, step * LANES, count)
    best = out.copy()
    run_largest(best.ravel(), *flat)
    np.testing.assert_array_equal(best[1], (own + other).max(axis=0, initial=-np.inf))
    raised = out.copy()
    run_raise(raised.ravel(), *flat)
    np.testing.assert_array_equal(raised[1], np.maximum(out[1], best[1]))
    right[5, 3] = 0.0
    for run, before in ((run_sum, 0.0), (run_add, out[1])):
        total = out.copy()
        run(total.ravel(), *flat)
        np.testing.assert_allclose(
            total[1], before + (own * right[1 + 2 * entries]).sum(axis=0), rtol=1e-13, atol=1e-13
        )
        np.testing.assert_array_equal(total[[0, 2]], out[[0, 2]])


def test_tables_start_at_cache_lines():
    for size in (1, 3, 50):
        table = empty_table(size)
        assert table.shape == (size * LANES,)
        assert table.ctypes.data % 64 == 0


def test_words_beyond_the_end_hang_in_a_chain():
    lengths, offsets = np.array([0, 2, 3]), np.array([0, 0, 4, 13])
    table = np.zeros((4, 3, LANES))
    load_arcs(np.array([2, 1]), lengths, offsets, np.arange(13.0), -1.0, 9.0, 3, 3 * LANES, table.ravel())
    np.testing.assert_array_equal(table[:3, :, 0], np.arange(4.0, 13.0).reshape(3, 3))
    np.testing.assert_array_equal(table[:3, :, 1], [[0, 1, -1], [2, 3, -1], [-1, 9, -1]])
    np.testing.assert_array_equal(table[:3, :, 2], [[9, -1, -1], [9, -1, -1], [-1, 9, -1]])
    assert not table[3].any()
