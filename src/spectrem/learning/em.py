"""The loop: [Samdani2012] algorithm 1 over the gammas of a schedule."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from spectrem.corpus import Corpus, Local
from spectrem.exceptions import SpectremError, warn, warn_unconverged
from spectrem.learning.checkpoint import Checkpoint
from spectrem.learning.estep import EStep, Step
from spectrem.learning.history import FitResult, FitStatus, Record
from spectrem.learning.model import Model, log_prior
from spectrem.learning.posed_corpus import pose
from spectrem.learning.schedule import Constant, Schedule, Stepwise, Stopping
from spectrem.learning.stepwise import Batches
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
    history: list[Record] = []
    batches = Batches(model, posed, home, estep, schedule, params) if isinstance(schedule, Stepwise) else None
    if saved is not None and saved.path.exists():
        params, history, posed = saved.load(params, posed, batches)
    done, all_converged, warned = len(history), True, False
    last_m_step = getattr(model, "last_m_step", None)
    gammas = list(schedule.gammas())
    for number, gamma in enumerate(gammas):
        stage: list[Record] = []
        while len(stage) < stopping.max_iter:
            if done > 0:  # read from the checkpoint
                record, done = history[len(history) - done], done - 1
                if on_iteration is not None:
                    on_iteration(record)
            else:
                started = time.perf_counter()
                if batches is None:
                    expected, posed = posed.expect(Step(model, params, gamma, estep))
                    prior = log_prior(model, params)
                    ends = number == len(gammas) - 1 and stopping.ends([*stage, _record(gamma, expected, prior)])
                    step = last_m_step if ends and last_m_step is not None else model.m_step
                    params = step(params, expected.stats, home)
                else:
                    batches.running.params = params
                    del params  # so that nobody keeps them beside those of every batch
                    expected, prior = batches.run_pass(len(history), gamma, partial(_save, saved, history, batches))
                    params = batches.running.params
                if expected.skipped and not warned:
                    warned = True
                    warn_skipped(expected.skipped)
                record = _record(gamma, expected, prior, time.perf_counter() - started)
                del expected  # or its statistics would stay in memory during the next E-step
                if math.isnan(record.objective):
                    raise SpectremError(
                        f"the objective became NaN at iteration {len(history) + 1} (gamma = {gamma}); check the scores "
                        "for infinities and the constraints for contradictions"
                    )
                history.append(record)
                if saved is not None:
                    saved.save(params, history, posed, batches)
                if on_iteration is not None:
                    on_iteration(record)
            stage.append(record)
            if stopping.converged(stage):
                break
        else:
            all_converged = False
    running = None if batches is None else batches.running
    if last_m_step is not None and running is not None and running.n_steps and running.stats is not None:
        params = last_m_step(params, running.stats, home)
    violation = history[-1].violation if history and history[-1].gamma > 0 else 0.0
    if posed.rows is not None and estep.dual_steps is not None and violation > _MISSED:
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
    return FitResult(params, tuple(history), status, posed)


def _record(gamma: float, expected: EStepResult[Any], prior: float, seconds: float = 0.0) -> Record:
    return Record(
        gamma,
        objective=expected.objective + prior,
        free_objective=expected.free_objective,
        violation=expected.violation,
        seconds=seconds,
        log_prior=prior,
    )


def _save(saved: Checkpoint | None, history: list[Record], batches: Batches) -> None:
    """Keep the state amid a pass over batches."""
    if saved is not None:
        saved.save(batches.running.params, history, batches=batches)


def warn_skipped(skipped: Counter[str]) -> None:
    """Say in how many instances constraints were left out that cannot hold there."""
    listed = ", ".join(f"{name!r} in {count} of the instances" for name, count in skipped.items())
    warn(f"constraints that cannot hold were left out: {listed}")
