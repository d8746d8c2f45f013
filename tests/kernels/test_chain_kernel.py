"""Underflow in the scaled pass is found and repaired in log space; both passes agree elsewhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from spectrem.kernels import chain as kernel

FORBIDDEN = -np.inf


def run(lengths, unary, transition, gamma=1.0, *, allowed=None, log_space=False, active=None, weights=None):
    """values, marginals, counts, status of one pass over freshly filled outputs."""
    transition = np.asarray(transition, dtype=np.float64)
    n_states = len(transition)
    token_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if allowed is None:
        offsets, states, dense = np.arange(token_offsets[-1] + 1) * n_states, np.arange(n_states), True
    else:
        (offsets, states), dense = allowed, False
    active = np.ones(len(lengths), bool) if active is None else active
    weights = np.ones(len(lengths)) if weights is None else weights
    values, marginals = np.zeros(len(lengths)), np.zeros(offsets[-1])
    counts, status = np.zeros((n_states, n_states)), np.zeros(len(lengths), np.int8)
    layout = (token_offsets, offsets, states, dense, np.ravel(unary).astype(np.float64), transition, gamma)
    if log_space:
        kernel.log_sum_pass(*layout, active, weights, values, marginals, counts)
    else:
        kernel.sum_pass(*layout, active, weights, values, marginals, counts, status)
    return values, marginals, counts, status


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


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_states=st.integers(1, 9),
    lengths=st.lists(st.integers(0, 6), max_size=4),
    gamma=st.sampled_from([0.3, 1.0, 2.5]),
)
def test_scaled_and_log_space_agree(seed, n_states, lengths, gamma):
    rng = np.random.default_rng(seed)
    unary, transition = rng.normal(size=sum(lengths) * n_states), rng.normal(size=(n_states, n_states))
    active, weights = rng.random(len(lengths)) < 0.7, rng.uniform(0, 2, len(lengths))
    scaled = run(lengths, unary, transition, gamma, active=active, weights=weights)
    log = run(lengths, unary, transition, gamma, active=active, weights=weights, log_space=True)
    assert not scaled[3].any()
    for a, b in zip(scaled[:3], log[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_state_that_underflows_and_matters_later_is_flagged():
    # State 1 starts 800 nats behind, then state 0 is ruled out.
    unary = np.array([[0.0, -800.0], [FORBIDDEN, 0.0]])
    transition = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    values, marginals, counts, status = run([2], unary, transition)
    assert status.tolist() == [1]
    assert values[0] == 0.0
    assert not marginals.any()
    assert not counts.any()
    values, marginals, counts, _ = run([2], unary, transition, log_space=True)
    assert values[0] == -800.0
    assert marginals.tolist() == [0, 1, 0, 1]
    assert counts.tolist() == [[0, 0], [0, 1]]


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
def test_slow_leaks_are_flagged(ahead, behind):
    unary = np.stack([ahead, behind], axis=1)
    transition = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    assert run([len(ahead)], unary, transition)[3].tolist() == [1]
    values, marginals, _, _ = run([len(ahead)], unary, transition, log_space=True)
    np.testing.assert_allclose(values[0], max(sum(ahead), sum(behind)), rtol=1e-10)
    assert marginals[1::2].tolist() == pytest.approx([1.0] * len(behind), abs=1e-8)


def test_loss_that_passes_through_a_tiny_transition_is_flagged():
    unary = np.array([[0.0, -240.0], *[[-100.0, 0.0]] * 5, [0.0, FORBIDDEN]])
    transition = np.array([[0.0, FORBIDDEN], [-240.0, 0.0]])
    assert run([7], unary, transition)[3].tolist() == [1]
    np.testing.assert_allclose(run([7], unary, transition, log_space=True)[0][0], -480.0, rtol=1e-10)


def test_tiny_transitions_are_flagged_only_where_they_matter():
    transition = np.array([[0.0, -900.0], [0.0, 0.0]])
    must_cross = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    may_stay = np.zeros((2, 2))
    values, _, _, status = run([2, 2], np.concatenate([must_cross, may_stay]), transition)
    assert status.tolist() == [1, 0]
    np.testing.assert_allclose(values[1], np.log(3.0), rtol=1e-12)
    assert run([2], must_cross, transition, log_space=True)[0][0] == -900.0


def test_impossible_is_not_mistaken_for_underflow():
    transition = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    unary = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    for log_space in (False, True):
        values, marginals, counts, status = run([2], unary, transition, log_space=log_space)
        assert values[0] == FORBIDDEN
        assert status[0] == 0
        assert not marginals.any()
        assert not counts.any()


def test_dead_states_do_not_overflow_the_backward_pass():
    # State 1 cannot be reached, and would be 100 nats better at every token.
    unary = np.tile([0.0, 100.0], (50, 1))
    unary[0, 1] = FORBIDDEN
    transition = np.array([[0.0, FORBIDDEN], [0.0, 0.0]])
    for log_space in (False, True):
        values, marginals, counts, status = run([50], unary, transition, log_space=log_space)
        assert status[0] == 0
        np.testing.assert_allclose(values[0], 0.0, atol=1e-11)
        assert marginals.reshape(50, 2)[:, 0].tolist() == pytest.approx([1.0] * 50)
        assert counts.ravel().tolist() == pytest.approx([49.0, 0.0, 0.0, 0.0])


def test_long_sentences_do_not_underflow():
    rng = np.random.default_rng(0)
    unary, transition = -20.0 * rng.random((5000, 3)), np.log(rng.dirichlet(np.ones(3), size=3))
    value, posterior = reference(unary, transition)
    for log_space in (False, True):
        values, marginals, counts, status = run([5000], unary, transition, log_space=log_space)
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
        log = run([300], unary, transition, gamma, log_space=True)
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
    for log_space in (False, True):
        sparse = run([3], scores, transition, allowed=(offsets, states), log_space=log_space)
        full = run([3], dense, transition, log_space=log_space)
        np.testing.assert_allclose(sparse[0], full[0], rtol=1e-13)
        np.testing.assert_allclose(sparse[1], full[1][dense.ravel() > FORBIDDEN], rtol=1e-12)
        np.testing.assert_allclose(sparse[2], full[2], rtol=1e-12)


def test_viterbi_prefers_the_lowest_states_among_equals():
    values, choices, counts = np.zeros(1), np.full(3, -7), np.zeros((2, 2))
    kernel.max_pass(
        np.array([0, 3]), np.arange(4) * 2, np.arange(2), True, np.zeros(6), np.zeros((2, 2)),
        np.ones(1, bool), np.full(1, 2.5), values, choices, counts,
    )  # fmt: skip
    assert choices.tolist() == [0, 0, 0]
    assert counts.tolist() == [[5.0, 0.0], [0.0, 0.0]]
