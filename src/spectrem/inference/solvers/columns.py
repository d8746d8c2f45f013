"""Large linear relaxations over labels, by column generation: a program over few labels that grows as needed."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.inference.highs import Deadline, run_linear
from spectrem.inference.oracle import BatchDual
from spectrem.inference.program import Program
from spectrem.inference.result import Status
from spectrem.inference.solvers.newton import smooth_solver
from spectrem.inference.solvers.solver import Solution

# Temperatures of the path to zero, relative to how far the scores of an instance lie apart.
_PATH = (0.2, 0.06, 0.02, 0.006, 0.002)
NEAR = 6.0  # the first labels of the program lie within so many temperatures of the best one
_MOST_ROUNDS = 60
_MANY_ROWS = 200
_MISSING = 1e-8  # a sum of violations that counts as none


class ColumnSolution(NamedTuple):
    """Optimal variables and prices of a program, its cost and its violation.

    Attributes
    ----------
    x : ndarray of shape (n_x + n_slack,)
    prices : ndarray of shape (n_rows,)
        Nats per unit of the bound.
    cost : float
    missing : float
        The sum of the violations of the rows.
    """

    x: Floats
    prices: Floats
    cost: float
    missing: float


def follow_temperatures(dual: BatchDual) -> tuple[Solution, float]:
    """Prices near those of gamma = 0, from the smooth duals of ever lower temperatures, and the last of these.

    The status of problems that prove to be infeasible on the way is ``INFEASIBLE``.
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
        solution = smooth_solver(warm, 1e-3, 60).solve(warm, x)
        dual.n_evaluations += warm.n_evaluations
        x = solution.multipliers
        if (solution.status == Status.INFEASIBLE).any():
            break
    return solution, gamma


def solve_by_columns(
    program: Program, owner: Ints, prices: Floats, near: float, tol: float, deadline: Deadline
) -> ColumnSolution | None:
    """Column generation over the labels of categorical instances (Dantzig & Wolfe 1960).

    Instances with one label in the program are constants. At the prices of the program, labels that are better than
    all those of their instance in it are added; where there are none, its solution is that of the whole program.

    Parameters
    ----------
    program : Program
        Of a `Categorical` structure, as `write_program` orders its rows and variables.
    owner : ndarray of shape (n_x,), int64
        The instance of every label, increasing.
    prices : ndarray of shape (n_rows,)
        To begin with.
    near : float
        Labels this close to the best of their instance at those prices, in nats, are in the program from the start.
    tol : float
        Relative gap.
    deadline : Deadline

    Returns
    -------
    ColumnSolution or None
        None if the rows are violated at every price of a violation that is tried, or time runs out.
    """
    task = _Columns(program, len(prices), owner, deadline)
    reduced = task.reduced(prices)
    taking = task.possible & (reduced >= task.best(reduced)[owner] - near)
    large = 10.0 * (1.0 + np.abs(prices).max(initial=0.0))
    for factor in (1.0, 1e3, 1e6):
        answer = task.grow(taking, factor * large, tol)
        if answer is None or answer.missing <= _MISSING:
            return answer
    return None


class _Columns:
    """A program of which only some labels are solved for."""

    def __init__(self, program: Program, n_rows: int, owner: Ints, deadline: Deadline) -> None:
        self.program, self.n_rows, self.owner, self.deadline = program, n_rows, owner, deadline
        self.score = np.where(program.upper[: len(owner)] > 0, -program.cost[: len(owner)], -np.inf)
        self.possible = ~np.isneginf(self.score)
        self.starts = np.flatnonzero(np.diff(owner, prepend=-1))
        self.turned = sp.csr_array(program.matrix[:n_rows, : len(owner)].T)

    def reduced(self, prices: Floats) -> Floats:
        """Scores less prices; ``-inf`` for impossible labels."""
        return self.score - self.turned @ prices

    def best(self, reduced: Floats) -> Floats:
        """The largest value of every instance."""
        return np.maximum.reduceat(reduced, self.starts)

    def grow(self, taking: Bools, large: float, tol: float) -> ColumnSolution | None:
        """Solve, and add labels to ``taking``, until no label is missing; None after too many rounds or out of time."""
        for _ in range(_MOST_ROUNDS):
            answer = self.solve(taking, large)
            if answer is None:
                return None
            reduced = self.reduced(answer.prices)
            best = self.best(reduced)
            gain = best - self.best(np.where(taking, reduced, -np.inf))
            if gain.sum() <= 0.1 * tol * max(1.0, abs(answer.cost)):
                return answer
            taking |= self.possible & (gain > 0)[self.owner] & (reduced >= best[self.owner])
        return None

    def solve(self, taking: Bools, large: float) -> ColumnSolution | None:
        """Solve the program of some labels, whose rows may be violated at a cost of ``large``."""
        program, owner, n_rows = self.program, self.owner, self.n_rows
        several = np.bincount(owner[taking], minlength=len(self.starts)) > 1
        fixed, free = np.flatnonzero(taking & ~several[owner]), np.flatnonzero(taking & several[owner])
        x = np.zeros(len(program.cost))
        x[fixed] = 1.0
        left = replace(program, bounds=program.bounds - program.matrix @ x)
        n_ties = len(program.bounds) - n_rows - len(several)
        rows = np.flatnonzero(np.concatenate([np.ones(n_rows, np.bool_), several, np.ones(n_ties, np.bool_)]))
        columns = np.concatenate([free, np.arange(len(owner), len(x))])
        some = left.pick(rows, columns).elastic(np.full(n_rows, large))
        # With many rows programs are degenerate: an interior point method with crossover is far faster than simplex.
        method = "highs-ipm" if n_rows > _MANY_ROWS else "highs"
        result = run_linear(some, self.deadline.left, method=method)
        if result.x is None:
            result = run_linear(some, self.deadline.left)
        if result.x is None:
            return None
        x[columns] = result.x[: len(columns)]
        missing = float(result.x[len(columns) :].sum())
        return ColumnSolution(x, result.prices[:n_rows], result.cost + float(program.cost[fixed].sum()), missing)
