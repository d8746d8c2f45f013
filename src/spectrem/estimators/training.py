"""Runs of EM as the settings of an estimator say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from spectrem.corpus import Corpus
from spectrem.learning import Constant, EStep, FitResult, Record, Schedule, Stopping, keep_best, run_em

Params = TypeVar("Params")


def run_stage(
    estimator: Any,
    model: Any,
    corpus: Corpus | Sequence[Any],
    params: Params,
    estep: EStep,
    stage: str = "",
    *,
    schedule: Schedule | None = None,
    stopping: Stopping | None = None,
    on_iteration: Callable[[Record], None] | None = None,
) -> FitResult[Params]:
    """`spectrem.learning.run_em` with the schedule, the stopping rule, the callback and the checkpoint of an estimator.

    Parameters
    ----------
    estimator : estimator
        With the parameters of `spectrem.estimators.shared_parameters.LearningParameters`.
    model, corpus, params, estep
        As for `run_em`.
    stage : str
        The folder of this run inside the estimator's ``checkpoint``, if it has one.
    schedule, stopping, on_iteration
        What to use in place of those of the estimator.
    """
    checkpoint = getattr(estimator, "checkpoint", None)
    return run_em(
        model,
        corpus,
        params,
        estep,
        schedule=schedule or estimator.schedule or Constant(estimator.gamma),
        stopping=stopping or Stopping(estimator.max_iter, estimator.tol),
        on_iteration=on_iteration or estimator.on_iteration,
        checkpoint=None if checkpoint is None else Path(checkpoint) / stage,
    )


def best_start(run: Callable[[int], FitResult[Params]], n_starts: int) -> FitResult[Params]:
    """The result with the largest objective at the end, of runs that take the number of their start, from 0.

    To be called by a function that ``fit`` calls: warnings then belong to the line that calls ``fit``.
    """
    runs = [partial(run, number) for number in range(n_starts)]
    return keep_best(runs, lambda found: found.history[-1].objective, stacklevel=4)
