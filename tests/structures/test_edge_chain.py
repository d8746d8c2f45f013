import itertools

import numpy as np
import pytest
from check_projection import check_projection

from spectrem.constraints import E, at_least, compile_constraints, max_over, part
from spectrem.inference import project_batch
from spectrem.structures import Chain, EdgeChain, Parts
from spectrem.testing.check_constraint import check_constraint

ALLOWED = (np.array([0, 2, 3, 6, 8]), np.array([0, 2, 1, 0, 1, 2, 0, 1]))
GAMMAS = (-np.inf, 0.0, 0.5, 1.0)
OUT, BEGIN, INSIDE = range(3)
TAG, PREVIOUS = part("tag"), part("previous")
RULES = {
    "no B right after B": (E[(TAG == BEGIN) & (PREVIOUS == BEGIN)] <= 0).per("sentence"),
    "I only after B or I": (E[(TAG == INSIDE) & ~PREVIOUS.isin([BEGIN, INSIDE])] <= 0).per("sentence"),
    "every sentence has a B": (E[TAG == BEGIN] >= 1).per("sentence"),
    "B in two tokens of five": E[TAG == BEGIN] == 0.4 * E.count(...),
    "at most half of what follows B is O": (E[(TAG == OUT) & (PREVIOUS == BEGIN)] <= 0.5 * E[PREVIOUS == BEGIN]).per(
        "sentence"
    ),
}


def random_scores(structure, seed=0):
    rng = np.random.default_rng(seed)
    return Parts(rng.normal(size=structure.n_unary), tuple(rng.normal(size=s) for s in structure.factor_shapes))


def test_parts_and_columns():
    chain = EdgeChain([2, 0, 1, 1], 3, ALLOWED)
    columns = chain.columns
    nan = np.nan
    assert list(columns) == ["sentence", "token", "occurrence", "tag", "previous"]
    np.testing.assert_array_equal(columns["sentence"], [0, 0, 0, 0, 2, 2, 2, 3, 3])
    np.testing.assert_array_equal(columns["token"], [0, 0, 1, 1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(columns["occurrence"], [0, 0, 1, 1, 2, 2, 2, 3, 3])
    np.testing.assert_array_equal(columns["tag"], [0, 2, 1, 1, 0, 1, 2, 0, 1])
    np.testing.assert_array_equal(columns["previous"], [nan, nan, 0, 2] + [nan] * 5)
    np.testing.assert_array_equal(chain.state_part, [0, 1, 2, 2, 3, 4, 5, 6, 7])
    dense = EdgeChain([2], 2)
    np.testing.assert_array_equal(dense.columns["tag"], [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(dense.columns["previous"], [nan, nan, 0, 0, 1, 1])


@pytest.mark.parametrize("allowed", [None, ALLOWED])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_without_scores_of_pairs_it_is_a_chain(gamma, allowed):
    chain, edges = Chain([3, 0, 1], 3, allowed), EdgeChain([3, 0, 1], 3, allowed)
    scores = random_scores(chain)
    spread = Parts(scores.unary[edges.state_part], scores.factors)
    weights = np.array([2.0, 1.0, 0.5])
    values, marginals = chain.smoothed_max(scores, gamma, weights=weights)
    found, pairs = edges.smoothed_max(spread, gamma, weights=weights)
    np.testing.assert_allclose(found, values, rtol=1e-13)
    np.testing.assert_allclose(np.bincount(edges.state_part, pairs.unary, chain.n_unary), marginals.unary, atol=1e-13)
    np.testing.assert_allclose(pairs.factors[0], marginals.factors[0], atol=1e-13)
    np.testing.assert_array_equal(edges.decode(spread), chain.decode(scores))


def test_every_pair_has_its_own_score():
    edges = EdgeChain([3], 2)
    scores = random_scores(edges)
    first, second, third = np.split(scores.unary, [2, 6])
    move = scores.factors[0]
    total = [
        first[a] + second.reshape(2, 2)[a, b] + third.reshape(2, 2)[b, c] + move[a, b] + move[b, c]
        for a, b, c in itertools.product(range(2), repeat=3)
    ]
    assert edges.smoothed_max(scores, 1.0)[0][0] == pytest.approx(np.logaddexp.reduce(total))
    assert edges.smoothed_max(scores, 0.0)[0][0] == pytest.approx(max(total))


@pytest.mark.parametrize("gamma", [0.02, 1.0])
def test_what_is_far_below_the_best_is_not_lost(gamma):
    # Every path but one falls 400 nats behind at one token, and the one that is left 800 at the next.
    edges = EdgeChain([3, 3], 2)
    unary = np.zeros((2, 10))
    unary[0, [3, 4, 5]] = -400.0
    unary[0, [6, 7]] = -800.0
    scores = Parts(unary.ravel(), (np.zeros((2, 2)),))
    values, marginals = edges.smoothed_max(scores, gamma)
    paths = list(edges.enumerate(0))
    totals = np.array([scores.dot(path) for path in paths]) / gamma
    posterior = np.exp(totals - np.logaddexp.reduce(totals))
    assert values[0] == pytest.approx(gamma * np.logaddexp.reduce(totals), rel=1e-13)
    expected = sum(q * h.unary for q, h in zip(posterior, paths, strict=True))
    np.testing.assert_allclose(marginals.unary[:10], expected[:10], atol=1e-12)


def test_tokens_without_states_make_a_sentence_impossible():
    edges = EdgeChain([3, 1], 2, (np.array([0, 2, 2, 3, 4]), np.array([0, 1, 1, 0])))
    for gamma in (0.0, 1.0):
        values, marginals = edges.smoothed_max(Parts(np.zeros(edges.n_unary), (np.zeros((2, 2)),)), gamma)
        assert values.tolist() == [-np.inf, 0.0]
        assert marginals.unary.tolist() == [0.0, 0.0, 1.0]
    assert edges.decode(Parts(np.zeros(edges.n_unary), (np.zeros((2, 2)),))).tolist() == [-1, -1, -1, 0]


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_rules_on_neighbours_are_projected_like_brute_force(rule, allowed):
    options = (
        (np.array([0, 3, 5, 8, 11, 14]), np.array([0, 1, 2, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])) if allowed else None
    )
    edges = EdgeChain([3, 2], 3, options)
    found = check_projection(RULES[rule], edges, random_scores(edges), gammas=GAMMAS)
    assert all(result is not None for result in found.values())
    check_constraint(RULES[rule], edges)


def test_rules_together_give_labels_in_order():
    edges = EdgeChain([4], 3)
    listed = list(RULES.values())[:3]
    found = check_projection(listed, edges, random_scores(edges), gammas=GAMMAS)
    (tags,) = (edges.columns["tag"][result.marginals.unary.round() == 1] for g, result in found.items() if g == -np.inf)
    for before, tag in itertools.pairwise([OUT, *tags]):
        assert (before, tag) not in ((BEGIN, BEGIN), (OUT, INSIDE))
    assert BEGIN in tags


def test_constraints_on_labels_mean_what_they_do_on_a_chain():
    lengths, words = [3, 0, 2], np.array(["a", "b", "a", "c", "b"])
    chain, edges = Chain(lengths, 3), EdgeChain(lengths, 3)
    rules = [
        at_least(1, BEGIN),
        (E[TAG.isin([BEGIN, INSIDE])] <= 0.5 * E.count(...)).per("word"),
        (E[...] >= 0.25 * E.count(..., each="sentence")).per("tag"),
        E[TAG == BEGIN] <= 0.3 * E.count(TAG == BEGIN),
        max_over("occurrence", E[...].per("word", "tag")).penalty(2),
        E[part("word_frequency") == 2] <= 3,
    ]
    spread = np.zeros((edges.n_unary, chain.n_unary))
    spread[np.arange(edges.n_unary), edges.state_part] = 1.0
    for rule in rules:
        on_chain, on_edges = (compile_constraints(rule, one, {"word": words}) for one in (chain, edges))
        np.testing.assert_allclose(on_edges.bounds, on_chain.bounds)
        np.testing.assert_allclose(on_edges.matrix.toarray(), on_chain.matrix @ spread.T)
        check_constraint(rule, edges, {"word": words})
    scores = random_scores(chain)
    spread_scores = Parts(scores.unary[edges.state_part], scores.factors)
    rows = compile_constraints(rules[0], chain), compile_constraints(rules[0], edges)
    one, other = project_batch(chain, scores, rows[0], 1.0), project_batch(edges, spread_scores, rows[1], 1.0)
    assert other.dual_value == pytest.approx(one.dual_value, abs=1e-8)
