"""The engine of derivations against enumeration: sums, best, n best, samples, entropy, covariances and programs."""

import numpy as np
import pytest
from scipy.optimize import linprog

from spectrem.structures import (
    Alignment,
    Chain,
    Chain2,
    EdgeChain,
    Parts,
    ProjectiveTrees,
    Segmentations,
    SemiMarkovChain,
    ValenceTrees,
)

STRUCTURES = {
    "alignments": Alignment([2, 2], [1, 3], 1),
    "alignments of independent positions": Alignment([2, 2], [1, 3]),
    "chain": Chain([2, 4], 3),
    "chain of some states": Chain([1, 3], 3, ([0, 1, 3, 4, 7], [0, 0, 2, 1, 0, 1, 2])),
    "chain of second order": Chain2([2, 4], 3),
    "chain of second order of some states": Chain2([1, 3], 3, ([0, 1, 3, 4, 7], [0, 0, 2, 1, 0, 1, 2])),
    "chain of edges": EdgeChain([2, 4], 3),
    "chain of edges of some states": EdgeChain([1, 3], 3, ([0, 1, 3, 4, 7], [0, 0, 2, 1, 0, 1, 2])),
    "semi-Markov chain": SemiMarkovChain([1, 4], 2, 3),
    "segmentations": Segmentations([1, 4], 2, 2),
    "projective trees": ProjectiveTrees([2, 4]),
    "projective trees of several roots": ProjectiveTrees([1, 4], single_root=False),
    "trees with valence": ValenceTrees([2, 4]),
    "trees with valence of several roots": ValenceTrees([1, 4], single_root=False),
}


def flat(parts):
    return np.concatenate([parts.unary, *(factor.ravel() for factor in parts.factors)])


def whole(structure, derivations, numbers):
    """Numbers of parts of a derivation as those of the batch."""
    parts = Parts(np.zeros(structure.n_unary), tuple(np.zeros(shape) for shape in structure.factor_shapes))
    derivations.add(numbers, parts)
    return flat(parts)


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("hidden", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("gamma", [1.0, 0.3, 0.0])
def test_every_operation_equals_enumeration(name, scale, hidden, gamma):
    structure, rng, instance = STRUCTURES[name], np.random.default_rng(1), 1
    listed = np.array([flat(one) for one in structure.enumerate(instance)])
    shapes = [(structure.n_unary,), *structure.factor_shapes]
    unary, *factors = (
        np.where(rng.random(shape) < hidden, -np.inf, scale * rng.uniform(-1, 1, shape)) for shape in shapes
    )
    scores, along = Parts(unary, tuple(factors)), rng.normal(size=listed.shape[1])
    totals = np.array([flat(scores)[one > 0] @ one[one > 0] for one in listed])
    derivations = structure.derivations(instance)
    own = derivations.scores(scores)
    top = totals.max()
    p = (totals == top) * (top > -np.inf) if gamma == 0.0 else np.exp((totals - max(top, -1e99)) / gamma)
    expected, p = top + gamma * np.log(max(p.sum(), 1.0)), p / max(p.sum(), 1.0)
    value, marginals = derivations.smoothed_max(own, gamma)
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(whole(structure, derivations, marginals), p @ listed, atol=1e-10)
    drawn = derivations.sample(own, gamma, 1000, rng)
    if top == -np.inf:
        assert not drawn.any()
    shares = np.array([(one == listed).all(axis=1) for one in (whole(structure, derivations, n) for n in drawn)])
    assert (abs(shares.mean(axis=0) - p) <= 6 * np.sqrt(p * (1 - p) / 1000) + 2e-3).all()  # a count is whole
    values, best = derivations.n_best(own, len(listed) + 1)
    np.testing.assert_allclose(values, np.append(-np.sort(-totals), -np.inf), rtol=1e-12, atol=1e-10)
    there = {tuple(whole(structure, derivations, one)) for one in best[values > -np.inf]}
    assert there == {tuple(one) for one in listed[totals > -np.inf]}
    if gamma > 0.0:
        surprise = -p @ np.log(np.where(p > 0.0, p, 1.0))
        np.testing.assert_allclose(derivations.entropy(own, gamma), surprise, rtol=1e-9, atol=1e-12)
    if gamma == 1.0:
        sums = listed @ along
        ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
        parts = [piece.reshape(shape) for piece, shape in zip(np.split(along, ends), shapes, strict=True)]
        mean, products = derivations.covariances(own, derivations.scores(Parts(parts[0], tuple(parts[1:]))))
        np.testing.assert_allclose(mean, p @ sums, rtol=1e-9, atol=1e-9)
        expected = (p * (sums - p @ sums)) @ listed
        np.testing.assert_allclose(whole(structure, derivations, products), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", STRUCTURES)
def test_vertices_of_programs_are_structures(name):
    structure, rng = STRUCTURES[name], np.random.default_rng(2)
    for _ in range(5):
        scores = Parts(rng.normal(size=structure.n_unary), tuple(rng.normal(size=s) for s in structure.factor_shapes))
        program = structure.polytope(scores, 1)
        solved = linprog(-program.objective, A_eq=program.equalities, b_eq=program.right_hand_side)
        assert abs(-solved.fun - structure.smoothed_max(scores, 0.0)[0][1]) < 1e-9
        taken = np.zeros(structure.n_unary)
        taken[program.unary_index] = program.unary @ solved.x
        assert min(abs(taken - one.unary).max() for one in structure.enumerate(1)) < 1e-9
