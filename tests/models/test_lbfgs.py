"""L-BFGS and OWL-QN: minima of known functions, what they promise of every step, and what ends them."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from scipy.optimize import rosen, rosen_der

from spectrem.models.loglinear.optimise import Ending, minimise


def never(point, value, slope):
    return False


def flat(point, value, slope):
    return np.linalg.norm(slope) < 1e-8


def quadratic(n=200, seed=0, condition=1e4):
    rng = np.random.default_rng(seed)
    scales, best = np.geomspace(1.0, condition, n), rng.normal(size=n)
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = basis @ (scales[:, None] * basis.T)
    return (lambda x: (0.5 * (x - best) @ matrix @ (x - best), matrix @ (x - best))), best, matrix


@pytest.mark.parametrize("memory", [1, 5, 20])
def test_minima_of_quadratics_and_of_rosenbrock(memory):
    bowl, best, _ = quadratic(condition=100.0)
    found = minimise(bowl, np.zeros(200), done=flat, memory=memory)
    assert found.ending is Ending.CONVERGED
    np.testing.assert_allclose(found.point, best, atol=1e-7)
    valley = minimise(lambda x: (rosen(x), rosen_der(x)), np.full(10, -1.0), done=flat, memory=memory)
    assert valley.ending is Ending.CONVERGED
    assert rosen_der(valley.point) == pytest.approx(np.zeros(10), abs=1e-7)


def test_it_needs_no_more_evaluations_than_scipy():
    bowl, _, _ = quadratic()
    ours = minimise(bowl, np.zeros(200), done=lambda point, value, slope: value < 1e-9, memory=10)
    calls = []

    def counted(x):
        calls.append(bowl(x)[0])
        return bowl(x)

    options = {"maxcor": 10, "ftol": 0, "gtol": 0, "maxiter": 2000, "maxfun": 5000}
    scipy_minimize(counted, np.zeros(200), jac=True, method="L-BFGS-B", options=options)
    theirs = int(np.argmax(np.array(calls) < 1e-9)) + 1
    assert ours.value < 1e-9
    assert ours.n_evaluations <= 1.3 * theirs


def test_no_step_raises_the_function_and_rounding_ends_it():
    bowl, best, _ = quadratic()
    values = []
    for n_steps in range(40):
        found = minimise(bowl, 10 * best, done=never, max_steps=n_steps)
        values.append(found.value)
        assert found.n_steps == n_steps
        assert found.ending is Ending.STEPS
    assert (np.diff(values) < 0).all()
    shifted = minimise(lambda x: (bowl(x)[0] + 1e6, bowl(x)[1]), np.zeros(200), done=never)
    assert shifted.ending is Ending.STALLED
    assert shifted.value == pytest.approx(1e6, abs=1e-6)


@pytest.mark.parametrize("n_zero", [0, 60])
def test_sizes_make_the_minimum_of_the_lasso(n_zero):
    """Its optimality conditions: gradients of ``sizes`` against the sign where x is not 0, and no larger elsewhere."""
    bowl, _, _ = quadratic(100, condition=50.0)
    sizes = np.where(np.arange(100) < n_zero, 0.0, 3.0)
    found = minimise(bowl, np.zeros(100), done=flat, sizes=sizes)
    gradient = bowl(found.point)[1]
    moved = found.point != 0
    assert 0 < moved.sum() < 100
    assert moved[:n_zero].all()
    np.testing.assert_allclose(gradient[moved], (-sizes * np.sign(found.point))[moved], atol=1e-6)
    assert (np.abs(gradient[~moved]) <= sizes[~moved] + 1e-9).all()
    assert found.value == pytest.approx(bowl(found.point)[0] + sizes @ np.abs(found.point), rel=1e-14)


def test_a_function_that_is_infinite_beyond_some_point():
    def barrier(x):
        return (float(x[0] - np.log(x[0])), 1.0 - 1.0 / x) if x[0] > 0 else (np.inf, np.full(1, np.nan))

    assert minimise(barrier, np.array([20.0]), done=flat).point == pytest.approx([1.0])


def test_the_start_may_be_the_minimum_and_stays_as_it_is():
    start = np.ones(3)
    found = minimise(lambda x: (float((x - 1) @ (x - 1)), 2 * (x - 1)), start, done=never)
    assert found.ending is Ending.CONVERGED
    assert (found.n_steps, found.n_evaluations) == (0, 1)
    minimise(lambda x: (float(x @ x), 2 * x), start, done=flat)
    assert start.tolist() == [1.0] * 3


@pytest.mark.parametrize("factor", [2.0**-60, 2.0**60])
@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_units_of_the_function_and_of_variables_do_not_matter(factor, unit):
    bowl, best, _ = quadratic(50, condition=1e3)

    def measured(x):
        value, gradient = bowl(x / unit)
        return factor * value, gradient * (factor / unit)

    found = minimise(measured, np.zeros(50), done=lambda point, value, slope: value < 1e-12 * factor)
    assert found.ending is Ending.CONVERGED
    assert found.n_steps < 250
    np.testing.assert_allclose(found.point / unit, best, atol=1e-5)


def test_evaluations_are_bounded_by_steps():
    """Even of a function whose value and gradient disagree."""
    calls = []

    def broken(x):
        calls.append(1)
        return float(np.sin(1e8 * x).sum()), 1.0 - x

    found = minimise(broken, np.zeros(3), done=never, max_steps=10)
    assert found.ending is not Ending.CONVERGED
    assert len(calls) == found.n_evaluations <= 2 * 10 + 2 * 40
