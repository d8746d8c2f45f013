"""Statistics and numbers that the E-step of a shard gives, and the sum of several."""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Generic, TypeVar

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.kernels.unions import add_at

Stats = TypeVar("Stats")


class Statistics(SimpleNamespace):
    """Named statistics, each an array, a number or None: values with ``a + b`` and ``factor * a``.

    ``a += b`` changes the arrays of a.

    Examples
    --------
    >>> one, other = Statistics(counts=np.array([1.0, 2.0]), value=3.0), Statistics(counts=np.ones(2), value=1.0)
    >>> one + 2.0 * other
    Statistics(counts=array([3., 4.]), value=5.0)
    """

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(**{name: None if a is None else a + getattr(other, name) for name, a in vars(self).items()})

    def __iadd__(self, other: Statistics) -> Statistics:
        for name, value in vars(self).items():
            if value is not None:
                setattr(self, name, operator.iadd(value, getattr(other, name)))
        return self

    def __rmul__(self, factor: float) -> Statistics:
        return Statistics(**{name: None if value is None else factor * value for name, value in vars(self).items()})


@dataclass(frozen=True, eq=False)
class RowSum:
    """One number for each row of the constraints that span the corpus; a value with ``+``.

    Most rows have parts in few shards: the lists of the shards are kept, and are added, in their order, by `dense`.

    Attributes
    ----------
    listed : tuple of (rows, values)
        Pairs of ndarrays of one shape: rows, each at most once in a list, and their numbers.
    n_rows : int
    """

    listed: tuple[tuple[Ints, Floats], ...]
    n_rows: int

    @property
    def dense(self) -> Floats:
        """The numbers of all rows, shape (n_rows,); 0 for rows that no list contains."""
        total = np.zeros(self.n_rows)
        for rows, values in self.listed:
            add_at(total, rows, values)
        return total

    def __add__(self, other: RowSum) -> RowSum:
        return RowSum(self.listed + other.listed, self.n_rows)


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
        Number of instances, by name of constraint, in which the constraint was left out as it cannot hold there.
    """

    stats: Stats
    objective: float
    free_objective: float
    violation: float = 0.0
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def in_any_order(self) -> bool:
        """Whether sums of such results are exact, and so the same in any order; see `spectrem.corpus.fold`."""
        return getattr(self.stats, "exact", False)

    def __add__(self, other: EStepResult[Stats]) -> EStepResult[Stats]:
        return self._with(operator.add(self.stats, other.stats), other)

    def __iadd__(self, other: EStepResult[Stats]) -> EStepResult[Stats]:
        """The same sum, made in the memory of the left statistics."""
        return self._with(operator.iadd(self.stats, other.stats), other)

    def _with(self, stats: Stats, other: EStepResult[Stats]) -> EStepResult[Stats]:
        values = self.objective + other.objective, self.free_objective + other.free_objective
        violation, skipped = max(self.violation, other.violation), self.skipped + other.skipped
        return EStepResult(stats, *values, violation, skipped)
