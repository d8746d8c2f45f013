"""What the E-step of one shard hands back to the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Stats = TypeVar("Stats")


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
    """

    stats: Stats
    objective: float
    free_objective: float
    violation: float
