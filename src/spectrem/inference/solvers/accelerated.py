"""Proximal gradient steps with Anderson extrapolation, for slack of any kind, many problems side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Floats
from spectrem.inference.oracle import DualFunction
from spectrem.inference.result import Status
from spectrem.inference.segments import members_of, sum_by
from spectrem.inference.solvers.solver import History, Solution, check_now, mark_infeasible, residual_of
from spectrem.kernels.duals.anderson import anderson_points


@dataclass(frozen=True)
class Accelerated:
    """Anderson-accelerated proximal gradient, with a step size and a safeguard of its own for every problem.

    The extrapolated point is taken only where it lowers the dual; otherwise the plain proximal-gradient point is, whose
    step is halved until it does (Mai & Johansson 2020).

    Use when gamma > 0 and a slack norm ties rows together (l2, an linf penalty as in l1/linf sparsity, an l1 bound):
    it needs nothing of the slack but its proximal step.

    Parameters
    ----------
    tol : float
        Largest residual, relative to the size of the row.
    max_iter : int
        Passes over the batch.
    memory : int
        Steps kept per problem; memory is ``3 * memory * n_rows`` floats.
    """

    tol: float = 1e-8
    max_iter: int = 3000
    memory: int = 6

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        terms, problem, n, scale = dual.terms, dual.row_problem, dual.n_problems, dual.scale
        order, offsets = members_of(problem, n)
        history = History(problem, n, self.memory, 3)

        def per_problem(rows: Floats) -> Floats:
            return sum_by(problem, rows, n)

        active = np.ones(n, bool)
        x = terms.project(start)
        value, gradient = dual.evaluate(x, active)
        value = value + (terms_x := terms.value(x))
        residual = residual_of(dual, x, gradient)
        active = residual > self.tol
        status = np.where(active, Status.MAX_ITERATIONS, Status.SOLVED).astype(np.int8)
        step = np.full(n, max(dual.gamma, 1e-6))
        plain = np.zeros(n, bool)
        iteration = 0
        while active.any() and iteration < self.max_iter:
            iteration += 1
            reach = step[problem] * scale
            tangent = x - terms.prox(x - reach * gradient, reach)
            base, slope = x.copy(), gradient.copy()
            extrapolated = active & ~plain & (history.stored > 0)
            anderson_points(
                offsets, order, extrapolated, tangent, scale, *history.arrays, history.newest, history.stored,
                base, slope,
            )  # fmt: skip
            trial = np.where(active[problem], terms.prox(base - reach * slope, reach), x)
            value_t, gradient_t = dual.evaluate(trial, active)
            value_t = value_t + (terms_t := terms.value(trial))
            move = trial - x
            # Sufficient decrease, as in Armijo's rule.
            least = 1e-4 * per_problem(tangent * tangent / scale) / step
            lower = value_t <= value - least
            # Convexity bounds the decrease by the slope at the trial, which round-off in the values cannot hide.
            lower |= per_problem(gradient_t * move) + terms_t - terms_x <= -least
            residual_t = residual_of(dual, trial, gradient_t)
            # Values equal to rounding decide nothing: an extrapolation is then taken if it halves the residual.
            level = np.abs(value_t - value) <= 1e-12 * np.maximum(1.0, np.abs(value))
            lower |= extrapolated & level & (residual_t <= 0.5 * residual)
            # A plain step is accepted, too, if the gradient changes along it as little as the step size supposes.
            bent = per_problem((gradient_t - gradient) * move)
            lower |= ~extrapolated & (bent <= 0.5 * per_problem(move * move / scale) / step)
            accepted = active & lower
            failed = active & ~lower & ~extrapolated
            moved = accepted[problem]
            tangent_t = trial - terms.prox(trial - reach * gradient_t, reach)
            history.keep(accepted, move, tangent_t - tangent, gradient_t - gradient)
            # Where the dual is almost linear the step size grows. Another step size makes another fixed-point map: its
            # history begins anew.
            shallow = accepted & (bent <= 0.01 * per_problem(move * move / scale) / step)
            history.stored[failed | shallow] = 0
            step = np.where(failed, step * 0.5, np.where(shallow, step * 4.0, step))
            plain = active & ~accepted & ~failed
            x, gradient = np.where(moved, trial, x), np.where(moved, gradient_t, gradient)
            value, terms_x = np.where(accepted, value_t, value), np.where(accepted, terms_t, terms_x)
            residual = np.where(accepted, residual_t, residual)
            active &= (residual > self.tol) & (step > 1e-12)
            status[residual <= self.tol] = Status.SOLVED
            if check_now(iteration):
                active &= ~mark_infeasible(dual, x, active, status)
        mark_infeasible(dual, x, status == Status.MAX_ITERATIONS, status)
        return Solution(x, status, residual, iteration)
