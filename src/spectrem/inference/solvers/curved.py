"""Projected Newton steps for one problem of few rows whose curvature the caller computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Bools, Floats
from spectrem.inference.oracle import DualFunction
from spectrem.inference.result import Status
from spectrem.inference.solvers.quasi_newton import QuasiNewton
from spectrem.inference.solvers.solver import Solution, residual_of

# Shares of its own curvature that are added to a row's, so that rows may depend on each other.
_RIDGE = 1e-10
_FAR = 2.0


@dataclass(frozen=True)
class Curved:
    """Newton's method on the rows that are off their bounds (Bertsekas 1982), with a backtracking line search.

    Use for rows over a corpus where an evaluation is much dearer than its curvature, as each solves the rows inside
    instances: it takes a third of the evaluations of `QuasiNewton`, which finishes what it cannot.

    Parameters
    ----------
    curvature : callable
        From multipliers, those evaluated last, to the second derivatives of the dual, shape (n_rows, n_rows), or NaN.
    tol : float
        Largest residual, relative to the size of the row.
    max_iter : int
        Evaluations.
    far : float
        Steps that move scores farther than so many gammas are damped; inf suits a quadratic function.
    """

    curvature: Callable[[Floats], Floats]
    tol: float = 1e-8
    max_iter: int = 40
    far: float = _FAR

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        terms, active = dual.terms, np.ones(1, np.bool_)

        def evaluate(x: Floats) -> tuple[float, Floats]:
            value, gradient = dual.evaluate(x, active)
            return float((value + terms.value(x))[0]), gradient + terms.kink

        x = terms.project(start)
        f, g = evaluate(x)
        count = 1
        while True:
            residual = residual_of(dual, x, g - terms.kink)
            if residual[0] <= self.tol:
                return Solution(x, np.full(1, Status.SOLVED, np.int8), residual, count)
            step = self._step(dual, x, g, min(1e-3, float(residual[0])))
            length = 1.0 if step is None else _damping(float(np.abs(step * dual.lever).max()) / dual.gamma, self.far)
            while step is not None and length > 1e-6 and count < self.max_iter:
                trial = np.clip(x + length * step, terms.lower, terms.upper)
                expected = 1e-4 * float(g @ (trial - x))
                if expected < 0:
                    f_trial, g_trial = evaluate(trial)
                    count += 1
                    # By convexity the slope at the trial proves decreases that rounding hides in the values.
                    if f_trial <= f + expected or float(g_trial @ (trial - x)) <= expected:
                        break
                length *= 0.3
            else:
                rest = QuasiNewton(self.tol).solve(dual, x)
                return Solution(rest.multipliers, rest.status, rest.residual, count + rest.n_iter)
            x, f, g = trial, f_trial, g_trial

    def _step(self, dual: DualFunction, x: Floats, g: Floats, near: float) -> Floats | None:
        """Newton's step of the rows that do not rest at a bound, to the bound for the others."""
        lower, upper = dual.terms.lower, dual.terms.upper
        low: Bools = ((x - lower) * dual.lever <= near) & (g > 0)
        high: Bools = ((upper - x) * dual.lever <= near) & (g < 0)
        step = np.zeros(len(x))
        step[low], step[high] = (lower - x)[low], (upper - x)[high]
        free = np.flatnonzero(~(low | high))
        curve = self.curvature(x)[np.ix_(free, free)]
        diagonal = np.diagonal(curve)
        if not (np.isfinite(curve).all() and (diagonal > 0).all()):
            return None
        unit = 1.0 / np.sqrt(diagonal)
        scaled = curve * np.outer(unit, unit) + _RIDGE * np.eye(len(free))
        import scipy.linalg  # as slow to load as some commands are to run

        try:
            step[free] = -unit * scipy.linalg.solve(scaled, unit * g[free], assume_a="pos")
        except np.linalg.LinAlgError:
            return None
        return step


def _damping(reach: float, far: float) -> float:
    """The share of a step that is tried first, by how far it moves scores, in units of gamma.

    Far steps cost more than they gain, as all problems inside evaluations move as far.
    """
    return 1.0 if reach <= far else far * math.log1p(reach / far) / reach
