"""New instances under the constraints of a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from spectrem._validate import as_bool
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError, setting
from spectrem.inference.slack import compile_slack
from spectrem.learning import EStep, Step, pose

Result = TypeVar("Result")

# Where slack ties thousands of rows together, sharper tolerances take thousands of passes.
_ROUGH = 1e-4


def projects(estimator: Any) -> bool:
    """Whether posteriors of new instances have to meet the constraints of a fitted estimator."""
    return as_bool(estimator.project_at_predict, "project_at_predict") and bool(estimator.constraints)


def collect_at_predict(
    estimator: Any,
    model: Any,
    params: Any,
    corpus: Corpus,
    free: Callable[..., Result],
    projected: Callable[[Any, Step], Result],
    *,
    floored: Callable[[Any], Any] | None = None,
    best: str | None = None,
) -> Iterator[Result]:
    """Results of the shards of new instances, in order, under the constraints of an estimator if they are to be met.

    Parameters
    ----------
    estimator : object
        Fitted; with project_at_predict, constraints, infeasible and gamma_.
    model : object
        As `pose` takes it.
    params : object
        Its parameters.
    corpus : Corpus
    free : callable
        From a shard, the model and the parameters to a result without constraints.
    projected : callable
        From a posed shard and the step at which `spectrem.learning.posterior` meets the constraints to a result.
    floored : callable, optional
        From the parameters to those under which every instance is possible, to be used under constraints.
    best : str, optional
        What structures are called, such as "trees", if the best ones are sought in the place of posteriors.

    Raises
    ------
    InvalidInputError
        If the best structures are sought under constraints over the corpus.
    InfeasibleConstraintError
        If constraints over the corpus cannot hold for these instances.

    Warns
    -----
    ConvergenceWarning
        If they are not met.
    """
    if not projects(estimator):
        return corpus.collect(free, model, params)
    estep = EStep(estimator.constraints, infeasible=estimator.infeasible)
    posed = pose(model, corpus, estep)
    gamma, rows = estimator.gamma_, posed.rows
    if best is not None:
        gamma = -np.inf
        if rows is not None:
            raise InvalidInputError(
                f"{setting('decode')} must be posterior where {setting('project_at_predict')} meets constraints over "
                f"the corpus ({rows.blocks[0].name!r}), got viterbi: the best {best} that meet them cannot be found "
                f"sentence by sentence; set {setting('decode', 'posterior')}"
            )
    elif gamma > 0 and rows is not None and not compile_slack(rows.blocks, np.zeros(len(rows.bounds), int), 1).is_box:
        estep = replace(estep, tol=_ROUGH)
    shards, step = posed.at_prices(Step(model, params if floored is None else floored(params), gamma, estep))
    return shards.collect(projected, step)
