"""Newton's method on categorical duals, against scipy on the dense dual and the other solvers."""

import numpy as np
import pytest
import scipy.optimize as so
import scipy.sparse as sp
from scipy.special import logsumexp

from spectrem.constraints.compilation.rows import Block, Rows, Slack
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Newton, QuasiNewton, Status, project_batch
from spectrem.inference.batch import choose_solver
from spectrem.inference.dual import BatchDual
from spectrem.structures import Categorical, Chain, Parts


def case(seed, n=6, n_rows=3, scope="corpus", equality=False, slack=None, sharp=1.0):
    """Ragged instances, some impossible labels, random rows with a bound between what is reached and the least."""
    rng = np.random.default_rng(seed)
    structure = Categorical(rng.integers(2, 6, size=n))
    unary = rng.normal(size=structure.n_unary) * 2 * sharp
    # never the first two labels of an instance
    unary[(structure.columns["label"] > 1) & (rng.random(structure.n_unary) < 0.2)] = -np.inf
    count = n_rows if scope == "corpus" else n_rows * n
    matrix = rng.normal(size=(count, structure.n_unary)) * (rng.random((count, structure.n_unary)) < 0.6)
    instance = np.full(count, -1)
    if scope == "instance":
        instance = np.repeat(np.arange(n), n_rows)
        matrix *= structure.instance == instance[:, None]
    # a distribution inside, so that the rows can hold
    q = np.where(np.isneginf(unary), 0.0, rng.random(structure.n_unary) + 0.1)
    q /= np.bincount(structure.instance, q)[structure.instance]
    bounds = matrix @ q
    groups = np.maximum(instance, 0)
    block = Block("rows", 0, count, equality, scope, slack, groups, {})
    return structure, Parts(unary), Rows(sp.csr_array(matrix), bounds, instance, (block,))


def dense_optimum(structure, scores, rows, gamma, weights=None, tol=1e-12):
    """The least value of the dual over multipliers, by scipy."""
    matrix, n = rows.matrix.toarray(), structure.n_instances
    weights = np.ones(n) if weights is None else weights

    def dual(x):
        shifted = (scores.unary - matrix.T @ x) / gamma
        value, slope = rows.bounds @ x, rows.bounds.copy()
        for i in range(n):
            mine = structure.instance == i
            total = logsumexp(shifted[mine])
            value += weights[i] * gamma * total
            slope -= weights[i] * (matrix[:, mine] @ np.exp(shifted[mine] - total))
        return value, slope

    block = rows.blocks[0]
    ceiling = block.slack.strength if block.slack is not None else None
    limit = (None if ceiling is None else -ceiling) if block.equality else 0
    bounds = [(limit, ceiling)] * len(rows.bounds)
    options = {"ftol": 1e-15, "gtol": tol, "maxiter": 2000, "maxfun": 100_000}
    return so.minimize(dual, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun


@pytest.mark.parametrize("gamma", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("equality", [False, True], ids=["below", "equal"])
@pytest.mark.parametrize("scope", ["corpus", "instance"])
@pytest.mark.parametrize("seed", range(4))
def test_the_dense_optimum_is_reached(seed, scope, equality, gamma):
    # one row per instance of two labels can be an equality that fixes it; two would be too many
    structure, scores, rows = case(seed, scope=scope, equality=equality, n_rows=1 if equality else 3)
    result = project_batch(structure, scores, rows, gamma, solver=Newton(tol=1e-10))
    assert result.status == Status.SOLVED
    assert result.dual_value == pytest.approx(dense_optimum(structure, scores, rows, gamma), abs=1e-7)
    assert result.primal_value == pytest.approx(result.dual_value, abs=1e-8)
    assert result.violation <= 1e-9
    assert result.residual <= 1e-10


@pytest.mark.parametrize("seed", range(3))
def test_penalties_are_boxes(seed):
    structure, scores, rows = case(seed, slack=Slack("penalty", "l1", 0.3), equality=seed == 1)
    result = project_batch(structure, scores, rows, 1.0, solver=Newton(tol=1e-10))
    assert np.abs(result.multipliers).max() <= 0.3
    assert result.dual_value == pytest.approx(dense_optimum(structure, scores, rows, 1.0), abs=1e-8)


@pytest.mark.parametrize("slack", [Slack("penalty", "l1", 0.5), Slack("bound", "linf", 0.2)])
@pytest.mark.parametrize("scope", ["corpus", "instance"])
def test_it_agrees_with_quasi_newton(scope, slack):
    weights = np.array([1.0, 0.0, 2.5, 0.5, 3.0, 1.0])
    for given in (None, slack):
        problem = case(7, scope=scope, slack=given)
        ours, theirs = (
            project_batch(*problem, 0.7, solver=solver, weights=weights)
            for solver in (Newton(tol=1e-11), QuasiNewton(tol=1e-11))
        )
        np.testing.assert_allclose(ours.marginals.unary, theirs.marginals.unary, atol=1e-7)
        np.testing.assert_allclose(ours.multipliers, theirs.multipliers, atol=1e-5)
        assert ours.kl == pytest.approx(theirs.kl, abs=1e-8)


def test_weights_count_in_the_dense_dual():
    structure, scores, rows = case(3)
    weights = np.array([1.0, 0.5, 2.0, 1.0, 0.0, 3.0])
    bounds = rows.matrix @ (project_batch(structure, scores, rows).marginals.unary * weights[structure.instance])
    rows = Rows(rows.matrix, bounds, rows.row_instance, rows.blocks)
    result = project_batch(structure, scores, rows, 1.0, solver=Newton(tol=1e-10), weights=weights)
    touched = np.unique(structure.instance[rows.matrix.indices])
    assert len(touched) == structure.n_instances
    assert result.dual_value == pytest.approx(dense_optimum(structure, scores, rows, 1.0, weights), abs=1e-8)


def test_saturated_probabilities_take_few_evaluations():
    # All but sure of label 0, which may have half: the Hessian at the start is next to nothing.
    structure, unary = Categorical([2, 2]), np.array([0.0, -300.0, 0.0, -200.0])
    rows = Rows(
        sp.csr_array([[1.0, 0, 0, 0], [0, 0, 1.0, 0], [1.0, 0, 1.0, 0]]),
        np.array([0.5, 0.6, 1.05]),
        np.full(3, -1),
        (Block("rows", 0, 3, False, "corpus", None, np.zeros(3, int), {}),),
    )
    result = project_batch(structure, Parts(unary), rows, solver=Newton())
    assert result.marginals.unary[[0, 2]].sum() == pytest.approx(1.05)
    assert result.primal_value == pytest.approx(result.dual_value, abs=1e-6)
    assert result.violation <= 1e-8
    assert result.n_evaluations < 40


def test_tiny_bounds_hold_relative_to_themselves():
    structure, p = Categorical([3]), np.array([1e-9, 1e-8, 1.0])
    p /= p.sum()
    rows = Rows(
        sp.csr_array([[1.0, 0, 0], [1.0, 1.0, 0]]),
        0.7 * np.array([p[0], p[:2].sum()]),
        np.zeros(2, int),
        (Block("rows", 0, 2, False, "instance", None, np.zeros(2, int), {}),),
    )
    q = project_batch(structure, Parts(np.log(p)), rows).marginals.unary
    assert (rows.matrix @ q <= rows.bounds * (1 + 1e-6)).all()


def test_rows_that_depend_on_each_other():
    # Counts of all labels at once: the Hessian is singular along all of them together.
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), size=20)
    matrix = sp.csr_array(np.tile(np.eye(4), (1, 20)))
    target = np.array([8.0, 2.0, 5.0, 5.0])
    rows = Rows(matrix, target, np.full(4, -1), (Block("n", 0, 4, True, "corpus", None, np.zeros(4, int), {}),))
    result = project_batch(Categorical(np.full(20, 4)), Parts(np.log(p).ravel()), rows, solver=Newton())
    assert result.status == Status.SOLVED
    np.testing.assert_allclose(matrix @ result.marginals.unary, target, atol=1e-6)


def test_infeasible_rows_are_proven():
    structure, scores, _ = case(2, n_rows=2)
    clash = Rows(
        sp.csr_array(np.vstack([np.ones(structure.n_unary)] * 2) * [[1.0], [-1.0]]),
        np.array([5.0, -7.0]),
        np.full(2, -1),
        (Block("clash", 0, 2, False, "corpus", None, np.zeros(2, int), {}),),
    )
    with pytest.raises(InfeasibleConstraintError, match="'clash'"):
        project_batch(structure, scores, clash, solver=Newton())


def test_a_warm_start_at_the_solution_takes_one_evaluation():
    structure, scores, rows = case(5)
    first = project_batch(structure, scores, rows, solver=Newton(tol=1e-12))
    again = project_batch(structure, scores, rows, solver=Newton(tol=1e-8), start=first.multipliers)
    assert again.n_iter <= 2
    assert again.kl is None


def test_when_it_is_chosen_and_what_it_refuses():
    assert isinstance(choose_solver(BatchDual(*case(0), 1.0), 1e-8, None), Newton)
    many = case(0, n_rows=41)
    assert isinstance(choose_solver(BatchDual(*many, 1.0), 1e-8, None), QuasiNewton)
    with pytest.raises(InvalidInputError, match="at most 40 rows per problem; leave solver=None"):
        project_batch(*many, solver=Newton())
    chain = Chain([3], 2)
    rows = Rows(
        sp.csr_array(np.eye(6)[:2]),
        np.ones(2),
        np.zeros(2, int),
        (Block("r", 0, 2, False, "instance", None, np.zeros(2, int), {}),),
    )
    with pytest.raises(InvalidInputError, match="solver Newton needs gamma > 0, one label per instance"):
        project_batch(chain, Parts(np.zeros(6), (np.zeros((2, 2)),)), rows, solver=Newton())


def test_the_whole_pass_equals_the_structures_own():
    structure, scores, rows = case(4, n=8)
    dual = BatchDual(structure, scores, rows, 0.6)
    x = np.random.default_rng(1).normal(size=len(rows.bounds))
    value, gradient = dual.evaluate(x, np.ones(dual.n_problems, bool))
    values, marginals = dual.smoothed_max(x)
    np.testing.assert_allclose(value, dual.per_problem(values, x))
    np.testing.assert_allclose(gradient, rows.bounds - rows.matrix @ marginals.unary, atol=1e-12)


def test_bounds_of_many_labels_take_few_passes():
    rng = np.random.default_rng(0)
    n, k = 400, 20
    joint = rng.normal(size=(n, k)) * 3 + np.linspace(0, 2, k)
    structure, counts = Categorical(np.full(n, k)), np.tile(np.eye(k), n)
    matrix, bounds = np.concatenate([counts, -counts]), np.repeat([n / k * 1.5, -n / k / 1.5], k)
    block = Block("sizes", 0, 2 * k, False, "corpus", None, np.zeros(2 * k, int), {})
    rows = Rows(sp.csr_array(matrix), bounds, np.full(2 * k, -1), (block,))
    result = project_batch(structure, Parts(joint.ravel()), rows, solver=Newton(tol=1e-10))
    assert result.violation <= 1e-7
    assert 3 < (result.multipliers > 0).sum() < 15
    assert result.primal_value == pytest.approx(result.dual_value, abs=1e-6)
    assert result.n_evaluations <= 20
