"""What `project_batch` refuses."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats
from spectrem._validate import as_weights
from spectrem.constraints.rows import Rows
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import check_scores
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure

Infeasible = Literal["raise", "skip"]


def check_infeasible(infeasible: str) -> None:
    """Raise unless the option is one of the two there are."""
    if infeasible not in get_args(Infeasible):
        raise InvalidInputError(
            f'infeasible must be "raise" or "skip", got {infeasible!r}; "raise" names the constraint'
        )


def check_problem(
    structure: Structure,
    scores: Parts,
    rows: Rows | None,
    gamma: float,
    start: ArrayLike | None,
    weights: ArrayLike | None,
    tol: float,
) -> tuple[Parts, Rows | None, Floats, Floats | None]:
    """Coerce and refuse what cannot be meant; returns scores, rows, the starting multipliers and the weights."""
    constrained = rows is not None and len(rows.bounds) > 0
    if isinstance(gamma, bool) or not isinstance(gamma, int | float | np.integer | np.floating):
        raise InvalidInputError(f"gamma must be a number, got {gamma!r}; try 1.0")
    if np.isnan(gamma) or gamma == np.inf or (gamma < 0 and gamma != -np.inf and constrained):
        reason = (
            "between -inf and 0 the constrained problem is not convex; use gamma = 0 for its linear relaxation or "
            "gamma = -inf for the integer program"
            if gamma < 0
            else "use gamma = 1 for posterior regularisation, 0 for hard assignments, or any finite number between"
        )
        raise InvalidInputError(f"gamma must be -inf or a finite number >= 0; got {gamma}; {reason}")
    if not tol > 0:
        raise InvalidInputError(f"tol must be positive; got {tol}; the default is 1e-8")
    scores = check_scores(structure, scores)
    weight = None if weights is None else as_weights(weights, structure.n_instances)
    if not constrained:
        return scores, None, np.zeros(0), weight
    assert rows is not None
    if rows.matrix.shape != (len(rows.bounds), structure.n_unary):
        raise InvalidInputError(
            f"rows.matrix must have shape {(len(rows.bounds), structure.n_unary)}, one column per unary part; "
            f"got {rows.matrix.shape}; compile the constraint for this structure"
        )
    if not (np.isfinite(rows.bounds).all() and np.isfinite(rows.matrix.data).all()):
        raise InvalidInputError(
            "rows must have finite bounds and coefficients; got NaN or inf; drop rows without bound"
        )
    first = np.zeros(len(rows.bounds)) if start is None else np.asarray(start, np.float64)
    if first.shape != rows.bounds.shape or not np.isfinite(first).all():
        raise InvalidInputError(
            f"start must be {len(rows.bounds)} finite multipliers, one per row; got shape {first.shape}; "
            "pass the multipliers of an earlier projection of the same rows, or None"
        )
    return scores, rows, first, weight
