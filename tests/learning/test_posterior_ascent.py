"""The objective of EM under constraints, climbed by its gradient."""

import numpy as np
import pytest

from spectrem.constraints import E, part
from spectrem.corpus import Local
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.learning import EStep, Posteriors, Step, Stopping, pose, run_ascent, run_em
from spectrem.learning.ascent import _projected
from spectrem.models.loglinear import Features, LogLinearModel, Optimiser, Support, build_shards

LABEL = part("label")
RULES = [E[LABEL == 0] == 12.0, (E[LABEL == 1] <= 0.4).per("row"), (E[LABEL == 2] <= 3).per("group").slack(penalty=2)]
MODEL = LogLinearModel(Support(4, 3), optimiser=Optimiser(tol=1e-13))


def rows(least=1 << 16, n=30):
    rng = np.random.default_rng(0)
    columns = {"group": rng.integers(0, 4, n)}
    return build_shards(
        Features.of(rng.normal(size=(n, 4))), weights=rng.uniform(0.5, 2, n), columns=columns, n_labels=3, least=least
    )


@pytest.mark.parametrize("gamma", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("least", [1 << 16, 10])
def test_the_gradient_is_that_of_finite_differences(gamma, least):
    home, estep = Local(rows(least)), EStep(RULES, tol=1e-12)
    posed, rng, step = pose(MODEL, home, estep), np.random.default_rng(1), 1e-4
    theta = 0.5 * rng.normal(size=MODEL.n_weights)

    def at(x):
        return _projected(Step(MODEL, x, gamma, estep), posed, home)[0]

    gradient = at(theta).stats
    for _ in range(3):
        direction = rng.normal(size=len(theta))
        slope = (at(theta + step * direction).objective - at(theta - step * direction).objective) / (2 * step)
        np.testing.assert_allclose(gradient @ direction, slope, rtol=1e-5, atol=1e-5)


def test_it_ends_where_em_does_however_the_corpus_is_cut():
    theta = 0.1 * np.random.default_rng(2).normal(size=MODEL.n_weights)
    em = run_em(MODEL, rows(), theta, EStep(RULES), stopping=Stopping(400, 1e-12))
    found = [
        run_ascent(MODEL, home, theta, EStep(RULES, warm_start=True), Posteriors())
        for home in (Local(rows()), Local(rows(10)), Local(rows(10), 3))
    ]
    objectives = [one.history[-1].objective for one in found]
    np.testing.assert_allclose(objectives, em.history[-1].objective, rtol=1e-8)
    assert np.array_equal(found[1].params, found[2].params)
    assert len(found[0].history) < len(em.history) / 2
    assert found[0].history[-1].violation < 1e-6
    # a record holds what EM's would
    first, own = em.history[0], found[0].history[0]
    np.testing.assert_allclose(
        [own.objective, own.free_objective, own.log_prior], [first.objective, first.free_objective, first.log_prior]
    )


def test_constraints_that_cannot_hold():
    never = (E[LABEL == 0] >= 2).per("row").named("twice")
    with pytest.raises(InfeasibleConstraintError, match="'twice'"):
        run_ascent(MODEL, rows(), MODEL.initial(), EStep([never]), Posteriors())
    with pytest.warns(UserWarning, match="constraints that cannot hold were left out: 'twice' in 30 of the instances"):
        run_ascent(MODEL, rows(), MODEL.initial(), EStep([never], infeasible="skip"), Posteriors())


def test_where_nothing_is_to_be_gained_there_is_a_record_of_the_start():
    found = run_ascent(MODEL, rows(), MODEL.initial(), EStep([E[LABEL == 0] <= 100]), Posteriors())
    assert len(found.history) == 1
    assert not found.params.any()


@pytest.mark.parametrize("gamma", [0.0, -np.inf, np.nan])
def test_gammas_without_a_gradient_are_named(gamma):
    with pytest.raises(InvalidInputError, match=f"gamma must be above 0 and finite for a gradient, got {gamma}; hard"):
        Posteriors(gamma)
