"""Sums over lanes against NumPy."""

import numpy as np
import pytest

from spectrem._compiled import njit
from spectrem._lanes import (
    LANES,
    add_products,
    copy_numbers,
    empty_numbers,
    empty_table,
    fill,
    largest_sum,
    raise_to_sum,
    sum_products,
)
from spectrem.kernels.trees.eisner import load_arcs, unload_arcs


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


@njit()
def run_tables(arrays, left, right, out):
    table = empty_numbers(arrays, 4)
    fill(table, 0, 2 * LANES, 1.0)
    sum_products(table, 2 * LANES, left, 0, LANES, right, 0, LANES, 2)
    add_products(table, 2 * LANES, table, 0, 0, left, LANES, 0, 1)
    copy_numbers(out, LANES, table, LANES, 2 * LANES)


def test_pairs_of_tables_carry_slopes():
    rng = np.random.default_rng(1)
    left, right, out = (rng.normal(size=(2, size, LANES)) for size in (2, 2, 4))
    pairs = [(one[0].ravel(), one[1].ravel()) for one in (left, right)]
    alone, both = np.zeros(4 * LANES), out.copy()
    run_tables((alone,), pairs[0][0], pairs[1][0], alone)
    run_tables((alone, alone), *pairs, (both[0].ravel(), both[1].ravel()))
    np.testing.assert_array_equal(both[0, 1:3], alone.reshape(4, LANES)[1:3])
    np.testing.assert_array_equal(both[:, 1], np.repeat([[1.0], [0.0]], LANES, axis=1))
    expected = [(left[0] * right[0]).sum(axis=0), (left[1] * right[0] + left[0] * right[1]).sum(axis=0)]
    np.testing.assert_allclose(both[:, 2], np.add(expected, left[:, 1]), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(both[:, [0, 3]], out[:, [0, 3]])


def test_tables_start_at_cache_lines():
    for size in (1, 3, 50):
        table = empty_table(size)
        assert table.shape == (size * LANES,)
        assert table.ctypes.data % 64 == 0


def test_arcs_of_sentences_of_several_lengths_share_a_table():
    lengths, offsets = np.array([0, 2, 3]), np.array([0, 0, 4, 13])
    table, members, numbers = np.zeros((4, 3, LANES)), np.array([2, 1]), np.arange(13.0)
    load_arcs(members, lengths, offsets, numbers, 0, 1, -1.0, 3, 3 * LANES, table.ravel())
    np.testing.assert_array_equal(table[:3, :, 0], np.arange(4.0, 13.0).reshape(3, 3))
    np.testing.assert_array_equal(table[:3, :, 1], [[0, 1, -1], [2, 3, -1], [-1, -1, -1]])
    assert (table[:3, :, 2:] == -1).all()
    assert not table[3].any()
    out, status = np.zeros(13), np.array([0, 1, 0], np.int8)
    unload_arcs(members, lengths, offsets, status, 3 * LANES, table.ravel() / 12, 0, 1, 0.75, out)
    np.testing.assert_array_equal(out, np.where(np.arange(13) < 4, 0, np.minimum(numbers / 12, 0.75)))
