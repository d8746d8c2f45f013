import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from spectrem.kernels import categorical as kernel


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_positions_are_softmaxes_and_values_add_up_per_group(gamma, scale):
    rng = np.random.default_rng(0)
    groups, offsets = np.array([0, 0, 2, 3]), np.array([0, 3, 4, 9])
    unary = scale * rng.normal(size=9)
    values, marginals = np.full(3, 7.0), np.zeros(9)
    kernel.sum_pass(groups, offsets, unary, gamma, np.ones(3, bool), values, marginals)
    positions = np.split(unary / gamma, offsets[1:-1])
    first, second, third = (gamma * logsumexp(p) for p in positions)
    np.testing.assert_allclose(values, [0.0, first + second, third], rtol=1e-13)
    np.testing.assert_allclose(marginals, np.concatenate([softmax(p) for p in positions]), rtol=1e-11, atol=1e-300)


def test_one_impossible_position_empties_its_group_only():
    groups, offsets = np.array([0, 2, 3]), np.array([0, 2, 4, 5])
    unary = np.array([0.0, 0.0, -np.inf, -np.inf, 1.0])
    values, marginals = np.zeros(2), np.zeros(5)
    kernel.sum_pass(groups, offsets, unary, 1.0, np.ones(2, bool), values, marginals)
    assert values.tolist() == [-np.inf, 1.0]
    assert marginals.tolist() == [0, 0, 0, 0, 1]
    choices = np.zeros(3, np.int64)
    kernel.max_pass(groups, offsets, unary, np.ones(2, bool), values, choices)
    assert values.tolist() == [-np.inf, 1.0]
    assert choices.tolist() == [-1, -1, 0]


def test_inactive_groups_are_not_written():
    groups, offsets = np.array([0, 1, 2]), np.array([0, 2, 4])
    values, marginals, choices = np.full(2, 7.0), np.full(4, 7.0), np.full(2, 7)
    active = np.array([False, True])
    kernel.sum_pass(groups, offsets, np.zeros(4), 1.0, active, values, marginals)
    assert values[0] == 7.0
    assert marginals.tolist() == [7.0, 7.0, 0.5, 0.5]
    kernel.max_pass(groups, offsets, np.zeros(4), active, values, choices)
    assert choices.tolist() == [7, 0]
