"""Log-linear models trained on labels that are known: all of training, or the start of it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spectrem._arrays import Floats
from spectrem.corpus import Corpus
from spectrem.estimators.engine import Trained, asked_gamma
from spectrem.exceptions import warn_unconverged
from spectrem.learning import FitStatus, Record
from spectrem.learning.ascent import SavedCourse
from spectrem.models.loglinear import Optimiser
from spectrem.models.loglinear.optimise import Ending, State, advice, fit_known


def fit_labelled(estimator: Any, model: Any, corpus: Corpus, *, goes_on: bool) -> Trained:
    """Train on the shards whose labels are known; the others have no part in it.

    Parameters
    ----------
    estimator : estimator
        With the parameters ``m_steps``, ``m_tol``, ``gamma``, ``on_iteration`` and ``checkpoint``.
    model : LogLinearModel
        Or another with `moments`, ``prior`` and ``optimiser``.
    corpus : Corpus
    goes_on : bool
        Whether this is but the start of training, which goes to ``m_tol`` whatever ``m_steps`` says; otherwise
        ``on_iteration`` gets a record of every step.

    Warns
    -----
    ConvergenceWarning
        If training ended before it reached ``m_tol``, unless that is 0 and ``m_steps`` were taken.
    """
    started, settings = time.perf_counter(), model.optimiser
    optimiser = Optimiser(None if goes_on else settings.max_steps, settings.tol, settings.memory)
    folder = None if estimator.checkpoint is None else Path(estimator.checkpoint) / "labelled"
    listener = None if goes_on else estimator.on_iteration
    course = SavedCourse(listener, folder, corpus, model, optimiser)

    def take_step(reached: State, theta: Floats) -> None:
        course.reach(reached, _record(estimator, model, theta, -reached.value, started))

    on_state = None if listener is None and folder is None else take_step
    best = fit_known(model, corpus, optimiser=optimiser, state=course.state, on_state=on_state)
    course.save()
    record = _record(estimator, model, best.point, -best.value, started)
    status = FitStatus.CONVERGED
    if best.ending is not Ending.CONVERGED:
        fixed = settings.tol == 0 and best.ending is Ending.STEPS and optimiser.max_steps is not None
        status = FitStatus.FIXED_ITERATIONS if fixed else FitStatus.MAX_STEPS
    if not best.n_steps:
        course.notify(record)
    if status is FitStatus.MAX_STEPS:
        warn_unconverged(f"{status.value} (after {best.n_steps} steps): {advice(best, optimiser)}")
    return Trained(best.point, (record,), status, n_steps=best.n_steps)


def fit_members(
    estimator: Any, model: Any, corpora: Iterable[tuple[Any, Corpus | None]], *, goes_on: bool, divisor: int = 1
) -> Trained:
    """Train the members of a joint model one by one, each on the labelled shards of a corpus of its own.

    Parameters
    ----------
    estimator, goes_on
        As for `fit_labelled`; ``on_iteration`` gets the one record of the end.
    model : JointModel or AgreedModel
    corpora : iterable of (model, Corpus or None)
        Every member, with its corpus. Its optimiser takes as many steps as its tolerance needs; without a corpus its
        weights stay 0.
    divisor : int
        The objective of the model is the sum of those of the members over this.
    """
    started, points, value = time.perf_counter(), [], 0.0
    for member, corpus in corpora:
        if corpus is None:
            points.append(member.initial())
            continue
        best = fit_known(member, corpus, optimiser=replace(member.optimiser, max_steps=None))
        points.append(best.point)
        value += best.value
    theta = np.concatenate(points)
    record = _record(estimator, model, theta, -value / divisor, started)
    if not goes_on and estimator.on_iteration is not None:
        estimator.on_iteration(record)
    return Trained(theta, (record,), FitStatus.CONVERGED)


def _record(estimator: Any, model: Any, params: Floats, objective: float, started: float) -> Record:
    """The record of training on labels alone: its objective, nats, and the time since ``started``."""
    log_prior = float(model.log_prior(params))
    seconds = time.perf_counter() - started
    return Record(asked_gamma(estimator), objective, objective - log_prior, 0.0, seconds, log_prior)
