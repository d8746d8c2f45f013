"""Large linear relaxations over labels: a program of the few labels that matter, grown until it is the whole one's."""

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
NEAR = 6.0  # labels that begin in the program: within so many temperatures of the best
_MOST_ROUNDS = 60
_MANY_ROWS = 200
_MISSING = 1e-8  # violations in all that pass for none


class ColumnSolution(NamedTuple):
    """Optimal variables and prices of a program, and its cost.

    Attributes
    ----------
    x : ndarray of shape (n_x + n_slack,)
    prices : ndarray of shape (n_rows,)
        Nats per unit of the bound.
    cost : float
    missing : float
        How far the rows are violated in all.
    """

    x: Floats
    prices: Floats
    cost: float
    missing: float


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

    Instances of which one label takes part are constants; the others and their labels form a program, whose prices tell
    which labels are missing. With none missing, its solution is that of the whole program.

    Parameters
    ----------
    program : Program
        Of a `Categorical` structure, as `write_program` orders its rows and variables.
    owner : ndarray of shape (n_x,), int64
        The instance of every label, increasing.
    prices : ndarray of shape (n_rows,)
        To begin with.
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
    task = _Columns(program, len(prices), owner, deadline)
    reduced = task.reduced(prices)
    taking = task.possible & (reduced >= task.best(reduced)[owner] - near)
    large = 10.0 * (1.0 + np.abs(prices).max(initial=0.0))
    for factor in (1.0, 1e3, 1e6):
        answer = task.grow(taking, factor * large, tol)
        if answer is None or answer.missing <= _MISSING:
            return answer
        # At that price of a violation the rows do not hold: do they at any?
        free = replace(program, cost=np.zeros(len(program.cost)))
        least = _Columns(free, len(prices), owner, deadline).grow(taking, 1.0, tol)
        if least is None or least.missing > _MISSING:
            return None if least is None else least._replace(cost=np.inf)
    return None


class _Columns:
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
        """Of every instance."""
        return np.maximum.reduceat(reduced, self.starts)

    def grow(self, taking: Bools, large: float, tol: float) -> ColumnSolution | None:
        """Take labels in (into ``taking``) until none is missing."""
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
        """The program of some labels, whose rows may be violated at a cost of ``large``."""
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
        # Many rows are as degenerate as they come: there an interior point and a crossover are far faster than simplex.
        method = "highs-ipm" if n_rows > _MANY_ROWS else "highs"
        result = run_linear(some, self.deadline.left, method=method)
        if result.x is None:
            result = run_linear(some, self.deadline.left)
        if result.x is None:
            return None
        x[columns] = result.x[: len(columns)]
        missing = float(result.x[len(columns) :].sum())
        return ColumnSolution(x, result.prices[:n_rows], result.cost + float(program.cost[fixed].sum()), missing)
