"""What `spectrem cluster` reads besides its options: features, links, bounds on sizes."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spectrem.cli.table_options import split_names
from spectrem.data import Frame, read_frame
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from collections.abc import Collection

    from spectrem.constraints import Constraint

_SIZE = re.compile(r"\s*(?P<low>[0-9.eE+]*%?)\s*:\s*(?P<high>[0-9.eE+]*%?)\s*")


def feature_names(frame: Frame, features: str | None, taken: Collection[str]) -> list[str]:
    """The columns to cluster by: those named, or all numbers that nothing else names.

    Raises
    ------
    InvalidInputError
        If there are none, a name does not exist, or a column only numbers the rows and nothing says what it is for.
    """
    if features is not None:
        names = split_names(features, "--features")
        frame.check(names, "--features")
        return names
    names = frame.numeric(taken, "--features")
    if not names:
        raise InvalidInputError(
            f"{frame.name}: no column holds numbers, besides those that options name; name features by --features"
        )
    for name in names:
        values = np.sort(frame.numbers(name, _leave_out(name, names)))
        if len(values) > 2 and values[0] in (0, 1) and (np.diff(values) == 1).all():
            others = ",".join(other for other in names if other != name) or name
            raise InvalidInputError(
                f"{frame.name}, column {name!r}: numbers the rows, from {values[0]:g} to {values[-1]:g}; give "
                f"--id {name} if it only names them, or name the columns to cluster by: --features {others}"
            )
    return names


def feature_matrix(
    frame: Frame, names: list[str], weights: NDArray[np.float64] | None, standardize: bool
) -> NDArray[np.float64]:
    """Features as an array of shape (n_rows, n_features).

    Raises
    ------
    InvalidInputError
        Naming row and column of a cell that is missing or no finite number, or a column that cannot be standardised.
    """
    columns = []
    for name in names:
        values = frame.numbers(name, _leave_out(name, names))
        if np.isinf(values).any():
            row = int(np.flatnonzero(np.isinf(values))[0])
            raise InvalidInputError(
                f"{frame.name}, {frame.place(row)}, column {name!r}: {values[row]} is not finite; "
                f"{_leave_out(name, names)}"
            )
        if standardize:
            mean = np.average(values, weights=weights)
            deviation = float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
            if not deviation > 1e-12 * max(1.0, abs(mean)):
                raise InvalidInputError(
                    f"{frame.name}, column {name!r}: is the same in every row, which --standardize cannot bring to "
                    "standard deviation 1; leave it out by --features"
                )
            values = (values - mean) / deviation
        columns.append(values)
    return np.column_stack(columns)


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


def read_links(path: str, option: str, frame: Frame, ids: dict[Any, int] | None) -> NDArray[np.int64]:
    """Pairs of rows of a table with two columns, shape (n_pairs, 2).

    Raises
    ------
    InvalidInputError
        If the table has not two columns with names, or names a row that does not exist, or a row twice in one pair.
    """
    table = read_frame(path)
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
        for row, value in enumerate(table.values(name).tolist()):
            found = ids.get(str(value), -1) if ids is not None else value if isinstance(value, int) else -1
            if not 0 <= found < len(frame):
                known = f"rows are numbered from 0 to {len(frame) - 1}" if ids is None else "no row has it in --id"
                hint = "; give --id COLUMN if rows have names" if ids is None else "; correct it"
                raise InvalidInputError(
                    f"{option} {table.name}, {table.place(row)}: there is no row {quoted(value)} in {frame.name}: "
                    f"{known}{hint}"
                )
            pairs[row, side] = found
    same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(same):
        raise InvalidInputError(
            f"{option} {table.name}, {table.place(int(same[0]))}: links a row to itself; drop the line"
        )
    return pairs


def row_names(frame: Frame, id: str) -> dict[Any, int]:
    """Rows by their names, as text.

    Raises
    ------
    InvalidInputError
        If two rows have the same.
    """
    frame.check([id], "--id")
    found: dict[Any, int] = {}
    for row, value in enumerate(frame.values(id).tolist()):
        if str(value) in found:
            raise InvalidInputError(
                f"{frame.name}, {frame.place(row)}, column {id!r}: {value!r} also names the row of "
                f"{frame.place(found[str(value)])}; --id needs a column that names every row differently"
            )
        found[str(value)] = row
    return found


def _leave_out(name: str, names: list[str]) -> str:
    others = ",".join(other for other in names if other != name)
    return "correct it, or drop the row" + (f", or leave the column out by --features {others}" if others else "")
