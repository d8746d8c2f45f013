"""Log-linear models trained by ascent of one function of their weights, in place of turns of EM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Floats
from spectrem.constraints.compilation.facts import CorpusFacts
from spectrem.constraints.compilation.rows import CorpusRows
from spectrem.corpus import Corpus, Local
from spectrem.exceptions import InvalidInputError, warn_unconverged
from spectrem.inference.dual import refuse_impossible, weigh_rows
from spectrem.learning.criteria import Expectations, Posteriors
from spectrem.learning.estep import EStep, Numbered, Posed, Step, expectation, posed_of
from spectrem.learning.model import is_known, log_prior
from spectrem.learning.posed_corpus import PosedCorpus, pose, worst_violation
from spectrem.learning.schedule import Course, FitResult, FitStatus, Record
from spectrem.models.estep import EStepResult, Statistics
from spectrem.models.loglinear.optimise import Ending, advice, maximise_posterior, moments, spread
from spectrem.structures import Parts


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
    tried: list[tuple[Record, Counter[str]]] = []  # evaluated since the last step
    course = Course(on_iteration)

    def evaluate(x: Floats) -> tuple[float, Floats]:
        nonlocal posed
        if isinstance(criterion, Expectations):
            expected = _expected(Task(model, x, criterion, estep, posed.facts), posed)
        else:
            expected, posed = _projected(Step(model, x, gamma, estep), posed, home)
        tried.append((Record.of(gamma, expected, log_prior(model, x)), expected.skipped))
        return -expected.objective, -expected.stats

    def on_step(value: float) -> None:
        # the point of the step was evaluated, perhaps not as the last one; its prior was added in another order
        tried[:] = [min(tried, key=lambda one: abs(one[0].objective + value))]
        course.add(*tried[0])

    best = maximise_posterior(model, evaluate, theta, home.sum(spread, model, False), on_step=on_step)
    status = FitStatus.CONVERGED if best.ending is Ending.CONVERGED else FitStatus.MAX_STEPS
    if status is FitStatus.MAX_STEPS:
        what_next = advice(best, model.optimiser)
        warn_unconverged(f"the objective still rose after {best.n_steps} steps: {what_next}")
    return FitResult(best.point, tuple(course.history), status, posed)


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


def _expected(task: Task, posed: PosedCorpus) -> EStepResult[Floats]:
    """The log-likelihood of what is labelled less the costs of the model's own expectations, and its gradient."""
    total: EStepResult[Statistics] = posed.shards.sum(evaluate_criterion, task)
    stats, violation, prices = total.stats, total.violation, None
    cost = stats.cost
    if posed.rows is not None and stats.expectation is not None:
        reached = stats.expectation.dense
        costs = task.criterion.costs(posed.rows.blocks, reached, posed.rows.bounds)
        cost, prices = cost + float(costs.cost.sum()), costs.price
        violation = max(violation, worst_violation(posed.rows, reached - posed.rows.bounds))
    gradient = stats.gradient
    gradient -= posed.shards.sum(cost_gradient, task, prices)
    return EStepResult(gradient, total.objective - cost, total.objective, violation)


def _projected(step: Step, posed: PosedCorpus, home: Corpus) -> tuple[EStepResult[Floats], PosedCorpus]:
    """The objective of EM after an E-step with its gradient at fixed posteriors, and the corpus to go on from."""
    expected, posed = posed.expect(step)
    expected.stats -= home.sum(moments, step.model, step.params, False).gradient
    return expected, posed


class Task(NamedTuple):
    """The arguments that all shards have in common at one point; sent once per call.

    ``facts`` are given where structures and rows are made anew for every use.
    """

    model: Any
    theta: Floats
    criterion: Expectations
    estep: EStep
    facts: CorpusFacts | None = None

    def posed(self, shard: Posed | Numbered) -> Posed:
        """The shard with its structure and rows."""
        return posed_of(shard, Step(self.model, self.theta, 1.0, self.estep), self.facts)


def check(shard: Posed | Numbered, task: Task, rows: CorpusRows | None) -> int:
    """Raise `InvalidInputError` if the criterion cannot be had of a shard; 0."""
    posed = task.posed(shard)
    if rows is not None and posed.transpose is not None:
        task.criterion.check(rows.blocks, sp.csr_array(posed.transpose.T), rows.bounds)
    if posed.inside is not None:
        task.criterion.check(posed.inside.blocks, posed.inside.matrix, posed.inside.bounds)
    if not is_known(task.model, posed.shard) and not hasattr(posed.structure, "covariances"):
        raise InvalidInputError(
            f"criterion needs covariances of labels, which {type(posed.structure).__name__} does not have; leave it out"
        )
    return 0


def evaluate_criterion(shard: Posed | Numbered, task: Task) -> EStepResult[Statistics]:
    """The log-likelihood of a shard, and as statistics its ``gradient``, and what constraints ``cost`` and expect.

    The cost, nats, and the violation are those of constraints inside the shard; the ``expectation`` is that of the rows
    that span the corpus, if there are any.
    """
    posed = task.posed(shard)
    model, theta, shard_data = task.model, task.theta, posed.shard
    scores = model.scores(theta, shard_data)
    weights = posed.weights if posed.objective_weights is None else posed.objective_weights
    values, marginals = posed.structure.smoothed_max(scores, 1.0, weights=weights)
    refuse_impossible(values)
    value, cost, violation, gradient = 0.0, 0.0, 0.0, np.zeros(len(theta))
    if shard_data.labels is not None:  # else the two terms are one
        free = model.moments(theta, shard_data)
        value = float(weights @ values) - free.value
        gradient = model.gather(theta, shard_data, marginals) - free.gradient
    if posed.inside is not None:
        costs = inside_costs(posed, marginals, task.criterion)
        cost, violation = float(costs.copies @ costs.cost), costs.violation
    expected = None if posed.across is None else expectation(posed, marginals)
    return EStepResult(Statistics(gradient=gradient, cost=cost, expectation=expected), value, value, violation)


def cost_gradient(shard: Posed | Numbered, task: Task, prices: Floats | None) -> Floats:
    """How the cost of all constraints rises with the weights, shape (n_weights,): a shard's part.

    ``prices`` are those of the costs of the rows that span the corpus, shape (n_rows,).
    """
    posed = task.posed(shard)
    model, theta = task.model, task.theta
    along: Floats = np.zeros(posed.structure.n_unary)
    if is_known(model, posed.shard):
        return np.zeros(len(theta))
    scores = model.scores(theta, posed.shard)
    if posed.inside is not None:
        _, marginals = posed.structure.smoothed_max(scores, 1.0)
        costs = inside_costs(posed, marginals, task.criterion)
        along = np.asarray(costs.matrix.T @ (costs.copies * costs.price))
    if posed.transpose is not None and prices is not None:
        along = along + posed.weights[posed.structure.instance] * (posed.transpose @ prices)
    if not along.any():
        return np.zeros(len(theta))
    # `gather` counts instances by their weights
    weights = posed.weights if posed.objective_weights is None else posed.objective_weights
    weight = weights[posed.structure.instance]
    along = np.divide(along, weight, out=np.zeros(len(along)), where=weight > 0)
    covariances = cast(Any, posed.structure).covariances(scores, along, weights)
    return cast(Floats, model.gather(theta, posed.shard, covariances))


class InsideCosts(NamedTuple):
    """Costs of the rows inside a shard.

    Attributes
    ----------
    matrix : csr_array of shape (n_rows, n_unary)
        In which instances are counted by their weights where a row has several.
    copies : ndarray of shape (n_rows,)
        How often a row counts: by the weight of its instance.
    cost, price : ndarray of shape (n_rows,)
        Of a copy, and its derivative by the expected value.
    violation : float
        The largest, relative to the bound.
    """

    matrix: sp.csr_array
    copies: Floats
    cost: Floats
    price: Floats
    violation: float


def inside_costs(posed: Posed, marginals: Parts, criterion: Expectations) -> InsideCosts:
    """Costs of the rows inside a shard, which has some, under its marginals."""
    assert posed.inside is not None
    rows = weigh_rows(posed.structure, posed.inside, posed.weights)
    expected = rows.matrix @ marginals.unary
    copies = np.where(rows.row_instance >= 0, posed.weights[rows.row_instance], 1.0)
    excess = (expected - rows.bounds) / np.maximum(1.0, np.abs(rows.bounds))
    violation = np.where(rows.where(lambda block: block.equality), np.abs(excess), excess).max(initial=0.0)
    return InsideCosts(rows.matrix, copies, *criterion.costs(rows.blocks, expected, rows.bounds), float(violation))
