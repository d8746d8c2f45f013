"""Priors on rows of multinomials, against loops over rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import psi

from spectrem.exceptions import InvalidInputError
from spectrem.models.priors import DirichletPrior, MeanFieldPrior


def table(seed):
    """Counts, row of every entry (in mixed order), row sizes; one row without mass and one without entries."""
    rng = np.random.default_rng(seed)
    sizes = np.append(rng.integers(1, 5, 4), [3, 0])
    row = rng.permutation(np.repeat(np.arange(6), sizes))
    counts = rng.random(len(row)) * 4 * (rng.random(len(row)) < 0.8)
    counts[row == 4] = 0.0
    return counts, row, sizes


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 3.0]))
def test_dirichlet(seed, pseudo_count):
    counts, row, sizes = table(seed)
    probability = DirichletPrior(pseudo_count).normalise(counts, row, sizes)
    for k in range(len(counts)):
        total = sum(counts[i] + pseudo_count for i in range(len(counts)) if row[i] == row[k])
        expected = (counts[k] + pseudo_count) / total if total > 0 else 1 / sizes[row[k]]
        assert probability[k] == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 0.5, 3.0]))
def test_mean_field(seed, alpha):
    counts, row, sizes = table(seed)
    weight = MeanFieldPrior(alpha).normalise(counts, row, sizes)
    for k in range(len(counts)):
        total = sum(counts[i] + alpha for i in range(len(counts)) if row[i] == row[k])
        assert weight[k] == pytest.approx(math.exp(psi(counts[k] + alpha) - psi(total)), rel=1e-9)
    assert (np.bincount(row, weight, len(sizes)) < 1 + 1e-12).all()


def test_mean_field_is_sparser_than_maximum_likelihood():
    counts, row, sizes = np.array([9.0, 0.4, 0.1]), np.zeros(3, int), np.array([3])
    sparse, plain = MeanFieldPrior(0.01).normalise(counts, row, sizes), DirichletPrior().normalise(counts, row, sizes)
    assert sparse[0] / sparse[1] > plain[0] / plain[1]


def test_rules():
    with pytest.raises(InvalidInputError) as error:
        DirichletPrior(-0.5)
    assert str(error.value) == "pseudo_count must be at least 0, got -0.5; for a sparse prior use MeanFieldPrior"
    for alpha in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidInputError) as error:
            MeanFieldPrior(alpha)
        assert str(error.value) == f"alpha must be positive, got {alpha}; for plain counts use DirichletPrior(0)"


@pytest.mark.parametrize("prior", [DirichletPrior(0.0), DirichletPrior(0.3), MeanFieldPrior(0.1)])
def test_probabilities_may_take_the_place_of_the_counts(prior):
    counts, row, sizes = np.array([3.0, 0.0, 2.0, 0.0]), np.array([0, 0, 1, 2]), np.array([2, 1, 1])
    expected = prior.normalise(counts, row, sizes)
    assert counts.tolist() == [3.0, 0.0, 2.0, 0.0]
    assert prior.normalise(counts, row, sizes, out=counts) is counts
    np.testing.assert_array_equal(counts, expected)


def test_rows_with_hardly_any_mass_are_uniform():
    # The reciprocal of a subnormal total is infinite.
    counts = np.array([1e-310, 0.0, 3.0, 1.0])
    found = DirichletPrior(0.0).normalise(counts, np.array([0, 0, 1, 1]), np.array([2, 2]))
    assert found.tolist() == [0.5, 0.5, 0.75, 0.25]
