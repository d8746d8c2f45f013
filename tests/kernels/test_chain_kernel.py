"""Underflow in the scaled pass is found and repaired in log space; both passes agree elsewhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from spectrem.kernels.chains import chain as kernel
from spectrem.kernels.chains import chain_lanes, chain_log
from spectrem.kernels.chains.potentials import fill_potentials, find_floored
from spectrem.structures.chains.tied import ScoreTable

FORBIDDEN = -np.inf
SCALED = pytest.mark.parametrize("sum_pass", [kernel.sum_pass, chain_lanes.sum_pass], ids=["alone", "lanes"])


def run(lengths, unary, transition, gamma=1.0, *, allowed=None, sum_pass=kernel.sum_pass, active=None, weights=None):
    """values, marginals, counts, status of one pass over freshly filled outputs."""
    transition = np.asarray(transition, dtype=np.float64)
    n_states, n_tokens = len(transition), int(np.sum(lengths))
    token_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if allowed is None:
        offsets, states, dense = np.arange(n_tokens + 1) * n_states, np.arange(n_states), True
    else:
        (offsets, states), dense = allowed, False
    scores = np.ravel(unary).astype(np.float64)
    table = ScoreTable(offsets, states, dense, scores, np.zeros(n_states), (transition,), gamma).potentials
    weights = np.ones(len(lengths)) if weights is None else weights
    status = np.ones(len(lengths), np.int8) if active is None else active.astype(np.int8)
    values, marginals, counts = np.zeros(len(lengths)), np.zeros(offsets[-1]), np.zeros((1, n_states, n_states))
    expected = kernel.Expected(marginals, np.zeros(n_states), counts, counts)
    batch = (token_offsets, np.arange(n_tokens), table, np.ones(len(lengths)), weights, values, expected, status)
    if sum_pass is chain_lanes.sum_pass:
        order = np.flatnonzero((status == 1) & (np.diff(token_offsets) > 0))
        batch = (order[np.argsort(-np.diff(token_offsets)[order], kind="stable")], *batch)
    sum_pass(*batch)
    return values, marginals, counts[0], status


def reference(unary, transition, gamma=1.0):
    """Forward-backward of one sentence by scipy's logsumexp, (T, K) unary."""
    unary, transition = np.asarray(unary) / gamma, np.asarray(transition) / gamma
    alpha, beta = [unary[0]], [np.zeros(len(transition))]
    with np.errstate(invalid="ignore"):
        for row in unary[1:]:
            alpha.append(row + logsumexp(alpha[-1][:, None] + transition, axis=0))
        for row in unary[:0:-1]:
            beta.append(logsumexp(transition + row + beta[-1], axis=1))
        total = logsumexp(alpha[-1])
        return gamma * total, np.exp(np.array(alpha) + np.array(beta[::-1]) - total)


@SCALED
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_states=st.integers(1, 9),
    lengths=st.lists(st.integers(0, 6), max_size=4),
    gamma=st.sampled_from([0.3, 1.0, 2.5]),
)
def test_scaled_and_log_space_agree(sum_pass, seed, n_states, lengths, gamma):
    rng = np.random.default_rng(seed)
    unary, transition = rng.normal(size=sum(lengths) * n_states), rng.normal(size=(n_states, n_states))
    active, weights = rng.random(len(lengths)) < 0.7, rng.uniform(0, 2, len(lengths))
    scaled = run(lengths, unary, transition, gamma, active=active, weights=weights, sum_pass=sum_pass)
    log = run(lengths, unary, transition, gamma, active=active, weights=weights, sum_pass=chain_log.sum_pass)
    empty = np.array(lengths, int) == 0
    assert not scaled[3][~empty].any()
    for a, b in zip(scaled[:3], log[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@SCALED
def test_state_that_underflows_and_matters_later_is_flagged(sum_pass):
    # State 1 starts 800 nats behind, then state 0 is ruled out.
    unary = np.array([[0.0, -800.0], [FORBIDDEN, 0.0]])
    transition = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    values, marginals, counts, status = run([2], unary, transition, sum_pass=sum_pass)
    assert status.tolist() == [1]
    assert values[0] == 0.0
    assert not marginals.any()
    assert not counts.any()
    values, marginals, counts, _ = run([2], unary, transition, sum_pass=chain_log.sum_pass)
    assert values[0] == -800.0
    assert marginals.tolist() == [0, 1, 0, 1]
    assert counts.tolist() == [[0, 0], [0, 1]]


@SCALED
@pytest.mark.parametrize(
    ("ahead", "behind"),
    [
        # The only extreme step is the first, and no total is ever near zero.
        ([0.0, *[-50.0] * 20], [-800.0, *[0.0] * 20]),
        # Forward and backward pass each lose the same path, at different ends.
        ([0.0, *[-100.0] * 20, 0.0], [-400.0, *[0.0] * 20, -400.0]),
        # No step is extreme.
        ([*[0.0] * 4, *[-100.0] * 20], [*[-100.0] * 4, *[0.0] * 20]),
        # What is lost would underflow itself.
        ([*[0.0] * 5, *[-100.0] * 40], [-800.0, *[-200.0] * 4, *[0.0] * 40]),
        # What is lost outweighs the rest before it meets a potential below the floor.
        ([0.0, *[-100.0] * 5, 0.0], [-240.0, *[0.0] * 5, -240.0]),
    ],
)
def test_slow_leaks_are_flagged(ahead, behind, sum_pass):
    unary = np.stack([ahead, behind], axis=1)
    transition = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    assert run([len(ahead)], unary, transition, sum_pass=sum_pass)[3].tolist() == [1]
    values, marginals, _, _ = run([len(ahead)], unary, transition, sum_pass=chain_log.sum_pass)
    np.testing.assert_allclose(values[0], max(sum(ahead), sum(behind)), rtol=1e-10)
    assert marginals[1::2].tolist() == pytest.approx([1.0] * len(behind), abs=1e-8)


@SCALED
def test_loss_that_overflows_is_flagged(sum_pass):
    # Two states start below the floor and win by 2000 nats; infinity times a forbidden transition is not a number.
    unary = np.array([[0.0, -400.0, -400.0], *[[-100.0, 0.0, 0.0]] * 24])
    transition = np.where(np.eye(3) > 0, 0.0, FORBIDDEN)
    assert run([25], unary, transition, sum_pass=sum_pass)[3].tolist() == [1]
    value = run([25], unary, transition, sum_pass=chain_log.sum_pass)[0][0]
    np.testing.assert_allclose(value, np.log(2.0) - 400.0, rtol=1e-12)


@SCALED
def test_loss_that_passes_through_a_tiny_transition_is_flagged(sum_pass):
    unary = np.array([[0.0, -240.0], *[[-100.0, 0.0]] * 5, [0.0, FORBIDDEN]])
    transition = np.array([[0.0, FORBIDDEN], [-240.0, 0.0]])
    assert run([7], unary, transition, sum_pass=sum_pass)[3].tolist() == [1]
    np.testing.assert_allclose(run([7], unary, transition, sum_pass=chain_log.sum_pass)[0][0], -480.0, rtol=1e-10)


@SCALED
def test_loss_that_multiplies_is_flagged(sum_pass):
    # State 0 stays alone; the others start below the floor and have seven ways to go on from each.
    unary = np.zeros((170, 8))
    unary[0, 1:] = -300.0
    transition = np.zeros((8, 8))
    transition[0, 1:] = transition[1:, 0] = FORBIDDEN
    assert run([170], unary, transition, sum_pass=sum_pass)[3].tolist() == [1]
    value = np.logaddexp(0.0, 170 * np.log(7.0) - 300.0)
    np.testing.assert_allclose(run([170], unary, transition, sum_pass=chain_log.sum_pass)[0][0], value, rtol=1e-10)


@SCALED
def test_tiny_transitions_are_flagged_only_where_they_matter(sum_pass):
    transition = np.array([[0.0, -900.0], [0.0, 0.0]])
    must_cross = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    may_stay = np.zeros((2, 2))
    values, _, _, status = run([2, 2], np.concatenate([must_cross, may_stay]), transition, sum_pass=sum_pass)
    assert status.tolist() == [1, 0]
    np.testing.assert_allclose(values[1], np.log(3.0), rtol=1e-12)
    assert run([2], must_cross, transition, sum_pass=chain_log.sum_pass)[0][0] == -900.0


def test_impossible_is_not_mistaken_for_underflow():
    transition = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    unary = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    for sum_pass in (kernel.sum_pass, chain_lanes.sum_pass, chain_log.sum_pass):
        values, marginals, counts, status = run([2], unary, transition, sum_pass=sum_pass)
        assert values[0] == FORBIDDEN
        assert status[0] == 0
        assert not marginals.any()
        assert not counts.any()


def test_dead_states_do_not_overflow_the_backward_pass():
    # State 1 cannot be reached, and would be 100 nats better at every token.
    unary = np.tile([0.0, 100.0], (50, 1))
    unary[0, 1] = FORBIDDEN
    transition = np.array([[0.0, FORBIDDEN], [0.0, 0.0]])
    for sum_pass in (kernel.sum_pass, chain_lanes.sum_pass, chain_log.sum_pass):
        values, marginals, counts, status = run([50], unary, transition, sum_pass=sum_pass)
        assert status[0] == 0
        np.testing.assert_allclose(values[0], 0.0, atol=1e-11)
        assert marginals.reshape(50, 2)[:, 0].tolist() == pytest.approx([1.0] * 50)
        assert counts.ravel().tolist() == pytest.approx([49.0, 0.0, 0.0, 0.0])


def test_long_sentences_do_not_underflow():
    rng = np.random.default_rng(0)
    unary, transition = -20.0 * rng.random((5000, 3)), np.log(rng.dirichlet(np.ones(3), size=3))
    value, posterior = reference(unary, transition)
    for sum_pass in (kernel.sum_pass, chain_lanes.sum_pass, chain_log.sum_pass):
        values, marginals, counts, status = run([5000], unary, transition, sum_pass=sum_pass)
        assert status[0] == 0
        np.testing.assert_allclose(values[0], value, rtol=1e-12)
        np.testing.assert_allclose(marginals.reshape(posterior.shape), posterior, atol=1e-9)
        np.testing.assert_allclose(counts.sum(), 4999.0, rtol=1e-9)


def test_long_sentences_of_a_thousand_nats():
    rng = np.random.default_rng(1)
    unary = 1e3 * rng.choice([-1.0, 1.0], size=(300, 3))
    transition = 1e3 * rng.choice([-1.0, 1.0], size=(3, 3))
    for gamma in (0.3, 1.0, 2.5):
        value, posterior = reference(unary, transition, gamma)
        scaled = run([300], unary, transition, gamma)
        log = run([300], unary, transition, gamma, sum_pass=chain_log.sum_pass)
        for values, marginals, counts, status in (scaled, log):
            if status[0] == 0:
                np.testing.assert_allclose(values[0], value, rtol=1e-12)
                np.testing.assert_allclose(marginals.reshape(posterior.shape), posterior, atol=1e-8)
                np.testing.assert_allclose(counts.sum(), 299.0, rtol=1e-9)


def test_allowed_states_cost_and_count_only_themselves():
    rng = np.random.default_rng(2)
    transition = rng.normal(size=(5, 5))
    offsets, states = np.array([0, 2, 3, 6]), np.array([1, 4, 0, 0, 2, 3])
    scores = rng.normal(size=6)
    dense = np.full((3, 5), FORBIDDEN)
    dense[np.repeat([0, 1, 2], [2, 1, 3]), states] = scores
    for sum_pass in (kernel.sum_pass, chain_log.sum_pass):
        sparse = run([3], scores, transition, allowed=(offsets, states), sum_pass=sum_pass)
        full = run([3], dense, transition, sum_pass=sum_pass)
        np.testing.assert_allclose(sparse[0], full[0], rtol=1e-13)
        np.testing.assert_allclose(sparse[1], full[1][dense.ravel() > FORBIDDEN], rtol=1e-12)
        np.testing.assert_allclose(sparse[2], full[2], rtol=1e-12)


def test_viterbi_prefers_the_lowest_states_among_equals():
    values, choices, counts, moves = np.zeros(1), np.full(3, -7), np.zeros((1, 2, 2)), np.zeros((1, 2, 2))
    kernel.max_pass(
        1, np.array([0, 3]), np.arange(4) * 2, np.array([0, 1, 0]), True, np.zeros(6), moves, moves,
        np.ones(1, bool), np.full(1, 2.5), values, choices, counts, counts,
    )  # fmt: skip
    assert choices.tolist() == [0, 0, 0]
    assert counts.tolist() == [[[5.0, 0.0], [0.0, 0.0]]]


@pytest.mark.parametrize(
    "sizes", [[], [0], [3], [8], [0, 20, 1, 0, 7, 8, 9, 16, 0], [1] * 20, [17, 5, 3, 0, 2], [12] * 9]
)
@pytest.mark.parametrize("gamma", [1.0, 0.3])
def test_potentials_of_rows_equal_numpy(sizes, gamma):
    rng = np.random.default_rng(len(sizes))
    rows = [rng.normal(scale=90, size=size) for size in sizes]
    for row in rows[::3]:
        row[: len(row) // 2 + 1] = -np.inf  # some, or all
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    scores, tops, floored = np.concatenate([*rows, []]), np.empty(len(sizes)), np.empty(len(sizes), np.bool_)
    potentials = np.full_like(scores, np.nan)
    any_small = fill_potentials(scores, offsets, gamma, 1e-60, potentials, tops)
    find_floored(scores, offsets, potentials, floored)
    np.testing.assert_array_equal(tops, [row.max(initial=-np.inf) for row in rows])
    assert any_small == (potentials == 0.0).any()
    for row, top, begin, lost in zip(rows, tops, offsets[:-1], floored, strict=True):
        expected = np.exp((row - top) / gamma) if top > -np.inf else np.zeros(len(row))
        expected[expected < 1e-60] = 0.0
        np.testing.assert_allclose(potentials[begin : begin + len(row)], expected, rtol=1e-13)
        assert lost == bool((row[expected == 0.0] > -np.inf).any())
