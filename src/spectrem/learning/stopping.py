"""When a stage of constant gamma is over."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spectrem.learning.history import Record


@dataclass(frozen=True)
class Stopping:
    """Stop a stage after ``max_iter`` iterations or when the objective's gain falls below ``tol``.

    Parameters
    ----------
    max_iter : int
        Iterations for every gamma of the schedule.
    tol : float
        Gain of the objective, in proportion to ``scale``, below which a stage has converged; 0 runs all iterations.
    scale : float, optional
        By default the size of the objective itself (nats per nat); a number of rows makes ``tol`` nats per row.
    """

    max_iter: int = 5
    tol: float = 0.0
    scale: float | None = None

    def converged(self, stage: list[Record]) -> bool:
        """Whether the last two records of the stage are as close as ``tol`` asks."""
        if self.tol <= 0 or len(stage) < 2:
            return False
        before, after = stage[-2].objective, stage[-1].objective
        if before == -math.inf:
            return False
        scale = abs(before) if self.scale is None else self.scale
        return abs(after - before) <= self.tol * max(scale, 1e-300)
