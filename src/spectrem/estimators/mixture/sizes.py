"""Bounds on the sizes of all clusters that cannot hold together, found before anything is trained."""

from __future__ import annotations

import numpy as np

from spectrem._arrays import Floats
from spectrem.constraints.compilation.rows import Block, Rows
from spectrem.exceptions import InfeasibleConstraintError, setting

_ROUNDING = 1e-9


def check_sizes(rows: Rows, weights: Floats, k: int) -> None:
    """Check the bounds on the sizes of whole clusters against the number of rows of data.

    Parameters
    ----------
    rows : Rows
        Over a categorical structure of ``k`` labels; those with slack bind nothing.
    weights : ndarray of shape (n_instances,)
    k : int

    Raises
    ------
    InfeasibleConstraintError
        If the smallest sizes add up to more than all rows weigh, or the largest to less.
    """
    total, counted = float(weights.sum()), int((weights > 0).sum())
    low, high = np.zeros(k), np.full(k, total)
    names: tuple[dict[int, str], dict[int, str]] = {}, {}
    for block in rows.blocks:
        for label, least, most in _bounded(rows, block, weights, k, counted):
            if least > low[label]:
                low[label], names[0][label] = least, block.name
            if most < high[label]:
                high[label], names[1][label] = most, block.name
    if low.sum() > total * (1 + _ROUNDING):
        raise InfeasibleConstraintError(
            f"{_listed(names[0])}: the smallest sizes of the {k} clusters add up to {low.sum():g}, but the rows "
            f"of X weigh {total:g} in all; lower them, or {setting('n_components')}"
        )
    if high.sum() < total * (1 - _ROUNDING):
        raise InfeasibleConstraintError(
            f"{_listed(names[1])}: the largest sizes of the {k} clusters add up to {high.sum():g}, but the rows "
            f"of X weigh {total:g} in all; raise them, or {setting('n_components')}"
        )


def _bounded(rows: Rows, block: Block, weights: Floats, k: int, counted: int) -> list[tuple[int, float, float]]:
    """Label, smallest and largest size of every row of a block that counts all rows of data with one label.

    Links may name all rows, too, but count a row once whatever its weight, and so say nothing about sizes.
    """
    found: list[tuple[int, float, float]] = []
    if block.slack is not None or not block.weighted:
        return found
    own = np.arange(block.start, block.stop)
    sizes = np.diff(rows.matrix.indptr)[own]
    for row in own[(rows.row_instance[own] < 0) & (sizes >= counted)].tolist():
        inside = slice(rows.matrix.indptr[row], rows.matrix.indptr[row + 1])
        parts, values = rows.matrix.indices[inside], rows.matrix.data[inside]
        weighing = (weights[parts // k] > 0) & (values != 0)
        labels, values = parts[weighing] % k, values[weighing]
        if len(values) != counted or (labels != labels[0]).any() or np.ptp(values) > _ROUNDING * abs(values[0]):
            continue
        bound = float(rows.bounds[row] / values[0])
        above = values[0] > 0 or block.equality
        below = values[0] < 0 or block.equality
        found.append((int(labels[0]), bound if below else -np.inf, bound if above else np.inf))
    return found


def _listed(names: dict[int, str]) -> str:
    distinct = list(dict.fromkeys(names.values()))
    return ", ".join(map(repr, distinct[:3])) + (", ..." if len(distinct) > 3 else "")
