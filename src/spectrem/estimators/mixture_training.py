"""One `GaussianMixture.fit`: starts, EM and the posteriors at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.estimators.mixture_chunks import Chunks
from spectrem.estimators.mixture_estep import FINE, ConstrainedEStep
from spectrem.execution import Executor
from spectrem.learning import Constant, FitResult, FitStatus, Record, Stopping, keep_best, run_em
from spectrem.models.mixture import MixtureEStep, MixtureModel, MixtureParameters, MixtureShard


@dataclass(frozen=True, eq=False)
class Trained:
    """The best of several runs of EM; its objectives are per row, nats."""

    params: MixtureParameters
    estep: MixtureEStep | ConstrainedEStep
    history: tuple[Record, ...]
    lower_bounds: list[float]
    converged: bool
    status: str


def make_estep(
    mixture: Any, model: MixtureModel, shards: Sequence[MixtureShard]
) -> tuple[MixtureEStep | ConstrainedEStep, Chunks | None]:
    """The E-step and, where there are constraints, which rows of data are one; what cannot hold is refused here."""
    if not mixture.constraints:
        return MixtureEStep(model), None
    estep = ConstrainedEStep(model, mixture.constraints, mixture.infeasible)
    return estep, estep.pose(shards, mixture.n_components)


def last_record(mixture: Any) -> Record | None:
    """The last iteration, its objective per row, of the fit that another one goes on from; None if there is none."""
    if not mixture.warm_start or mixture.schedule is not None or not vars(mixture).get("history_"):
        return None
    return replace(mixture.history_[-1], objective=mixture.lower_bound_)


def train(
    mixture: Any,
    model: MixtureModel,
    shards: Sequence[MixtureShard],
    starts: Sequence[Callable[[], MixtureParameters]],
    executor: Executor,
    estep: MixtureEStep | ConstrainedEStep,
    before: Record | None = None,
) -> Trained:
    """Run EM from every start; keep the one with the largest objective at the end.

    Parameters
    ----------
    mixture : GaussianMixture
        Its settings.
    model, shards, executor
        As for `run_em`.
    starts : sequence of callables
        At least one; each finds parameters to start from.
    estep
        Of `make_estep`.
    before : Record, optional
        The last iteration of the training that this one goes on with; its objective per row.
    """
    total = float(sum(shard.weights.sum() for shard in shards))
    if mixture.max_iter == 0:
        return Trained(starts[0](), estep, (), [], False, "kept the start")
    stopping = _Stopping(
        mixture.max_iter,
        mixture.tol,
        scale=total,
        before=None if before is None else replace(before, objective=before.objective * total),
    )

    def run(number: int) -> tuple[FitResult[MixtureParameters], MixtureEStep | ConstrainedEStep]:
        if mixture.verbose:
            print(f"start {number + 1} of {len(starts)}")
        own = copy(estep)  # with multipliers of its own, but constraints compiled once
        result = run_em(
            model,
            own,
            shards,
            starts[number](),
            schedule=mixture.schedule or Constant(mixture.gamma),
            stopping=stopping,
            executor=executor,
            on_iteration=_Printer(mixture, total),
        )
        return result, own

    runs = [partial(run, number) for number in range(len(starts))]
    # warnings belong to the line that calls `fit`
    result, used = keep_best(runs, lambda found: found[0].history[-1].objective, stacklevel=3)
    bounds = [record.objective / total for record in result.history]
    converged = result.status == FitStatus.CONVERGED
    return Trained(result.params, used, result.history, bounds, converged, result.status.value)


def posteriors(
    trained: Trained, shards: Sequence[MixtureShard], gamma: float, executor: Executor
) -> NDArray[np.float64]:
    """Posteriors of the rows under the constraints that there are, shape (n_rows, n_components)."""
    assert isinstance(trained.estep, ConstrainedEStep)
    return trained.estep.project(trained.params, gamma, shards, executor, FINE)[0]


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
