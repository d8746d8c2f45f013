"""One row per problem: the root of a monotone function, all problems side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Floats
from spectrem.exceptions import InvalidInputError
from spectrem.inference.oracle import DualFunction
from spectrem.inference.result import Status
from spectrem.inference.solvers.solver import Solution, check_now, mark_infeasible, residual_of


@dataclass(frozen=True)
class Bracket:
    """Bracketed secant steps (Anderson and Bjorck's rule, bisection as the safeguard) on each scalar dual.

    Use when every problem has a single row, for example "at least one verb per sentence": no step sizes to choose,
    and 6 to 10 passes give full accuracy. gamma > 0.

    Parameters
    ----------
    tol : float
        Largest residual, relative to the size of the row.
    max_iter : int
    """

    tol: float = 1e-8
    max_iter: int = 100

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        n = len(start)
        terms, problem = dual.terms, dual.row_problem
        if dual.n_problems != n:
            raise InvalidInputError(
                f"solver Bracket needs one row per independent problem; got {n} rows in {dual.n_problems} problems; "
                "use QuasiNewton() or Accelerated(), or leave solver=None"
            )
        row = np.argsort(problem)  # the row of every problem
        active = np.ones(n, bool)
        origin = terms.project(np.zeros(n))
        slope = dual.evaluate(origin, active).gradient
        # The term kink * |lambda| has slope +kink right of 0 and -kink left of it: a constant on the side of the root.
        right, left = slope + terms.kink < 0, slope - terms.kink > 0
        low = np.where(right, 0.0, np.where(left, terms.lower, 0.0))
        high = np.where(right, terms.upper, 0.0)
        shift = np.where(right, terms.kink, -terms.kink)
        f_low = np.where(right, slope + shift, -np.inf)
        f_high = np.where(left, slope + shift, np.inf)
        x = origin.copy()
        residual = residual_of(dual, x, slope)[problem]
        active = (right | left) & (residual > self.tol) & (low < high)
        status = np.full(n, Status.SOLVED, np.int8)
        reach = max(dual.gamma, 1e-3) / dual.lever
        side = np.zeros(n, np.int8)
        warm = active & (start > low) & (start < high) & (start != 0)
        iteration = 0
        while active.any() and iteration < self.max_iter:
            iteration += 1
            # A root is bracketed once both ends have a finite value; until then steps outward double. Every eighth
            # step is a bisection, should the secant not shrink the bracket.
            closed = np.isfinite(f_low) & np.isfinite(f_high)
            with np.errstate(invalid="ignore", divide="ignore"):
                secant = (low * f_high - high * f_low) / (f_high - f_low)
            inside = closed & (secant > low) & (secant < high) & (iteration % 8 != 7)
            outward = np.where(np.isneginf(f_low), np.maximum(high - reach, low), np.minimum(low + reach, high))
            trial = np.where(inside, secant, np.where(closed, 0.5 * (low + high), outward))
            x = np.where(active, np.where(warm, start, trial), x)
            warm[:] = False
            gradient = dual.evaluate(x, active[row]).gradient
            f = gradient + shift
            now = residual_of(dual, x, gradient)[problem]
            residual = np.where(active, now, residual)
            up = active & (f > 0)
            down = active & (f <= 0)
            open_end = (up & np.isneginf(f_low)) | (down & np.isposinf(f_high))
            reach = np.where(open_end, reach * 2, reach)
            # Anderson and Bjorck: the value at an end that stayed twice is made smaller, so that it moves next time.
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio_low, ratio_high = 1.0 - f / f_high, 1.0 - f / f_low
            again = up & (side == 1) & np.isfinite(f_low)
            f_low = np.where(again, f_low * np.where(ratio_low > 0, ratio_low, 0.5), f_low)
            again = down & (side == -1) & np.isfinite(f_high)
            f_high = np.where(again, f_high * np.where(ratio_high > 0, ratio_high, 0.5), f_high)
            high, f_high = np.where(up, x, high), np.where(up, f, f_high)
            low, f_low = np.where(down, x, low), np.where(down, f, f_low)
            side = np.where(up, 1, np.where(down, -1, side)).astype(np.int8)
            spent = np.isfinite(high) & np.isfinite(low) & (high - low <= 4e-16 * np.maximum(np.abs(low), np.abs(high)))
            active &= (residual > self.tol) & ~spent
            if check_now(iteration):
                active &= ~mark_infeasible(dual, x, active[row], status)[problem]
        status[problem[active]] = Status.MAX_ITERATIONS
        mark_infeasible(dual, x, active[row], status)
        return Solution(x, status, residual[row], iteration)
