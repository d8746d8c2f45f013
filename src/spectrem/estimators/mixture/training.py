"""One `GaussianMixture.fit`: starts, EM and the posteriors at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from spectrem.corpus import Corpus
from spectrem.estimators.homes import stage_folder
from spectrem.estimators.mixture.table import ChunkModel
from spectrem.learning import Constant, EStep, FitResult, FitStatus, Record, Stopping, keep_best, run_em
from spectrem.learning.posed_corpus import PosedCorpus
from spectrem.models.mixture import MixtureModel, MixtureParameters


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
        Its settings.
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

        def tell(record: Record) -> None:
            if mixture.verbose and (iteration := next(counter)) % mixture.verbose_interval == 0:
                seconds = f"  {record.seconds:.3f} s" if mixture.verbose > 1 else ""
                print(f"  iteration {iteration}  {record.objective / total:.5f} nats per row{seconds}")
            if mixture.on_iteration is not None:
                mixture.on_iteration(record)

        if mixture.verbose:
            print(f"start {number + 1} of {len(starts)}")
        return run_em(
            model,
            corpus,
            starts[number](),
            estep,
            schedule=mixture.schedule or Constant(mixture.gamma),
            stopping=stopping,
            on_iteration=tell,
            checkpoint=stage_folder(mixture, f"start-{number + 1}"),
        )

    runs = [partial(run, number) for number in range(len(starts))]
    # warnings belong to the line that calls `fit`
    return keep_best(runs, lambda found: found.history[-1].objective, stacklevel=3)


@dataclass(frozen=True)
class _Stopping(Stopping):
    """A rule for training in several fits: the first iteration is held against the last one of the fit before."""

    before: Record | None = None

    def converged(self, stage: list[Record]) -> bool:
        if len(stage) == 1 and self.before is not None and self.before.gamma == stage[0].gamma:
            stage = [self.before, *stage]
        return super().converged(stage)
