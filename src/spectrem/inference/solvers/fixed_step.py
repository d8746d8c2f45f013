"""R steps of projected subgradient with a given step size: what the papers ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Floats
from spectrem.exceptions import InvalidInputError
from spectrem.inference.oracle import DualFunction
from spectrem.inference.result import Status
from spectrem.inference.solvers.solver import Solution, residual_of


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
