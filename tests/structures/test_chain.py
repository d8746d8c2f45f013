import numpy as np
import pytest
from hypothesis import given, settings
from structure_cases import chains, random_scores, seeds

from spectrem.exceptions import InvalidInputError
from spectrem.kernels.chains import chain_log
from spectrem.structures import Chain, Parts
from spectrem.testing import brute_force_smoothed_max


def test_columns():
    chain = Chain([1, 0, 2], n_states=2)
    assert chain.n_tokens == 3
    assert chain.n_unary == 6
    assert chain.factor_shapes == ((2, 2),)
    columns = chain.columns
    assert columns["sentence"].tolist() == chain.instance.tolist() == [0, 0, 2, 2, 2, 2]
    assert columns["token"].tolist() == [0, 0, 0, 0, 1, 1]
    assert columns["occurrence"].tolist() == [0, 0, 1, 1, 2, 2]
    assert columns["tag"].tolist() == [0, 1, 0, 1, 0, 1]


def test_columns_of_allowed_states():
    chain = Chain([1, 2], n_states=4, allowed=([0, 1, 3, 4], [3, 0, 2, 1]))
    columns = chain.columns
    assert columns["sentence"].tolist() == [0, 1, 1, 1]
    assert columns["token"].tolist() == [0, 0, 0, 1]
    assert columns["occurrence"].tolist() == [0, 1, 1, 2]
    assert columns["tag"].tolist() == [3, 0, 2, 1]


@settings(max_examples=40)
@given(chain=chains(), seed=seeds())
def test_decode_equals_enumeration(chain, seed):
    scores = random_scores(chain, np.random.default_rng(seed))
    expected = brute_force_smoothed_max(chain, scores, 0.0)
    states = chain.decode(scores)
    assert states.shape == (chain.n_tokens,)
    columns = chain.columns
    best = sum((one.unary for one in expected.argmax), start=np.zeros(chain.n_unary))
    chosen = states[columns["occurrence"]] == columns["tag"]
    assert chosen.tolist() == best.astype(bool).tolist()


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_allowed_states_equal_minus_infinity_elsewhere(gamma):
    rng = np.random.default_rng(0)
    offsets, states = np.array([0, 2, 3, 6, 8]), np.array([1, 4, 0, 0, 2, 3, 1, 2])
    sparse, dense = Chain([3, 1], 5, allowed=(offsets, states)), Chain([3, 1], 5)
    scores, transition = rng.normal(size=8), rng.normal(size=(5, 5))
    everywhere = np.full((4, 5), -np.inf)
    allowed = np.zeros((4, 5), bool)
    allowed[np.repeat(np.arange(4), np.diff(offsets)), states] = True
    everywhere[allowed] = scores
    a_values, a = sparse.smoothed_max(Parts(scores, (transition,)), gamma)
    b_values, b = dense.smoothed_max(Parts(everywhere.ravel(), (transition,)), gamma)
    np.testing.assert_allclose(a_values, b_values, rtol=1e-13)
    np.testing.assert_allclose(a.unary, b.unary[allowed.ravel()], rtol=1e-12)
    np.testing.assert_allclose(a.factors[0], b.factors[0], rtol=1e-12)
    assert not b.unary[~allowed.ravel()].any()


def test_underflowing_sentences_are_run_again_in_log_space(monkeypatch):
    # Sentence 1 must go through a state that its first token leaves 800 nats behind.
    unary = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -800.0, -np.inf, 0.0])
    transition = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    asked = []
    log_sum_pass = chain_log.sum_pass

    def recorded(*arguments):
        asked.append(arguments[-1].tolist())
        log_sum_pass(*arguments)

    monkeypatch.setattr(chain_log, "sum_pass", recorded)
    chain = Chain([2, 2], 2)
    values, marginals = chain.smoothed_max(Parts(unary, (transition,)), 1.0, weights=np.array([1.0, 3.0]))
    assert asked == [[0, 1]]
    np.testing.assert_allclose(values, [np.log(2.0), -800.0], rtol=1e-14)
    np.testing.assert_allclose(marginals.unary, [0.5, 0.5, 0.5, 0.5, 0, 1, 0, 1])
    np.testing.assert_allclose(marginals.factors[0], [[0.5, 0], [0, 3.5]])


def test_impossible_sentences_leave_nothing_behind():
    transition = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    chain = Chain([2, 1], 2)
    scores = Parts(np.array([0.0, -np.inf, -np.inf, 0.0, 0.0, 1.0]), (transition,))
    for gamma in (0.0, 1.0):
        values, marginals = chain.smoothed_max(scores, gamma)
        assert values[0] == -np.inf
        assert values[1] >= 1.0
        assert not marginals.unary[:4].any()
        assert not marginals.factors[0].any()
    assert chain.decode(scores).tolist() == [-1, -1, 1]


def test_tokens_without_allowed_states_are_impossible():
    chain = Chain([2], 2, allowed=([0, 0, 1], [1]))
    for gamma in (0.0, 1.0):
        assert chain.smoothed_max(Parts(np.zeros(1), (np.zeros((2, 2)),)), gamma)[0].tolist() == [-np.inf]


def test_long_sentences():
    chain = Chain([5000], 4)
    rng = np.random.default_rng(0)
    scores = random_scores(chain, rng)
    values, marginals = chain.smoothed_max(scores, 1.0)
    np.testing.assert_allclose(marginals.unary.reshape(5000, 4).sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(marginals.factors[0].sum(), 4999.0, rtol=1e-12)
    best, _ = chain.smoothed_max(scores, 0.0)
    nearly, marginals = chain.smoothed_max(scores, 1e-3)
    assert best[0] <= nearly[0] <= best[0] + 1e-3 * 5000 * np.log(4)
    assert values[0] > nearly[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, -2], 2), r"lengths must not be negative; got -2 at index 1"),
        (([1.5], 2), r"lengths must hold integers; got dtype float64; try lengths\.astype\(np\.int64\)"),
        (([[1]], 2), r"lengths must be one-dimensional; got shape \(1, 1\); try np\.ravel\(lengths\)"),
        (([1], 0), r"n_states must be an integer >= 1; got 0"),
        (([1], 2.0), r"n_states must be an integer >= 1; got 2\.0"),
        (([1], 2, ([0, 2], [0, 2])), r"allowed\[1\] \(states\) must be in 0\.\.1; got 2 at index 1; raise n_states"),
        (([1], 2, ([0, 2], [1, 0])), r"must increase within a token; got 0 after 1 at index 1; sort each token's"),
        (([1], 2, ([0, 2], [1, 1])), r"must increase within a token; got 1 after 1 at index 1"),
        (([1], 2, ([0, 2], [1])), r"allowed\[1\] \(states\) must have 2 entries, as its offsets say; got 1"),
        (([2], 2, ([0, 1], [1])), r"allowed\[0\] \(offsets\) must have 3 entries \(one more than rows\); got 2"),
        (([2], 2, ([0, 2, 1], [0])), r"allowed\[0\] \(offsets\) must start at 0 and never fall; got \[0, 2, 1\]"),
    ],
)
def test_bad_shapes_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        Chain(*arguments)


def test_states_may_fall_from_one_token_to_the_next():
    assert Chain([3], 3, allowed=([0, 1, 1, 2], [2, 0])).n_unary == 2
