"""A table in a file, looked at by polars column by column, and piece by piece."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    import polars

MISSING_KEYS = ("", "NA", "<NA>", "NaN", "nan", "NaT", "null", "NULL", "None")
"""Cells of text that give a row no key; other programs write them in place of a missing value."""
_WHOLE = r"^-?(?:0|[1-9][0-9]*)$"
_CODE = r"^[+-]?0[0-9]"
_WRITTEN = r"^[+-]?(?:[0-9]{1,3}(?:[,' ][0-9]{3})+(?:\.[0-9]+)?|[0-9]+,[0-9]+|[0-9]+(?:\.[0-9]+)? ?%)$"
_ROW = "\0row"


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table of a file. Cells are read when they are asked for, and those that nobody asks for stay as they are.

    Parameters
    ----------
    name : str
        What errors call the table, such as the path of its file.
    data : polars.LazyFrame
    is_text : bool
        Whether all columns are text whose cells may mean numbers, as in CSV; an empty cell is null.
    line_of : callable, optional
        Gives the line of the file, from 1, where a row, from 0, starts.

    Examples
    --------
    >>> import polars
    >>> pets = TableFile("pets.csv", polars.LazyFrame({"kind": ["cat", "dog"], "age": ["3", "4.5"]}), is_text=True)
    >>> pets.numbers(["age"]).tolist(), pets.numeric(), pets.values("kind").tolist()
    ([[3.0], [4.5]], ['age'], ['cat', 'dog'])
    """

    name: str
    data: polars.LazyFrame
    is_text: bool = False
    line_of: Callable[[int], int] | None = None

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The type of every column by its name, in order."""
        return dict(self.data.collect_schema())

    @property
    def names(self) -> list[str]:
        """Of the columns, in order."""
        return list(self.schema)

    @cached_property
    def _n_rows(self) -> int:
        import polars

        return int(self._collect(polars.len()).item())

    def __len__(self) -> int:
        return self._n_rows

    def place(self, row: int) -> str:
        """Where a row stands, for messages."""
        return f"row {row} (from 0)" if self.line_of is None else f"line {self.line_of(row)}"

    def check(self, names: Collection[str], option: str) -> None:
        """Refuse names of columns that do not exist.

        Raises
        ------
        InvalidInputError
            Naming the option that gave them, the column most like it and those that there are.
        """
        for name in names:
            if name not in self.schema:
                close = get_close_matches(name, self.names, 1)
                hint = f"did you mean {close[0]!r}? " if close else ""
                raise InvalidInputError(
                    f"{option}: {self.name} has no column {name!r}; {hint}its columns are "
                    f"{', '.join(map(repr, self.names))}"
                )

    def extended(self, columns: Mapping[str, NDArray | Sequence[str]]) -> TableFile:
        """The same with columns replaced or, where the name is new, added at the end."""
        import polars

        added = [polars.Series(name, values) for name, values in columns.items()]
        return replace(self, data=self.data.with_columns(added))

    def numbers(self, names: Sequence[str], hint: Callable[[str], str] = lambda name: "correct it") -> NDArray:
        """Columns as numbers, shape (n_rows, n_names); infinite ones are let through.

        Raises
        ------
        InvalidInputError
            Naming the row of the first cell that is missing or no number; ``hint`` says what to try about a column.
        """
        found = self._collect(*map(self._number, names))
        numbers = np.empty((len(found), len(names)))
        for k, column in enumerate(found.iter_columns()):
            odd = column.is_null() | column.is_nan()
            if odd.any():
                row = odd.arg_max()
                assert row is not None
                raise self.refusal(row, names[k], f"{_told(self._cell(row, names[k]))}; {hint(names[k])}")
            numbers[:, k] = column.to_numpy()
        return numbers

    def values(self, name: str) -> NDArray:
        """A column as whole numbers, numbers, truth values or text, whichever all of its cells are.

        Text with zeros in front (``007``) and whole numbers beyond 64 bits stay text.

        Raises
        ------
        InvalidInputError
            Naming the row of the first missing cell.
        """
        column = self._column(name, ("",))
        if column.null_count():
            row = column.is_null().arg_max()
            assert row is not None
            raise self.refusal(row, name, "the cell is empty; fill it in")
        return column.to_numpy() if column.dtype.is_numeric() else np.array(column.to_list())

    def keys(self, name: str) -> polars.Series:
        """A column that constraints look at: as `values`, but null where cells are missing.

        Missing are null, NaN and, in text files, the cells `MISSING_KEYS`.

        Examples
        --------
        >>> import polars
        >>> cells = polars.LazyFrame({"owner": ["7", "NA", "", "8"]})
        >>> TableFile("pets.csv", cells, is_text=True).keys("owner").to_list()
        [7, None, None, 8]
        """
        return self._column(name, MISSING_KEYS)

    def labels(self, name: str, option: str) -> NDArray[np.int64]:
        """A column of whole numbers from 0, -1 where the cell is empty.

        Raises
        ------
        InvalidInputError
            Naming the option that chose the column and the row of the first cell that is something else.
        """
        import polars

        text = self._collect(self._text(name)).to_series()
        whole = text.str.strip_suffix(".0")
        unknown = whole.str.to_lowercase().is_in(["", "nan", "-1"])
        numbers = whole.cast(polars.Int64, strict=False)
        odd = ~unknown & ~(whole.str.contains(_WHOLE) & numbers.is_not_null() & (numbers >= 0).fill_null(False))
        if odd.any():
            row = odd.arg_max()
            assert row is not None
            rule = f"{option} needs whole numbers from 0, or empty cells where unknown"
            raise self.refusal(row, name, f"{rule}, found {quoted(text[row])}; correct it")
        return numbers.fill_null(-1).to_numpy().astype(np.int64)

    def numeric(self, without: Collection[str] = (), option: str = "") -> list[str]:
        """Names of the columns of numbers, but for those ``without``; numbers with zeros in front (``007``) are text.

        Raises
        ------
        InvalidInputError
            If a column is of numbers but for some cells, since that may be a mistake in them; ``option`` is where
            columns can be named.
        """
        if not self.is_text:
            return [name for name, kind in self.schema.items() if kind.is_numeric() and name not in without]
        for name, (is_slip, _) in self._no_numbers.items():
            if is_slip and name not in without:
                row, told = self._first_odd(name)
                raise self.refusal(
                    row, name, f"{told}, in a column of numbers; correct it, or name the columns to use by {option}"
                )
        return [name for name in self.names if name not in without and name not in self._no_numbers]

    def others(self, names: Collection[str]) -> list[str]:
        """Columns not among ``names``, in words: of text where some cells are numbers, also the first that is not.

        Examples
        --------
        >>> import polars
        >>> table = TableFile("t.csv", polars.LazyFrame({"a": ["1", "2"], "b": ["x", "2"]}), True, lambda row: row + 2)
        >>> table.others(["a"])
        ["'b' (line 2: 'x' is no number)"]
        """
        told = []
        for name in self.names:
            if name not in names:
                _, has_numbers = self._no_numbers.get(name, (False, False)) if self.is_text else (False, False)
                row, odd = self._first_odd(name) if has_numbers else (0, "")
                told.append(quoted(name) + (f" ({self.place(row)}: {odd})" if odd else ""))
        return told

    def refusal(self, row: int, name: str, told: str) -> InvalidInputError:
        """An error about one cell."""
        return InvalidInputError(f"{self.name}, {self.place(row)}, column {name!r}: {told}")

    @cached_property
    def _no_numbers(self) -> Mapping[str, tuple[bool, bool]]:
        """Columns of text that are none of numbers: whether that seems a slip, and whether some cells are numbers."""
        names = self.names
        given = self._count(names, lambda name: self._text(name) != "")
        numbers = self._count(names, lambda name: self._number(name).is_not_null())
        mixed = [name for name in names if numbers[name] < given[name]]
        written = self._count(mixed, lambda name: self._text(name).str.contains(_WRITTEN))
        found = {name: (2 * (numbers[name] + written[name]) >= given[name], numbers[name] > 0) for name in mixed}
        plain = [name for name in names if name not in found]
        codes = self._count(plain, self._is_code)
        coded = [name for name in plain if codes[name]]
        fractions = self._count(coded, lambda name: self._number(name) != self._number(name).floor())
        # names of rows may be 007 and 8, but not 0.5
        found |= {name: (fractions[name] > 0 and 2 * codes[name] < given[name], True) for name in coded}
        return found | {name: (False, False) for name in names if not given[name]}

    def _first_odd(self, name: str) -> tuple[int, str]:
        """The first cell for which a column of text is none of numbers: its row, and what is said of it."""
        odd = self._number(name).is_null() & (self._text(name) != "")
        if not self._count([name], lambda _: odd)[name]:
            odd = self._is_code(name)
        row = self._collect(odd.arg_max()).item()
        return row, _told(self._cell(row, name))

    def _is_code(self, name: str) -> polars.Expr:
        """Where a whole number has zeros in front."""
        number = self._number(name)
        return (number == number.floor()) & self._text(name).str.contains(_CODE)

    def _count(self, names: Sequence[str], condition: Callable[[str], polars.Expr]) -> dict[str, int]:
        """In how many rows a condition on each column holds."""
        counts = self._collect(*(condition(name).sum().alias(name) for name in names))
        return {name: int(counts[name].item()) for name in names}

    def _column(self, name: str, missing: Collection[str]) -> polars.Series:
        """A column typed, null where it is missing."""
        if self.schema[name].is_nested():
            raise InvalidInputError(
                f"{self.name}, column {name!r}: holds {self.schema[name]}, one value per cell is needed; choose another"
            )
        import polars

        cells: polars.Expr | str = name
        if self.is_text:
            text = self._text(name)
            cells = polars.when(~text.is_in(list(missing))).then(text)
        column = self._collect(cells).to_series().alias(name)
        column = as_typed(column) if self.is_text else column
        return column.fill_nan(None) if column.dtype.is_float() else column

    def _text(self, name: str) -> polars.Expr:
        """A column as text without spaces around it, empty where it is missing."""
        import polars

        column = polars.col(name)
        return (column if self.is_text else column.cast(polars.String)).str.strip_chars().fill_null("")

    def _number(self, name: str) -> polars.Expr:
        """A column as numbers, null or NaN where it is something else."""
        import polars

        column = polars.col(name)
        return (column if self.schema[name].is_numeric() else self._text(name)).cast(polars.Float64, strict=False)

    def _cell(self, row: int, name: str) -> str:
        import polars

        text = polars.col(name).slice(row, 1)
        return self.data.select(text).select(self._text(name)).collect().item()

    def _collect(self, *expressions: polars.Expr | str) -> polars.DataFrame:
        return self.data.select(*expressions).collect(engine="streaming")


def as_typed(text: polars.Series) -> polars.Series:
    """Text as what all of its cells are that are not null: whole numbers, numbers, truth values, or the text itself.

    Examples
    --------
    >>> import polars
    >>> [as_typed(polars.Series(cells)).to_list() for cells in (["1", None], ["True", "false"], ["007", "1"])]
    [[1, None], [True, False], ['007', '1']]
    """
    import polars

    known = text.drop_nulls()
    if known.is_empty():
        return text
    whole = known.str.contains(_WHOLE)
    if whole.all():
        typed = text.cast(polars.Int64, strict=False)
        return typed if typed.null_count() == text.null_count() else text
    if known[:1000].str.to_lowercase().is_in(["true", "false"]).all():
        lowered = text.str.to_lowercase()
        return lowered == "true" if lowered.drop_nulls().is_in(["true", "false"]).all() else text
    numbers = text.cast(polars.Float64, strict=False)
    rounded = whole & (known.str.len_bytes() > 15)
    lost = numbers.null_count() > text.null_count() or numbers.drop_nulls().is_nan().all()
    codes = known.str.contains(_CODE) & (numbers.drop_nulls() == numbers.drop_nulls().floor()) if not lost else rounded
    return text if lost or codes.any() or rounded.any() else numbers


def as_label_names(names: Sequence[str]) -> list[Any]:
    """Names of columns as labels: whole numbers if all are, else text.

    Examples
    --------
    >>> as_label_names(["0", "1"]), as_label_names(["ham", "1"])
    ([0, 1], ['ham', '1'])
    """
    # Python reads no text of thousands of digits.
    whole = all(re.match(_WHOLE, name) and len(name) <= 20 and -(2**63) <= int(name) < 2**63 for name in names)
    return [int(name) for name in names] if whole else list(names)


def _told(text: str) -> str:
    try:
        number = "_" not in text and float(text) == float(text)
    except ValueError:
        number = False
    if number and re.match(_CODE, text):
        return f"{quoted(text)} has a zero in front"
    if text.lower() not in ("", "nan"):
        return f"{quoted(text)} is no number"
    return f"the cell is {'not a number (nan)' if text else 'empty'}"
