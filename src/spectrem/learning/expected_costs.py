"""What a shard adds to a criterion of expectations and to its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Floats
from spectrem.constraints.compilation.facts import CorpusFacts
from spectrem.constraints.compilation.rows import CorpusRows
from spectrem.exceptions import InvalidInputError
from spectrem.inference.oracle import refuse_impossible, weigh_rows
from spectrem.learning.criteria import Expectations
from spectrem.learning.estep import EStep, Posed, Step, expectation
from spectrem.learning.model import is_known
from spectrem.learning.posed_corpus import Numbered, pose_anew
from spectrem.models.estep import RowSum, Statistics
from spectrem.structures import Parts


class Task(NamedTuple):
    """What all shards have in common at one point; sent once per call.

    ``facts`` are given where structures and rows are made anew for every use.
    """

    model: Any
    theta: Floats
    criterion: Expectations
    estep: EStep
    facts: CorpusFacts | None = None

    def posed(self, shard: Posed | Numbered) -> Posed:
        """The shard with its structure and rows."""
        if isinstance(shard, Posed):
            return shard
        assert self.facts is not None
        return pose_anew(shard, Step(self.model, self.theta, 1.0, self.estep), self.facts)


@dataclass
class Looked:
    """A shard, or several, at some weights; a value with ``+``.

    Attributes
    ----------
    likelihood : Statistics
        Of what is labelled, in part or fully: log-likelihood, nats, and gradient.
    cost : float
        Of constraints inside shards, nats.
    violation : float
        The largest of these constraints, relative to their bounds.
    expectation : RowSum or None
        Expectations of the rows that span the corpus.
    """

    likelihood: Statistics
    cost: float = 0.0
    violation: float = 0.0
    expectation: RowSum | None = None

    def __add__(self, other: Looked) -> Looked:
        return self._with(self.likelihood + other.likelihood, other)

    def __iadd__(self, other: Looked) -> Looked:
        """The same sum, made in the memory of the left gradient."""
        self.likelihood += other.likelihood
        return self._with(self.likelihood, other)

    def _with(self, likelihood: Statistics, other: Looked) -> Looked:
        expected = self.expectation
        if expected is not None and other.expectation is not None:
            expected = expected + other.expectation
        return Looked(likelihood, self.cost + other.cost, max(self.violation, other.violation), expected)


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


def look(shard: Posed | Numbered, task: Task) -> Looked:
    """The log-likelihood of a shard, and what its constraints expect and cost."""
    posed = task.posed(shard)
    model, theta, own = task.model, task.theta, posed.shard
    scores = model.scores(theta, own)
    weights = posed.weights if posed.objective_weights is None else posed.objective_weights
    values, marginals = posed.structure.smoothed_max(scores, 1.0, weights=weights)
    refuse_impossible(values)
    likelihood = Statistics(value=0.0, gradient=np.zeros(len(theta)))
    if own.labels is not None:  # else the two terms are one
        free = model.moments(theta, own)
        value, gradient = float(weights @ values), model.gather(theta, own, marginals)
        likelihood = Statistics(value=value - free.value, gradient=gradient - free.gradient)
    found = Looked(likelihood)
    if posed.inside is not None:
        costs = inside_costs(posed, marginals, task.criterion)
        found.cost = float(costs.copies @ costs.cost)
        found.violation = costs.violation
    if posed.across is not None:
        found.expectation = expectation(posed, marginals)
    return found


def rise(shard: Posed | Numbered, task: Task, prices: Floats | None) -> Floats:
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
