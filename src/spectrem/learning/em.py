"""The loop: [Samdani2012] algorithm 1 over the gammas of a schedule, with an M-step after every pass or batch."""

from __future__ import annotations

import math
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from spectrem._arrays import Floats
from spectrem.corpus import Corpus, Local
from spectrem.exceptions import InvalidInputError, SpectremError, warn_unconverged
from spectrem.learning.checkpoint import Checkpoint, Running
from spectrem.learning.estep import EStep, Posed, Step
from spectrem.learning.history import FitResult, FitStatus, Record, warn_skipped
from spectrem.learning.model import Model, log_prior
from spectrem.learning.posed_corpus import Numbered, PosedCorpus, pose
from spectrem.learning.schedule import Constant, Schedule, Stepwise, Stopping
from spectrem.models.estep import EStepResult

Params = TypeVar("Params")

# With a fixed number of steps on multipliers, violations above this, relative to the bound, cause a warning.
_MISSED = 1e-3


def run_em(
    model: Model[Params, Any, Any],
    corpus: Corpus | Sequence[Any],
    params: Params,
    estep: EStep | None = None,
    *,
    schedule: Schedule | None = None,
    stopping: Stopping | None = None,
    on_iteration: Callable[[Record], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> FitResult[Params]:
    """Maximise F(q, theta) by turns over posteriors (E-step) and parameters (M-step).

    Parameters
    ----------
    model : Model
    corpus : Corpus or sequence of shards
        Where the shards live; a sequence is worked on in this thread. Results do not depend on it.
    params
        Parameters to start from.
    estep : EStep, optional
        The constraints and how posteriors are projected onto them; by default there are none.
    schedule : Schedule, optional
        By default gamma = 1.
    stopping : Stopping, optional
        Applied at each gamma of the schedule anew.
    on_iteration : callable, optional
        Called with the record of every iteration, for progress; at once with those that a checkpoint holds.
    checkpoint : path, optional
        A folder, made if it is missing, that holds the state after the last iteration. A run that finds one there goes
        on from it and ends with the same bits as one that was never interrupted.

    Returns
    -------
    FitResult

    Raises
    ------
    SpectremError
        If the objective becomes NaN.
    InvalidInputError
        If the checkpoint is that of a run on other data, from another start or with other settings.

    Warns
    -----
    UserWarning
        Once, if the E-step left constraints out of instances where they cannot hold.
    ConvergenceWarning
        If a stage ran out of iterations.
    """
    schedule, stopping, estep = schedule or Constant(), stopping or Stopping(), estep or EStep()
    home = Local(corpus) if isinstance(corpus, Sequence) else corpus
    posed = pose(model, home, estep, params)
    saved = None
    if checkpoint is not None:
        saved = Checkpoint.at(checkpoint, home, params, model, estep, schedule, stopping)
    passes: _Passes[Params]
    if isinstance(schedule, Stepwise):
        passes = _Batches(schedule, model, home, estep, posed, params)
    else:
        passes = _WholePasses(model, home, estep, posed, params)
    del params, posed  # kept by the passes alone, which let go of them as soon as there are new ones
    observer = _Observer(passes, saved, on_iteration)
    gammas, all_converged = list(schedule.gammas()), True
    for number, gamma in enumerate(gammas):
        stage: list[Record] = []
        while not stopping.ends(stage):
            record = observer.replay()
            if record is None:
                is_last = partial(_is_last, stopping, stage) if number == len(gammas) - 1 else None
                record = observer.take(*passes.iterate(gamma, len(observer.history), is_last, observer.save))
            stage.append(record)
        all_converged &= stopping.converged(stage)
    history = observer.history
    violation = history[-1].violation if history and history[-1].gamma > 0 else 0.0
    if passes.posed.rows is not None and estep.dual_steps is not None and violation > _MISSED:
        warn_unconverged(
            f"constraints over the corpus are still missed by {violation:.2g} after the last iteration; raise "
            "dual_steps or max_iter, or give them slack",
        )
    if stopping.tol <= 0:
        status = FitStatus.FIXED_ITERATIONS
    else:
        status = FitStatus.CONVERGED if all_converged else FitStatus.MAX_ITERATIONS
    if status is FitStatus.MAX_ITERATIONS:
        warn_unconverged(f"{status.value}: raise max_iter or tol")
    return FitResult(passes.finish(), tuple(history), status, passes.posed)


class _Observer:
    """The history of a run, which is told iteration by iteration and kept on disk.

    A run that goes on from a checkpoint first tells the iterations that this holds.
    """

    def __init__(
        self, passes: _Passes[Any], saved: Checkpoint | None, on_iteration: Callable[[Record], None] | None
    ) -> None:
        self._passes, self._saved, self._on_iteration = passes, saved, on_iteration
        self.history = saved.load(passes) if saved is not None and saved.path.exists() else []
        self._untold, self._warned = deque(self.history), False

    def replay(self) -> Record | None:
        """The next iteration of the checkpoint; None after the last one."""
        return self._tell(self._untold.popleft()) if self._untold else None

    def take(self, record: Record, skipped: Counter[str]) -> Record:
        """Take in a new iteration, in which constraints were left out of some instances."""
        if skipped and not self._warned:
            self._warned = True
            warn_skipped(skipped)
        if math.isnan(record.objective):
            raise SpectremError(
                f"the objective became NaN at iteration {len(self.history) + 1} (gamma = {record.gamma}); check the "
                "scores for infinities and the constraints for contradictions"
            )
        self.history.append(record)
        self.save()
        return self._tell(record)

    def save(self) -> None:
        """Write the state of the run, if there is a checkpoint."""
        if self._saved is not None:
            passes = self._passes
            posed = passes.posed if passes.running is None else None
            self._saved.save(passes.params, self.history, posed, passes.running)

    def _tell(self, record: Record) -> Record:
        if self._on_iteration is not None:
            self._on_iteration(record)
        return record


class _WholePasses(Generic[Params]):
    """An E-step over the whole corpus, then an M-step."""

    running: None = None

    def __init__(self, model: Any, corpus: Corpus, estep: EStep, posed: PosedCorpus, params: Params) -> None:
        self._model, self._corpus, self._estep, self.posed, self.params = model, corpus, estep, posed, params

    def iterate(
        self, gamma: float, number: int, is_last: Callable[[Record], bool] | None, save: Callable[[], None]
    ) -> tuple[Record, Counter[str]]:
        """One iteration: its record, and in how many instances constraints were left out.

        Parameters
        ----------
        gamma : float
        number : int
            Iterations so far.
        is_last : callable, optional
            Whether an iteration with this record is the last one.
        save : callable
            Writes the state between M-steps of one iteration.
        """
        started = time.perf_counter()
        expected, self.posed = self.posed.expect(Step(self._model, self.params, gamma, self._estep))
        record = Record.of(gamma, expected, log_prior(self._model, self.params))
        m_step = self._model.m_step
        if is_last is not None and is_last(record):
            m_step = getattr(self._model, "last_m_step", m_step)
        self.params = m_step(self.params, expected.stats, self._corpus)
        return replace(record, seconds=time.perf_counter() - started), expected.skipped

    def finish(self) -> Params:
        """The parameters after the last iteration."""
        return self.params


class _Batches(Generic[Params]):
    """Stepwise EM: an M-step after every batch of shards, on a running average of their statistics.

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
        self, schedule: Stepwise, model: Any, corpus: Corpus, estep: EStep, posed: PosedCorpus, params: Params
    ) -> None:
        if posed.rows is not None:
            raise InvalidInputError(
                f"constraints must lie inside instances where EM steps after every batch, got "
                f"{posed.rows.blocks[0].name!r} over the corpus; leave it out, or train without Stepwise"
            )
        self._model, self._corpus, self.posed, self.params = model, corpus, posed, params
        self._estep, self._schedule = replace(estep, warm_start=False), schedule
        # The model, which may be large, is sent only where neither its method alone nor the shards know weights.
        weights = list(posed.shards.collect(_weight, getattr(model, "weights", None)))
        self._weights = np.array(list(posed.shards.collect(_n_instances, model)) if None in weights else weights)
        self.running = Running(model.initial_stats(params) if hasattr(model, "initial_stats") else None)

    def batches(self, number: int) -> list[list[int]]:
        """Numbers of the shards of every batch of a pass (0, 1, ...)."""
        order = np.arange(len(self._weights))
        if self._schedule.seed is not None:
            order = np.random.default_rng([self._schedule.seed, number]).permutation(order)
        n_batches = min(self._schedule.n_batches, len(order))
        return [np.sort(batch).tolist() for batch in np.array_split(order, n_batches)]

    def gather(self, gamma: float, batch: list[int]) -> EStepResult[Any]:
        """The E-step of a batch of shards."""
        return self.posed.part(batch).expect(Step(self._model, self.params, gamma, self._estep))[0]

    def iterate(
        self, gamma: float, number: int, is_last: Callable[[Record], bool] | None, save: Callable[[], None]
    ) -> tuple[Record, Counter[str]]:
        """Go on with a pass until its end, as `_WholePasses.iterate`.

        The objective is the sum of those of the batches, each at the parameters of its time.
        """
        started = time.perf_counter()
        running, total, batches = self.running, self._weights.sum(), self.batches(number)
        done = running.n_steps - number * len(batches)
        if not done:
            running.log_prior = log_prior(self._model, self.params)
        for batch in batches[done:]:
            expected = self.gather(gamma, batch)
            running.objective += expected.objective
            running.free_objective += expected.free_objective
            running.violation = max(running.violation, expected.violation)
            running.skipped += expected.skipped
            weight = self._weights[batch].sum()
            if weight > 0:
                self._average(scaled(expected.stats, total / weight))
                del expected  # its memory may serve the M-step
                if hasattr(self._model, "small_part"):
                    self.params = self._model.small_part(self.params)
                self.params = self._model.m_step(self.params, deepcopy(running.stats), self._corpus)
            running.n_steps += 1
            if running.n_steps % len(batches):
                save()
        record, skipped = Record.of(gamma, running, running.log_prior), running.skipped
        self.running = Running(running.stats, running.n_steps, running.log_prior)
        return replace(record, seconds=time.perf_counter() - started), skipped

    def finish(self) -> Params:
        """The parameters after the last iteration."""
        running, last_m_step = self.running, getattr(self._model, "last_m_step", None)
        if last_m_step is not None and running.n_steps and running.stats is not None:
            self.params = last_m_step(self.params, running.stats, self._corpus)
        return self.params

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


_Passes: TypeAlias = _WholePasses[Params] | _Batches[Params]


def scaled(stats: Any, factor: float) -> Any:
    """``factor * stats``, in the memory of the statistics where their type can be multiplied in place."""
    if hasattr(type(stats), "__imul__"):
        stats *= factor
        return stats
    return factor * stats


def _is_last(stopping: Stopping, stage: list[Record], record: Record) -> bool:
    return stopping.ends([*stage, record])


def _weight(shard: Any, weights: Callable[[Any], Floats] | None) -> float | None:
    """The sum of the weights of the instances of a shard; None where nothing says them: all are 1."""
    if isinstance(shard, Posed):
        return float((shard.weights if shard.objective_weights is None else shard.objective_weights).sum())
    inner = shard.shard if isinstance(shard, Numbered) else shard
    instance_weights: Floats | None = getattr(inner, "weights", None) if weights is None else weights(inner)
    return None if instance_weights is None else float(instance_weights.sum())


def _n_instances(shard: Any, model: Any) -> int:
    n_instances: int = model.structure(shard.shard if isinstance(shard, Numbered) else shard).n_instances
    return n_instances
