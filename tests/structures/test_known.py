"""Structures with a given distribution: weighted copies of every structure, at every gamma, and under constraints."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem.constraints import E, compile_constraints, part
from spectrem.exceptions import InvalidInputError
from spectrem.inference import project_batch
from spectrem.structures import Categorical, Chain, Known, Parts


def chain_case(seed=0):
    """Two sentences of independent tokens: their structure, shares, and every path with its probability."""
    rng = np.random.default_rng(seed)
    lengths, k = np.array([3, 1]), 2
    shares = rng.dirichlet(np.ones(k), lengths.sum())
    counts = np.zeros((2, k * k))
    for before in (0, 1):
        counts[0] += np.outer(shares[before], shares[before + 1]).ravel()
    return Known(Chain(lengths, k), shares.ravel(), (sp.csr_array(counts),)), shares, rng


def expected_scores(shares, scores):
    unary, (moves,) = scores.unary.reshape(-1, 2), scores.factors
    values = []
    for tokens in (range(3), range(3, 4)):
        total = 0.0
        for path in itertools.product(range(2), repeat=len(tokens)):
            share = np.prod([shares[t, y] for t, y in zip(tokens, path, strict=True)])
            score = sum(unary[t, y] for t, y in zip(tokens, path, strict=True))
            total += share * (score + sum(moves[a, b] for a, b in itertools.pairwise(path)))
        values.append(total)
    return values


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0, 2.5])
def test_values_and_marginals_are_those_of_weighted_copies(gamma):
    known, shares, rng = chain_case()
    scores = Parts(rng.normal(size=8), (rng.normal(size=(2, 2)),))
    weights = np.array([2.0, 0.5])
    values, marginals = known.smoothed_max(scores, gamma, weights=weights)
    np.testing.assert_allclose(values, expected_scores(shares, scores), atol=1e-12)
    np.testing.assert_allclose(marginals.unary, shares.ravel(), atol=1e-12)
    assert marginals.factors[0].sum() == pytest.approx(2.0 * 2)
    step = 1e-6 * np.array([[1.0, 0.0], [0.0, 0.0]])
    raised = weights @ known.smoothed_max(Parts(scores.unary, (scores.factors[0] + step,)), gamma)[0]
    assert (raised - weights @ values) / 1e-6 == pytest.approx(marginals.factors[0][0, 0], abs=1e-6)
    values, marginals = known.smoothed_max(scores, gamma, active=np.array([False, True]))
    assert values[0] == 0
    assert (marginals.unary[:6] == 0).all()
    assert (marginals.factors[0] == 0).all()


def test_impossible_parts_matter_only_where_they_have_a_share():
    known = Known(Categorical([2, 2]), [1.0, 0.0, 0.5, 0.5])
    scores = Parts(np.array([1.0, -np.inf, -np.inf, 2.0]))
    values, marginals = known.smoothed_max(scores, 1.0)
    assert values.tolist() == [1.0, -np.inf]
    assert marginals.unary.tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 0.5, 1.0])
def test_constraints_see_it_and_cannot_move_it(gamma):
    known = Known(Categorical([2, 2]), [0.25, 0.75, 1.0, 0.0])
    rule = [E[part("label") == 0] <= 1.25]
    found = project_batch(known, Parts(np.arange(4.0)), compile_constraints(rule, known), gamma=gamma)
    np.testing.assert_allclose(found.marginals.unary, known.shares, atol=1e-9)
    assert known.decode(Parts(np.zeros(4))).tolist() == [1, 0]


def test_shapes_and_numbers_are_checked():
    for shares, counts, message in (
        ([0.5], (), "must have the shapes (2,) and []"),
        ([0.5, 0.5], (sp.csr_array((1, 4)),), "must have the shapes (2,) and []"),
        ([0.5, -0.5], (), "shares must be finite and at least 0, got -0.5; give probabilities"),
        ([0.5, np.nan], (), "shares must be finite and at least 0, got nan"),
    ):
        with pytest.raises(InvalidInputError) as error:
            Known(Categorical([2]), shares, counts)
        assert message in str(error.value)
