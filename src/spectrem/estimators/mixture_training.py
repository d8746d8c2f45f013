"""One `GaussianMixture.fit`: starts, EM and the posteriors at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.corpus import Corpus
from spectrem.estimators.mixture_estep import ChunkModel
from spectrem.learning import Constant, EStep, FitResult, FitStatus, Record, Stopping, keep_best, run_em
from spectrem.learning.estep import multipliers_of
from spectrem.models.mixture import MixtureModel, MixtureParameters


@dataclass(frozen=True, eq=False)
class Trained:
    """The best of several runs of EM; its objectives are per row, nats.

    ``multipliers`` are those of the constraints after the last E-step, if there was one.
    """

    params: MixtureParameters
    history: tuple[Record, ...]
    lower_bounds: list[float]
    converged: bool
    status: str
    multipliers: NDArray[np.float64] | None = None


def last_record(mixture: Any) -> Record | None:
    """The last iteration, its objective per row, of the fit that another one goes on from; None if there is none."""
    if not mixture.warm_start or mixture.schedule is not None or not vars(mixture).get("history_"):
        return None
    return replace(mixture.history_[-1], objective=mixture.lower_bound_)


def train(
    mixture: Any,
    model: MixtureModel | ChunkModel,
    corpus: Corpus,
    estep: EStep,
    starts: Sequence[Callable[[], MixtureParameters]],
    total: float,
    before: Record | None = None,
) -> Trained:
    """Run EM from every start; keep the one with the largest objective at the end.

    Parameters
    ----------
    mixture : GaussianMixture
        Its settings.
    model, corpus, estep
        As for `run_em`.
    starts : sequence of callables
        At least one; each finds parameters to start from.
    total : float
        Weight of all rows.
    before : Record, optional
        The last iteration of the training that this one goes on with; its objective per row.
    """
    if mixture.max_iter == 0:
        return Trained(starts[0](), (), [], False, "kept the start")
    stopping = _Stopping(
        mixture.max_iter,
        mixture.tol,
        scale=total,
        before=None if before is None else replace(before, objective=before.objective * total),
    )

    def run(number: int) -> FitResult[MixtureParameters]:
        if mixture.verbose:
            print(f"start {number + 1} of {len(starts)}")
        return run_em(
            model,
            corpus,
            starts[number](),
            estep,
            schedule=mixture.schedule or Constant(mixture.gamma),
            stopping=stopping,
            on_iteration=_Printer(mixture, total),
        )

    runs = [partial(run, number) for number in range(len(starts))]
    # warnings belong to the line that calls `fit`
    result = keep_best(runs, lambda found: found.history[-1].objective, stacklevel=3)
    bounds = [record.objective / total for record in result.history]
    converged = result.status == FitStatus.CONVERGED
    kept = next(iter(result.posed.shards.collect(multipliers_of)))
    return Trained(result.params, result.history, bounds, converged, result.status.value, kept)


@dataclass(frozen=True)
class _Stopping(Stopping):
    """A rule for training in several fits: the first iteration is held against the last one of the fit before."""

    before: Record | None = None

    def converged(self, stage: list[Record]) -> bool:
        if len(stage) == 1 and self.before is not None and self.before.gamma == stage[0].gamma:
            stage = [self.before, *stage]
        return super().converged(stage)


@dataclass
class _Printer:
    """Prints iterations as ``verbose`` says."""

    mixture: Any
    total: float
    count: int = 0

    def __call__(self, record: Record) -> None:
        self.count += 1
        if self.mixture.verbose and self.count % self.mixture.verbose_interval == 0:
            seconds = f"  {record.seconds:.3f} s" if self.mixture.verbose > 1 else ""
            print(f"  iteration {self.count}  {record.objective / self.total:.5f} nats per row{seconds}")
