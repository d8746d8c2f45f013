"""Large linear relaxations over labels: a program of the few labels that matter, grown until it is the whole one's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.inference.highs import Deadline, Matrices, run_linear
from spectrem.inference.oracle import BatchDual
from spectrem.inference.program import Program
from spectrem.inference.result import Status
from spectrem.inference.slack_variables import largest_excess
from spectrem.inference.solvers.accelerated import Accelerated
from spectrem.inference.solvers.newton import Newton, suits_newton
from spectrem.inference.solvers.quasi_newton import QuasiNewton
from spectrem.inference.solvers.solver import Solution

# Temperatures of the path to zero, relative to how far the scores of an instance lie apart.
_PATH = (0.2, 0.06, 0.02, 0.006, 0.002)
NEAR = 6.0  # labels that begin in the program: within so many temperatures of the best
_MOST_ROUNDS = 60
_MANY_ROWS = 200
_MISSING = 1e-8  # violations in all that pass for none


class ColumnSolution(NamedTuple):
    """Optimal variables and prices of a program, and its cost.

    Attributes
    ----------
    x : ndarray of shape (n_variables,)
    below, equal : ndarray
        Prices of ``rows_below`` and ``rows_equal``, nats per unit of the bound.
    cost : float
    """

    x: NDArray[np.float64]
    below: NDArray[np.float64]
    equal: NDArray[np.float64]
    cost: float


def follow_temperatures(dual: BatchDual) -> tuple[Solution, float]:
    """Prices near those of gamma = 0, from the smooth duals of ever lower temperatures, and the last of these.

    Problems that are infeasible are found on the way; their status tells.
    """
    scores, instance = dual.scores.unary, dual.structure.instance
    offsets = np.searchsorted(instance, np.arange(dual.structure.n_instances))
    finite = np.where(np.isneginf(scores), np.inf, scores)
    tops = np.maximum.reduceat(scores, offsets)[instance]
    spread = float(np.mean((tops - finite)[np.isfinite(finite)])) or 1.0
    x = dual.terms.project(np.zeros(len(dual.row_problem)))
    for share in _PATH:
        gamma = share * spread
        warm = BatchDual(dual.structure, dual.scores, dual.rows, gamma, dual.weights)
        solver: Any
        if suits_newton(warm):
            solver = Newton(tol=1e-4, max_iter=30)
        elif warm.terms.is_box:
            solver = QuasiNewton(tol=1e-3, max_iter=60)
        else:
            solver = Accelerated(tol=1e-3, max_iter=60)
        solution = solver.solve(warm, x)
        dual.n_evaluations += warm.n_evaluations
        x = solution.multipliers
        if (solution.status == Status.INFEASIBLE).any():
            break
    return solution, gamma


def solve_by_columns(
    program: Program,
    below: NDArray[np.float64],
    equal: NDArray[np.float64],
    near: float,
    tol: float,
    deadline: Deadline,
) -> ColumnSolution | None:
    """Column generation over the labels of categorical instances (Dantzig & Wolfe 1960).

    Instances of which one label takes part are constants; the others and their labels form a program, whose prices tell
    which labels are missing. With none missing, its solution is that of the whole program.

    Parameters
    ----------
    program : Program
        Of a `Categorical` structure.
    below, equal : ndarray
        Prices to begin with.
    near : float
        Labels this close to the best of their instance at those prices, in nats, take part from the start.
    tol : float
        Relative gap.
    deadline : Deadline

    Returns
    -------
    ColumnSolution or None
        With an infinite cost if the rows cannot hold: its prices are a proof. None if it does not come to an end.
    """
    task = _Columns(program, program.cost, deadline)
    reduced = task.reduced(below, equal)
    taking = task.possible & (reduced >= task.best(reduced)[task.owner] - near)
    large = 10.0 * (1.0 + max(np.abs(below).max(initial=0.0), np.abs(equal).max(initial=0.0)))
    for factor in (1.0, 1e3, 1e6):
        answer = task.grow(taking, factor * large, tol)
        if answer is None or answer[1] <= _MISSING:
            return None if answer is None else answer[0]
        # At that price of a violation the rows do not hold: do they at any?
        least = _Columns(program, np.zeros(len(program.cost)), deadline).grow(taking, 1.0, tol)
        if least is None or least[1] > _MISSING:
            return None if least is None else least[0]._replace(cost=np.inf)
    return None


class _Columns:
    def __init__(self, program: Program, cost: NDArray[np.float64], deadline: Deadline) -> None:
        self.program, self.cost, self.deadline = program, cost, deadline
        self.owner = program.shapes.owner
        self.n = len(self.owner)
        self.possible = program.upper[: self.n] > 0
        self.n_below, self.n_equal = len(program.rows_below), len(program.rows_equal)
        self.starts = np.searchsorted(self.owner, np.arange(len(program.instances)))
        self.heads = sp.csc_array(
            sp.vstack([program.below[: self.n_below, : self.n], program.equal[: self.n_equal, : self.n]], format="csc")
        )
        self.turned = sp.csr_array(self.heads.T)
        bounds = np.concatenate([program.limit[: self.n_below], program.equal_to[: self.n_equal]])
        furthest = 2.0 * largest_excess(sp.csr_array(self.heads), bounds) + 1.0
        self.furthest = np.concatenate([furthest, furthest[self.n_below :]])  # equalities are violated both ways

    def reduced(self, below: NDArray[np.float64], equal: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores less prices; ``-inf`` for impossible labels."""
        price = self.turned @ np.concatenate([below, equal])
        return np.where(self.possible, -self.cost[: self.n] - price, -np.inf)

    def best(self, reduced: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of every instance."""
        return np.maximum.reduceat(reduced, self.starts)

    def grow(self, taking: NDArray[np.bool_], large: float, tol: float) -> tuple[ColumnSolution, float] | None:
        """Take labels in (into ``taking``) until none is missing."""
        for _ in range(_MOST_ROUNDS):
            answer = self.solve(taking, large)
            if answer is None:
                return None
            solution = answer[0]
            reduced = self.reduced(solution.below, solution.equal)
            best = self.best(reduced)
            gain = best - self.best(np.where(taking, reduced, -np.inf))
            if gain.sum() <= 0.1 * tol * max(1.0, abs(solution.cost)):
                return answer
            taking |= self.possible & (gain > 0)[self.owner] & (reduced >= best[self.owner])
        return None

    def solve(self, taking: NDArray[np.bool_], large: float) -> tuple[ColumnSolution, float] | None:
        """The program of some labels, and how far its rows are violated at a cost of ``large`` each."""
        program, owner = self.program, self.owner
        several = np.bincount(owner[taking], minlength=len(program.instances)) > 1
        fixed = np.flatnonzero(taking & ~several[owner])
        free = np.flatnonzero(taking & several[owner])
        x = np.zeros(len(program.cost))
        x[fixed] = 1.0
        used = self.heads @ x[: self.n]
        n_slack, n_rows = len(program.slack), self.n_below + self.n_equal
        columns = np.concatenate([free, self.n + np.arange(n_slack)])
        member = np.cumsum(several) - 1
        shapes = sp.csr_array(
            (np.ones(len(free)), (member[owner[free]], np.arange(len(free)))), shape=(int(several.sum()), len(columns))
        )
        # What a row is short of or has too much: one variable per inequality, two per equality.
        given = self.n_below + 2 * self.n_equal
        short = sp.hstack([-sp.eye_array(self.n_below), sp.csr_array((self.n_below, 2 * self.n_equal))])
        both = sp.eye_array(self.n_equal)
        either = sp.hstack([sp.csr_array((self.n_equal, self.n_below)), -both, both])
        short = sp.vstack([short, sp.csr_array((program.below.shape[0] - self.n_below, given))])
        either = sp.vstack([either, sp.csr_array((shapes.shape[0], given))])
        top = sp.hstack([program.below[:, columns], short], format="csr")
        side = sp.hstack([sp.vstack([program.equal[: self.n_equal][:, columns], shapes]), either], format="csr")
        limit = program.limit.copy()
        limit[: self.n_below] -= used[: self.n_below]
        some = Matrices(
            cost=np.concatenate([self.cost[columns], np.full(given, large)]),
            upper=np.concatenate([np.ones(len(free)), program.upper[self.n :], self.furthest]),
            equal=side,
            equal_to=np.concatenate(
                [program.equal_to[: self.n_equal] - used[self.n_below : n_rows], np.ones(shapes.shape[0])]
            ),
            below=top,
            limit=limit,
        )
        # Many rows are as degenerate as they come: there an interior point and a crossover are far faster than simplex.
        result = run_linear(some, self.deadline.left, method="highs-ipm" if n_rows > _MANY_ROWS else "highs")
        if result.x is None:
            result = run_linear(some, self.deadline.left)
        if result.x is None:
            return None
        x[columns] = result.x[: len(columns)]
        missing = float(result.x[len(columns) :].sum())
        cost = result.cost + float(self.cost[fixed].sum())
        below, equal = result.below_prices[: self.n_below], result.equal_prices[: self.n_equal]
        return ColumnSolution(x, below, equal, cost), missing
