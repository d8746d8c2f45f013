"""What an E-step is made of, and what that of one shard hands back to the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Stats = TypeVar("Stats")
Shard = TypeVar("Shard")

Start = NDArray[np.float64] | None


@dataclass(frozen=True)
class EStepResult(Generic[Stats]):
    """Statistics of a shard under its projected posteriors, and the numbers that history keeps.

    Attributes
    ----------
    stats
        Expected counts, to be added in the order of the shards.
    objective : float
        Dual value of the projection, summed over instances (nats): the E-step's maximum once it is solved.
    free_objective : float
        The same without constraints; at gamma = 1 the log-likelihood.
    violation : float
        Largest violation of a constraint by the posteriors that were used.
    multipliers : ndarray or None
        Of the shard's own constraints, if the next iteration is to start from them.
    skipped : mapping of name -> int
        In how many instances each constraint was left out because it cannot hold there.
    """

    stats: Stats
    objective: float
    free_objective: float
    violation: float
    multipliers: Start = None
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class EStepTask(Generic[Shard, Stats]):
    """An E-step at given parameters and gamma.

    Attributes
    ----------
    run : callable
        From a shard's number, the shard and the multipliers to start from to its result; pure, so that any
        worker can run it.
    constant : float
        What constraints over the whole corpus add to the objective, nats.
    violation : float
        Largest relative violation of a constraint over the corpus.
    """

    run: Callable[[int, Shard, Start], EStepResult[Stats]]
    constant: float = 0.0
    violation: float = 0.0
