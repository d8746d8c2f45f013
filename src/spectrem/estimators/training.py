"""Runs of EM, and of ascent, as the settings of an estimator say."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from spectrem._arrays import Floats
from spectrem.corpus import Corpus
from spectrem.estimators.shared_parameters import constraint_names
from spectrem.exceptions import NoEffectWarning, warn
from spectrem.learning import (
    Constant,
    EStep,
    Expectations,
    FitResult,
    FitStatus,
    PosedCorpus,
    Posteriors,
    Record,
    Schedule,
    Step,
    Stopping,
    pose,
    run_em,
)
from spectrem.reports import ConstraintReport, ConstraintSummary, report_expectations, report_posed
from spectrem.structures import Parts

Params = TypeVar("Params")
Reports: TypeAlias = tuple[tuple[ConstraintReport, ...], tuple[ConstraintSummary, ...]]


def estep_of(estimator: Any, constraints: Any = None, *, reference: Callable[[Any], Parts] | None = None) -> EStep:
    """The E-step that the settings of an estimator describe; ``constraints`` take the place of its own."""
    constraints = estimator.constraints if constraints is None else constraints
    return EStep(
        constraints,
        warm_start=bool(constraints),
        dual_steps=getattr(estimator, "dual_steps", None) or None,
        reference=reference,
        infeasible=estimator.infeasible,
        weight=getattr(estimator, "unlabelled_weight", 1.0),
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
    reports: Reports


def learn_unlabelled(
    estimator: Any, model: Any, corpus: Corpus, params: Floats, estep: EStep, *, stopping: Stopping | None = None
) -> Learnt:
    """EM under constraints, or the ascent of the ``criterion`` of an estimator of log-linear models.

    Parameters
    ----------
    estimator : estimator
        With the parameters of `spectrem.estimators.shared_parameters.LearningParameters`, perhaps with a criterion.
    model, corpus, params, estep, stopping
        As for `run_stage`.
    """
    criterion = getattr(estimator, "criterion", None)
    if criterion is None:
        found = run_stage(estimator, model, corpus, params, estep, "em", stopping=stopping)
    else:
        from spectrem.learning import run_ascent  # and with it log-linear models, which an aligner can do without

        found = run_ascent(model, corpus, params, estep, criterion, on_iteration=estimator.on_iteration)
    posed, step = found.posed, Step(model, found.params, found.history[-1].gamma, estep)
    reports = _reports(criterion, posed, step)
    if isinstance(criterion, Expectations):  # the distributions are those of the model
        step = step._replace(estep=EStep())
        posed = pose(model, corpus, step.estep)
    return Learnt(found.params, found.history, found.status, posed, step, reports)


def report_labelled(
    estimator: Any, model: Any, corpus: Corpus, params: Floats, estep: EStep, unused: Sequence[Any] | None = None
) -> Reports:
    """Compile constraints where nothing is learnt under them, and hold those against the labels that change nothing.

    Parameters
    ----------
    estimator, model, corpus, params, estep
        As for `learn_unlabelled`.
    unused : sequence of constraints, optional
        Those that change nothing; by default all, unless new instances have to meet them.

    Raises
    ------
    InvalidInputError, InfeasibleConstraintError
        As if there were something to be learnt.

    Warns
    -----
    NoEffectWarning
        If there are constraints that change nothing.
    """
    if not estep.constraints:
        return (), ()
    from spectrem.learning.ascent import pose_for  # and with it log-linear models

    criterion, estep = getattr(estimator, "criterion", None), replace(estep, dual_steps=None)
    posed = pose_for(criterion, model, corpus, params, estep)
    if unused is not None:
        estep = replace(estep, constraints=unused)
        posed = pose(model, corpus, estep)
    elif getattr(estimator, "project_at_predict", False):
        return (), ()
    reports = _reports(criterion, posed, Step(model, params, asked_gamma(estimator), estep))
    could = getattr(estimator, "project_at_predict", None) is False
    warn_unused(estimator.constraints if unused is None else unused, at_predict=could)
    return reports


def warn_unused(constraints: Sequence[Any], *, at_predict: bool = False) -> None:
    """Warn of constraints, if there are any, that change nothing, since all labels that are learnt from are given.

    ``at_predict`` says that predictions could meet them.
    """
    if constraints:
        warn(
            "constraints change nothing where all that is learnt from has its labels, got "
            f"{constraint_names(constraints)}; leave them out, or add rows or sentences without labels"
            f"{', or let predictions meet them, with project_at_predict' * at_predict}",
            NoEffectWarning,
        )


def asked_gamma(estimator: Any) -> float:
    """The gamma that training is to end at, by the parameters of an estimator."""
    criterion = getattr(estimator, "criterion", None)
    if criterion is None:
        return float(list((estimator.schedule or Constant(estimator.gamma)).gammas())[-1])
    return float(getattr(criterion, "gamma", 1.0))


def record_labelled(estimator: Any, model: Any, params: Floats, objective: float, started: float) -> Record:
    """The record of training on labels alone: its objective, nats, and the time since ``started``."""
    log_prior = float(model.log_prior(params))
    seconds = time.perf_counter() - started
    return Record(asked_gamma(estimator), objective, objective - log_prior, 0.0, seconds, log_prior)


def _reports(criterion: Expectations | Posteriors | None, posed: PosedCorpus, step: Step) -> Reports:
    """The reports of the constraints of a corpus, and summaries of those that are long."""
    if isinstance(criterion, Expectations):
        return report_expectations(posed, step.model, step.params, criterion, step.estep)
    return report_posed(posed, step) if step.estep.constraints else ((), ())
