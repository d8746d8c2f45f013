"""A given number of steps: projected subgradient as the papers ran it, and gradient with spectral step lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Floats
from spectrem.exceptions import InvalidInputError
from spectrem.inference.oracle import DualFunction
from spectrem.inference.result import Status
from spectrem.inference.solvers.solver import Solution, residual_of
from spectrem.kernels.duals.spectral import forward_step, measure_move, slope_along


@dataclass(frozen=True)
class FixedStep:
    """``lambda <- project(lambda + eta_t (E_q[U h] - b))``, R times ([Samdani2012] algorithms 2 and 3).

    Use when an E-step inside EM needs to be nearly right and always cost the same (R + 1 passes), or to repeat
    the papers' numbers. Works for every gamma >= 0; for gamma = 0 the result is the last best structure.

    Parameters
    ----------
    steps : int
        R, at least 0.
    step_size : float or callable
        eta in nats per unit of violation: one number, or a function of t = 0 ... R - 1.

    Raises
    ------
    InvalidInputError
        If ``steps`` is negative, or a step size (when it is used) is not positive and finite.

    Examples
    --------
    >>> FixedStep(steps=5, step_size=0.2).eta(3)
    0.2
    >>> FixedStep(steps=5, step_size=lambda t: 1.0 / (1 + t)).eta(3)
    0.25
    """

    steps: int = 5
    step_size: float | Callable[[int], float] = 1.0

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise InvalidInputError(f"steps must be at least 0; got {self.steps}; 5 is what the papers ran")

    def eta(self, t: int) -> float:
        """Step size of step ``t``."""
        step = float(self.step_size(t)) if callable(self.step_size) else float(self.step_size)
        if not 0 < step < np.inf:
            raise InvalidInputError(f"step_size must be positive and finite; got {step} at step {t}; try 1.0")
        return step

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        multipliers = start
        everything = np.ones(dual.n_problems, bool)
        residual = np.full(dual.n_problems, np.nan)
        for t in range(self.steps):
            gradient = dual.evaluate(multipliers, everything).gradient
            residual = residual_of(dual, multipliers, gradient)
            step = self.eta(t)
            multipliers = dual.terms.prox(multipliers - step * gradient, np.full(len(multipliers), step))
        status = np.full(dual.n_problems, Status.FIXED_STEPS, np.int8)
        return Solution(multipliers, status, residual, self.steps)


@dataclass(frozen=True)
class Spectral:
    """``lambda <- prox(lambda - t (b - E_q[U h]))`` with t from the last two gradients (Barzilai & Borwein 1988).

    A step that does not lower the dual is taken back and tried again at the length that the bend along it suggests, so
    that the dual falls from step to step; each step is one pass.

    Use when an E-step over a corpus need not be exact but must be cheap and keeps its multipliers from one EM
    iteration to the next, as the projected gradient of [Ganchev2010] §8 does.

    Parameters
    ----------
    steps : int
        Passes over the batch beside the first one, at least 0.
    length : float
        First step in units of gamma over the squared norm of a row.
    tol : float
        Residual below which the multipliers are left alone.

    Raises
    ------
    InvalidInputError
        If ``steps`` is negative, or the dual splits into several problems.
    """

    steps: int = 10
    length: float = 1.0
    tol: float = 1e-8

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise InvalidInputError(f"steps must be at least 0; got {self.steps}; 5 to 10 are usual")

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        if dual.n_problems != 1:
            raise InvalidInputError(
                f"solver Spectral solves one problem with rows over the corpus; got {dual.n_problems} separate ones; "
                "use Accelerated or leave solver=None to have one chosen"
            )
        terms, active, unit = dual.terms, np.ones(1, bool), max(dual.gamma, 1e-6)
        x = start
        smooth, gradient = dual.evaluate(x, active)
        cost = float(terms.value(x)[0])
        before = float(smooth[0]) + cost
        length, residual, status, iteration = self.length * unit, np.inf, Status.FIXED_STEPS, 0
        while iteration < self.steps:
            trial = np.empty_like(x)
            forward_step(x, gradient, length, dual.scale, trial)
            trial = terms.prox(trial, length * dual.scale)
            stride, slope, largest = measure_move(x, trial, gradient, dual.scale, dual.size)
            residual = largest / length
            if residual <= self.tol:
                status = Status.SOLVED
                break
            iteration += 1
            smooth, gradient_t = dual.evaluate(trial, active)
            cost_t = float(terms.value(trial)[0])
            value = float(smooth[0]) + cost_t
            bend = slope_along(x, trial, gradient_t) - slope
            spectral = stride / bend if bend > 0 else np.inf
            # Sums over a corpus have rounding errors, below which a rise of the dual means nothing.
            rounding = 16 * np.finfo(np.float64).eps * abs(before)
            if value > before + 1e-4 * (slope + cost_t - cost) + rounding:
                length = float(np.clip(spectral, 0.05 * length, 0.5 * length))
                continue
            length = float(np.clip(spectral, 0.1 * length, 10.0 * length))
            x, gradient, cost, before = trial, gradient_t, cost_t, value
        return Solution(
            x, np.array([status], np.int8), np.array([residual]), iteration, length=np.array([length / unit])
        )
