"""What holds for every family: the promises of the Structure protocol, against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from structure_cases import FAMILIES, GAMMAS, SCORE_KINDS, random_scores, seeds

from spectrem.structures import Parts, entropy
from spectrem.testing import brute_force_smoothed_max, check_structure, enumerate_structures

families = pytest.mark.parametrize("family", list(FAMILIES))


@families
@settings(max_examples=8)
@given(data=st.data(), seed=seeds())
def test_promises(family, data, seed):
    check_structure(data.draw(FAMILIES[family]), np.random.default_rng(seed), enumerator=enumerate_structures)


@families
@settings(max_examples=60)
@given(data=st.data(), gamma=st.sampled_from(GAMMAS[1:]), kind=st.sampled_from(SCORE_KINDS), seed=seeds())
def test_sum_equals_enumeration(family, data, gamma, kind, seed):
    structure, rng = data.draw(FAMILIES[family]), np.random.default_rng(seed)
    scores, weights = random_scores(structure, rng, kind), rng.uniform(0, 3, structure.n_instances)
    values, marginals = structure.smoothed_max(scores, gamma, weights=weights)
    expected = brute_force_smoothed_max(structure, scores, gamma, weights=weights)
    np.testing.assert_allclose(values, expected.values, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(marginals.unary, expected.marginals.unary, rtol=0, atol=1e-9)
    for counts, brute in zip(marginals.factors, expected.marginals.factors, strict=True):
        np.testing.assert_allclose(counts, brute, rtol=0, atol=1e-8)
    _, plain = structure.smoothed_max(scores, gamma)
    scale = 1.0 + np.abs(values[np.isfinite(values)]).sum()
    np.testing.assert_allclose(
        entropy(structure, scores, gamma, values, plain), expected.entropy.sum(), rtol=1e-7, atol=1e-10 * scale / gamma
    )


@families
@settings(max_examples=40)
@given(
    data=st.data(),
    gamma=st.sampled_from([1e-3, 1.0, 30.0]),
    size=st.sampled_from([1e6, 1e9, 1e12, 1e16, 1e18, 1e25, 1e100, 1e280]),
    seed=seeds(),
)
def test_posteriors_are_probabilities_however_large_scores_are(family, data, gamma, size, seed):
    structure, rng = data.draw(FAMILIES[family]), np.random.default_rng(seed)
    scores = random_scores(structure, rng)
    # Many structures are equally good but for what rounding leaves of their scores.
    scores.unary[:] += size * rng.integers(-3, 4, structure.n_unary) / rng.choice([1, 3, 7])
    values, marginals = structure.smoothed_max(scores, gamma)
    assert ((marginals.unary >= 0.0) & (marginals.unary <= 1.0 + 1e-9)).all()
    taken = np.bincount(structure.choice, marginals.unary)
    possible = np.unique(structure.choice[np.isfinite(values)[structure.instance]])
    np.testing.assert_allclose(taken[possible], 1.0, atol=1e-9)
    for counts in marginals.factors:
        assert (counts >= 0.0).all()
        assert counts.sum() <= structure.n_unary


@families
@settings(max_examples=40)
@given(data=st.data(), kind=st.sampled_from(SCORE_KINDS), seed=seeds())
def test_max_is_a_best_structure(family, data, kind, seed):
    structure, rng = data.draw(FAMILIES[family]), np.random.default_rng(seed)
    scores = random_scores(structure, rng, kind)
    values, best = structure.smoothed_max(scores, 0.0)
    expected = brute_force_smoothed_max(structure, scores, 0.0)
    np.testing.assert_allclose(values, expected.values, rtol=1e-12, atol=1e-12)
    for n in range(structure.n_instances):
        if np.isfinite(values[n]):
            _, alone = structure.smoothed_max(scores, 0.0, active=np.arange(structure.n_instances) == n)
            assert any(same_parts(alone, one) for one in enumerate_structures(structure, n))
            np.testing.assert_allclose(scores.dot(alone), values[n], rtol=1e-12, atol=1e-12)
        else:
            assert not best.unary[structure.instance == n].any()


@families
@settings(max_examples=25)
@given(data=st.data(), seed=seeds())
def test_lp_over_the_polytope_has_integral_solutions_equal_to_the_max(family, data, seed):
    structure, rng = data.draw(FAMILIES[family]), np.random.default_rng(seed)
    scores = random_scores(structure, rng)
    values, best = structure.smoothed_max(scores, 0.0)
    for n in range(structure.n_instances):
        polytope = structure.polytope(scores, n)
        if len(polytope.objective) == 0:
            assert np.isneginf(values[n]) if polytope.right_hand_side.any() else values[n] == 0.0
            continue
        solution = linprog(-polytope.objective, A_eq=polytope.equalities, b_eq=polytope.right_hand_side)
        assert solution.status == (2 if np.isneginf(values[n]) else 0)
        if solution.status:
            continue
        np.testing.assert_allclose(solution.x, solution.x.round(), atol=1e-9)
        np.testing.assert_allclose(-solution.fun, values[n], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(polytope.unary @ solution.x, best.unary[polytope.unary_index], atol=1e-9)
        _, alone = structure.smoothed_max(scores, 0.0, active=np.arange(structure.n_instances) == n)
        for matrix, counts in zip(polytope.factors, alone.factors, strict=True):
            np.testing.assert_allclose(matrix @ solution.x, counts.ravel(), atol=1e-9)


@families
@settings(max_examples=25)
@given(data=st.data(), seed=seeds())
def test_polytope_marks_impossible_parts(family, data, seed):
    structure, rng = data.draw(FAMILIES[family]), np.random.default_rng(seed)
    scores = random_scores(structure, rng, "impossible")
    for n in range(structure.n_instances):
        polytope = structure.polytope(scores, n)
        dead = (polytope.unary.T @ np.isneginf(scores.unary[polytope.unary_index])).astype(bool)
        for matrix, factor in zip(polytope.factors, scores.factors, strict=True):
            dead |= (matrix.T @ np.isneginf(factor.ravel())).astype(bool)
        assert (np.isneginf(polytope.objective) == dead).all()


@families
@settings(max_examples=20)
@given(data=st.data(), gamma=st.sampled_from(GAMMAS), seed=seeds())
def test_scores_are_left_untouched(family, data, gamma, seed):
    structure, rng = data.draw(FAMILIES[family]), np.random.default_rng(seed)
    scores = random_scores(structure, rng, "mixed")
    copy = Parts(scores.unary.copy(), tuple(f.copy() for f in scores.factors))
    for array in (scores.unary, *scores.factors):
        array.flags.writeable = False
    structure.smoothed_max(scores, gamma)
    structure.decode(scores)
    assert same_parts(scores, copy)


def same_parts(a, b):
    return np.array_equal(a.unary, b.unary) and all(map(np.array_equal, a.factors, b.factors))
