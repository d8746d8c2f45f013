"""One `GaussianMixture.fit`: starts, EM, and the posteriors under constraints at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus
from spectrem.estimators.mixture.report import report_rows
from spectrem.estimators.mixture.table import FINE, ChunkModel, ChunkTable, feasible_labels, rows_of
from spectrem.estimators.training import run_stage
from spectrem.inference import project_batch
from spectrem.learning import EStep, FitResult, FitStatus, Record, Stopping, keep_best
from spectrem.learning.estep import multipliers_of
from spectrem.learning.posed_corpus import PosedCorpus
from spectrem.models.mixture import MixtureModel, MixtureParameters
from spectrem.reports import ConstraintReport


def train(
    mixture: Any,
    model: MixtureModel | ChunkModel,
    corpus: Corpus,
    estep: EStep,
    starts: Sequence[Callable[[], MixtureParameters]],
    total: float,
) -> FitResult[MixtureParameters]:
    """Run EM from every start; keep the one with the largest objective at the end.

    Parameters
    ----------
    mixture : GaussianMixture
        The mixture whose settings are used.
    model, corpus, estep
        As for `run_em`.
    starts : sequence of callables
        At least one; each finds parameters to start from.
    total : float
        Weight of all rows.
    """
    if mixture.max_iter == 0:
        return FitResult(starts[0](), (), FitStatus.FIXED_ITERATIONS, PosedCorpus(corpus))
    before = None
    if mixture.warm_start and mixture.schedule is None and vars(mixture).get("history_"):
        before = replace(mixture.history_[-1], objective=mixture.lower_bound_ * total)
    stopping = _Stopping(mixture.max_iter, mixture.tol, scale=total, before=before)

    def run(number: int) -> FitResult[MixtureParameters]:
        counter = count(1)

        def announce(record: Record) -> None:
            if mixture.verbose and (iteration := next(counter)) % mixture.verbose_interval == 0:
                seconds = f"  {record.seconds:.3f} s" if mixture.verbose > 1 else ""
                print(f"  iteration {iteration}  {record.objective / total:.5f} nats per row{seconds}")
            if mixture.on_iteration is not None:
                mixture.on_iteration(record)

        if mixture.verbose:
            print(f"start {number + 1} of {len(starts)}")
        stage = f"start-{number + 1}"
        return run_stage(
            mixture, model, corpus, starts[number](), estep, stage, stopping=stopping, on_iteration=announce
        )

    runs = [partial(run, number) for number in range(len(starts))]
    return keep_best(runs, lambda found: found.history[-1].objective)


def settle(
    mixture: Any, model: MixtureModel, trained: FitResult[MixtureParameters], table: ChunkTable
) -> tuple[Floats, Ints, tuple[ConstraintReport, ...]]:
    """Posteriors of the rows under the constraints at the parameters learned, labels as ``assign`` says, and reports.

    Returns
    -------
    posteriors : ndarray of shape (n_rows, n_components)
    labels : ndarray of shape (n_rows,)
    constraints : tuple of ConstraintReport
    """
    gamma = trained.history[-1].gamma if trained.history else mixture.gamma
    projection = project_batch(
        table.structure, ChunkModel(model).scores(trained.params, table), table.rows, gamma,
        start=next(iter(trained.posed.shards.collect(multipliers_of))), weights=table.chunks.weights,
        tol=FINE, infeasible=mixture.infeasible,
    )  # fmt: skip
    posteriors = rows_of(table, projection.marginals)
    labels = posteriors.argmax(axis=1)
    if mixture.assign == "feasible":
        labels = feasible_labels(ChunkModel(model), trained.params, table, projection.skipped)
    return posteriors, labels, report_rows(model, trained.params, table, gamma, projection)


@dataclass(frozen=True)
class _Stopping(Stopping):
    """A rule for training in several fits: the first iteration is held against the last one of the fit before."""

    before: Record | None = None

    def converged(self, stage: list[Record]) -> bool:
        if len(stage) == 1 and self.before is not None and self.before.gamma == stage[0].gamma:
            stage = [self.before, *stage]
        return super().converged(stage)
