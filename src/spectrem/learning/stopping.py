"""When a stage of constant gamma is over."""

from __future__ import annotations

from dataclasses import dataclass

from spectrem.learning.history import Record


@dataclass(frozen=True)
class Stopping:
    """Stop a stage after ``max_iter`` iterations or when the objective's relative gain falls below ``tol``.

    Parameters
    ----------
    max_iter : int
        Iterations for every gamma of the schedule.
    tol : float
        Relative gain of the objective (nats per nat) below which a stage has converged; 0 runs all iterations.
    """

    max_iter: int = 5
    tol: float = 0.0

    def converged(self, stage: list[Record]) -> bool:
        """Whether the last two records of the stage are as close as ``tol`` asks."""
        if self.tol <= 0 or len(stage) < 2:
            return False
        before, after = stage[-2].objective, stage[-1].objective
        return abs(after - before) <= self.tol * max(abs(before), 1e-300)
