"""The loop: [Samdani2012] algorithm 1 over the gammas of a schedule."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from spectrem.exceptions import SpectremError, warn_unconverged
from spectrem.execution import Executor, Serial
from spectrem.learning.history import FitResult, FitStatus, Record
from spectrem.learning.schedule import Constant, Schedule
from spectrem.learning.stopping import Stopping
from spectrem.models.estep import EStepResult, EStepTask, Start

Params = TypeVar("Params")
Stats = TypeVar("Stats")
Shard = TypeVar("Shard")
Params_contra = TypeVar("Params_contra", contravariant=True)
Shard_contra = TypeVar("Shard_contra", contravariant=True)


class Learner(Protocol[Params, Stats, Shard_contra]):
    """The part of a model that the loop calls; statistics support ``+=`` with those of a shard."""

    def zero_stats(self, params: Params, shards: Sequence[Shard_contra], /) -> Stats: ...

    def m_step(self, params: Params, stats: Stats, /) -> Params: ...


class EStep(Protocol[Params_contra, Stats, Shard]):
    """Solves what concerns the whole corpus and returns the task of one shard."""

    def prepare(
        self, params: Params_contra, gamma: float, shards: Sequence[Shard], executor: Executor, /
    ) -> EStepTask[Shard, Stats]: ...


def run_em(
    model: Learner[Params, Stats, Shard],
    estep: EStep[Params, Stats, Shard],
    shards: Sequence[Shard],
    params: Params,
    *,
    schedule: Schedule | None = None,
    stopping: Stopping | None = None,
    executor: Executor | None = None,
    on_iteration: Callable[[Record], None] | None = None,
) -> FitResult[Params]:
    """Maximise F(q, theta) by turns over posteriors (E-step) and parameters (M-step).

    Parameters
    ----------
    model : Learner
        Makes empty statistics and maximises over parameters.
    estep : EStep
        For example `ProjectedEStep`.
    shards : sequence
        Statistics are added in this order, whatever the number of workers.
    params
        Where to start.
    schedule : Schedule, optional
        By default gamma = 1.
    stopping : Stopping, optional
        Applied at each gamma of the schedule anew.
    executor : Executor, optional
        By default serial.
    on_iteration : callable, optional
        Called with the record of every iteration, for progress.

    Returns
    -------
    FitResult

    Raises
    ------
    SpectremError
        If the objective becomes NaN.

    Warns
    -----
    UserWarning
        Once, if the E-step left constraints out of instances where they cannot hold.
    ConvergenceWarning
        If a stage ran out of iterations.
    """
    schedule, stopping, executor = schedule or Constant(), stopping or Stopping(), executor or Serial()
    history: list[Record] = []
    all_converged, warned = True, False
    starts: list[Start] = [None] * len(shards)
    for gamma in schedule.gammas():
        stage: list[Record] = []
        while len(stage) < stopping.max_iter:
            started = time.perf_counter()
            total, numbers, skipped = _expect(model, estep, shards, params, gamma, executor, starts)
            if skipped and not warned:
                warned = True
                listed = ", ".join(f"{name!r} in {count} of the instances" for name, count in skipped.items())
                warnings.warn(f"constraints that cannot hold were left out: {listed}", stacklevel=2)
            params = model.m_step(params, total)
            record = Record(gamma, *numbers, seconds=time.perf_counter() - started)
            if math.isnan(record.objective):
                raise SpectremError(
                    f"the objective became NaN at iteration {len(history) + 1} (gamma = {gamma}); check the scores for "
                    "infinities and the constraints for contradictions"
                )
            stage.append(record)
            history.append(record)
            if on_iteration is not None:
                on_iteration(record)
            if stopping.converged(stage):
                break
        else:
            all_converged = False
    if stopping.tol <= 0:
        return FitResult(params, tuple(history), FitStatus.FIXED_ITERATIONS)
    if all_converged:
        return FitResult(params, tuple(history), FitStatus.CONVERGED)
    status = FitStatus.MAX_ITERATIONS
    warn_unconverged(f"{status.value}: raise max_iter or tol", stacklevel=2)
    return FitResult(params, tuple(history), status)


def _expect(
    model: Learner[Params, Stats, Shard],
    estep: EStep[Params, Stats, Shard],
    shards: Sequence[Shard],
    params: Params,
    gamma: float,
    executor: Executor,
    starts: list[Start],
) -> tuple[Stats, tuple[float, float, float], Counter[str]]:
    """Map the E-step over shards; add up statistics in order, and remember multipliers in ``starts``."""
    skipped: Counter[str] = Counter()
    total = model.zero_stats(params, shards)
    task = estep.prepare(params, gamma, shards, executor)
    objective, free_objective, violation = task.constant, 0.0, task.violation

    def run(item: tuple[int, Shard, Start]) -> EStepResult[Stats]:
        return task.run(*item)

    items = list(zip(range(len(shards)), shards, starts, strict=True))
    for index, result in enumerate(executor.map(run, items)):
        total += result.stats  # type: ignore[operator]
        objective += result.objective
        free_objective += result.free_objective
        violation = max(violation, result.violation)
        starts[index] = result.multipliers
        skipped.update(result.skipped)
    return total, (objective, free_objective, violation), skipped
