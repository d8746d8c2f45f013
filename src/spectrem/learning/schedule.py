"""Schedules of gamma over the iterations of EM, the rule that ends a stage, and the record of what happened."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from enum import Enum
from math import isfinite, nan
from numbers import Real
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from spectrem._reprs import brief_dataclass
from spectrem._validate import as_count
from spectrem.exceptions import InvalidInputError, SpectremError, quoted, warn

if TYPE_CHECKING:
    from spectrem.learning.posed_corpus import PosedCorpus

Params = TypeVar("Params")


@brief_dataclass(frozen=True)
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
        Wall time of the iteration; 0 in a loaded model. Records are compared without it.
    log_prior : float
        Log-prior of the parameters, nats; 0 for models without a prior, -inf for parameters that it rules out.

    Examples
    --------
    >>> record = Record(gamma=1.0, objective=-9.0, free_objective=-8.5, violation=0.0, seconds=0.1)
    >>> record.penalty
    0.5
    """

    gamma: float
    objective: float
    free_objective: float
    violation: float
    seconds: float = field(compare=False)
    log_prior: float = 0.0

    @classmethod
    def of(cls, gamma: float, expected: Any, log_prior: float) -> Record:
        """The record of an E-step (see ``EStepResult``) that took no time, at parameters with this log-prior.

        Parameters
        ----------
        gamma : float
            Of the E-step.
        expected : EStepResult
        log_prior : float
            Nats.

        Returns
        -------
        Record
        """
        objective = expected.objective + log_prior
        return cls(gamma, objective, expected.free_objective, expected.violation, 0.0, log_prior)

    @property
    def penalty(self) -> float:
        """The cost of the constraints, nats; at gamma = 1 the KL divergence of [Ganchev2010] eq. 4.

        NaN where the log-prior is infinite.
        """
        return self.free_objective - (self.objective - self.log_prior) if isfinite(self.log_prior) else nan


class FitStatus(Enum):
    """How a run ended; the value is the message shown.

    Examples
    --------
    >>> print(FitStatus.CONVERGED.value)
    the objective's gain fell below tol at every gamma
    """

    CONVERGED = "the objective's gain fell below tol at every gamma"
    FIXED_ITERATIONS = "ran the iterations asked for"
    MAX_ITERATIONS = "max_iter was reached before the objective's gain fell below tol"
    MAX_STEPS = "the objective was not within m_tol of its maximum when L-BFGS ended"


@brief_dataclass(frozen=True)
class FitResult(Generic[Params]):
    """Parameters after the last M-step, and the course of the run.

    ``posed`` is the corpus as the last E-step left it, with the multipliers to go on from.

    Attributes
    ----------
    params
        Of the model.
    history : tuple of Record
        One per iteration.
    status : FitStatus
    posed : PosedCorpus
    """

    params: Params
    history: tuple[Record, ...]
    status: FitStatus
    posed: PosedCorpus


class Course:
    """The records of a run, each timed and kept, with which a listener is called.

    Parameters
    ----------
    on_iteration : callable, optional
        Called with every record.

    Attributes
    ----------
    history : list of Record
    """

    def __init__(self, on_iteration: Callable[[Record], None] | None) -> None:
        self.history: list[Record] = []
        self._on_iteration, self._warned, self._started = on_iteration, False, time.perf_counter()

    def add(
        self, record: Record, skipped: Counter[str] | None = None, save: Callable[[], None] | None = None
    ) -> Record:
        """Keep the record of an iteration that began when the one before ended; ``save`` comes before the listener.

        The first one in which constraints were left out of instances, ``skipped``, warns.

        Raises
        ------
        SpectremError
            If the objective is NaN.
        """
        if skipped and not self._warned:
            self._warned = True
            left_out = ", ".join(f"{name!r} in {count} of the instances" for name, count in skipped.items())
            warn(f"constraints that cannot hold were left out: {left_out}")
        if math.isnan(record.objective):
            raise SpectremError(
                f"the objective became NaN at iteration {len(self.history) + 1} (gamma = {record.gamma}); check the "
                "scores for infinities and the constraints for contradictions"
            )
        record = replace(record, seconds=time.perf_counter() - self._started)
        self.history.append(record)
        if save is not None:
            save()
        return self.notify(record)

    def notify(self, record: Record) -> Record:
        """Call the listener with a record that is kept already."""
        if self._on_iteration is not None:
            self._on_iteration(record)
        self._started = time.perf_counter()
        return record


class Schedule(Protocol):
    """Yields the gammas of a run; the loop stays at each until its stopping rule is met.

    Examples
    --------
    >>> class Twice:
    ...     def gammas(self):
    ...         yield 2.0
    ...         yield 1.0
    >>> list(Quench(Twice(), gamma=0.5).gammas())
    [2.0, 1.0, 0.5]
    """

    def gammas(self) -> Iterator[float]:
        """The gammas of a run, in order.

        Yields
        ------
        float
            Minus infinity, or at least 0.
        """
        ...


@brief_dataclass(frozen=True)
class Constant:
    """One gamma throughout.

    Use when gamma is known: 1 is EM (posterior regularisation), 0 hard EM by linear program, minus infinity
    hard EM by integer program, between 0 and 1 unified EM ([Samdani2012] table 1).

    Parameters
    ----------
    gamma : float
        Minus infinity, or at least 0.

    Examples
    --------
    >>> list(Constant(0.5).gammas())
    [0.5]
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        check_gamma(self.gamma)

    def gammas(self) -> Iterator[float]:
        """The gammas of a run, in order."""
        yield self.gamma


@brief_dataclass(frozen=True)
class Anneal:
    """Deterministic annealing: beta = 1 / gamma grows by ``alpha`` from ``beta_min`` to ``beta_max``.

    The loop stays at every beta until its stopping rule is met ([SmithEisner2004] fig. 2). With the ``reference`` of an
    E-step it is skewed annealing (§5 there); in a `Quench` it ends colder than ``beta_max``, with Viterbi training for
    example.

    Use when EM lands in poor local optima and iterations are cheap.

    Parameters
    ----------
    beta_min, beta_max : float
        ``0 < beta_min <= beta_max``; ``beta_max`` of 1 ends in EM.
    alpha : float
        Growth of beta from stage to stage; greater than 1.

    Examples
    --------
    >>> list(Anneal(0.25, 1.0, alpha=2.0).gammas())
    [4.0, 2.0, 1.0]
    """

    beta_min: float
    beta_max: float = 1.0
    alpha: float = 1.2

    def __post_init__(self) -> None:
        if not 0 < self.beta_min <= self.beta_max < math.inf:
            raise InvalidInputError(
                f"beta_min and beta_max must satisfy 0 < beta_min <= beta_max, got {self.beta_min} and "
                f"{self.beta_max}; beta is 1 / gamma and grows during annealing"
            )
        if not 1 < self.alpha < math.inf:
            raise InvalidInputError(f"alpha must be greater than 1, got {self.alpha}; beta is multiplied by it")

    def gammas(self) -> Iterator[float]:
        """The gammas of a run, in order."""
        beta, stage = self.beta_min, 0
        while beta < self.beta_max * (1 - 1e-9):  # no stage a rounding error away from the last
            yield 1.0 / beta
            stage += 1
            beta = self.beta_min * self.alpha**stage
        yield 1.0 / self.beta_max


@brief_dataclass(frozen=True)
class Quench:
    """A schedule followed by a colder end, for example EM and then Viterbi.

    Use when decoding is by the best structure and the model should be trained for it last.

    Parameters
    ----------
    before : Schedule
    gamma : float
        Minus infinity, or at least 0.

    Examples
    --------
    >>> list(Quench(Constant(1.0), gamma=0.0).gammas())
    [1.0, 0.0]
    """

    before: Schedule
    gamma: float = 0.0

    def __post_init__(self) -> None:
        check_gamma(self.gamma)

    def gammas(self) -> Iterator[float]:
        """The gammas of a run, in order."""
        yield from self.before.gammas()
        yield self.gamma


@brief_dataclass(frozen=True)
class Stepwise:
    """Stepwise EM: an M-step after every batch of shards ([CappeMoulines2009], [LiangKlein2009]).

    After batch k = 0, 1, ... the statistics become ``(1 - eta) s + eta * (weight of the corpus / weight of the batch) *
    s_batch`` with ``eta = (k + 2) ** -power``, and the M-step reads them. An iteration is one pass over the corpus, and
    its objective the sum of those of the batches, each at the parameters of its time. Many passes come to an optimum of
    EM; the first few come much closer to it than as many of EM.

    Use for large corpora, of which one or two passes must do. Constraints must lie inside instances; multipliers are
    not kept from pass to pass.

    Parameters
    ----------
    within : Schedule
        The gammas, as without batches.
    n_batches : int
        Batches per pass, at least 1; at most one per shard, so that data on one shard are trained on by EM.
    power : float
        Above 0.5 and at most 1: small forgets early batches, whose parameters were bad, fast; large averages more.
    seed : int or None
        Of the order in which every pass takes the shards; None is their own order.

    Raises
    ------
    InvalidInputError
        If a number is out of its range.

    Examples
    --------
    >>> list(Stepwise(Constant(0.5)).gammas())
    [0.5]
    """

    within: Schedule = field(default_factory=Constant)
    n_batches: int = 32
    power: float = 0.9
    seed: int | None = 0

    def __post_init__(self) -> None:
        as_count(self.n_batches, "n_batches", minimum=1)
        if not 0.5 < self.power <= 1:
            raise InvalidInputError(
                f"power must be above 0.5 and at most 1, got {self.power}; steps must shrink, but not so fast that "
                "they come to an end: try 0.9"
            )
        if self.seed is not None:
            as_count(self.seed, "seed", minimum=0)

    def gammas(self) -> Iterator[float]:
        """The gammas of a run, in order."""
        yield from self.within.gammas()


def check_gamma(gamma: Any, name: str = "gamma") -> None:
    """Raise unless gamma is minus infinity or a finite number of at least 0."""
    if isinstance(gamma, bool) or not isinstance(gamma, Real):
        raise InvalidInputError(f"{name} must be a number, got {quoted(gamma)}")
    if not (gamma == -math.inf or 0 <= float(gamma) < math.inf):
        raise InvalidInputError(
            f"{name} must be -inf or at least 0 and finite, got {gamma}; between -inf and 0 the E-step is not convex, "
            "and without constraints every gamma <= 0 is hard EM: use 0 (linear relaxation) or -inf (integer program)"
        )


@brief_dataclass(frozen=True)
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

    Examples
    --------
    >>> stage = [Record(1.0, objective, objective, 0.0, 0.1) for objective in (-9.0, -8.0, -7.999)]
    >>> Stopping(max_iter=5, tol=0.01).ends(stage[:2]), Stopping(max_iter=5, tol=0.01).ends(stage)
    (False, True)
    """

    max_iter: int = 5
    tol: float = 0.0
    scale: float | None = None

    def ends(self, stage: list[Record]) -> bool:
        """Whether the last record of the stage is that of its last iteration.

        Parameters
        ----------
        stage : list of Record
            The records of one gamma, in order.

        Returns
        -------
        bool
        """
        return len(stage) == self.max_iter or self.converged(stage)

    def converged(self, stage: list[Record]) -> bool:
        """Whether the objective gained less than ``tol`` between the last two records of the stage.

        Parameters
        ----------
        stage : list of Record
            The records of one gamma, in order.

        Returns
        -------
        bool
        """
        if self.tol <= 0 or len(stage) < 2:
            return False
        before, after = stage[-2].objective, stage[-1].objective
        if before == -math.inf:
            return False
        scale = abs(before) if self.scale is None else self.scale
        return abs(after - before) <= self.tol * max(scale, 1e-300)
