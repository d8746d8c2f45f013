"""The report of the training of a GaussianMixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spectrem._arrays import Floats
from spectrem.constraints import compile_constraints
from spectrem.constraints.links import RowLinks
from spectrem.estimators.mixture.chunks import without_must_links
from spectrem.estimators.mixture.input import MixtureRows
from spectrem.estimators.mixture.table import ChunkTable, rows_of
from spectrem.inference import Projection
from spectrem.inference.oracle import weigh_rows
from spectrem.models.mixture import MixtureModel, MixtureParameters, MixtureShard
from spectrem.reports import ConstraintReport, FitReport, report_constraints, report_training
from spectrem.reports.components import Components
from spectrem.structures import Categorical
from spectrem.tables import TableStructure


def report_fit(
    mixture: Any,
    params: MixtureParameters,
    rows: MixtureRows,
    constraints: tuple[ConstraintReport, ...] = (),
    must_links: Sequence[RowLinks] = (),
) -> FitReport:
    """The report of a mixture, a GaussianMixture that has labelled its rows."""
    sizes = np.bincount(mixture.labels_, minlength=mixture.n_components)
    names = vars(mixture).get("feature_names_in_", [f"feature {j}" for j in range(rows.x.shape[1])])
    return report_training(
        mixture,
        len(rows.x),
        {"components": mixture.n_components, "covariance": mixture.covariance_type},
        constraints,
        notes=tuple(f"{own.name}: {len(own.pairs)} pairs, held exactly" for own in must_links),
        sections=(Components(params, sizes, [str(name) for name in names]),),
    )


def report_rows(
    model: MixtureModel, params: MixtureParameters, table: ChunkTable, gamma: float, projection: Projection
) -> tuple[ConstraintReport, ...]:
    """All rows of the constraints but must-links, over rows of data as the user knows them."""
    posteriors = rows_of(table, projection.marginals)
    n, k = posteriors.shape
    weights, chunks, structure, rows = table.weights, table.chunks, table.structure, table.rows
    if structure.n_instances < n or (weights != 1.0).any():  # they are not the rows of data
        structure = Categorical(np.full(n, k))
        rows = compile_constraints(
            without_must_links(table.constraints), TableStructure(structure), table.columns, weights
        )
    weighed = weigh_rows(structure, rows, weights)
    found = projection.multipliers
    copies = np.where(rows.row_instance >= 0, chunks.weights[chunks.chunk[rows.row_instance]], 1.0)
    prices = copies * found if len(found) else np.zeros(len(copies))
    before = np.concatenate(list(table.blocks.collect(_free, model, params, max(gamma, 0.0))))
    return report_constraints(weighed, prices, before, posteriors.ravel())


def _free(shard: MixtureShard, model: MixtureModel, params: MixtureParameters, gamma: float) -> Floats:
    return model.structure(shard).smoothed_max(model.scores(params, shard), gamma)[1].unary
