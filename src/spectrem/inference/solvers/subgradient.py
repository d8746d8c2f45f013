"""Lagrangian relaxation: subgradient steps at gamma = 0, with averaged primal iterates and a certificate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.exceptions import InvalidInputError
from spectrem.inference.oracle import BatchDual, DualFunction
from spectrem.inference.result import Status
from spectrem.inference.segments import sum_by
from spectrem.inference.solvers.solver import Solution, excess_of, mark_infeasible
from spectrem.structures._ragged import no_parts
from spectrem.structures.parts import Parts


@dataclass(frozen=True)
class Subgradient:
    """``lambda <- project(lambda + eta_k (U h - b))`` with h the best structure at lambda ([Samdani2012] eq. 13).

    A problem whose h is feasible and closes the duality gap is certified: h is then the exact integer optimum. The
    others return the average of their iterates, weighted toward the late ones, which tends to the solution of the
    linear relaxation; the step falls as ``1 / sqrt(1 + k)`` with k the number of times the dual rose.

    Use when gamma = 0 and there are too many rows for ``LinearProgram``, which is exact.

    Parameters
    ----------
    steps : int
        Passes over the batch.
    step_size : float
        First step, in nats per unit of a row's violation times its squared norm.
    tol : float
        Relative duality gap and violation at which an average counts as solved.
    """

    steps: int = 300
    step_size: float = 1.0
    tol: float = 1e-8

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        if dual.gamma != 0:
            raise InvalidInputError(
                f"solver Subgradient needs gamma = 0; got gamma = {dual.gamma:g}; leave solver=None to have one chosen"
            )
        n, problem = dual.n_problems, dual.row_problem
        status = np.full(n, Status.MAX_ITERATIONS, np.int8)
        active = np.ones(n, bool)
        multipliers = start.copy()
        best = np.full(n, np.inf)
        mean_score, mean_excess = np.zeros(n), np.zeros(len(start))
        residual, last = np.full(n, np.inf), np.zeros(n, np.int64)
        t = -1
        for t, x, value, gradient in self._walk(dual, start, active):
            rows = active[problem]
            bound = value + dual.terms.value(x)
            score = value - sum_by(problem, x * gradient, n)
            excess = excess_of(dual, gradient)
            gap = self._gap(dual, bound, score, excess)
            certified = active & (gap <= 1e-9)
            better = (active & (bound < best)) | certified
            best = np.where(better, bound, best)
            multipliers = np.where(better[problem], x, multipliers)
            share = 2.0 / (t + 2)
            mean_score = np.where(active, (1 - share) * mean_score + share * score, mean_score)
            mean_excess = np.where(rows, (1 - share) * mean_excess + share * excess, mean_excess)
            gap = self._gap(dual, best, mean_score, mean_excess)
            residual = np.where(certified, 0.0, np.where(active, gap, residual))
            last = np.where(active, t, last)
            status[certified] = Status.CERTIFIED
            status[active & ~certified & (gap <= self.tol)] = Status.SOLVED
            active &= status == Status.MAX_ITERATIONS
            if not active.any():
                break
        mark_infeasible(dual, multipliers, active, status)
        mixed = (status != Status.CERTIFIED) & (status != Status.INFEASIBLE)
        if not isinstance(dual, BatchDual):
            return Solution(multipliers, status, residual, t + 1)
        average = partial(self._average, dual, start, last)
        return Solution(multipliers, status, residual, t + 1, mixed, average)

    @staticmethod
    def _gap(dual: DualFunction, bound: Floats, score: Floats, excess: Floats) -> Floats:
        """The larger of the relative duality gap and the violation, per problem."""
        primal = score - dual.terms.cost(excess)
        gap = np.abs(bound - primal) / dual.gap_unit(bound)
        size = dual.size / np.where(dual.row_weight > 0, dual.row_weight, 1.0)
        return np.maximum(gap, dual.terms.worst_violation(excess, size))

    def _walk(self, dual: DualFunction, start: Floats, active: Bools) -> Iterator[tuple[int, Floats, Floats, Floats]]:
        """Number, multipliers, value and gradient of every step; the caller removes problems from ``active``."""
        x = dual.terms.project(start)
        rises = np.zeros(dual.n_problems)
        before = np.full(dual.n_problems, np.inf)
        for t in range(self.steps):
            value, gradient = dual.evaluate(x, active)
            yield t, x, value, gradient
            bound = value + dual.terms.value(x)
            rises += bound > before
            before = bound
            step = (self.step_size / np.sqrt(1.0 + rises))[dual.row_problem] * dual.scale
            x = dual.terms.prox(x - step * gradient, step)

    def _average(self, dual: BatchDual, start: Floats, last: Ints, problems: Bools) -> tuple[Parts, Floats]:
        """Repeat the steps and average their structures with weights 1, 2, 3, ..., so that none has to be kept."""
        structure, active = dual.structure, problems.copy()
        parts = no_parts(structure)
        score = np.zeros(dual.n_problems)
        for t, x, _, _ in self._walk(dual, start, active):
            share = np.where(active, 2.0 * (t + 1) / ((last + 1.0) * (last + 2.0)), 0.0)
            instance_share = np.where(dual.instances_of(active), share[np.maximum(dual.instance_problem, 0)], 0.0)
            values, piece = dual.smoothed_max(x, instance_share > 0, dual.weights * instance_share)
            parts.add(piece, instance_share[structure.instance])
            excess = dual.row_weight * (dual.rows.bounds - dual.matrix @ piece.unary)
            whole = dual.per_problem(values, x) - sum_by(dual.row_problem, x * excess, dual.n_problems)
            score += share * whole
            active &= t < last
            if not active.any():
                break
        return parts, score
