"""The record of every iteration of EM, and the result of a run, of which the best of several is kept."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import isfinite, nan
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from spectrem.exceptions import warn

if TYPE_CHECKING:
    from spectrem.learning.posed_corpus import PosedCorpus

Params = TypeVar("Params")
Result = TypeVar("Result")


class Measured(Protocol):
    """The numbers of an E-step, without the log-prior; see `EStepResult`."""

    objective: float
    free_objective: float
    violation: float


@dataclass(frozen=True)
class Record:
    """One iteration, measured at the parameters its E-step used.

    Attributes
    ----------
    gamma : float
    objective : float
        F(q, theta) after the E-step with the log-prior of the parameters, nats (a bound from above while the duals are
        not solved). This is what EM maximises.
    free_objective : float
        The same without constraints and log-prior; the log-likelihood when gamma is 1.
    violation : float
        Largest violation of a constraint by the posteriors that the M-step used.
    seconds : float
        Wall time of the iteration.
    log_prior : float
        Log-prior of the parameters, nats; 0 for models without a prior, -inf for parameters that it rules out.
    """

    gamma: float
    objective: float
    free_objective: float
    violation: float
    seconds: float
    log_prior: float = 0.0

    @classmethod
    def of(cls, gamma: float, expected: Measured, log_prior: float) -> Record:
        """The record of an E-step that took no time, at parameters with this log-prior."""
        objective = expected.objective + log_prior
        return cls(gamma, objective, expected.free_objective, expected.violation, 0.0, log_prior)

    @property
    def penalty(self) -> float:
        """The cost of the constraints, nats; at gamma = 1 the KL divergence of [Ganchev2010] eq. 4.

        NaN where the log-prior is infinite.
        """
        return self.free_objective - (self.objective - self.log_prior) if isfinite(self.log_prior) else nan


class FitStatus(Enum):
    """How a run ended; the value is the message shown."""

    CONVERGED = "the objective's gain fell below tol at every gamma"
    FIXED_ITERATIONS = "ran the iterations asked for"
    MAX_ITERATIONS = "max_iter was reached before the objective's gain fell below tol"
    MAX_STEPS = "the objective was not within m_tol of its maximum when L-BFGS ended"


@dataclass(frozen=True)
class FitResult(Generic[Params]):
    """Parameters after the last M-step, and the course of the run.

    ``posed`` is the corpus as the last E-step left it, with the multipliers to go on from.
    """

    params: Params
    history: tuple[Record, ...]
    status: FitStatus
    posed: PosedCorpus


def warn_skipped(skipped: Counter[str]) -> None:
    """Say in how many instances constraints were left out that cannot hold there."""
    listed = ", ".join(f"{name!r} in {count} of the instances" for name, count in skipped.items())
    warn(f"constraints that cannot hold were left out: {listed}")


def keep_best(runs: Sequence[Callable[[], Result]], objective: Callable[[Result], float]) -> Result:
    """The result with the largest objective, the first among equals; only the warnings of its run are issued.

    Parameters
    ----------
    runs : sequence of callables
        At least one; called in turn.
    objective : callable

    Examples
    --------
    >>> keep_best([lambda: "two", lambda: "three", lambda: "seven"], len)
    'three'
    """
    if len(runs) == 1:
        return runs[0]()
    best: tuple[Result, float, list[warnings.WarningMessage]] | None = None
    for run in runs:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = run()
        reached = objective(result)
        if best is None or reached > best[1]:
            best = result, reached, caught
    assert best is not None
    for warning in best[2]:
        warn(warning.message, warning.category)
    return best[0]
