"""Which gammas schedules yield, and when a stage is over."""

import math

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal, Constant, Quench, Record, Stopping

GAMMA_RULE = (
    "; between -inf and 0 the E-step is not convex, and without constraints every gamma <= 0 is hard EM: use 0 "
    "(linear relaxation) or -inf (integer program)"
)


@pytest.mark.parametrize("gamma", [-math.inf, 0.0, 0.3, 1.0, 2.5])
def test_constant(gamma):
    assert list(Constant(gamma).gammas()) == [gamma]


@pytest.mark.parametrize(
    ("low", "high", "alpha"), [(0.25, 1.0, 2.0), (0.1, 1.0, 1.2), (0.5, 4.0, 1.5), (1.0, 1.0, 2.0)]
)
def test_annealing_multiplies_beta_and_ends_at_the_top(low, high, alpha):
    betas = [low]
    while betas[-1] * alpha < high:
        betas.append(betas[-1] * alpha)
    expected = [b for b in betas if b < high] + [high]
    np.testing.assert_allclose([1 / g for g in Anneal(low, high, alpha).gammas()], expected, rtol=1e-12)


def test_quench_adds_a_colder_end():
    assert list(Quench(Anneal(0.5, 1.0, 2.0), gamma=0.25).gammas()) == [2.0, 1.0, 0.25]
    assert list(Quench(Constant(1.0), gamma=-math.inf).gammas()) == [1.0, -math.inf]


@pytest.mark.parametrize("gamma", [-0.5, math.inf, math.nan])
@pytest.mark.parametrize("make", [Constant, lambda gamma: Quench(Constant(), gamma)])
def test_gamma_is_checked(make, gamma):
    with pytest.raises(InvalidInputError) as error:
        make(gamma)
    assert str(error.value) == f"gamma must be -inf or at least 0 and finite, got {gamma}" + GAMMA_RULE


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (2.0, 1.0), (0.5, math.inf), (math.nan, 1.0)])
def test_annealing_range_is_checked(low, high):
    with pytest.raises(InvalidInputError) as error:
        Anneal(low, high)
    assert str(error.value) == (
        f"beta_min and beta_max must satisfy 0 < beta_min <= beta_max, got {low} and {high}; beta is 1 / gamma "
        "and grows during annealing"
    )


@pytest.mark.parametrize("alpha", [1.0, 0.5, math.inf, math.nan])
def test_annealing_rate_is_checked(alpha):
    with pytest.raises(InvalidInputError) as error:
        Anneal(0.5, 1.0, alpha)
    assert str(error.value) == f"alpha must be greater than 1, got {alpha}; beta is multiplied by it"


def record(objective):
    return Record(gamma=1.0, objective=objective, free_objective=objective, violation=0.0, seconds=0.0)


def test_stopping_compares_the_last_two_records():
    rule = Stopping(max_iter=9, tol=1e-3)
    assert not rule.converged([record(-100.0)])
    assert not rule.converged([record(-100.0), record(-99.0)])
    assert rule.converged([record(-100.0), record(-99.95)])
    assert rule.converged([record(-120.0), record(-100.0), record(-99.95)])
    assert not rule.converged([record(-100.0), record(-120.0)])
    assert not Stopping(tol=0.0).converged([record(-100.0), record(-100.0)])


def test_penalty_is_the_price_of_the_constraints():
    assert Record(1.0, -12.0, -10.0, 0.0, 0.0).penalty == 2.0
