"""Projected quasi-Newton steps and accelerated proximal steps with line searches, many problems side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats
from spectrem.exceptions import InvalidInputError
from spectrem.inference.oracle import DualFunction
from spectrem.inference.result import Status
from spectrem.inference.segments import max_by, members_of, sum_by
from spectrem.inference.solvers.solver import History, Solution, check_now, mark_infeasible, residual_of
from spectrem.kernels.duals.extrapolation import anderson_points, quasi_newton_directions


@dataclass(frozen=True)
class QuasiNewton:
    """L-BFGS on the rows that are off their bounds, with a projected, backtracking line search per problem.

    Rows held at a bound by the gradient stay there (two-metric projection: Bertsekas 1982; with limited memory:
    Schmidt, Kim & Sra 2012); the others move by the inverse-Hessian estimate built from the last ``memory`` steps.

    Use when gamma > 0 and slack, if any, acts on each row alone (none, an l1 penalty, an linf bound on ``<=`` rows):
    for one problem over a corpus as for thousands of small ones.

    Parameters
    ----------
    tol : float
        Largest residual, relative to the size of the row.
    max_iter : int
        Passes over the batch.
    memory : int
        Pairs kept per problem; memory is ``2 * memory * n_rows`` floats.
    """

    tol: float = 1e-8
    max_iter: int = 1000
    memory: int = 8

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        terms, problem, n = dual.terms, dual.row_problem, dual.n_problems
        if not terms.is_box:
            raise InvalidInputError(
                "solver QuasiNewton handles rows without slack or with slack on each row alone; got a slack norm that "
                "ties rows together; use Accelerated(), or leave solver=None"
            )
        order, offsets = members_of(problem, n)
        history, direction = History(problem, n, self.memory, 2), np.zeros(len(problem))

        def per_problem(rows: Floats) -> Floats:
            return sum_by(problem, rows, n)

        def evaluate(x: Floats, active: Bools) -> tuple[NDArray, NDArray]:
            value, gradient = dual.evaluate(x, active)
            return value + terms.value(x), gradient + terms.kink

        active = np.ones(n, bool)
        x = terms.project(start)
        f, g = evaluate(x, active)
        residual = residual_of(dual, x, g - terms.kink)
        active = residual > self.tol
        length, reach = np.ones(n), np.full(n, np.inf)
        wanted = active.copy()
        status = np.where(active, Status.MAX_ITERATIONS, Status.SOLVED).astype(np.int8)
        iteration = 0
        while active.any() and iteration < self.max_iter:
            iteration += 1
            near = np.minimum(1e-3, residual)[problem] / dual.lever
            at_low = (x - terms.lower <= near) & (g > 0)
            at_high = (terms.upper - x <= near) & (g < 0)
            free = ~(at_low | at_high)
            quasi_newton_directions(
                offsets, order, wanted, free, g, dual.scale, dual.lever,
                *history.arrays, history.newest, history.stored, direction,
            )  # fmt: skip
            # Rounding in the gradient may pass for curvature where there is none: a step moves scores at most 30 times
            # as far as the last one did.
            leap = max_by(problem, np.abs(direction) * dual.lever, n)
            most = np.where(wanted, 30.0 * reach, np.inf)
            tame = np.divide(most, leap, out=np.ones(n), where=leap > most)
            fresh = wanted[problem]
            direction *= tame[problem]
            direction = np.where(fresh & at_low, terms.lower - x, direction)
            direction = np.where(fresh & at_high, terms.upper - x, direction)
            trial = np.clip(x + length[problem] * direction, terms.lower, terms.upper)
            f_trial, g_trial = evaluate(trial, active)
            move = trial - x
            expected = 1e-4 * per_problem(g * move)
            # For a convex function a slope below ``expected`` at the trial proves the decrease, free of round-off in f.
            slope = per_problem(g_trial * move)
            lower = (f_trial <= f + expected) | (slope <= expected)
            accepted = active & (expected < 0) & lower
            history.keep(accepted, move, g_trial - g)
            moved = accepted[problem]
            x, g = np.where(moved, trial, x), np.where(moved, g_trial, g)
            f = np.where(accepted, f_trial, f)
            reach = np.where(accepted, max_by(problem, np.abs(move) * dual.lever, n), reach)
            residual = np.where(accepted, residual_of(dual, x, g - terms.kink), residual)
            # Where the dual is almost linear the estimate of the Hessian is of no use: the next step is twice as long.
            shallow = slope <= 0.9e4 * expected
            length = np.where(
                accepted, np.where(shallow, 2.0 * length, 1.0), length * np.where(length == 1.0, 0.25, 0.5)
            )
            # If the line search fails, drop the history once; if it fails without one, give up on this problem.
            stuck = active & ~accepted & ((length < 1e-9) | (expected >= 0))
            lost = stuck & (history.stored == 0)
            status[lost] = Status.MAX_ITERATIONS
            active &= ~lost & (residual > self.tol)
            history.stored[stuck] = 0
            length[stuck] = 1.0
            wanted = active & (accepted | stuck)
            status[residual <= self.tol] = Status.SOLVED
            if check_now(iteration):
                active &= ~mark_infeasible(dual, x, active, status)
        mark_infeasible(dual, x, status == Status.MAX_ITERATIONS, status)
        return Solution(x, status, residual, iteration)


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
