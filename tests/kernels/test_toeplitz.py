"""Banded sums with running tails against every move written out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spectrem.kernels.alignments.alignment import count_moves, spread


def widths_of(n_in, n_out, width, step):
    """Cell of ``moves`` for every way from k (columns) to o (rows)."""
    return np.clip(1 + step * (np.arange(n_out)[:, None] - np.arange(n_in)), -width, width) + width


@given(st.integers(0, 40), st.integers(1, 50), st.booleans(), st.integers(0, 2**32 - 1))
def test_every_move_is_counted_once(n_source, width, forward, seed):
    rng = np.random.default_rng(seed)
    n_in, n_out = (n_source + 1, n_source) if forward else (n_source, n_source + 1)
    step = 1 if forward else -1
    # Numbers over two hundred orders of magnitude: no entry may drown in the larger ones.
    source, moves = 10.0 ** rng.uniform(-100, 0, n_in), 10.0 ** rng.uniform(-100, 0, 2 * width + 1)
    moves[rng.random(len(moves)) < 0.2] = 0.0
    cell = widths_of(n_in, n_out, width, step)
    out = np.full(n_out, np.nan)
    spread(source, moves, step, out)
    np.testing.assert_allclose(out, (moves[cell] * source).sum(axis=1), rtol=1e-13)
    if not forward:
        return
    target = 10.0 ** rng.uniform(-100, 0, n_out)
    counts, expected = np.zeros(len(moves)), np.zeros(len(moves))
    count_moves(0.5, source, target, moves, counts)
    np.add.at(expected, cell, 0.5 * target[:, None] * moves[cell] * source)
    np.testing.assert_allclose(counts, expected, rtol=1e-13)
