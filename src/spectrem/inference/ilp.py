"""gamma = -inf: the best single structure that meets the constraints, by integer programming."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError
from spectrem.inference.highs import INFEASIBLE, OPTIMAL, Deadline, run_integer
from spectrem.inference.oracle import BatchDual
from spectrem.inference.program import ProblemPrograms, read_structures
from spectrem.inference.result import Status
from spectrem.inference.scaling import scale_program
from spectrem.inference.segments import sum_by
from spectrem.inference.slack_variables import SlackVariables
from spectrem.inference.solvers.subgradient import Subgradient
from spectrem.structures.parts import Parts


@dataclass(frozen=True)
class IntegerSolution:
    """The best structures, and how each problem ended.

    Attributes
    ----------
    marginals : Parts
        Indicators of the structures; factor counts times the instance weights.
    values : ndarray of shape (n_instances,)
        Score of each structure in nats.
    bound : float
        Upper bound of the objective proven by the solver, nats.
    primal_value : float
    status : ndarray of shape (n_problems,), int8
    n_iter : int
        Integer programs run; the other problems were certified by Lagrangian relaxation.
    """

    marginals: Parts
    values: NDArray[np.float64]
    bound: float
    primal_value: float
    status: NDArray[np.int8]
    n_iter: int


def solve_integer(dual: BatchDual, weights: NDArray[np.float64] | None, deadline: Deadline) -> IntegerSolution:
    """Exact integer optimum of every problem ([Chang2007]; [Samdani2012] eq. 10 at gamma of minus infinity).

    A few steps of Lagrangian relaxation certify the problems that are easy; HiGHS solves the others, one program
    per problem, and of those that do not end in time takes the best structures found.

    Raises
    ------
    InvalidInputError
        If a slack has an l2 norm, which no linear program can express, or nothing was found within the time.
    """
    programs = ProblemPrograms(dual)
    refuse_curved(programs.variables)
    solution = Subgradient(steps=20).solve(dual, np.zeros(len(dual.rows.bounds)))
    certified = solution.status == Status.CERTIFIED
    status = np.where(certified, Status.CERTIFIED, Status.MAX_ITERATIONS).astype(np.int8)
    easy = (dual.instance_problem < 0) | dual.instances_of(certified)
    values, marginals = dual.smoothed_max(solution.multipliers, easy, weights)
    price = (dual.transpose @ solution.multipliers) * marginals.unary
    values = values + sum_by(dual.structure.instance, price, dual.structure.n_instances)
    parts = Parts(marginals.unary.copy(), tuple(f.copy() for f in marginals.factors))
    bound = np.zeros(dual.n_problems)
    hard = np.flatnonzero(~certified)
    if len(hard):
        relaxed = dual.evaluate(solution.multipliers, ~certified).value + dual.terms.value(solution.multipliers)
    for k, p in enumerate(hard):
        program = programs.write(int(p))
        whole = np.ones(len(program.cost), np.bool_)
        whole[len(whole) - len(program.slack) :] = False
        scaled = scale_program(program, dual.spread[p])
        result = run_integer(scaled.program, whole, deadline.left)
        if result.status == INFEASIBLE:
            status[p] = Status.INFEASIBLE
            continue
        if result.x is None:
            raise InvalidInputError(
                f"no structures that meet the constraints were found within time_limit={deadline.limit:g} seconds "
                f"({result.message}; {len(hard) - k} of {dual.n_problems} problems are left); allow more time, give "
                "the constraints slack, or use gamma = 0"
            )
        status[p] = Status.CERTIFIED if result.status == OPTIMAL else Status.MAX_ITERATIONS
        bound[p] = min(-result.bound * scaled.unit, relaxed[p])
        values[program.instances] = read_structures(program, np.rint(result.x), weights, parts)
    # The value of the structures themselves: that of the program is only as exact as the tolerances of HiGHS.
    inside = dual.instance_problem >= 0
    scored = sum_by(dual.instance_problem[inside], (dual.instance_weight * values)[inside], dual.n_problems)
    primal = scored - dual.terms.cost(dual.matrix @ parts.unary - dual.rows.bounds)
    primal = np.where(status == Status.INFEASIBLE, 0.0, primal)
    bound = np.where(status == Status.CERTIFIED, primal, np.maximum(bound, primal))
    return IntegerSolution(parts, values, dual.total(bound, values), dual.total(primal, values), status, len(hard))


def refuse_curved(slack: SlackVariables) -> None:
    """Raise if a slack has an l2 norm."""
    if slack.curved:
        raise InvalidInputError(
            "slack with norm 'l2' cannot be used at gamma = -inf, where the program must be linear; "
            "use norm='l1' or norm='linf', or a gamma >= 0"
        )
