"""Log-linear models trained in small steps: online EM, which with labelled data alone is stochastic gradient ascent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats
from spectrem._validate import as_bool, as_count, as_generator
from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError, advice
from spectrem.learning.estep import EStep, Posed, Step, objective_of, posterior
from spectrem.learning.model import log_prior
from spectrem.learning.posed_corpus import pose
from spectrem.learning.schedule import Course, FitResult, FitStatus, Record
from spectrem.structures import Known, Parts

# Shares of arcs that a step leaves out: posteriors that are right to three places change nothing that lasts.
_LEAST = 1e-4
# Weights are kept as a scale times an array; when the scale is below this, the array takes it up.
_SMALLEST_SCALE = 1e-3


@dataclass(frozen=True)
class SmallSteps:
    """How a model is trained in small steps.

    Parameters
    ----------
    passes : int
        Over all batches, at least 1.
    rate : float
        Of the first pass, above 0: by what the gradient of a batch is multiplied.
    decay : float
        In pass k, from 0 on, the rate is ``rate / (1 + decay * k)``; at least 0.
    average : bool
        Whether the result is the mean of the weights after all steps, in place of the last ones.

    Raises
    ------
    InvalidInputError
        If a number is out of its range.

    Examples
    --------
    >>> SmallSteps(passes=2)
    SmallSteps(passes=2, rate=0.04, decay=0.3, average=True)
    """

    passes: int = 4
    rate: float = 0.04
    decay: float = 0.3
    average: bool = True

    def __post_init__(self) -> None:
        as_count(self.passes, "passes", minimum=1)
        as_bool(self.average, "average")
        for name, value, fits, rule in (
            ("rate", self.rate, 0 < self.rate < np.inf, "above 0"),
            ("decay", self.decay, 0 <= self.decay < np.inf, "at least 0"),
        ):
            if not fits:
                default = getattr(type(self), name)
                raise InvalidInputError(f"{name} must be finite and {rule}, got {value}; the default is {default}")


def run_online(
    model: Any,
    batches: Sequence[Any],
    theta: Floats,
    estep: EStep | None = None,
    gamma: float = 1.0,
    how: SmallSteps = SmallSteps(),
    *,
    random_state: int = 0,
    on_iteration: Callable[[Record], None] | None = None,
) -> FitResult[NDArray[np.float32]]:
    """Climb the objective of EM batch by batch: posteriors under constraints less those of the model, times a rate.

    Ganchev et al. train their discriminative parser so ([Ganchev2010] §7.3.3). A Gaussian prior shrinks all weights a
    little at every step, in proportion to the share of the batch in the corpus.

    Parameters
    ----------
    model : EdgeFactoredModel
        Or another with the methods ``free_structure``, ``free_scores``, ``restricted``, ``shares`` and ``climb``.
    batches : sequence of shards
        Every pass makes one step of each, in an order of its own.
    theta : ndarray of shape (n_weights,)
        Weights to start from; they are not changed.
    estep : EStep, optional
        Constraints on the posteriors, all inside instances, and how they are solved for; by default none.
    gamma : float
        Weight of the entropy of the posteriors of what is not labelled: 1 for posterior regularisation, 0 for best
        structures, ``-inf`` for whole best structures under constraints.
    how : SmallSteps
        Passes, rates, and whether weights are averaged.
    random_state : int
        Seed of the orders of batches.
    on_iteration : callable, optional
        Called with the record of every pass.

    Returns
    -------
    FitResult
        Weights of single precision. The record of a pass adds up what every step found before it changed the weights.

    Raises
    ------
    InvalidInputError
        If constraints span the corpus, or the prior is not Gaussian.
    """
    estep = EStep() if estep is None else estep
    if model.prior.l1:
        raise InvalidInputError(f"prior must be Gaussian to learn in small steps, got l1={model.prior.l1}; set l1=0")
    posed = pose(model, Local(batches), replace(estep, warm_start=True))
    if posed.rows is not None:
        raise InvalidInputError(
            f"constraints must lie inside sentences to learn in small steps, but {posed.rows.blocks[0].name!r} spans "
            f"the corpus; {advice('no batch', 'learn in batch')}"
        )
    shards: list[Posed] = list(posed.shards.collect(lambda posed_shard: posed_shard))
    course, ascent = Course(on_iteration), _Weights(model, theta, how, max(len(batches), 1))
    rng = as_generator(random_state)
    for number in range(how.passes):
        value, free, violation, skipped = 0.0, 0.0, 0.0, Counter[str]()
        rate = how.rate / (1.0 + how.decay * number)
        for place in rng.permutation(len(shards)).tolist():
            posed_shard = shards[place]
            step = Step(model, ascent.weights, gamma, estep)
            scores = Parts(ascent.scale * model.free_scores(ascent.weights, posed_shard.shard).unary)
            values, expected = model.free_structure(posed_shard.shard).smoothed_max(scores, 1.0)
            weights = posed_shard.shard.weights
            normaliser = float(weights @ values)
            if isinstance(posed_shard.structure, Known):
                wanted = posed_shard.structure.shares
                score = float(np.repeat(weights, posed_shard.shard.lengths**2) @ (wanted * scores.unary))
                value, free = value + score - normaliser, free + score - normaliser
            else:
                inside = Parts(model.restricted(posed_shard.shard, scores.unary))
                projected = posterior(replace(posed_shard, scores=inside), step)
                wanted, violation = projected.marginals.unary, max(violation, projected.violation)
                constrained, alone, _ = objective_of(posed_shard, step, inside, projected)
                value, free = value + constrained - normaliser, free + alone - normaliser
                shards[place] = replace(posed_shard, multipliers=projected.multipliers)
                skipped += projected.skipped or Counter()
            ascent.climb(posed_shard.shard, wanted - expected.unary, rate)
        prior = log_prior(model, ascent.scale * ascent.weights)
        course.add(Record(gamma, value + prior, free, violation, 0.0, prior), skipped)
    posed = replace(posed, shards=Local(shards))
    return FitResult(ascent.result(), tuple(course.history), FitStatus.FIXED_ITERATIONS, posed)


class _Weights:
    """Weights that change in small steps, and their mean.

    The weights are ``scale * weights``, so that a prior that shrinks all of them costs nothing. If step i adds d_i to
    the array and s_t is the scale after step t, the sum of the weights over steps is S_T * weights less the sum of
    d_i * S_(i - 1), where S_t adds up the scales: ``later`` holds that last sum.
    """

    def __init__(self, model: Any, theta: Floats, how: SmallSteps, n_batches: int) -> None:
        self.weights = theta.astype(np.float32)
        self.scale = 1.0
        self._model, self._average = model, how.average
        self._shrinks = model.prior.l2 / n_batches
        self._later = np.zeros(len(theta) if how.average else 0, np.float32)
        self._scales, self._n_steps = 0.0, 0
        self._before: Floats | None = None  # the sum of the weights until the array took up the scale

    def climb(self, shard: Any, shares: Floats, rate: float) -> None:
        """Make one step."""
        self.scale /= 1.0 + rate * self._shrinks
        if self.scale < _SMALLEST_SCALE:
            self._take_up()
        self._model.climb(self.weights, self._later, shard, shares, rate / self.scale, self._scales, _LEAST)
        self._scales += self.scale
        self._n_steps += 1

    def result(self) -> NDArray[np.float32]:
        """The mean of the weights, or the last ones."""
        if not (self._average and self._n_steps):
            return self.weights * np.float32(self.scale)
        if self._before is not None:
            return (self._sum() / self._n_steps).astype(np.float32)
        # the table is large, and single precision is enough for what is added up once
        mean = self.weights * np.float32(self._scales / self._n_steps)
        self._later /= np.float32(self._n_steps)
        mean -= self._later
        return mean

    def _sum(self) -> Floats:
        total = self._scales * self.weights.astype(np.float64) - self._later
        return total if self._before is None else total + self._before

    def _take_up(self) -> None:
        if self._average:
            self._before = self._sum()
            self._later[:] = 0.0
            self._scales = 0.0
        self.weights *= np.float32(self.scale)
        self.scale = 1.0
