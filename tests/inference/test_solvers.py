"""Each solver on its own: what it equals, and what it refuses."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from enumerated import SLACKS, make_rows, random_structure
from scipy.special import logsumexp

from spectrem.constraints.compilation.rows import Block, Rows, Slack
from spectrem.exceptions import ConvergenceWarning, InvalidInputError
from spectrem.inference import (
    Accelerated,
    Bracket,
    FixedStep,
    LinearProgram,
    QuasiNewton,
    Status,
    Subgradient,
    project_batch,
)
from spectrem.inference.batch import choose_solver
from spectrem.inference.dual import BatchDual
from spectrem.structures import Categorical, Parts


def case(seed, n_instances=3, **how):
    rng = np.random.default_rng(seed)
    structure, scores = random_structure(rng, n_instances)
    return structure, scores, make_rows(structure, rng, **how)


def literal_algorithm_2(structure, scores, rows, gamma, steps, eta):
    """Samdani 2012, algorithm 2, line by line, over the table of structures of each instance."""
    lam = np.zeros(len(rows.bounds))
    tables = [structure.scores_of(scores, i) for i in range(structure.n_instances)]
    dense = rows.matrix.toarray()
    for t in range(steps + 1):
        expected, mu = np.zeros(len(lam)), np.zeros(structure.n_unary)
        for i, (p, h) in enumerate(zip(tables, structure.members, strict=True)):
            inside = structure.instance == i
            u = h @ dense[:, inside].T
            s = p - u @ lam
            q = (np.arange(len(s)) == s.argmax()) * 1.0 if gamma == 0 else np.exp(s / gamma - logsumexp(s / gamma))
            expected += q @ u
            mu[inside] = q @ h
        if t < steps:
            lam = np.maximum(lam + eta(t) * (expected - rows.bounds), 0.0)
    return lam, mu


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("scope", ["instance", "corpus"])
@pytest.mark.parametrize("eta", [0.3, lambda t: 1.0 / (1 + t)])
def test_fixed_steps_are_the_papers_algorithm(gamma, scope, eta):
    structure, scores, rows = case(0, scope=scope)
    result = project_batch(structure, scores, rows, gamma, solver=FixedStep(5, eta))
    lam, mu = literal_algorithm_2(structure, scores, rows, gamma, 5, eta if callable(eta) else lambda t: eta)
    np.testing.assert_allclose(result.multipliers, lam, atol=1e-12)
    np.testing.assert_allclose(result.marginals.unary, mu, atol=1e-12)
    assert lam.any()
    assert result.status == Status.FIXED_STEPS
    assert result.n_evaluations == 6
    assert result.n_iter == 5


def test_fixed_steps_of_agreement_are_the_papers_algorithm_3():
    rng = np.random.default_rng(1)
    s1, s2 = rng.normal(size=(2, 4))
    lam = np.zeros(4)
    for _ in range(5):
        q1 = np.exp(s1 - lam - logsumexp(s1 - lam))
        q2 = np.exp(s2 + lam - logsumexp(s2 + lam))
        lam = lam + 0.5 * (q1 - q2)
    result = project_batch(*agreement_of(s1[None], s2[None]), solver=FixedStep(5, 0.5))
    np.testing.assert_allclose(result.multipliers, lam, atol=1e-12)


def agreement_of(left, right):
    """Categoricals of one shape side by side, as one batch, tied label by label through corpus rows."""
    n, k = left.shape
    structure = Categorical([k] * (2 * n))
    scores = Parts(np.concatenate([left, right], axis=1).ravel())
    eye = sp.kron(sp.eye_array(n), sp.hstack([sp.eye_array(k), -sp.eye_array(k)]), format="csr")
    block = Block("agree", 0, n * k, True, "corpus", None, np.zeros(n * k, np.int64), {})
    return structure, scores, Rows(sp.csr_array(eye), np.zeros(n * k), np.full(n * k, -1), (block,))


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.5])
def test_full_agreement_is_the_average_of_the_scores(gamma):
    """Ganchev 2010, propositions 6.1 and 6.2; instances that rows tie are found and solved two by two."""
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 5, 4)) * 2
    structure, scores, rows = agreement_of(left, right)
    dual = BatchDual(structure, scores, rows, gamma)
    assert dual.n_problems == 5
    result = project_batch(structure, scores, rows, gamma, tol=1e-10)
    mean = (left + right) / 2
    q = np.exp(mean / gamma - logsumexp(mean / gamma, axis=1, keepdims=True))
    np.testing.assert_allclose(result.marginals.unary.reshape(5, 2, 4), np.stack([q, q], axis=1), atol=1e-8)
    assert result.dual_value == pytest.approx(2 * gamma * logsumexp(mean / gamma, axis=1).sum(), abs=1e-9)


@pytest.mark.parametrize("slack", [None, Slack("penalty", "l2", 0.4), Slack("bound", "l1", 0.2)])
@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_bracket_agrees_with_accelerated_on_single_rows(slack, equality, gamma):
    for seed in range(3):
        structure, scores, rows = case(seed, n_rows=1, slack=slack, equality=equality)
        ours = project_batch(structure, scores, rows, gamma)
        other = project_batch(structure, scores, rows, gamma, solver=Accelerated())
        assert isinstance(choose_solver(BatchDual(structure, scores, rows, gamma), 1e-8, None), Bracket)
        assert ours.dual_value == pytest.approx(other.dual_value, abs=1e-7)
        np.testing.assert_allclose(ours.multipliers, other.multipliers, atol=1e-5)
        assert ours.n_evaluations < 25
        warm = project_batch(structure, scores, rows, gamma, start=ours.multipliers)
        np.testing.assert_allclose(warm.multipliers, ours.multipliers, atol=1e-5)


def test_bracket_solves_a_bernoulli_in_closed_form():
    logits = np.array([-3.0, 0.0, 4.0, 9.0])
    scores = Parts(np.column_stack([logits, np.zeros(4)]).ravel())
    matrix = sp.csr_array(np.kron(np.eye(4), [[1.0, 0.0]]))
    bounds = np.array([0.3, 0.3, 0.01, 1e-6])
    block = Block("rare", 0, 4, False, "instance", None, np.arange(4), {})
    result = project_batch(Categorical([2] * 4), scores, Rows(matrix, bounds, np.arange(4), (block,)))
    odds = np.log(bounds / (1 - bounds))
    np.testing.assert_allclose(result.multipliers, np.maximum(0, logits - odds), atol=2e-2)
    np.testing.assert_allclose(result.multipliers[:3], np.maximum(0, logits - odds)[:3], atol=1e-5)


@pytest.mark.parametrize("slack", [SLACKS[0], SLACKS[1]])
@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("scope", ["instance", "corpus"])
def test_quasi_newton_agrees_with_accelerated_and_needs_less(slack, equality, scope):
    spent = np.zeros(2)
    for seed in range(3):
        structure, scores, rows = case(seed, scope=scope, slack=slack, equality=equality, n_rows=3)
        ours = project_batch(structure, scores, rows, 1.0, solver=QuasiNewton())
        other = project_batch(structure, scores, rows, 1.0, solver=Accelerated())
        assert ours.status == other.status == Status.SOLVED
        assert ours.dual_value == pytest.approx(other.dual_value, abs=1e-6)
        spent += ours.n_evaluations, other.n_evaluations
    assert spent[0] <= 2 * spent[1]
    assert spent[0] < 3 * 120


def test_the_solver_is_chosen_by_shape():
    def chosen(gamma, **how):
        return type(choose_solver(BatchDual(*case(0, **how), gamma), 1e-8, None))

    assert chosen(1.0, n_rows=1) is Bracket
    assert chosen(1.0, n_rows=2) is QuasiNewton
    assert chosen(1.0, n_rows=2, slack=Slack("penalty", "l1", 1.0)) is QuasiNewton
    assert chosen(1.0, n_rows=2, slack=Slack("bound", "linf", 1.0)) is QuasiNewton
    assert chosen(1.0, n_rows=2, equality=True, slack=Slack("bound", "linf", 1.0)) is Accelerated
    assert chosen(1.0, n_rows=2, slack=Slack("penalty", "l2", 1.0)) is Accelerated
    assert chosen(1.0, scope="corpus") is QuasiNewton
    assert chosen(0.0) is LinearProgram
    wide = Categorical([2] * 6000)
    block = Block("b", 0, 6000, False, "instance", None, np.arange(6000), {})
    rows = Rows(sp.csr_array(np.eye(1)).tocsr()[np.zeros(6000, int)], np.ones(6000), np.arange(6000), (block,))
    rows = Rows(sp.csr_array((6000, 12000)), rows.bounds, rows.row_instance, rows.blocks)
    assert isinstance(choose_solver(BatchDual(wide, Parts(np.zeros(12000)), rows, 0.0), 1e-8, None), LinearProgram)


def test_problems_are_independent_of_the_batch_they_are_in():
    structure, scores, rows = case(0, n_instances=5, n_rows=3, equality=True)
    whole = project_batch(structure, scores, rows, 0.5)
    for i in range(5):
        own = structure.instance == i
        alone = structure.__class__([structure.members[i]], [structure.counts[i]])
        mine = rows.row_instance == i
        block = Block("b", 0, 3, True, "instance", None, np.zeros(3, np.int64), {})
        part = Rows(rows.matrix[mine][:, own], rows.bounds[mine], np.zeros(3, np.int64), (block,))
        single = project_batch(alone, Parts(scores.unary[own], scores.factors), part, 0.5)
        np.testing.assert_array_equal(single.multipliers, whole.multipliers[mine])


def test_subgradient_averages_tend_to_the_linear_relaxation():
    certified = 0
    for seed in range(3):
        structure, scores, rows = case(seed, n_instances=2)
        exact = project_batch(structure, scores, rows, 0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            few = project_batch(structure, scores, rows, 0.0, solver=Subgradient(steps=20))
            many = project_batch(structure, scores, rows, 0.0, solver=Subgradient(steps=1000))
        certified += int((many.instance_status == Status.CERTIFIED).sum())
        assert abs(many.primal_value - exact.dual_value) < 0.05
        assert abs(many.primal_value - exact.dual_value) <= abs(few.primal_value - exact.dual_value) + 1e-9
        assert many.dual_value >= exact.dual_value - 1e-7
    assert certified


def test_a_certificate_is_a_proof():
    """A certified instance has an integral, feasible structure as good as the relaxation's bound."""
    seen = 0
    for seed in range(6):
        structure, scores, rows = case(seed)
        result = project_batch(structure, scores, rows, 0.0)
        exact = project_batch(structure, scores, rows, 0.0, solver=LinearProgram(max_iter=1))
        for i in np.flatnonzero(result.instance_status == Status.CERTIFIED):
            mu = result.marginals.unary[structure.instance == i]
            assert set(mu) <= {0.0, 1.0}
            np.testing.assert_allclose(result.objectives[i], exact.objectives[i], atol=1e-7)
            seen += 1
    assert seen > 2


@pytest.mark.parametrize(
    ("solver", "gamma", "how", "message"),
    [
        (Bracket(), 1.0, {}, "solver Bracket needs one row per independent problem; got 6 rows in 3 problems"),
        (QuasiNewton(), 1.0, {"slack": Slack("penalty", "l2", 1.0)}, "slack norm that ties rows together; use Accel"),
        (Subgradient(), 1.0, {}, "solver Subgradient needs gamma = 0; got gamma = 1"),
    ],
)
def test_a_solver_that_does_not_fit_says_so(solver, gamma, how, message):
    with pytest.raises(InvalidInputError, match=message):
        project_batch(*case(0, **how), gamma, solver=solver)


@pytest.mark.parametrize("scale", [30.0, 1e3, 1e5])
@pytest.mark.parametrize("equality", [False, True])
def test_scores_far_apart_are_no_obstacle(scale, equality):
    """Where scores differ by much more than gamma the dual is nearly piecewise linear."""
    for seed in range(3):
        for how in ({"n_rows": 1}, {"n_rows": 3}, {"scope": "corpus"}):
            structure, scores, rows = case(seed, equality=equality, **how)
            scores = Parts(scores.unary * scale, tuple(f * scale for f in scores.factors))
            result = project_batch(structure, scores, rows, 1.0)
            assert result.status == Status.SOLVED
            assert result.violation < 1e-6
            assert result.primal_value == pytest.approx(result.dual_value, abs=1e-6 * scale)


@pytest.mark.parametrize(
    "slack", [Slack("penalty", "l2", 50.0), Slack("bound", "l2", 0.1), Slack("penalty", "linf", 50)]
)
def test_scores_far_apart_are_no_obstacle_with_tied_slack(slack):
    for seed in range(2):
        structure, scores, rows = case(seed, slack=slack)
        scores = Parts(scores.unary * 300, tuple(f * 300 for f in scores.factors))
        result = project_batch(structure, scores, rows, 1.0)
        assert result.status == Status.SOLVED
        assert result.violation < 1e-6
        assert result.primal_value == pytest.approx(result.dual_value, abs=1e-4)
