import numpy as np
import pytest
from hypothesis import given, settings
from structure_cases import chains, random_scores, seeds

from spectrem.structures import Chain, Parts, full_agreement
from spectrem.testing import enumerate_structures


def joint_objective(q, left, right, gamma):
    likely = q > 0
    return q @ (left + right) - 2 * gamma * (q[likely] * np.log(q[likely])).sum()


@settings(max_examples=25)
@given(chain=chains(), seed=seeds())
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0, 2.5])
def test_no_common_posterior_is_better(gamma, chain, seed):
    rng = np.random.default_rng(seed)
    left, right = random_scores(chain, rng), random_scores(chain, rng)
    values, marginals = full_agreement(chain, left, right, gamma)
    expected = np.zeros(chain.n_unary)
    for n in range(chain.n_instances):
        found = list(enumerate_structures(chain, n))
        s, t = (np.array([scores.dot(h) for h in found]) for scores in (left, right))
        if gamma > 0:
            q = np.exp((s + t) / (2 * gamma) - np.max((s + t) / (2 * gamma)))
            q /= q.sum()
        else:
            q = (np.arange(len(found)) == np.argmax(s + t)).astype(float)
        expected += sum(p * h.unary for p, h in zip(q, found, strict=True))
        np.testing.assert_allclose(values[n], joint_objective(q, s, t, gamma), rtol=1e-9, atol=1e-9)
        for _ in range(5):
            other = rng.dirichlet(np.ones(len(found)))
            for mixed in (other, 0.99 * q + 0.01 * other):
                assert joint_objective(mixed, s, t, gamma) <= values[n] + 1e-9
    np.testing.assert_allclose(marginals.unary, expected, atol=1e-9)


def test_impossible_for_one_is_impossible_for_both():
    chain = Chain([1], 2)
    zero = (np.zeros((2, 2)),)
    values, marginals = full_agreement(
        chain, Parts(np.array([0.0, -np.inf]), zero), Parts(np.array([2.0, 5.0]), zero), 1.0
    )
    assert values.tolist() == [2.0]
    assert marginals.unary.tolist() == [1.0, 0.0]
