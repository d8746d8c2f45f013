"""New instances under the constraints of a fitted model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spectrem._validate import as_bool
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError, setting
from spectrem.inference.slack import compile_slack
from spectrem.learning import EStep, Step, pose

# Where slack ties thousands of rows together, sharper tolerances take thousands of passes.
_ROUGH = 1e-4


def projects(estimator: Any) -> bool:
    """Whether posteriors of new instances have to meet the constraints of a fitted estimator."""
    return as_bool(estimator.project_at_predict, "project_at_predict") and bool(estimator.constraints)


def posed_at_predict(
    estimator: Any, model: Any, params: Any, corpus: Corpus, *, best: str | None = None
) -> tuple[Corpus, Step]:
    """Posed shards of new instances, and the step at which their posteriors meet the constraints of an estimator.

    Parameters
    ----------
    estimator : object
        Fitted; with constraints, infeasible and gamma_.
    model : object
        As `pose` takes it.
    params : object
        Its parameters.
    corpus : Corpus
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
    estep = EStep(estimator.constraints, infeasible=estimator.infeasible)
    posed = pose(model, corpus, estep)
    if best is not None and posed.rows is not None:
        raise InvalidInputError(
            f"{setting('decode')} must be posterior where {setting('project_at_predict')} meets constraints over the "
            f"corpus ({posed.rows.blocks[0].name!r}), got viterbi: the best {best} that meet them cannot be found "
            f"sentence by sentence; set {setting('decode', 'posterior')}"
        )
    gamma, rows = estimator.gamma_ if best is None else -np.inf, posed.rows
    if gamma > 0 and rows is not None and not compile_slack(rows.blocks, np.zeros(len(rows.bounds), int), 1).is_box:
        estep = replace(estep, tol=_ROUGH)
    return posed.at_prices(Step(model, params, gamma, estep))
