"""Constraints that cannot hold, and input that cannot be meant."""

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem.constraints import E, compile_constraints, linear, part
from spectrem.constraints.compilation.rows import Block, Rows, Slack
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Accelerated, FixedStep, QuasiNewton, Solution, Status, project_batch
from spectrem.structures import Categorical, Chain, Parts

GAMMAS = [-np.inf, 0.0, 0.3, 1.0, 2.5]


def rows_of(matrix, bounds, instance, *blocks):
    return Rows(sp.csr_array(np.array(matrix, float)), np.array(bounds, float), np.array(instance), blocks)


def block(name, start, stop, equality=False, scope="instance", slack=None, keys=None, group=None, turned=None):
    group = np.zeros(stop - start, np.int64) if group is None else np.array(group)
    return Block(name, start, stop, equality, scope, slack, group, keys or {}, turned=turned)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_row_out_of_reach_is_named_with_its_keys(gamma):
    structure = Categorical([2, 2])
    scores = Parts(np.array([0.0, 0.0, 0.0, -np.inf]))
    rows = rows_of(
        [[0, -1, 0, 0], [0, 0, 0, -1]],
        [-0.5, -0.5],
        [0, 1],
        block("one verb per sentence", 0, 2, keys={"sentence": np.array([11, 12])}, turned=np.ones(2, bool)),
    )
    with pytest.raises(
        InfeasibleConstraintError,
        match=r"'one verb per sentence': no feasible q in sentence 12: its possible parts reach 0 to 0, "
        r"and the row demands >= 0.5; relax the bound, give the constraint slack",
    ):
        project_batch(structure, scores, rows, gamma)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
@pytest.mark.parametrize(
    ("constraint", "shown"),
    [
        (
            (E[part("label") == 7] >= 1).per("instance"),
            "its possible parts reach 0 to 0, and the row demands >= 1 (and 1 more rows);",
        ),
        (
            (E[part("label") == 7] <= -1).per("instance"),
            "its possible parts reach 0 to 0, and the row demands <= -1 (and 1 more rows);",
        ),
        (E[part("label") == 7] >= 1, "over the corpus (>= 1, and it can be 0 at most)"),
        (E[part("label") == 7].between(1, 2), "over the corpus (>= 1, and it can be 0 at most)"),
        (E[part("label") == 7] <= -1, "over the corpus (<= -1, and it can be 0 at least)"),
        (E[part("label") == 0] >= E[part("label") == 1] + 3, "over the corpus (>= 3, and it can be 2 at most)"),
        (linear([[1.0, -1.0, 0.0, 0.0]], 3.0, ">="), "over the corpus (>= 3, and it can be 1 at most)"),
    ],
)
def test_a_demand_is_shown_as_it_was_written(constraint, shown, gamma):
    structure = Categorical([2, 2])
    rows = compile_constraints(constraint, structure)
    with pytest.raises(InfeasibleConstraintError) as error:
        project_batch(structure, Parts(np.zeros(4)), rows, gamma)
    assert shown in str(error.value)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("scope", ["instance", "corpus"])
def test_rows_that_conflict_are_both_named(gamma, scope):
    structure = Categorical([3, 3])
    instance = [1, 1] if scope == "instance" else [-1, -1]
    rows = rows_of(
        [[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, -1, -1]],
        [0.3, -0.1],
        instance,
        block("few", 0, 1, scope=scope),
        block("many", 1, 2, scope=scope),
    )
    scores = Parts(np.random.default_rng(0).normal(size=6))
    if gamma != -np.inf:  # 0.3 and 0.1 leave room for fractions but not for whole labels
        assert project_batch(structure, scores, rows, gamma).violation < 1e-6
    rows = rows_of(rows.matrix.toarray(), [0.3, -0.8], instance, *rows.blocks)
    feasible = rows_of(rows.matrix.toarray(), [0.3, -0.6], instance, *rows.blocks)
    if gamma != -np.inf:
        assert project_batch(structure, scores, feasible, gamma).violation < 1e-6
    rows = rows_of([[0, 0, 0, 1, 1, 0], [0, 0, 0, -1, -1, 0]], [0.3, -0.8], instance, *rows.blocks)
    with pytest.raises(InfeasibleConstraintError, match=r"'few': no feasible q .*conflicts with 'many' "):
        project_batch(structure, scores, rows, gamma)


@pytest.mark.parametrize("solver", [QuasiNewton(), Accelerated(), None])
def test_barely_infeasible_is_proven_and_barely_feasible_is_solved(solver):
    structure, scores = Categorical([3]), Parts(np.array([1.0, 0.0, -1.0]))

    def rows(low):
        return rows_of([[1, 1, 0], [-1, -1, 0]], [0.4, -low], [0, 0], block("a", 0, 1), block("b", 1, 2))

    assert project_batch(structure, scores, rows(0.4), solver=solver).violation < 1e-6
    with pytest.raises(
        InfeasibleConstraintError, match=r"'a': no feasible q in instance 0 \(.*\); it conflicts with 'b'"
    ):
        project_batch(structure, scores, rows(0.401), solver=solver)


@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_a_bound_on_the_edge_is_solved(gamma):
    """E[label 0] <= 0 has its solution at an infinite price, which is approached, not an error."""
    rows = rows_of([[1, 0, 0], [0, 1, -1]], [0.0, 0.0], [0, 0], block("never", 0, 2))
    result = project_batch(Categorical([3]), Parts(np.array([2.0, 1.0, 0.0])), rows, gamma)
    np.testing.assert_allclose(result.marginals.unary, [0, 0.5, 0.5], atol=1e-6)


def test_slack_makes_it_feasible():
    structure, scores = Categorical([2]), Parts(np.zeros(2))
    matrix, bounds, instance = [[1, 0], [-1, 0]], [0.3, -0.7], [0, 0]
    for slack, ok in ((Slack("penalty", "l1", 5.0), True), (Slack("bound", "l1", 0.41), True),
                      (Slack("bound", "l1", 0.39), False), (Slack("bound", "l2", 0.29), True),
                      (Slack("bound", "l2", 0.28), False), (Slack("bound", "linf", 0.21), True),
                      (Slack("bound", "linf", 0.19), False)):  # fmt: skip
        rows = rows_of(matrix, bounds, instance, block("both", 0, 2, slack=slack))
        if ok:
            assert project_batch(structure, scores, rows).violation < 1e-6
        else:
            with pytest.raises(InfeasibleConstraintError, match="'both': no feasible q"):
                project_batch(structure, scores, rows)


def test_a_path_that_cannot_be_is_found_through_the_structure():
    """Each part is possible alone; only the chain's forbidden transition rules the pair out."""
    structure = Chain([2], n_states=2)
    scores = Parts(np.zeros(4), (np.array([[0.0, -np.inf], [0.0, 0.0]]),))
    rows = rows_of([[1, 0, 0, 0], [0, 0, 0, 1]], [1, 1], [0, 0], block("0 then 1", 0, 2, equality=True))
    for gamma in GAMMAS:
        with pytest.raises(InfeasibleConstraintError, match="'0 then 1': no feasible q in instance 0"):
            project_batch(structure, scores, rows, gamma)


def simple():
    return Categorical([2, 2]), Parts(np.zeros(4)), rows_of([[1, 0, 0, 0]], [0.2], [0], block("b", 0, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": -0.5}, r"gamma must be -inf or a finite number >= 0; got -0.5; .* not convex; use gamma = 0"),
        ({"gamma": np.nan}, r"gamma must be -inf or a finite number >= 0; got nan; use gamma = 1"),
        ({"gamma": np.inf}, r"gamma must be -inf or a finite number >= 0; got inf; use gamma = 1"),
        ({"tol": 0.0}, r"tol must be positive; got 0.0"),
        ({"start": [1.0, 2.0]}, r"start must be 1 finite multipliers, one per row; got shape \(2,\)"),
        ({"start": [np.nan]}, r"start must be 1 finite multipliers"),
        ({"weights": [1.0]}, r"weights must have shape \(2,\), one per instance; got \(1,\)"),
        ({"weights": [1.0, -1.0]}, r"weights must be finite and >= 0; got -1.0 at index 1; use 0 to leave"),
        (
            {"scores": Parts(np.array([0, np.nan, 0, 0]))},
            r"scores.unary must hold finite scores in nats, .* got NaN at index \(1,\)",
        ),
        (
            {"scores": Parts(np.array([0, 0, np.inf, 0]))},
            r"scores.unary must hold finite scores in nats, .* got \+inf at index \(2,\)",
        ),
        ({"scores": Parts(np.zeros(3))}, r"scores.unary must have shape \(4,\), one score per part .*; got \(3,\)"),
        ({"scores": Parts(np.zeros(4), (np.zeros(1),))}, r"scores.factors must have 0 arrays of shapes \[\]; got 1"),
        ({"scores": Parts(np.array([-np.inf, -np.inf, 0, 0]))}, r"instance 0 must leave at least one structure poss"),
        ({"rows": rows_of([[1, 0]], [0.2], [0], block("b", 0, 1))}, r"rows.matrix must have shape \(1, 4\)"),
        ({"rows": rows_of([[1, 0, 0, 0]], [np.nan], [0], block("b", 0, 1))}, r"rows must have finite bounds"),
    ],
)
def test_input_that_cannot_be_meant(change, message):
    structure, scores, rows = simple()
    arguments = {"structure": structure, "scores": scores, "rows": rows, **change}
    with pytest.raises(InvalidInputError, match=message):
        project_batch(**arguments)


def test_an_impossible_instance_is_named_without_rows_too():
    with pytest.raises(InvalidInputError, match="scores of instance 1 must leave at least one structure possible"):
        project_batch(Categorical([1, 1]), Parts(np.array([0.0, -np.inf])))


def test_steps_that_overflow_are_not_passed_on():
    class Broken:
        def solve(self, dual, start):
            return Solution(start + np.inf, np.array([Status.SOLVED], np.int8), np.zeros(1), 1)

    structure, scores, rows = simple()
    with pytest.raises(InvalidInputError, match="multipliers that are not finite; try a smaller step size"):
        project_batch(structure, scores, rows, solver=Broken())


@pytest.mark.parametrize("eta", [np.inf, np.nan, 0.0, lambda t: -1.0])
def test_fixed_steps_are_positive_and_finite(eta):
    with pytest.raises(InvalidInputError, match=r"step_size must be positive and finite; got .* at step 0; try 1.0"):
        project_batch(*simple(), solver=FixedStep(2, eta))
    with pytest.raises(InvalidInputError, match="steps must be at least 0; got -1"):
        FixedStep(-1)
