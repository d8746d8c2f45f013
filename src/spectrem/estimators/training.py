"""Runs of EM, and of ascent, as the settings of an estimator say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from spectrem._arrays import Floats
from spectrem.corpus import Corpus
from spectrem.learning import (
    Constant,
    EStep,
    Expectations,
    FitResult,
    FitStatus,
    PosedCorpus,
    Record,
    Schedule,
    Step,
    Stopping,
    keep_best,
    pose,
    run_em,
)
from spectrem.reports import ConstraintReport, ConstraintSummary, report_expectations, report_posed

Params = TypeVar("Params")


def estep_of(estimator: Any, constraints: Any = None) -> EStep:
    """The E-step of an estimator that weighs what is not labelled by its ``unlabelled_weight``.

    ``constraints`` take the place of its own.
    """
    return EStep(
        estimator.constraints if constraints is None else constraints,
        warm_start=True,
        dual_steps=getattr(estimator, "dual_steps", None) or None,
        infeasible=estimator.infeasible,
        weight=estimator.unlabelled_weight,
    )


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
    start = [params]
    del params  # handed on, not kept: they would stay in memory beside those of every iteration
    return run_em(
        model,
        corpus,
        start.pop(),
        estep,
        schedule=schedule or estimator.schedule or Constant(estimator.gamma),
        stopping=stopping or Stopping(estimator.max_iter, estimator.tol),
        on_iteration=on_iteration or estimator.on_iteration,
        checkpoint=None if checkpoint is None else Path(checkpoint) / stage,
    )


class Learnt(NamedTuple):
    """What instances without labels, or with a part of one, leave.

    Attributes
    ----------
    params : ndarray of shape (n_weights,)
    history : tuple of Record
    status : FitStatus
    posed : PosedCorpus
    step : Step
        With which `spectrem.learning.posterior` gives the distributions of what is not labelled.
    reports : pair of tuples
        Reports and summaries of the constraints.
    """

    params: Floats
    history: tuple[Record, ...]
    status: FitStatus
    posed: PosedCorpus
    step: Step
    reports: tuple[tuple[ConstraintReport, ...], tuple[ConstraintSummary, ...]]


def learn_unlabelled(
    estimator: Any, model: Any, corpus: Corpus, params: Floats, estep: EStep, *, stopping: Stopping | None = None
) -> Learnt:
    """EM under constraints, or the ascent of the ``criterion`` of an estimator of log-linear models.

    Parameters
    ----------
    estimator : estimator
        With the parameters of `spectrem.estimators.shared_parameters.CriterionParameters`.
    model, corpus, params, estep, stopping
        As for `run_stage`.
    """
    criterion = estimator.criterion
    if criterion is None:
        found = run_stage(estimator, model, corpus, params, estep, "em", stopping=stopping)
    else:
        from spectrem.learning import run_ascent  # and with it log-linear models, which an aligner can do without

        found = run_ascent(model, corpus, params, estep, criterion, on_iteration=estimator.on_iteration)
    posed = found.posed
    reports: tuple[tuple[ConstraintReport, ...], tuple[ConstraintSummary, ...]] = ((), ())
    if isinstance(criterion, Expectations):
        reports = report_expectations(posed, model, found.params, criterion, estep)
        # the distributions are those of the model
        estep = EStep()
        posed = pose(model, corpus, estep)
    step = Step(model, found.params, found.history[-1].gamma, estep)
    if estep.constraints:
        reports = report_posed(posed, step)
    return Learnt(found.params, found.history, found.status, posed, step, reports)


def best_start(run: Callable[[int], FitResult[Params]], n_starts: int) -> FitResult[Params]:
    """The result with the largest objective at the end, of runs that take the number of their start, from 0.

    To be called by a function that ``fit`` calls: warnings then belong to the line that calls ``fit``.
    """
    runs = [partial(run, number) for number in range(n_starts)]
    return keep_best(runs, lambda found: found.history[-1].objective, stacklevel=4)
