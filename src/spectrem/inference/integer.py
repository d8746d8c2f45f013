"""gamma = -inf: the best single structure that meets the constraints, by integer programming."""

from __future__ import annotations

import numpy as np

from spectrem.exceptions import InvalidInputError, setting
from spectrem.inference.conflict.explain import explain_infeasible
from spectrem.inference.highs import INFEASIBLE, OPTIMAL, Deadline, run_integer
from spectrem.inference.oracle import BatchDual
from spectrem.inference.problems import ProblemPrograms
from spectrem.inference.program import SlackVariables
from spectrem.inference.result import Projection, Status, describe, warn_open
from spectrem.inference.segments import sum_by
from spectrem.inference.solvers.subgradient import Subgradient


def solve_integer(dual: BatchDual, deadline: Deadline) -> Projection:
    """Exact integer optimum of every problem ([Chang2007]; [Samdani2012] eq. 10 at gamma of minus infinity).

    A few steps of Lagrangian relaxation certify the easy problems. HiGHS solves the others, one program per problem;
    where it runs out of time, the best structures found are kept.

    Raises
    ------
    InfeasibleConstraintError
        If no structures meet the rows of a problem.
    InvalidInputError
        If a slack has an l2 norm, which no linear program can express, or nothing was found within the time.
    """
    programs = ProblemPrograms(dual)
    refuse_curved(programs.variables)
    solution = Subgradient(steps=20).solve(dual, np.zeros(len(dual.rows.bounds)))
    certified = solution.status == Status.CERTIFIED
    status = np.where(certified, Status.CERTIFIED, Status.MAX_ITERATIONS).astype(np.int8)
    easy = (dual.instance_problem < 0) | dual.instances_of(certified)
    values, marginals = dual.smoothed_max(solution.multipliers, easy, dual.weights)
    price = (dual.transpose @ solution.multipliers) * marginals.unary
    values = values + sum_by(dual.structure.instance, price, dual.structure.n_instances)
    parts = marginals.map(np.copy)
    bound = np.zeros(dual.n_problems)
    hard = np.flatnonzero(~certified)
    if len(hard):
        relaxed = dual.evaluate(solution.multipliers, ~certified).value + dual.terms.value(solution.multipliers)
    for k, p in enumerate(hard):
        problem = programs.write(int(p))
        result = run_integer(problem.program, len(problem.owner), deadline.left)
        if result.status == INFEASIBLE:
            status[p] = Status.INFEASIBLE
            continue
        if result.x is None:
            raise InvalidInputError(
                f"no structures that meet the constraints were found within {setting('time_limit')}={deadline.limit:g} "
                f"seconds ({result.message}; {len(hard) - k} of {dual.n_problems} problems are left); allow more time, "
                "give the constraints slack, or use gamma = 0"
            )
        status[p] = Status.CERTIFIED if result.status == OPTIMAL else Status.MAX_ITERATIONS
        bound[p] = min(-result.bound * problem.unit, relaxed[p])
        values[problem.instances] = problem.read(np.rint(result.x), dual.weights, parts)
    if (status == Status.INFEASIBLE).any():
        raise explain_infeasible(dual, status, whole=True)
    if (status == Status.MAX_ITERATIONS).any():
        warn_open(status, "HiGHS gave up on the integer program", "time_limit")
    # The value of the structures themselves: that of the program is only as exact as the tolerances of HiGHS.
    inside = dual.instance_problem >= 0
    scored = sum_by(dual.instance_problem[inside], (dual.instance_weight * values)[inside], dual.n_problems)
    excess = dual.matrix @ parts.unary - dual.rows.bounds
    primal = scored - dual.terms.cost(excess)
    bound = np.where(status == Status.CERTIFIED, primal, np.maximum(bound, primal))
    dual_value, primal_value = dual.total(bound, values), dual.total(primal, values)
    return describe(
        dual,
        status,
        excess,
        marginals=parts,
        multipliers=np.zeros(len(dual.rows.bounds)),
        values=values,
        objectives=values,
        dual_value=dual_value,
        primal_value=primal_value,
        kl=None,
        n_iter=len(hard),
        residual=abs(dual_value - primal_value) / max(1.0, abs(dual_value)),
    )


def refuse_curved(slack: SlackVariables, use: str = "at gamma = -inf", other: str = ", or a gamma >= 0") -> None:
    """Raise if a slack has an l2 norm; the message names the ``use`` that it has no place in, and ``other`` advice."""
    if slack.curved:
        raise InvalidInputError(
            f"slack with norm 'l2' cannot be used {use}, where the program must be linear; use norm='l1' or "
            f"norm='linf'{other}"
        )
