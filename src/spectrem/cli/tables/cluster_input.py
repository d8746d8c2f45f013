"""The inputs of `spectrem cluster`: features, links, bounds on sizes."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spectrem.cli.tables.options import split_names
from spectrem.data import TableFile, read_table
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from collections.abc import Collection

    import polars

    from spectrem.constraints import Constraint

_SIZE = re.compile(r"\s*(?P<low>[0-9.eE+]*%?)\s*:\s*(?P<high>[0-9.eE+]*%?)\s*")


def feature_names(file: TableFile, features: str | None, taken: Collection[str]) -> list[str]:
    """The columns to cluster by: those named, or all numbers that nothing else names.

    Raises
    ------
    InvalidInputError
        If there are none, or a name does not exist.
    """
    if features is not None:
        names = split_names(features, "--features")
        file.check(names, "--features")
        return names
    names = file.numeric(taken, "--features")
    if not names:
        raise InvalidInputError(
            f"{file.name}: no column holds numbers, besides those that options name; name features by --features"
        )
    return names


def feature_matrix(
    file: TableFile, names: list[str], weights: NDArray[np.float64] | None, standardize: bool, by_rule: bool
) -> NDArray[np.float64]:
    """Features as an array of shape (n_rows, n_features).

    Raises
    ------
    InvalidInputError
        Naming row and column of a cell that is missing or no finite number, a column that cannot be standardised, or
        one that only numbers the rows where no option says (``by_rule``) that it is a feature.
    """

    def leave_out(name: str) -> str:
        others = ",".join(other for other in names if other != name)
        return "correct it, or drop the row" + (f", or leave the column out by --features {others}" if others else "")

    x = file.numbers(names, leave_out)
    for k, name in enumerate(names if by_rule else ()):
        values = np.sort(x[:, k])
        if len(values) > 2 and values[0] in (0, 1) and (np.diff(values) == 1).all():
            others = ",".join(other for other in names if other != name) or name
            raise InvalidInputError(
                f"{file.name}, column {name!r}: numbers the rows, from {values[0]:g} to {values[-1]:g}; give "
                f"--id {name} if it only names them, or name the columns to cluster by: --features {others}"
            )
    if np.isinf(x).any():
        row, k = np.argwhere(np.isinf(x))[0].tolist()
        raise file.refusal(row, names[k], f"{x[row, k]} is not finite; {leave_out(names[k])}")
    if not standardize:
        return x
    mean = np.average(x, axis=0, weights=weights)
    deviation = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
    same = ~(deviation > 1e-12 * np.maximum(1.0, np.abs(mean)))
    if same.any():
        raise InvalidInputError(
            f"{file.name}, column {names[int(same.argmax())]!r}: is the same in every row, which --standardize cannot "
            "bring to standard deviation 1; leave it out by --features"
        )
    return (x - mean) / deviation


def read_size(text: str) -> Constraint:
    """Bounds on the sizes of all clusters, from ``MIN:MAX``, in rows or in per cent of them.

    Raises
    ------
    InvalidInputError
        If it is not written so, or bounds nothing.

    Examples
    --------
    >>> read_size("10:20"), read_size(":20")  # doctest: +NORMALIZE_WHITESPACE
    (E[...].between(10, 20).per("label").named("cluster size"),
     (E[...] <= 20).per("label").named("cluster size"))
    """
    from spectrem.constraints import cluster_size

    match = _SIZE.fullmatch(text)
    if match is not None and "%" in text:
        try:
            return cluster_size(match["low"] or 0, match["high"] or None)
        except InvalidInputError as error:
            raise InvalidInputError(f"--size {text!r}: {error}") from None
    try:
        low = float(match["low"]) if match and match["low"] else 0.0
        high = float(match["high"]) if match and match["high"] else None
    except ValueError:
        match = None
    if match is None or math.inf in (low, high):
        raise InvalidInputError(f"--size {text!r} is not understood; write MIN:MAX, MIN: or :MAX, as in 40:60")
    if (low == 0 and high is None) or (high is not None and high < low):
        raise InvalidInputError(f"--size {text!r}: needs 0 <= MIN <= MAX and a bound; write 40:60, 40: or :60")
    return cluster_size(low, high)


def linked_rows(path: str, option: str, file: TableFile, ids: polars.Series | None) -> NDArray[np.int64]:
    """Pairs of rows of a table with two columns, shape (n_pairs, 2); rows are numbered, or named by ``ids``.

    Raises
    ------
    InvalidInputError
        If the table has not two columns with names, or names a row that does not exist, or a row twice in one pair.
    """
    import polars

    table = read_table(path)
    if len(table.names) != 2:
        raise InvalidInputError(
            f"{option} {table.name}: must have two columns, found {len(table.names)}: {', '.join(table.names)}"
        )
    if all(name.isdigit() for name in table.names):
        raise InvalidInputError(
            f"{option} {table.name}, line 1: must name the two columns, found numbers; write a line such as "
            "first,second above them"
        )
    pairs = np.empty((len(table), 2), np.int64)
    for side, name in enumerate(table.names):
        cells = table.values(name)
        if ids is not None:
            rows = cells.cast(polars.String).replace_strict(ids, range(len(ids)), default=-1, return_dtype=polars.Int64)
        else:
            rows = cells if cells.dtype.is_integer() else polars.repeat(-1, len(cells), dtype=polars.Int64, eager=True)
        wrong = ~rows.is_between(0, len(file) - 1)
        if wrong.any():
            row = int(wrong.to_numpy().argmax())
            known = f"rows are numbered from 0 to {len(file) - 1}" if ids is None else "no row has it in --id"
            hint = "; give --id COLUMN if rows have names" if ids is None else "; correct it"
            raise InvalidInputError(
                f"{option} {table.name}, {table.place(row)}: there is no row {quoted(cells[row])} in {file.name}: "
                f"{known}{hint}"
            )
        pairs[:, side] = rows.to_numpy()
    same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(same):
        raise InvalidInputError(
            f"{option} {table.name}, {table.place(int(same[0]))}: links a row to itself; drop the line"
        )
    return pairs


def row_names(file: TableFile, id: str) -> polars.Series:
    """The names of the rows, as text.

    Raises
    ------
    InvalidInputError
        If two rows have the same.
    """
    import polars

    file.check([id], "--id")
    names = file.values(id)
    again = names.is_first_distinct()
    if not again.all():
        row = int((~again).to_numpy().argmax())
        first = int((names == names[row]).to_numpy().argmax())
        twice = f"{names[row]!r} also names the row of {file.place(first)}"
        raise file.refusal(row, id, f"{twice}; --id needs a column that names every row differently")
    return names.cast(polars.String)
