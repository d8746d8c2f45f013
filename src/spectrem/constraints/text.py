"""Rows in words, for errors and reports."""

from __future__ import annotations

from spectrem.constraints.columns import literal_text, plain
from spectrem.constraints.rows import Rows


def row_text(rows: Rows, row_index: int) -> str:
    """Name one row: ``'one verb per sentence' in sentence 12``.

    Parameters
    ----------
    rows : Rows
    row_index : int
        Row of ``rows.matrix``, counted from 0.

    Returns
    -------
    str

    Examples
    --------
    >>> from spectrem.constraints import E, compile_constraints
    >>> from spectrem.structures.categorical import Categorical
    >>> rows = compile_constraints((E[...] <= 0.5).per("instance", "label").named("even"), Categorical([2, 2]))
    >>> row_text(rows, 2)
    "'even' in instance 1, label 0"
    """
    block = next(block for block in rows.blocks if block.start <= row_index < block.stop)
    values = {name: plain(column[row_index - block.start]) for name, column in block.keys.items()}
    place = ", ".join(f"{name} {literal_text(value)}" for name, value in values.items())
    return f"'{block.name}'" + (f" in {place}" if place else "")
