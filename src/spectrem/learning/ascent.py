"""Log-linear models trained by ascent of one function of their weights, in place of turns of EM."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Floats
from spectrem.corpus import Corpus, Local
from spectrem.exceptions import warn_unconverged
from spectrem.learning.criteria import Expectations, Posteriors
from spectrem.learning.estep import EStep, Step
from spectrem.learning.expected_costs import Looked, Task, check, look, rise
from spectrem.learning.history import FitResult, FitStatus, Record, warn_skipped
from spectrem.learning.model import log_prior
from spectrem.learning.posed_corpus import PosedCorpus, pose, worst_violation
from spectrem.models.loglinear.lbfgs import Ending
from spectrem.models.loglinear.optimise import advice, maximise_posterior, moments, spread


class _Evaluated(NamedTuple):
    """A criterion at some weights, without their prior, nats.

    Attributes
    ----------
    value : float
    gradient : ndarray of shape (n_weights,)
    free : float
        The value without constraints.
    violation : float
    skipped : Counter
        In how many instances constraints were left out, by name.
    """

    value: float
    gradient: Floats
    free: float
    violation: float
    skipped: Counter[str]


def run_ascent(
    model: Any,
    corpus: Corpus | Sequence[Any],
    theta: Floats,
    estep: EStep,
    criterion: Expectations | Posteriors,
    *,
    on_iteration: Callable[[Record], None] | None = None,
) -> FitResult[Floats]:
    """Maximise a criterion of the weights of a log-linear model by a quasi-Newton method.

    Every evaluation is a few sums over the corpus: for `Posteriors` an E-step and the moments of the model; for
    `Expectations` two, of which the second, at the prices that the first found, is the covariance of [Ganchev2010]
    eq. 34, the derivative of all marginals as scores move along ``U^T prices``. The function is not concave; from step
    to step it never falls.

    Parameters
    ----------
    model : LogLinearModel
        Its ``optimiser`` says how far to go.
    corpus : Corpus or sequence of shards
    theta : ndarray of shape (n_weights,)
        Where to start.
    estep : EStep
        With the constraints. `Expectations` read nothing else of it, `Posteriors` all but ``dual_steps``.
    criterion : Expectations or Posteriors
    on_iteration : callable, optional
        Called with the record of the start and of every step.

    Returns
    -------
    FitResult
        With a record of the start and of every step.

    Raises
    ------
    InvalidInputError
        If the criterion cannot measure a constraint, or a structure has no covariances.
    InfeasibleConstraintError
        If `Posteriors` cannot meet the constraints.

    Warns
    -----
    ConvergenceWarning
        If it ran out of steps.
    """
    home = Local(corpus) if isinstance(corpus, Sequence) else corpus
    estep = replace(estep, dual_steps=None)
    posed = pose_for(criterion, model, home, theta, estep)
    gamma = criterion.gamma if isinstance(criterion, Posteriors) else 1.0
    tried: list[tuple[float, _Evaluated, float]] = []  # since the last step: objective, numbers, log-prior
    history: list[Record] = []
    started = time.perf_counter()

    def evaluate(x: Floats) -> tuple[float, Floats]:
        nonlocal posed
        if isinstance(criterion, Expectations):
            found = _expected(Task(model, x, criterion, estep, posed.facts), posed)
        else:
            found, posed = _projected(Step(model, x, gamma, estep), posed, home)
        prior = log_prior(model, x)
        tried.append((found.value + prior, found._replace(gradient=_NONE), prior))
        return -found.value, -found.gradient

    def on_step(value: float) -> None:
        nonlocal started
        # the point of the step was evaluated, perhaps not as the last one; its prior was added in another order
        objective, found, prior = min(tried, key=lambda one: abs(one[0] + value))
        now = time.perf_counter()
        record = Record(gamma, objective, found.free, found.violation, now - started, prior)
        started = now
        tried[:] = [(objective, found, prior)]
        history.append(record)
        if on_iteration is not None:
            on_iteration(record)

    best = maximise_posterior(model, evaluate, theta, home.sum(spread, model, False), on_step=on_step)
    if tried[0][1].skipped:
        warn_skipped(tried[0][1].skipped)
    status = FitStatus.CONVERGED if best.ending is Ending.CONVERGED else FitStatus.MAX_STEPS
    if status is FitStatus.MAX_STEPS:
        what_next = advice(best, model.optimiser)
        warn_unconverged(f"the objective still rose after {best.n_steps} steps: {what_next}")
    return FitResult(best.point, tuple(history), status, posed)


def pose_for(
    criterion: Expectations | Posteriors | None, model: Any, corpus: Corpus, theta: Floats, estep: EStep
) -> PosedCorpus:
    """A corpus with compiled constraints, which a criterion can measure if there is one.

    Raises
    ------
    InvalidInputError
        If it cannot.
    """
    posed = pose(model, corpus, estep)
    if isinstance(criterion, Expectations):
        posed.shards.sum(check, Task(model, theta, criterion, estep, posed.facts), posed.rows)
    return posed


def _expected(task: Task, posed: PosedCorpus) -> _Evaluated:
    """The log-likelihood of what is labelled less the costs of the model's own expectations."""
    found: Looked = posed.shards.sum(look, task)
    cost, violation, prices = found.cost, found.violation, None
    if posed.rows is not None and found.expectation is not None:
        reached = found.expectation.dense
        costs = task.criterion.costs(posed.rows.blocks, reached, posed.rows.bounds)
        cost, prices = cost + float(costs.cost.sum()), costs.price
        violation = max(violation, worst_violation(posed.rows, reached - posed.rows.bounds))
    gradient = found.likelihood.gradient
    gradient -= posed.shards.sum(rise, task, prices)
    return _Evaluated(found.likelihood.value - cost, gradient, found.likelihood.value, violation, Counter())


def _projected(step: Step, posed: PosedCorpus, home: Corpus) -> tuple[_Evaluated, PosedCorpus]:
    """The objective of EM after an E-step, whose gradient is that at fixed posteriors, and what to go on from."""
    expected, posed = posed.expect(step)
    gradient = expected.stats
    gradient -= home.sum(moments, step.model, step.params, False).gradient
    numbers = expected.free_objective, expected.violation, expected.skipped
    return _Evaluated(expected.objective, gradient, *numbers), posed


_NONE = np.zeros(0)
