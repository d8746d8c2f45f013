"""One `GaussianMixture.fit`: starts, EM and the posteriors at its end."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.estimators.mixture_chunks import Chunks
from spectrem.estimators.mixture_estep import FINE, ConstrainedEStep
from spectrem.execution import Executor
from spectrem.learning import Constant, FitResult, FitStatus, Record, Stopping, run_em
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


def train(
    mixture: Any,
    model: MixtureModel,
    shards: Sequence[MixtureShard],
    starts: Sequence[MixtureParameters],
    executor: Executor,
    estep: MixtureEStep | ConstrainedEStep,
) -> Trained:
    """Run EM from every start; keep the one with the largest objective at the end."""
    total = float(sum(shard.weights.sum() for shard in shards))
    best: tuple[FitResult[MixtureParameters], MixtureEStep | ConstrainedEStep] | None = None
    if mixture.max_iter == 0:
        return Trained(starts[0], estep, (), [], False, "kept the start")
    for number, start in enumerate(starts):
        if mixture.verbose:
            print(f"start {number + 1} of {len(starts)}")
        own = copy(estep)  # with multipliers of its own, but constraints compiled once
        result = run_em(
            model,
            own,
            shards,
            start,
            schedule=mixture.schedule or Constant(mixture.gamma),
            stopping=Stopping(mixture.max_iter, mixture.tol, scale=total),
            executor=executor,
            on_iteration=_Printer(mixture, total),
        )
        if best is None or result.history[-1].objective > best[0].history[-1].objective:
            best = result, own
    assert best is not None
    result, used = best
    bounds = [record.objective / total for record in result.history]
    converged = result.status == FitStatus.CONVERGED
    return Trained(result.params, used, result.history, bounds, converged, result.status.value)


def posteriors(
    trained: Trained, shards: Sequence[MixtureShard], gamma: float, executor: Executor
) -> NDArray[np.float64]:
    """Posteriors of the rows under the constraints that there are, shape (n_rows, n_components)."""
    assert isinstance(trained.estep, ConstrainedEStep)
    return trained.estep.project(trained.params, gamma, shards, executor, FINE)[0]


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
