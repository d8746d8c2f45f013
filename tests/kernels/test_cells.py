"""From cells to unary parts and back, against plain loops over words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.kernels.alignments import cells as kernel

LENGTHS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4)
WIDTH = 2


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def anchor(s, steps, states):
    """Where the middle of step s lies among the states."""
    return int((s + 0.5) / steps * states + 1e-9)


def layout(pairs, backward):
    """(n, step, state, cell of both) of every unary part in order; state None is NULL."""
    begin = 0
    for n, (n_source, n_target) in enumerate(pairs):
        steps, states = (n_source, n_target) if backward else (n_target, n_source)
        for s in range(steps):
            for i in range(states):
                source, target = (s, i) if backward else (i, s)
                yield n, s, i, begin + source * n_target + target
            yield n, s, None, None
        begin += n_source * n_target


def make(pairs, backward, rng):
    source, target = offsets_of([i for i, _ in pairs]), offsets_of([j for _, j in pairs])
    steps, states = (source, target) if backward else (target, source)
    cell_offsets = offsets_of([i * j for i, j in pairs])
    cells = rng.integers(0, 5, cell_offsets[-1]).astype(np.int32)
    return steps, states, cell_offsets, cells


@given(LENGTHS, st.booleans(), st.booleans(), st.integers(0, 2**32 - 1))
def test_scores_and_counts(pairs, backward, placed, seed):
    rng = np.random.default_rng(seed)
    steps, states, cell_offsets, cells = make(pairs, backward, rng)
    longest = int(np.diff(states).max(initial=0))
    links, null = rng.normal(size=5), rng.normal(size=steps[-1])
    jump, departures = rng.normal(size=2 * WIDTH + 1), rng.normal(size=(longest + 1, longest + 1))
    parts = list(layout(pairs, backward))
    unary = np.full(len(parts), np.nan)
    kernel.score_links(backward, placed, steps, states, cell_offsets, cells, links, null, jump, departures, unary)
    weights, marginals = rng.random(len(pairs)), rng.random(len(parts))
    got = np.zeros(5), np.zeros(len(null)), np.zeros_like(jump), np.zeros_like(departures)
    kernel.count_links(backward, placed, steps, states, cell_offsets, cells, weights, marginals, *got)
    expected = [np.zeros_like(g) for g in got]
    for k, (n, s, i, cell) in enumerate(parts):
        mass = weights[n] * marginals[k]
        if i is None:
            assert unary[k] == null[steps[n] + s]
            expected[1][steps[n] + s] += mass
            continue
        n_states = states[n + 1] - states[n]
        p = anchor(s, steps[n + 1] - steps[n], n_states)
        width = min(max(i - p, -WIDTH), WIDTH) + WIDTH
        score = links[cells[cell]] + (jump[width] + departures[n_states, p + 1] if placed else 0.0)
        assert unary[k] == pytest.approx(score, rel=1e-12)
        expected[0][cells[cell]] += mass
        if placed:
            expected[2][width] += mass
            expected[3][n_states, p + 1] += mass
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-14)


@given(LENGTHS, st.booleans(), st.integers(0, 2**32 - 1))
def test_cell_masses(pairs, backward, seed):
    rng = np.random.default_rng(seed)
    steps, states, cell_offsets, _ = make(pairs, backward, rng)
    parts = list(layout(pairs, backward))
    marginals, masses = rng.random(len(parts)), np.zeros(cell_offsets[-1])
    every, weights, null = np.arange(len(masses), dtype=np.int32), np.ones(len(pairs)), np.zeros(steps[-1])
    others = null, np.zeros(0), np.zeros((0, 0))
    kernel.count_links(backward, False, steps, states, cell_offsets, every, weights, marginals, masses, *others)
    expected = np.zeros(cell_offsets[-1])
    for k, (_, _, i, cell) in enumerate(parts):
        if i is not None:
            expected[cell] = marginals[k]
    assert np.array_equal(masses, expected)
