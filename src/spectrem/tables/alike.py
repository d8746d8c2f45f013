"""Constraints on a table, compiled once for all rows that they do not tell apart."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints.compilation.compile import compile_constraints
from spectrem.constraints.compilation.draft import each_columns, used_columns
from spectrem.constraints.compilation.groups import Coded, Key, number_groups
from spectrem.constraints.compilation.rows import Alike, Rows
from spectrem.constraints.constraint import Constraint
from spectrem.exceptions import InvalidInputError
from spectrem.inference.oracle import posteriors_alike, weigh_rows
from spectrem.structures.categorical import Categorical
from spectrem.structures.table import TableStructure
from spectrem.tables.reading import Cells, label_columns


def compile_table(listed: Sequence[Any], cells: Cells, given: Mapping[str, Key]) -> Rows:
    """The rows of constraints on a table, in which rows with the same values share their coefficients.

    Shares of labels look at no column, so all rows of the table are alike; what a document may hold looks at the
    documents. Memory and time are then those of the distinct rows.

    Raises
    ------
    InvalidInputError
        As `spectrem.constraints.compile_constraints`.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> from spectrem.tables.reading import read_cells
    >>> cells = read_cells([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]], None, "probabilities")
    >>> rows = compile_table([E[part("label") == 1] <= 1], cells, {})
    >>> rows.matrix.toarray(), rows.whole.matrix.toarray()
    (array([[0., 1.]]), array([[0., 1., 0., 1., 0., 1.]]))
    """
    found = _kinds(listed, cells, given)
    if found is not None:
        alike, columns, copies = found
        one_of_each = TableStructure(Categorical(np.full(len(copies), alike.width)))
        try:
            rows = compile_constraints(listed, one_of_each, columns, copies)
        except InvalidInputError:
            pass  # compiled below for all rows, whose parts errors then number as the user does
        else:
            if all(block.weighted for block in rows.blocks):
                return replace(rows, alike=alike)
    columns = ChainMap(label_columns(cells), cast(Any, given))  # nobody writes to it
    return compile_constraints(listed, cells.table, columns, cells.weights)


def expected_of(cells: Cells, rows: Rows, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Expected values of the constraints' rows under these probabilities of cells, shape (n_constraint_rows,)."""
    if rows.alike is None:
        expected: NDArray[np.float64] = weigh_rows(cells.table.inner, rows, cells.weights).matrix @ values
        return expected
    return rows.matrix @ rows.alike.add_up(values, _weights(cells))


def expected_before(cells: Cells, rows: Rows) -> NDArray[np.float64]:
    """Expected values under the probabilities that the table had before the projection."""
    if rows.alike is None:
        return expected_of(cells, rows, cells.table.smoothed_max(cells.scores, 1.0)[1].unary)
    free = np.zeros(rows.matrix.shape[1])
    return rows.matrix @ posteriors_alike(rows.alike, cells.scores.unary, free, 1.0, _weights(cells))[1]


def _weights(cells: Cells) -> NDArray[np.float64]:
    return np.broadcast_to(1.0, cells.table.n_instances) if cells.weights is None else cells.weights


def _kinds(
    listed: Sequence[Any], cells: Cells, given: Mapping[str, Key]
) -> tuple[Alike, Mapping[str, Key], NDArray[np.float64]] | None:
    """Which rows of the table constraints cannot tell apart, the columns of one of each, and how often each counts.

    None where that cannot be said, or where most rows are of their own.
    """
    table, n = cells.table, cells.table.n_instances
    if table.ragged or table.is_lattice or not _by_columns(listed):
        return None
    width = table.n_unary // n
    names = sorted(set().union(*map(used_columns, listed)) - {"label"})
    if width < 2 or any(name not in given or given[name].shape != (n,) for name in names):
        return None
    keys = [own.codes + 1 if isinstance(own := given[name], Coded) else own for name in names]
    kind, first = number_groups(keys, n)
    if 2 * len(first) > n:
        return None
    columns: dict[str, Key] = {name: given[name][first] for name in names}
    if cells.names is not None:
        columns["label"] = cells.labels(np.arange(width * len(first)))
    return Alike(kind, width), columns, np.bincount(kind, cells.weights).astype(np.float64)


def _by_columns(listed: Collection[Any]) -> bool:
    """Whether all are of the language and add up rows, so that rows may be told by the columns alone."""
    return all(isinstance(one, Constraint) and not each_columns(one) for one in listed)
