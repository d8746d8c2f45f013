"""What the E-step of one shard gives, and the sum of several."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.kernels.unions import add_at

Stats = TypeVar("Stats")


@dataclass(eq=False)
class RowSum:
    """Numbers by row of the constraints that span the corpus: a value with ``+``; ``a += b`` changes a.

    Attributes
    ----------
    values : ndarray
    rows : ndarray of the same shape, int, or None
        The rows that they belong to, others being 0; None for all.
    n_rows : int
    """

    values: Floats
    rows: Ints | None
    n_rows: int

    @property
    def dense(self) -> Floats:
        """Of all rows, shape (n_rows,)."""
        if self.rows is None:
            return self.values
        total = np.zeros(self.n_rows)
        total[self.rows] = self.values
        return total

    def __iadd__(self, other: RowSum) -> RowSum:
        self.values, self.rows = self.dense, None
        if other.rows is None:
            self.values += other.values
        else:
            add_at(self.values, other.rows, other.values)
        return self

    def __add__(self, other: RowSum) -> RowSum:
        total = RowSum(self.dense.copy(), None, self.n_rows)
        total += other
        return total


@dataclass
class EStepResult(Generic[Stats]):
    """Statistics of a shard under its posteriors and the numbers that a history keeps; values that add up.

    Attributes
    ----------
    stats
        Expected counts; any values with ``+`` and a product with a number.
    objective : float
        Dual value of the projection, summed over instances (nats): the E-step's maximum once it is solved.
    free_objective : float
        The same without constraints; at gamma = 1 the log-likelihood.
    violation : float
        Largest violation of a constraint inside the shard by the posteriors that were used.
    skipped : Counter
        In how many instances each constraint, by name, was left out because it cannot hold there.
    expectation : RowSum or None
        Of the constraints that span the corpus, if there are any.
    """

    stats: Stats
    objective: float
    free_objective: float
    violation: float = 0.0
    skipped: Counter[str] = field(default_factory=Counter)
    expectation: RowSum | None = None

    def __add__(self, other: EStepResult[Stats]) -> EStepResult[Stats]:
        stats: Any = self.stats
        return self._with(stats + other.stats, other)

    def __iadd__(self, other: EStepResult[Stats]) -> EStepResult[Stats]:
        """As ``+``, in the memory of this one's statistics."""
        stats: Any = self.stats
        stats += other.stats
        return self._with(stats, other)

    def _with(self, stats: Stats, other: EStepResult[Stats]) -> EStepResult[Stats]:
        expectation = self.expectation
        if expectation is not None and other.expectation is not None:
            expectation += other.expectation
        values = self.objective + other.objective, self.free_objective + other.free_objective
        violation, skipped = max(self.violation, other.violation), self.skipped + other.skipped
        return EStepResult(stats, *values, violation, skipped, expectation)
