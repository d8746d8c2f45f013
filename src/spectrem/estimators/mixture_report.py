"""What GaussianMixture tells of its training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints import compile_constraints
from spectrem.constraints.clusters import Links
from spectrem.estimators.mixture_chunks import without_must_links
from spectrem.estimators.mixture_estep import ConstrainedEStep, join_columns
from spectrem.estimators.mixture_training import Trained
from spectrem.execution import Executor
from spectrem.inference.oracle import weigh_rows
from spectrem.models.mixture import MixtureModel, MixtureShard
from spectrem.reports import ConstraintReport, FitReport, gamma_course, report_constraints
from spectrem.structures import Categorical
from spectrem.tables import Table


def report_fit(
    mixture: Any,
    model: MixtureModel,
    trained: Trained,
    shards: Sequence[MixtureShard],
    posteriors: NDArray[np.float64] | None,
    executor: Executor,
) -> FitReport:
    """The report of a mixture.

    Parameters
    ----------
    mixture : GaussianMixture
        Its settings.
    model, shards
        As for `run_em`.
    trained : Trained
    posteriors : ndarray of shape (n_rows, n_components) or None
        Those under the constraints that the E-step found last.
    executor : Executor
    """
    settings = {
        "components": mixture.n_components,
        "covariance": mixture.covariance_type,
        "gamma": gamma_course(trained.history, mixture.gamma),
    }
    tables: tuple[ConstraintReport, ...] = ()
    notes: tuple[str, ...] = ()
    if posteriors is not None:
        assert isinstance(trained.estep, ConstrainedEStep)
        gamma = trained.history[-1].gamma if trained.history else mixture.gamma
        tables = _report_rows(trained.estep, model, trained, gamma, shards, posteriors, executor)
        joined = [c for c in trained.estep.constraints if isinstance(c, Links) and c.together]
        notes = tuple(f"{own.name}: {len(own.pairs)} pairs, held exactly" for own in joined)
    n_rows = sum(len(shard.weights) for shard in shards)
    return FitReport(type(mixture).__name__, n_rows, trained.history, trained.status, settings, tables, notes)


def _report_rows(
    estep: ConstrainedEStep,
    model: MixtureModel,
    trained: Trained,
    gamma: float,
    shards: Sequence[MixtureShard],
    posteriors: NDArray[np.float64],
    executor: Executor,
) -> tuple[ConstraintReport, ...]:
    """All rows of the constraints but must-links, over rows of data as the user knows them."""
    n, k = posteriors.shape
    weights = np.concatenate([shard.weights for shard in shards])
    chunks, (structure, rows) = estep.chunks, estep.problem
    if structure.n_instances < n or (weights != 1.0).any():  # they are not the rows of data
        structure = Categorical(np.full(n, k))
        left = without_must_links(estep.constraints)
        rows = compile_constraints(left, Table(structure), join_columns(model, shards), weights)
    weighed = weigh_rows(structure, rows, weights)
    found = estep.multipliers
    copies = np.where(rows.row_instance >= 0, chunks.weights[chunks.chunk[rows.row_instance]], 1.0)
    prices = np.zeros(len(copies)) if found is None or not len(found) else copies * found

    def free(shard: MixtureShard) -> NDArray[np.float64]:
        own_structure, scores = model.scores(trained.params, shard)
        return own_structure.smoothed_max(scores, max(gamma, 0.0))[1].unary

    before = np.concatenate(list(executor.map(free, shards)))
    return report_constraints(weighed, prices, before, posteriors.ravel())
