"""Stepwise EM: an M-step after every batch of shards, on a running average of their statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from spectrem._arrays import Floats
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.learning.estep import EStep, Posed, Step
from spectrem.learning.model import log_prior
from spectrem.learning.posed_corpus import Numbered, PosedCorpus
from spectrem.learning.schedule import Stepwise
from spectrem.models.estep import EStepResult


@dataclass
class Running:
    """Where a run of stepwise EM stands.

    Attributes
    ----------
    params
        Those of the last M-step.
    stats
        The average of the statistics of the batches so far, as if each were the whole corpus; None before the first.
    n_steps : int
        Batches so far, in all passes.
    log_prior : float
        Of the parameters at the start of this pass, nats.
    objective, free_objective, violation, skipped
        Of the batches of this pass so far; see `EStepResult`.
    """

    params: Any
    stats: Any = None
    n_steps: int = 0
    log_prior: float = 0.0
    objective: float = 0.0
    free_objective: float = 0.0
    violation: float = 0.0
    skipped: Counter[str] = field(default_factory=Counter)


class Batches:
    """The batches of a corpus, and the steps that EM takes on them.

    Parameters
    ----------
    model : Model
    posed : PosedCorpus
    corpus : Corpus
        As the M-step reads it.
    estep : EStep
    schedule : Stepwise
    params
        To start from.

    Attributes
    ----------
    running : Running
        Changed by every batch.

    Raises
    ------
    InvalidInputError
        If constraints span the corpus: each of their expectations needs all of it.
    """

    def __init__(
        self, model: Any, posed: PosedCorpus, corpus: Corpus, estep: EStep, schedule: Stepwise, params: Any
    ) -> None:
        if posed.rows is not None:
            raise InvalidInputError(
                f"constraints must lie inside instances where EM steps after every batch, got "
                f"{posed.rows.blocks[0].name!r} over the corpus; leave it out, or train without Stepwise"
            )
        self._model, self._posed, self._corpus, self._estep, self._schedule = model, posed, corpus, estep, schedule
        # A method that reads nothing of the model, which may be large, is sent alone.
        weights = model.weights if hasattr(model, "weights") else partial(_ones, model)
        self._weights = np.array(list(posed.shards.collect(_weight, weights)))
        initial = model.initial_stats(params) if hasattr(model, "initial_stats") else None
        self.running = Running(params, initial)

    def numbers(self, number: int) -> list[list[int]]:
        """Numbers of the shards of every batch of a pass (0, 1, ...)."""
        order = np.arange(len(self._weights))
        if self._schedule.seed is not None:
            order = np.random.default_rng([self._schedule.seed, number]).permutation(order)
        n_batches = min(self._schedule.n_batches, len(order))
        return [np.sort(batch).tolist() for batch in np.array_split(order, n_batches)]

    def template(self) -> Any:
        """Statistics of the kind that the model gathers, for what reads them from a file."""
        return self._posed.expect_part(Step(self._model, self.running.params, 1.0, self._estep), [0]).stats

    def run_pass(self, number: int, gamma: float, on_step: Callable[[], None]) -> tuple[EStepResult[Any], float]:
        """Go on with a pass, batch by batch, until its end.

        Parameters
        ----------
        number : int
            Of the pass, from 0.
        gamma : float
        on_step : callable
            Called after every batch but the last one.

        Returns
        -------
        EStepResult
            Without statistics; the objective is the sum of those of the batches, each at the parameters of its time.
        log_prior : float
            Of the parameters at the start of the pass, nats.
        """
        running, total, batches = self.running, self._weights.sum(), self.numbers(number)
        done = running.n_steps - number * len(batches)
        if not done:
            running.log_prior = log_prior(self._model, running.params)
        for batch in batches[done:]:
            found = self._posed.expect_part(Step(self._model, running.params, gamma, self._estep), batch)
            running.objective += found.objective
            running.free_objective += found.free_objective
            running.violation = max(running.violation, found.violation)
            running.skipped += found.skipped
            weight = self._weights[batch].sum()
            if weight > 0:
                self._average(scaled(found.stats, total / weight))
                del found  # its memory may serve the M-step
                if hasattr(self._model, "small_part"):
                    running.params = self._model.small_part(running.params)
                running.params = self._model.m_step(running.params, deepcopy(running.stats), self._corpus)
            running.n_steps += 1
            if running.n_steps % len(batches):
                on_step()
        numbers = running.objective, running.free_objective, running.violation, running.skipped
        running.objective, running.free_objective, running.violation, running.skipped = 0.0, 0.0, 0.0, Counter()
        return EStepResult(None, *numbers), running.log_prior

    def _average(self, stats: Any) -> None:
        """Take in the statistics of a batch, in place where their type can."""
        running = self.running
        if running.stats is None:
            running.stats = stats
            return
        share = (running.n_steps + 2.0) ** -self._schedule.power
        kept = scaled(running.stats, 1.0 - share)
        kept += scaled(stats, share)
        running.stats = kept


def scaled(stats: Any, factor: float) -> Any:
    """``factor * stats``, in the memory of the statistics where their type can be multiplied in place."""
    if hasattr(type(stats), "__imul__"):
        stats *= factor
        return stats
    return factor * stats


def _ones(model: Any, shard: Any) -> Floats:
    return np.ones(model.structure(shard).n_instances)


def _weight(shard: Any, weights: Callable[[Any], Floats]) -> float:
    """The weights of the instances of a shard, added up."""
    if isinstance(shard, Posed):
        own = shard.weights if shard.objective_weights is None else shard.objective_weights
        return float(own.sum())
    if isinstance(shard, Numbered):
        shard = shard.shard
    return float(weights(shard).sum())
