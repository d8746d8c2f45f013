import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structure_cases import SCORE_KINDS, chains2, random_scores, seeds

from spectrem.exceptions import InvalidInputError
from spectrem.kernels.chains import chain_log
from spectrem.kernels.chains.potentials import FLOOR
from spectrem.structures import Chain, Chain2, Parts
from spectrem.testing import brute_force_smoothed_max, enumerate_structures


def test_columns_are_those_of_chain():
    allowed = ([0, 1, 3, 4], [3, 0, 2, 1])
    for given_states in (None, allowed):
        chain, chain2 = Chain([1, 0, 2], 4, given_states), Chain2([1, 0, 2], 4, given_states)
        assert chain2.factor_shapes == ((4, 4), (4, 4, 4))
        assert (chain2.n_instances, chain2.n_tokens, chain2.n_unary) == (3, 3, chain.n_unary)
        assert chain2.offsets.tolist() == chain.offsets.tolist()
        assert chain2.token_offsets.tolist() == chain.token_offsets.tolist()
        assert chain2.instance.tolist() == chain.instance.tolist()
        assert {name: c.tolist() for name, c in chain2.columns.items()} == {
            name: c.tolist() for name, c in chain.columns.items()
        }


@settings(max_examples=60)
@given(chain=chains2(), kind=st.sampled_from(SCORE_KINDS), seed=seeds())
def test_decode_finds_a_best_sequence(chain, kind, seed):
    scores = random_scores(chain, np.random.default_rng(seed), kind)
    values, marginals = chain.smoothed_max(scores, 0.0)
    expected = brute_force_smoothed_max(chain, scores, 0.0)
    np.testing.assert_allclose(values, expected.values, rtol=1e-12, atol=1e-12)
    possible = np.isfinite(values)
    alone = chain.smoothed_max(scores, 0.0, active=possible)[1]
    np.testing.assert_allclose(scores.dot(alone), values[possible].sum(), rtol=1e-12, atol=1e-12)
    states, columns = chain.decode(scores), chain.columns
    assert np.array_equal(states[columns["occurrence"]] == columns["tag"], marginals.unary > 0)
    assert np.array_equal(states < 0, ~np.repeat(possible, chain.lengths))


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_ties_go_to_the_lowest_last_state_then_the_one_before(seed, restricted):
    rng = np.random.default_rng(seed)
    lengths, allowed = [1, 2, 2, 3, 3, 4, 4], rng.random((19, 3)) < 0.8
    allowed[:, 1] = True
    table = (np.append(0, np.cumsum(allowed.sum(axis=1))), np.nonzero(allowed)[1])
    chain = Chain2(lengths, 3, table if restricted else None)
    scores, tags = random_scores(chain, rng, "ties"), chain.columns["tag"]
    states = np.split(chain.decode(scores), chain.token_offsets[1:-1])
    for n in range(chain.n_instances):
        found = list(enumerate_structures(chain, n))
        totals = np.array([scores.dot(one) for one in found])
        best = [tags[found[k].unary > 0].tolist() for k in np.flatnonzero(totals == totals.max())]
        assert states[n].tolist() == min(best, key=lambda sequence: sequence[::-1])


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n_states", [5, 9])
def test_without_trigram_scores_it_is_a_chain(gamma, n_states):
    rng = np.random.default_rng(1)
    lengths = [7, 1, 0, 2, 30]
    unary, transition = rng.normal(size=40 * n_states), rng.normal(size=(n_states, n_states))
    triples = np.broadcast_to(transition, (n_states, n_states, n_states)).copy()
    values, chain = Chain(lengths, n_states).smoothed_max(Parts(unary, (transition,)), gamma)
    same, chain2 = Chain2(lengths, n_states).smoothed_max(Parts(unary, (transition, triples)), gamma)
    np.testing.assert_allclose(same, values, rtol=1e-13)
    np.testing.assert_allclose(chain2.unary, chain.unary, atol=1e-12)
    second, three = chain2.factors
    np.testing.assert_allclose(second + three.sum(axis=0), chain.factors[0], atol=1e-11)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_allowed_states_equal_minus_infinity_elsewhere(gamma):
    # Some tokens have all states: their inner loops are other ones.
    rng = np.random.default_rng(0)
    lengths, n_states = [9, 1, 6], 5
    allowed = rng.random((16, n_states)) < 0.4
    allowed[:, 2] = True
    allowed[[2, 3, 4, 7, 11]] = True
    offsets, states = np.append(0, np.cumsum(allowed.sum(axis=1))), np.nonzero(allowed)[1]
    scores = rng.normal(size=len(states))
    factors = (rng.normal(size=(n_states,) * 2), rng.normal(size=(n_states,) * 3))
    everywhere = np.full((16, n_states), -np.inf)
    everywhere[allowed] = scores
    sparse, dense = Chain2(lengths, n_states, allowed=(offsets, states)), Chain2(lengths, n_states)
    a_values, a = sparse.smoothed_max(Parts(scores, factors), gamma)
    b_values, b = dense.smoothed_max(Parts(everywhere.ravel(), factors), gamma)
    np.testing.assert_allclose(a_values, b_values, rtol=1e-13)
    np.testing.assert_allclose(a.unary, b.unary[allowed.ravel()], rtol=1e-12)
    for one, other in zip(a.factors, b.factors, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert not b.unary[~allowed.ravel()].any()
    assert sparse.decode(Parts(scores, factors)).tolist() == dense.decode(Parts(everywhere.ravel(), factors)).tolist()


def test_underflowing_sentences_are_run_again_in_log_space(monkeypatch):
    # Sentence 1 must go through a state that its first token leaves 800 nats behind.
    unary = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -800.0, 0.0, 0.0, -np.inf, 0.0])
    stay = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    asked = []
    sum_pass = chain_log.sum_pass

    def recorded(*arguments):
        asked.append(arguments[-1].astype(bool).tolist())
        sum_pass(*arguments)

    monkeypatch.setattr(chain_log, "sum_pass", recorded)
    scores = Parts(unary, (stay, np.stack([stay, stay])))
    values, marginals = Chain2([3, 3], 2).smoothed_max(scores, 1.0, weights=np.array([1.0, 3.0]))
    assert asked == [[False, True]]
    np.testing.assert_allclose(values, [np.log(2.0), -800.0], rtol=1e-14)
    np.testing.assert_allclose(marginals.unary, [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0, 1, 0, 1, 0, 1])
    np.testing.assert_allclose(marginals.factors[0], [[0.5, 0], [0, 3.5]])
    np.testing.assert_allclose(marginals.factors[1].sum(axis=0), [[0.5, 0], [0, 3.5]])


@pytest.mark.parametrize("where", ["unary", "second", "transition"])
def test_small_removals_stay_in_the_scaled_pass(where, monkeypatch):
    # One state or transition is 400 nats worse than the others, but nothing needs it.
    rng = np.random.default_rng(0)
    chain = Chain2([6, 6], 3)
    scores = random_scores(chain, rng)
    arrays = {"unary": scores.unary, "second": scores.factors[0].ravel(), "transition": scores.factors[1].ravel()}
    arrays[where][4] -= 400.0
    monkeypatch.setattr(chain_log, "sum_pass", None)
    values, marginals = chain.smoothed_max(scores, 1.0)
    expected = brute_force_smoothed_max(chain, scores, 1.0)
    np.testing.assert_allclose(values, expected.values, rtol=1e-13)
    np.testing.assert_allclose(marginals.unary, expected.marginals.unary, atol=1e-13)


@pytest.mark.parametrize(
    ("digits", "moves"),
    [
        # State 1 falls behind bit by bit and is the only one left at the end.
        ([[0, -65], [0, -65], [0, -65], [-np.inf, 0]], [0, 0]),
        # State 1, below the floor at once, is best in the end.
        ([[0, -130], [-95, 0], [-95, 0], [-95, 0]], [0, 0]),
        # State 0 alone survives token 2, at 1e-297; the bound of state 2, lost before, underflows there; and state 2
        # is far ahead at token 3. State 1 is out at token 2, state 3 never in.
        (
            [[-50, 0, -60, -np.inf], [-49, 0, -65, -np.inf], [-99, -np.inf, -99.7, 0], [-99, -np.inf, 0, 0]],
            [-99, 0, -99.7, 0],
        ),
    ],
)
def test_no_removal_is_forgotten(digits, moves):
    # A sentence stays in its state throughout, so that it has one path per state.
    scores, moves, n = np.log(10) * np.array(digits), np.log(10) * np.array(moves), len(moves)
    second, transition = np.full((n, n), -np.inf), np.full((n, n, n), -np.inf)
    np.fill_diagonal(second, 0.0)
    np.einsum("iii->i", transition)[:] = moves
    paths = scores.sum(axis=0) + 2 * moves
    values, marginals = Chain2([4], n).smoothed_max(Parts(scores.ravel(), (second, transition)), 1.0)
    np.testing.assert_allclose(values, [np.logaddexp.reduce(paths)], rtol=1e-12)
    np.testing.assert_allclose(marginals.unary.reshape(4, n)[2], np.exp(paths - values), atol=1e-12)


@settings(max_examples=60)
@given(seed=seeds(), spread=st.sampled_from([50.0, 200.0, 500.0]))
def test_what_falls_below_the_floor_is_found(seed, spread):
    rng = np.random.default_rng(seed)
    chain = Chain2([5, 3], 3)
    scores = random_scores(chain, rng)
    scores = Parts(spread * scores.unary, tuple(spread * f for f in scores.factors))
    scores.factors[1][rng.random((3, 3, 3)) < 0.4] = -np.inf
    values, marginals = chain.smoothed_max(scores, 1.0)
    expected = brute_force_smoothed_max(chain, scores, 1.0)
    np.testing.assert_allclose(values, expected.values, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(marginals.unary, expected.marginals.unary, atol=1e-10)


def test_futures_of_unreachable_states_do_not_overflow(monkeypatch):
    # State 1 scores 450 nats more at every token, but no sentence can start there.
    monkeypatch.setattr(chain_log, "sum_pass", None)
    unary = np.array([[0, -np.inf]] + [[-225.0, 0]] * 9)
    second, transition = np.full((2, 2), -np.inf), np.full((2, 2, 2), -np.inf)
    np.fill_diagonal(second, 0.0)
    transition[0, 0, 0], transition[1, 1, 1] = -225.0, 0.0
    values, marginals = Chain2([10], 2).smoothed_max(Parts(unary.ravel(), (second, transition)), 1.0)
    np.testing.assert_allclose(values, [-225.0 * 17])
    np.testing.assert_allclose(marginals.unary.reshape(10, 2), [[1.0, 0.0]] * 10)
    np.testing.assert_allclose(marginals.factors[1][0, 0, 0], 8.0)


def test_products_of_three_floors_do_not_underflow():
    assert np.finfo(float).tiny <= FLOOR**3


def test_impossible_sentences_leave_nothing_behind():
    stay = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    chain = Chain2([3, 1], 2)
    scores = Parts(np.array([0.0, -np.inf, 0.0, 0.0, -np.inf, 0.0, 0.0, 1.0]), (stay, np.stack([stay, stay])))
    for gamma in (0.0, 1.0):
        values, marginals = chain.smoothed_max(scores, gamma)
        assert values[0] == -np.inf
        assert values[1] >= 1.0
        assert not marginals.unary[:6].any()
        assert not any(f.any() for f in marginals.factors)
    assert chain.decode(scores).tolist() == [-1, -1, -1, 1]


def test_tokens_without_allowed_states_are_impossible():
    for offsets in ([0, 0, 1, 2], [0, 1, 1, 2], [0, 1, 2, 2]):
        chain = Chain2([3], 2, allowed=(offsets, [1, 0]))
        scores = Parts(np.zeros(2), (np.zeros((2, 2)), np.zeros((2, 2, 2))))
        for gamma in (0.0, 1.0):
            assert chain.smoothed_max(scores, gamma)[0].tolist() == [-np.inf]
        assert chain.decode(scores).tolist() == [-1, -1, -1]


def test_one_state_and_short_sentences():
    chain = Chain2([0, 1, 2, 3], 1)
    scores = Parts(np.arange(6.0), (np.array([[10.0]]), np.array([[[100.0]]])))
    for gamma in (0.0, 1.0):
        values, marginals = chain.smoothed_max(scores, gamma)
        assert values.tolist() == [0.0, 0.0, 13.0, 122.0]
        assert marginals.unary.tolist() == [1.0] * 6
        assert [f.item() for f in marginals.factors] == [2.0, 1.0]


def test_no_sentences():
    chain = Chain2([], 2)
    scores = Parts(np.zeros(0), (np.zeros((2, 2)), np.zeros((2, 2, 2))))
    assert chain.smoothed_max(scores, 1.0)[0].shape == chain.decode(scores).shape == (0,)


def test_long_sentences():
    chain = Chain2([3000], 5)
    scores = random_scores(chain, np.random.default_rng(0))
    values, marginals = chain.smoothed_max(scores, 1.0)
    np.testing.assert_allclose(marginals.unary.reshape(3000, 5).sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose([f.sum() for f in marginals.factors], [1.0, 2998.0], rtol=1e-12)
    best, _ = chain.smoothed_max(scores, 0.0)
    nearly, _ = chain.smoothed_max(scores, 1e-3)
    assert best[0] <= nearly[0] <= best[0] + 1e-3 * 3000 * np.log(5)
    assert values[0] > nearly[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, -2], 2), r"lengths must not be negative; got -2 at index 1"),
        (([1], 0), r"n_states must be an integer >= 1; got 0"),
        (([1], 2, ([0, 2], [0, 2])), r"allowed\[1\] \(states\) must be in 0\.\.1; got 2 at index 1; raise n_states"),
        (([1], 2, ([0, 2], [1, 0])), r"must increase within a token; got 0 after 1 at index 1; sort each token's"),
        (([1], 2, ([0, 2], [1])), r"allowed\[1\] \(states\) must have 2 entries, as its offsets say; got 1"),
        (([2], 2, ([0, 1], [1])), r"allowed\[0\] \(offsets\) must have 3 entries \(one more than rows\); got 2"),
    ],
)
def test_bad_shapes_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        Chain2(*arguments)


def test_scores_of_the_wrong_shape_are_refused():
    chain = Chain2([1], 2)
    with pytest.raises(
        InvalidInputError, match=r"scores\.factors must have 2 arrays of shapes \[\(2, 2\), \(2, 2, 2\)"
    ):
        chain.smoothed_max(Parts(np.zeros(2), (np.zeros((2, 2)),)), 1.0)
