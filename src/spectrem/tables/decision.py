"""One label per row such that the constraints hold exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints.compilation.rows import Rows
from spectrem.inference.assignment import assign
from spectrem.inference.batch import project_batch
from spectrem.inference.program import Deadline
from spectrem.inference.result import Status
from spectrem.structures.structure import has_one_label
from spectrem.tables.reading import Cells


@dataclass(frozen=True, eq=False)
class Decision:
    """The best labels that meet the constraints, and how much better fractions could be.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,), or (n_tokens,) of a lattice
        The label of every row (or token): its name where the table has names, else its position.
    positions : ndarray of int64, alike
        Which of its row's labels it is.
    score : float
        Sum of the scores of the labels chosen less penalties, nats.
    relaxation : float
        The same of the best fractions that meet the constraints (gamma = 0), never less. Bounds of rows with whole
        coefficients are rounded to whole numbers first.
    n_changed : int
        How many labels are not the best ones by the scores alone.
    gap : float
        ``relaxation - score`` in nats; 0 proves that no other labels are better.
    violation : float
        Worst violation of any row after the slack it is allowed; 0 up to rounding.
    status : Status
        ``CERTIFIED``, or ``MAX_ITERATIONS`` where the time limit came first.
    """

    labels: NDArray
    positions: NDArray[np.int64]
    score: float
    relaxation: float
    n_changed: int
    gap: float
    violation: float
    status: Status


def decide(cells: Cells, rows: Rows, time_limit: float | None, weights: NDArray[np.float64] | None = None) -> Decision:
    """See `ProjectedTable.decide`; ``weights`` of rows multiply their scores and their share in rows across rows."""
    table = cells.table.inner
    if not has_one_label(table):
        return _decide_lattice(cells, rows, time_limit, weights)
    found = assign(table, cells.scores.unary, rows.whole, weights=weights, time_limit=time_limit)
    return Decision(
        labels=found.labels if cells.names is None else np.asarray(cells.labels(table.offsets[:-1] + found.labels)),
        positions=found.labels,
        score=found.score,
        relaxation=found.relaxation,
        n_changed=int((table.decode(cells.scores) != found.labels).sum()),
        gap=found.gap,
        violation=found.violation,
        status=found.status,
    )


def _decide_lattice(
    cells: Cells, rows: Rows, time_limit: float | None, weights: NDArray[np.float64] | None
) -> Decision:
    """By the integer program and the linear relaxation of the structure."""
    deadline = Deadline(time_limit)
    best = project_batch(cells.table.inner, cells.scores, rows, -np.inf, weights=weights, time_limit=deadline.left)
    relaxed = project_batch(cells.table.inner, cells.scores, rows, 0.0, weights=weights, time_limit=deadline.left)
    cell = np.flatnonzero(np.rint(best.marginals.unary) == 1)
    positions = cells.table.positions(cell)
    gap = relaxed.dual_value - best.primal_value
    gap = gap if gap > 1e-9 * max(1.0, abs(best.primal_value)) else 0.0
    return Decision(
        labels=positions if cells.names is None else np.asarray(cells.labels(cell)),
        positions=positions,
        score=best.primal_value,
        relaxation=best.primal_value + gap,
        n_changed=int((cells.table.inner.decode(cells.scores) != positions).sum()),
        gap=gap,
        violation=best.violation,
        status=best.status,
    )
