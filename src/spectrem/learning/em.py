"""The loop: [Samdani2012] algorithm 1 over the gammas of a schedule."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from spectrem.exceptions import ConvergenceWarning, SpectremError
from spectrem.execution import Executor, Serial
from spectrem.learning.history import FitResult, FitStatus, Record
from spectrem.learning.schedule import Constant, Schedule
from spectrem.learning.stopping import Stopping
from spectrem.models.estep import EStepResult

Params = TypeVar("Params")
Stats = TypeVar("Stats")
Shard = TypeVar("Shard")


class Learner(Protocol[Params, Stats, Shard]):
    """The part of a model that the loop calls; statistics support ``+=`` with those of a shard."""

    def zero_stats(self, params: Params, shards: Sequence[Shard], /) -> Stats: ...

    def m_step(self, params: Params, stats: Stats, /) -> Params: ...


def run_em(
    model: Learner[Params, Stats, Shard],
    estep: Callable[[Params, Shard, float], EStepResult[Stats]],
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
    estep : callable
        ``estep(params, shard, gamma)``: pure, runs on any worker.
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
    """
    schedule, stopping, executor = schedule or Constant(), stopping or Stopping(), executor or Serial()
    history: list[Record] = []
    all_converged = True
    for gamma in schedule.gammas():
        stage: list[Record] = []
        while len(stage) < stopping.max_iter:
            started = time.perf_counter()
            total, numbers = _expect(model, estep, shards, params, gamma, executor)
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
    warnings.warn(f"{status.value}: raise max_iter or tol", ConvergenceWarning, stacklevel=2)
    return FitResult(params, tuple(history), status)


def _expect(
    model: Learner[Params, Stats, Shard],
    estep: Callable[[Params, Shard, float], EStepResult[Stats]],
    shards: Sequence[Shard],
    params: Params,
    gamma: float,
    executor: Executor,
) -> tuple[Stats, tuple[float, float, float]]:
    total = model.zero_stats(params, shards)
    objective = free_objective = violation = 0.0

    def task(shard: Shard) -> EStepResult[Stats]:
        return estep(params, shard, gamma)

    results: Iterator[EStepResult[Stats]] = iter(executor.map(task, shards))
    for result in results:
        total += result.stats  # type: ignore[operator]
        objective += result.objective
        free_objective += result.free_objective
        violation = max(violation, result.violation)
    return total, (objective, free_objective, violation)
