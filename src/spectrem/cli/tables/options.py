"""Options that commands on tables share, and what their constraints say about the columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spectrem.cli.declare import argument, option
from spectrem.cli.ending import say
from spectrem.cli.options import ConstraintOptions, OutputOption, errors_located, parse_options
from spectrem.exceptions import InvalidInputError

COLUMNS, MORE = "Columns", "More results"
"""Headings of ``--help``."""

if TYPE_CHECKING:
    import numpy as np
    import polars
    from numpy.typing import NDArray

    from spectrem.constraints.compilation.groups import Key
    from spectrem.data import TableFile


@dataclass(frozen=True, kw_only=True)
class WeightOption:
    """An option of commands on tables whose rows may count for several.

    Parameters
    ----------
    weights
        How many rows each row counts for.
    """

    weights: str | None = option(None, metavar="COLUMN", show_default="1")


@dataclass(frozen=True, kw_only=True)
class AddingOption:
    """An option of commands that add a column of clusters or states to a table.

    Parameters
    ----------
    add_probabilities
        Add columns of probabilities, too.
    """

    add_probabilities: bool = option(False, group=MORE)

    def added(self, file: TableFile, column: str, values: Iterable[object]) -> list[str]:
        """Names of the columns of probabilities that are added beside a column of some values.

        Raises
        ------
        InvalidInputError
            If the table has a column of these names.
        """
        names = [f"{column}_{value}" for value in values if self.add_probabilities]
        for name in (column, *names):
            if name in file.schema:
                raise InvalidInputError(f"{file.name} has a column {name!r}, which is to be added; rename it")
        return names


@dataclass(frozen=True, kw_only=True)
class TableOption:
    """The argument of commands that read a table.

    Parameters
    ----------
    data
        A table whose first line names its columns: .csv, .tsv (either also .gz) or .parquet; - is standard input, CSV.
    """

    data: str = argument("DATA")


@dataclass(frozen=True, kw_only=True)
class IdOption:
    """An option of commands on tables whose rows may have names.

    Parameters
    ----------
    id
        Names the rows, each differently.
    """

    id: str | None = option(None, metavar="COLUMN", show_default="rows are numbered from 0", group=COLUMNS)


@dataclass(frozen=True, kw_only=True)
class KnownOption:
    """An option of commands that use what is known of some rows.

    Parameters
    ----------
    known
        The column of clusters, states or labels that are known already; empty where unknown.
    """

    known: str | None = option(None, metavar="COLUMN", group=COLUMNS)


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(KnownOption, TableOption):
    """The argument and options of commands that learn from columns of a table.

    Parameters
    ----------
    features
        The columns to learn from.
    """

    features: str | None = option(
        None,
        metavar="A,B,C",
        show_default="all columns of numbers that no other option and no constraint names",
        group=COLUMNS,
    )


@dataclass(frozen=True, kw_only=True)
class TableOptions(ConstraintOptions, OutputOption):
    """Options that commands on tables share.

    Parameters
    ----------
    output
        The name says in which format: .csv, .tsv (either also .gz) or .parquet; standard output is CSV.
    constraint
        label is the label to be chosen (of clusters the number),
        row the number of the row, both from 0; other names are columns of the table. See docs/guide/constraints.md.
    """


def weight_column(file: TableFile, name: str) -> NDArray[np.float64]:
    """A column of weights of rows.

    Raises
    ------
    InvalidInputError
        Naming the row of the first cell that is missing or no weight.
    """
    file.check([name], "--weights")
    values: NDArray[np.float64] = file.numbers([name], lambda name: "give every row a weight, 0 to leave it out")[:, 0]
    bad = ~((values >= 0) & (values < math.inf))
    if bad.any():
        row = int(bad.argmax())
        raise file.refusal(row, name, f"weights must be finite and at least 0, found {values[row]:g}; correct it")
    if not values.any():
        raise InvalidInputError(f"{file.name}, column {name!r}: every weight is 0; give some row a weight above 0")
    return values


def refuse_numbering(file: TableFile, names: Sequence[str], x: NDArray[np.float64], advice: str) -> None:
    """Refuse a column that only numbers the rows, where no option says that it is one of ``names``.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_names)
    advice : str
        What to do about such a column, ``{}``; it ends where the other columns are named.

    Raises
    ------
    InvalidInputError
        Naming it.
    """
    import numpy as np

    for k, name in enumerate(names):
        values = np.sort(x[:, k])
        if len(values) > 2 and values[0] in (0, 1) and (np.diff(values) == 1).all():
            others = ",".join(other for other in names if other != name) or name
            raise InvalidInputError(
                f"{file.name}, column {name!r}: numbers the rows, from {values[0]:g} to {values[-1]:g}; "
                f"{advice.format(name)} {others}"
            )


def row_names(file: TableFile, id: str, option: str = "--id") -> polars.Series:
    """The names of the rows, as text.

    Raises
    ------
    InvalidInputError
        If two rows have the same.
    """
    import polars

    names = file.values(id)
    again = names.is_first_distinct()
    if not again.all():
        row = int((~again).to_numpy().argmax())
        first = int((names == names[row]).to_numpy().argmax())
        twice = f"{names[row]!r} also names the row of {file.place(first)}"
        raise file.refusal(row, id, f"{twice}; {option} needs a column that names every row differently")
    return names.cast(polars.String)


def check_named(file: TableFile, columns: Mapping[str, str | None]) -> list[str]:
    """Columns that options name, by these options, if the table has them; None where an option names none.

    Raises
    ------
    InvalidInputError
        Naming the option whose column is not there.
    """
    named = {flag: name for flag, name in columns.items() if name is not None}
    for flag, name in named.items():
        file.check([name], flag)
    return [*named.values()]


def split_names(file: TableFile, text: str, option: str) -> list[str]:
    """Names of columns of a table between commas.

    Raises
    ------
    InvalidInputError
        If a name is empty or stands twice, or the table has no such column.

    Examples
    --------
    >>> import polars
    >>> from spectrem.data import TableFile
    >>> split_names(TableFile("meals.csv", polars.LazyFrame({"ham": [0.5], "spam": [0.5]})), "ham, spam", "--labels")
    ['ham', 'spam']
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise InvalidInputError(f"{option} {text!r}: must name columns, each once, with commas between; write a,b,c")
    file.check(names, option)
    return names


def list_names(names: Sequence[object]) -> str:
    """Names with commas between, the first ones of many.

    Examples
    --------
    >>> list_names(["ham", "spam"]), list_names(range(30))
    ('ham, spam', '0, 1, 2, 3, 4, 5, 6, 7 and 22 more')
    """
    shown = list(map(str, names if len(names) <= 10 else names[:8]))
    return ", ".join(shown) + (f" and {len(names) - 8} more" if len(names) > 10 else "")


def read_table_constraints(
    options: ConstraintOptions, file: TableFile, meanings: Mapping[str, str], known: Sequence[str] = ()
) -> tuple[list[Any], dict[str, Key]]:
    """Constraints of a file in YAML or JSON and of options, and the columns that they name, in few bytes per row.

    Notes on standard error say which names mean something else than a column of the table, and count missing cells.

    Parameters
    ----------
    meanings : mapping of str -> str
        Names that mean something else than a column of the table.
    known : sequence of str
        Those of them that options name, which need no note.
    """
    from spectrem.constraints.columns import as_column, missing_of
    from spectrem.constraints.compilation.draft import used_columns

    constraints = parse_options(options.constraint, list(dict.fromkeys([*meanings, *file.names])), options.constraints)
    used = set().union(*map(used_columns, constraints))
    columns = {name: as_column(name, file.keys(name)) for name in file.names if name in used - meanings.keys()}
    if options.quiet:
        return constraints, columns
    for name, meaning in meanings.items():
        if name in file.schema and name in used.difference(known):
            say(f"note: {name!r} in constraints means {meaning}, not the column {name!r} of {file.name}")
    for name, values in columns.items():
        empty = missing_of(values)
        if empty is not None and (missing := int(empty.sum())):
            say(
                f"note: {missing} of {len(values)} rows have no {name!r} (the cell is empty, NA or the like); they "
                "belong to no group of it"
            )
    return constraints, columns


def rows_named(file: TableFile) -> AbstractContextManager[None]:
    """Let errors of this block that are about a row begin with the table and its line."""
    return errors_located("row", lambda row: f"{file.name}, {file.place(row)}")
