"""What a run of EM remembers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

Params = TypeVar("Params")


@dataclass(frozen=True)
class Record:
    """One iteration, measured at the parameters its E-step used.

    Attributes
    ----------
    gamma : float
    objective : float
        F(q, theta) after the E-step, nats (a bound from above while the duals are not solved).
    free_objective : float
        The same without constraints; the log-likelihood when gamma is 1.
    violation : float
        Largest constraint violation of the posteriors used.
    seconds : float
        Wall time of the iteration.
    """

    gamma: float
    objective: float
    free_objective: float
    violation: float
    seconds: float

    @property
    def penalty(self) -> float:
        """What the constraints cost, nats; at gamma = 1 the KL divergence of [Ganchev2010] eq. 4."""
        return self.free_objective - self.objective


class FitStatus(Enum):
    """How a run ended; the value is the message shown."""

    CONVERGED = "the objective's gain fell below tol at every gamma"
    FIXED_ITERATIONS = "ran the iterations asked for"
    MAX_ITERATIONS = "max_iter was reached before the objective's gain fell below tol"


@dataclass(frozen=True)
class FitResult(Generic[Params]):
    """Parameters after the last M-step and how they came about."""

    params: Params
    history: tuple[Record, ...]
    status: FitStatus
