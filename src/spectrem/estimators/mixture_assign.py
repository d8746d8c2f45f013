"""Labels of the training rows of a mixture such that its constraints hold exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spectrem.estimators.mixture_estep import ChunkModel, ChunkTable
from spectrem.inference.assignment import assign
from spectrem.inference.corpus import pick_rows
from spectrem.models.mixture import MixtureParameters

TIME_LIMIT = 60.0
"""Seconds for integer programs; most take far less, and none is run where constraints only count labels."""


def feasible_labels(
    model: ChunkModel, params: MixtureParameters, table: ChunkTable, skipped: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The labels that maximise the sum of weighted log joint densities under the constraints, shape (n_rows,).

    Rows that must-links tie together have one label; rows of weight w count w times in constraints across rows, but
    links hold whatever rows weigh.

    Parameters
    ----------
    model : ChunkModel
    params : MixtureParameters
    table : ChunkTable
    skipped : ndarray of int
        Rows of the constraints that are left out.

    Raises
    ------
    InfeasibleConstraintError
        If no labels meet the constraints.
    """
    kept = np.ones(len(table.rows.bounds), np.bool_)
    kept[skipped] = False
    found = assign(
        table.structure, model.scores(params, table).unary,
        table.rows if kept.all() else pick_rows(table.rows, kept),
        weights=table.chunks.weights, time_limit=TIME_LIMIT,
    )  # fmt: skip
    return found.labels[table.chunks.chunk]
