"""Labels of the training rows of a mixture such that its constraints hold exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spectrem.estimators.mixture_estep import ConstrainedEStep
from spectrem.estimators.mixture_training import Trained
from spectrem.execution import Executor
from spectrem.inference.assignment import assign
from spectrem.inference.corpus import pick_rows
from spectrem.models.mixture import MixtureShard

TIME_LIMIT = 60.0
"""Seconds for integer programs; most take far less, and none is run where constraints only count labels."""


def feasible_labels(trained: Trained, shards: Sequence[MixtureShard], executor: Executor) -> NDArray[np.int64]:
    """The labels that maximise the sum of weighted log joint densities under the constraints, shape (n_rows,).

    Rows that must-links tie together have one label; rows of weight w count w times in constraints across rows, but
    links hold whatever rows weigh.

    Parameters
    ----------
    trained : Trained
        Under constraints, after `posteriors`.
    shards, executor
        As for `run_em`.

    Raises
    ------
    InfeasibleConstraintError
        If no labels meet the constraints.
    """
    estep, params = trained.estep, trained.params
    assert isinstance(estep, ConstrainedEStep)
    model, k = estep.model, len(params.weights)
    scores = np.concatenate(list(executor.map(lambda shard: model.scores(params, shard)[1].unary, shards)))
    chunks, (structure, rows) = estep.chunks, estep.problem
    kept = np.ones(len(rows.bounds), np.bool_)
    kept[estep.skipped] = False
    means = chunks.mean @ scores.reshape(-1, k)
    found = assign(
        structure, means.ravel(), rows if kept.all() else pick_rows(rows, kept),
        weights=chunks.weights, time_limit=TIME_LIMIT,
    )  # fmt: skip
    return found.labels[chunks.chunk]
