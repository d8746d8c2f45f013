"""Log-linear models trained by ascent of one function of their weights, in place of turns of EM."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from spectrem._arrays import Floats
from spectrem._first_use import sparse as sp
from spectrem.constraints.compilation.facts import CorpusFacts
from spectrem.constraints.compilation.rows import CorpusRows
from spectrem.corpus import Corpus, Local
from spectrem.exceptions import InvalidInputError, warn_unconverged
from spectrem.inference.dual import refuse_impossible, weigh_rows
from spectrem.learning.criteria import Expectations, Posteriors
from spectrem.learning.em import Checkpoint
from spectrem.learning.estep import EStep, Numbered, Posed, Step, expectation, posed_of
from spectrem.learning.model import is_known, log_prior
from spectrem.learning.posed_corpus import PosedCorpus, pose, worst_violation
from spectrem.learning.schedule import Course, FitResult, FitStatus, Record
from spectrem.models.estep import EStepResult, Statistics
from spectrem.models.loglinear.optimise import (
    Ending,
    State,
    advice,
    known_counts,
    maximise_posterior,
    moments,
    spread,
)
from spectrem.structures import Parts
from spectrem.structures._ragged import no_parts
from spectrem.structures.structure import Differentiable

# A step takes less time than a large state takes to be written.
_APART = 10


def run_ascent(
    model: Any,
    corpus: Corpus | Sequence[Any],
    theta: Floats,
    estep: EStep,
    criterion: Expectations | Posteriors,
    *,
    on_iteration: Callable[[Record], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> FitResult[Floats]:
    """Maximise a criterion of the weights of a log-linear model by a quasi-Newton method.

    Every evaluation is a few sums over the corpus: for `Posteriors` an E-step and the moments of the model, in one sum
    where there are no constraints at gamma = 1, so that the objective is the log-likelihood of what is known; for
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
        Called with the record of the start and of every step; at once with those that a checkpoint holds.
    checkpoint : path, optional
        A folder, made if it is missing, that holds the state after every tenth step and the last one. A run that finds
        one there goes on from it and ends with the same bits as one that was never interrupted.

    Returns
    -------
    FitResult
        With a record of the start and of every step.

    Raises
    ------
    InvalidInputError
        If the criterion cannot measure a constraint, a structure has no covariances, or a checkpoint is that of another
        run.
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
    # Without constraints the best posteriors at gamma = 1 are those of the model, at which the objective of EM is the
    # log-likelihood of what is known.
    of_model = isinstance(criterion, Expectations) or (gamma == 1 and not estep.constraints)
    known = home.sum(known_counts, model) if of_model else None
    tried: list[tuple[Record, Counter[str]]] = []  # evaluated since the last step
    course = SavedCourse(on_iteration, checkpoint, home, theta, model, estep, criterion, posed=posed)
    posed = course.posed or posed

    def evaluate(x: Floats) -> tuple[float, Floats]:
        nonlocal posed
        if known is not None:
            expected = _expected(Step(model, x, gamma, estep), criterion, posed, known)
        else:
            expected, posed = _projected(Step(model, x, gamma, estep), posed, home)
        tried.append((Record.of(gamma, expected, log_prior(model, x)), expected.skipped))
        return -expected.objective, -expected.stats

    def latest(value: float) -> tuple[Record, Counter[str]]:
        # the point of the step was evaluated, perhaps not as the last one; its prior was added in another order
        found = min(tried, key=lambda one: abs(one[0].objective + value))
        tried.clear()
        return found

    def on_step(value: float) -> None:
        if not course.history:
            course.add(*latest(value))

    def on_state(state: State, weights: Floats) -> None:
        course.reach(state, *latest(state.value), posed=posed)

    best = maximise_posterior(
        model,
        evaluate,
        theta,
        home.sum(spread, model, False),
        on_step=on_step,
        state=course.state,
        on_state=on_state,
    )
    course.save()
    status = FitStatus.CONVERGED if best.ending is Ending.CONVERGED else FitStatus.MAX_STEPS
    if status is FitStatus.MAX_STEPS:
        what_next = advice(best, model.optimiser)
        warn_unconverged(f"the objective still rose after {best.n_steps} steps: {what_next}")
    return FitResult(best.point, tuple(course.history), status, posed)


class SavedCourse(Course):
    """The records of an ascent, which may go on from a file that holds its state after every tenth step.

    Parameters
    ----------
    on_iteration : callable, optional
        Called with every record, at once with those of the file.
    folder : path, optional
        That of the file.
    corpus : Corpus
    *settings
        By which a file is that of this run.
    posed : PosedCorpus, optional
        The multipliers to go on from are kept beside it.

    Attributes
    ----------
    state : State or None
        Where the run of the file was.
    posed : PosedCorpus or None
    """

    def __init__(
        self,
        on_iteration: Callable[[Record], None] | None,
        folder: str | os.PathLike[str] | None,
        corpus: Corpus,
        *settings: Any,
        posed: PosedCorpus | None = None,
    ) -> None:
        super().__init__(on_iteration)
        self.state: State | None = None
        self.posed, self._checkpoint, self._unsaved = posed, None, False
        if folder is not None:
            # states of earlier versions were not in the coordinates of the model
            self._checkpoint = Checkpoint.at(folder, corpus, State.blank(), *settings, "in coordinates")
            if self._checkpoint.path.exists():
                self.history, self.state, self.posed, _ = self._checkpoint.load(State.blank(), posed)
        for record in self.history:
            self.notify(record)

    def reach(
        self, state: State, record: Record, skipped: Counter[str] | None = None, posed: PosedCorpus | None = None
    ) -> None:
        """Keep the state after a step and its record."""
        self.state, self.posed, self._unsaved = state, posed, True
        self.add(record, skipped, save=self.save if state.n_steps % _APART == 0 else None)

    def save(self) -> None:
        """Write the state of the last step, unless that is done."""
        if self._checkpoint is not None and self._unsaved:
            self._checkpoint.save(self.state, self.history, self.posed)
            self._unsaved = False


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
        posed.shards.sum(check, Step(model, theta, 1.0, estep), criterion, posed.facts, posed.rows)
    return posed


def _expected(step: Step, criterion: Any, posed: PosedCorpus, known: Floats) -> EStepResult[Floats]:
    """The log-likelihood of what is labelled less the costs of the model's own expectations, and its gradient.

    ``known`` are the values of features under known labels. Without constraints the criterion is not read.
    """
    total: EStepResult[Statistics] = posed.shards.sum(evaluate_criterion, step, criterion, posed.facts)
    stats, violation, prices = total.stats, total.violation, None
    likelihood, gradient = total.objective + float(step.params @ known), stats.gradient
    gradient += known
    if not step.estep.constraints:
        return EStepResult(gradient, likelihood, likelihood, violation)
    cost = stats.cost
    if posed.rows is not None and stats.expectation is not None:
        reached = stats.expectation.dense
        costs = criterion.costs(posed.rows.blocks, reached, posed.rows.bounds)
        cost, prices = cost + float(costs.cost.sum()), costs.price
        violation = max(violation, worst_violation(posed.rows, reached - posed.rows.bounds))
    gradient -= posed.shards.sum(cost_gradient, step, criterion, prices, posed.facts)
    return EStepResult(gradient, likelihood - cost, likelihood, violation)


def _projected(step: Step, posed: PosedCorpus, home: Corpus) -> tuple[EStepResult[Floats], PosedCorpus]:
    """The objective of EM after an E-step with its gradient at fixed posteriors, and the corpus to go on from."""
    expected, posed = posed.expect(step)
    expected.stats -= home.sum(moments, step.model, step.params, False).gradient
    return expected, posed


def check(
    shard: Posed | Numbered, step: Step, criterion: Expectations, facts: CorpusFacts | None, rows: CorpusRows | None
) -> int:
    """Raise `InvalidInputError` if the criterion cannot measure a shard; 0."""
    posed = posed_of(shard, step, facts)
    if rows is not None and posed.transpose is not None:
        criterion.check(rows.blocks, sp.csr_array(posed.transpose.T), rows.bounds)
    if posed.inside is not None:
        criterion.check(posed.inside.blocks, posed.inside.matrix, posed.inside.bounds)
    if not is_known(step.model, posed.shard) and not hasattr(posed.structure, "covariances"):
        raise InvalidInputError(
            f"criterion needs covariances of labels, which {type(posed.structure).__name__} does not have; leave it out"
        )
    return 0


def evaluate_criterion(
    shard: Posed | Numbered, step: Step, criterion: Expectations, facts: CorpusFacts | None = None
) -> EStepResult[Statistics]:
    """The log-likelihood of a shard, and as statistics its ``gradient``, and what constraints ``cost`` and expect.

    Of a shard whose labels are known, less their scores, which `known_counts` give. The cost, nats, and the violation
    are those of constraints inside the shard; the ``expectation`` is that of the rows that span the corpus, if there
    are any.
    """
    posed = posed_of(shard, step, facts)
    model, theta, shard_data = step.model, step.params, posed.shard
    value, cost, violation, gradient = 0.0, 0.0, 0.0, np.zeros(len(theta))
    restricted, known = shard_data.labels is not None, is_known(model, shard_data)
    if restricted:  # else the log-likelihood is 0
        free = model.moments(theta, shard_data)
        value, gradient = -free.value, -free.gradient
    if (restricted and not known) or posed.inside is not None or posed.across is not None:
        weights = posed.weights if posed.objective_weights is None else posed.objective_weights
        values, marginals = posed.structure.smoothed_max(model.scores(theta, shard_data), 1.0, weights=weights)
        refuse_impossible(values)
        if restricted and not known:
            value += float(weights @ values)
            gradient += model.gather(theta, shard_data, marginals)
    if posed.inside is not None:
        costs = inside_costs(posed, marginals, criterion)
        cost, violation = float(costs.copies @ costs.cost), costs.violation
    expected = None if posed.across is None else expectation(posed, marginals)
    return EStepResult(Statistics(gradient=gradient, cost=cost, expectation=expected), value, value, violation)


def cost_gradient(
    shard: Posed | Numbered,
    step: Step,
    criterion: Expectations,
    prices: Floats | None,
    facts: CorpusFacts | None = None,
) -> Floats:
    """How the cost of all constraints rises with the weights, shape (n_weights,): a shard's part.

    ``prices`` are those of the costs of the rows that span the corpus, shape (n_rows,).
    """
    posed = posed_of(shard, step, facts)
    model, theta = step.model, step.params
    along: Floats = np.zeros(posed.structure.n_unary)
    if is_known(model, posed.shard):
        return np.zeros(len(theta))
    scores = model.scores(theta, posed.shard)
    if posed.inside is not None:
        _, marginals = posed.structure.smoothed_max(scores, 1.0)
        costs = inside_costs(posed, marginals, criterion)
        along = np.asarray(costs.matrix.T @ (costs.copies * costs.price))
    if posed.transpose is not None and prices is not None:
        along = along + posed.weights[posed.structure.instance] * (posed.transpose @ prices)
    if not along.any():
        return np.zeros(len(theta))
    # `gather` counts instances by their weights
    weights = posed.weights if posed.objective_weights is None else posed.objective_weights
    weight = weights[posed.structure.instance]
    along = np.divide(along, weight, out=np.zeros(len(along)), where=weight > 0)
    direction = Parts(along, no_parts(posed.structure).factors)
    _, covariances = cast(Differentiable, posed.structure).covariances(scores, direction, weights)
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
