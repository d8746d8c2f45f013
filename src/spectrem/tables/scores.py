"""The one check of scores: probabilities or log-scores of the labels of rows, whoever hands them in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError

SUM_TOLERANCE = 1e-4
"""How far the sum of a row of probabilities may be from 1; single precision and many labels need about this much."""


class ScoreError(InvalidInputError):
    """A cell of a table that is no score, or a row whose scores are none together.

    Attributes
    ----------
    rule : {"nan", "infinite log", "impossible", "no probability", "zero", "sum"}
        What it breaks.
    row : int
    position : int or None
        Of the cell in its row; None for whole rows.
    value : float
        Of the cell, or the sum of the row.
    n_rows : int
        How many rows are like it.
    """

    def __init__(
        self, message: str, rule: str, row: int, position: int | None = None, value: float = np.nan, n_rows: int = 1
    ) -> None:
        super().__init__(message)
        self.rule, self.row, self.position, self.value, self.n_rows = rule, row, position, value, n_rows


def check_log_scores(values: NDArray[np.float64], offsets: NDArray[np.int64]) -> None:
    """Refuse what are no scores in nats."""
    _check_cells(np.isnan(values), "nan", values, offsets)
    _check_cells(values == np.inf, "infinite log", values, offsets)
    impossible = np.isneginf(np.maximum.reduceat(values, offsets[:-1]))
    if impossible.any():
        row = int(impossible.argmax())
        raise ScoreError(
            f"log-scores must leave a label possible in every row; row {row} is -inf throughout; drop the row",
            "impossible",
            row,
        )


def check_probabilities(values: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Refuse what are no probabilities; the sum of each row, shape (n_rows,)."""
    _check_cells(np.isnan(values), "nan", values, offsets)
    _check_cells((values < 0) | (values == np.inf), "no probability", values, offsets)
    totals = np.add.reduceat(values, offsets[:-1])
    off = ~(np.abs(totals - 1.0) <= SUM_TOLERANCE)
    if off.any():
        row = int(off.argmax())
        if totals[row] == 0:
            rule, n_rows, what, hint = "zero", int((totals == 0).sum()), "is zero throughout", "drop the row"
        else:
            rule, n_rows, what = "sum", int(off.sum()), f"sums to {totals[row]:g}"
            hint = 'divide every row by its sum, or pass scores="log" for logits'
        more = f" ({n_rows} such rows)" if n_rows > 1 else ""
        message = f"every row of proba must sum to 1; row {row} {what}{more}; {hint}"
        raise ScoreError(message, rule, row, None, float(totals[row]), n_rows)
    return totals


def _check_cells(bad: NDArray[np.bool_], rule: str, values: NDArray[np.float64], offsets: NDArray[np.int64]) -> None:
    """Refuse the first bad cell."""
    if not bad.any():
        return
    cell = int(bad.argmax())
    row = int(np.searchsorted(offsets, cell, side="right")) - 1
    position, value = cell - int(offsets[row]), float(values[cell])
    where = f"in row {row}, column {position}"
    message = {
        "nan": f"proba must not be NaN; got NaN {where}; look for 0/0 in the model, or drop the row",
        "infinite log": f"log-scores must be finite or -inf; got inf {where}; clip them",
        "no probability": f"proba must not be {'negative' if value < 0 else 'infinite'}; got {value:g} {where}; "
        'pass scores="log" if these are log-probabilities or logits',
    }[rule]
    raise ScoreError(message, rule, row, position, value)
