"""Quadratic functions of multipliers, minimised within signs and under slack."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from spectrem.constraints.compilation.rows import Block, Slack
from spectrem.inference.dual import compile_slack
from spectrem.tables.targets import MOST_ROWS, Quadratic


def terms_of(n, equality=False, slack=None):
    block = Block("rows", 0, n, equality, "corpus", slack, np.zeros(n, np.int64), {})
    return compile_slack((block,), np.zeros(n, np.int64), 1)


def case(terms, n, seed=0, rank=None, density=1.0):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n, rank or n)) * (rng.random((n, rank or n)) < density)
    curvature, origin = factor @ factor.T, terms.project(rng.normal(size=n))
    scale = np.exp(rng.normal(size=n))  # rows have units of their own
    return Quadratic(
        terms, origin, scale * rng.normal(size=n), sp.csr_array(np.outer(scale, scale) * curvature),
        scale**2 * rng.uniform(0.1, 1.0, n), 1.0,
    )  # fmt: skip


SLACKS = {
    "none": None,
    "l1": Slack("penalty", "l1", 0.3),
    "linf": Slack("bound", "linf", 0.2),
    "l2": Slack("penalty", "l2", 0.5),
    "l2 bound": Slack("bound", "l2", 0.5),
}


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("slack", SLACKS.values(), ids=SLACKS)
@pytest.mark.parametrize("seed", range(3))
def test_no_feasible_point_is_below_the_minimum(slack, equality, seed):
    terms = terms_of(5, equality, slack)
    model = case(terms, 5, seed)

    def value(x):
        return float(model.evaluate(x, np.ones(1, bool)).value[0] + terms.value(x)[0])

    at = model.minimum()
    np.testing.assert_allclose(terms.project(at), at, atol=1e-12)
    best = min(
        value(terms.project(minimize(lambda x: value(terms.project(x)), start, method="Nelder-Mead").x))
        for start in (at, model.origin)
    )
    assert value(at) <= best + 1e-6


def test_more_rows_than_are_factorised_have_the_same_minimum():
    n = MOST_ROWS + 60
    terms = terms_of(n)
    model = case(terms, n, density=2 / n)
    assert 1 < model.n_problems < n
    x = model.minimum()
    slope = model.evaluate(x, np.ones(model.n_problems, bool)).gradient
    assert (x == 0).any()
    np.testing.assert_allclose(np.where(x > 0, slope, np.minimum(slope, 0.0)) * np.sqrt(model.scale), 0.0, atol=1e-3)


def test_rows_that_depend_on_each_other():
    """Without anything on the diagonal the minimum is not unique, but its gradient is 0."""
    factor = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    curvature = sp.csr_array(factor @ factor.T)
    model = Quadratic(terms_of(3, True), np.zeros(3), factor @ [1.0, -2.0], curvature, np.zeros(3), 1.0)
    np.testing.assert_allclose(model.evaluate(model.minimum(), np.ones(1, bool)).gradient, 0.0, atol=1e-8)


def test_any_number_of_threads_gives_the_same_bits():
    model, found = case(terms_of(MOST_ROWS, True), MOST_ROWS, rank=50), []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            found.append(model.minimum())
    np.testing.assert_array_equal(*found)
