"""Tables with named columns, of text as it stands in a file or of typed values, turned into arrays when asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError, quoted

TEXT = np.dtypes.StringDType()
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_CODE = re.compile(r"[+-]?0[0-9]")
_WRITTEN = re.compile(r"[+-]?(?:[0-9]{1,3}(?:[,' ][0-9]{3})+(?:\.[0-9]+)?|[0-9]+,[0-9]+|[0-9]+(?:\.[0-9]+)? ?%)")
_MISSING = ("", "nan")
MISSING_KEYS = ("", "NA", "<NA>", "NaN", "nan", "NaT", "null", "NULL", "None")
"""Cells of text that give a row no key; other programs write them in place of a missing value."""
_SAMPLE = 1000


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of a file; cells that nobody asks for stay as they are.

    Parameters
    ----------
    name : str
        What errors call the table, such as the path of its file.
    columns : mapping of name -> ndarray or polars Series
        Of one length; text as a StringDType array, in which an empty cell is missing.
    lines : ndarray of shape (n_rows,), optional
        The line of the file, from 1, where each row starts.

    Examples
    --------
    >>> frame = Frame("pets.csv", {"kind": np.array(["cat", "dog"], TEXT), "age": np.array(["3", "4.5"], TEXT)})
    >>> frame.numbers("age"), frame.numeric(), frame.values("kind").tolist()
    (array([3. , 4.5]), ['age'], ['cat', 'dog'])
    """

    name: str
    columns: Mapping[str, Any]
    lines: NDArray[np.int64] | None = None

    @property
    def names(self) -> list[str]:
        """Of the columns, in order."""
        return list(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def place(self, row: int) -> str:
        """Where a row stands, for messages."""
        return f"row {row} (from 0)" if self.lines is None else f"line {self.lines[row]}"

    def check(self, names: Collection[str], option: str) -> None:
        """Refuse names of columns that do not exist.

        Raises
        ------
        InvalidInputError
            Naming the option that gave them and the columns there are.
        """
        for name in names:
            if name not in self.columns:
                raise InvalidInputError(
                    f"{option}: {self.name} has no column {name!r}; its columns are {', '.join(map(repr, self.names))}"
                )

    def extended(self, columns: Mapping[str, NDArray]) -> Frame:
        """The same with columns replaced or, where the name is new, added at the end."""
        return Frame(self.name, {**self.columns, **columns}, self.lines)

    def numbers(self, name: str, hint: str = "correct it") -> NDArray[np.float64]:
        """A column as numbers, shape (n_rows,); infinite ones are let through.

        Raises
        ------
        InvalidInputError
            Naming the row of the first cell that is missing or no number; ``hint`` says what to try.
        """
        cells = self._cells(name)
        values = as_floats(cells)
        if values is None:
            texts = map(str, cells.tolist())
            row, text = next((row, text) for row, text in enumerate(texts) if not _is_number(text))
            raise InvalidInputError(f"{self.name}, {self.place(row)}, column {name!r}: {_told(text)}; {hint}")
        if np.isnan(values).any():
            row = int(np.flatnonzero(np.isnan(values))[0])
            text = str(cells[row]) if cells.dtype == TEXT else ""
            raise InvalidInputError(f"{self.name}, {self.place(row)}, column {name!r}: {_told(text)}; {hint}")
        return values

    def values(self, name: str) -> NDArray:
        """A column as whole numbers, numbers, truth values or text, whichever all of its cells are.

        Text with zeros in front (``007``) and whole numbers beyond 64 bits stay text.

        Raises
        ------
        InvalidInputError
            Naming the row of the first missing cell.
        """
        cells = self._cells(name)
        typed = as_typed(cells)
        missing = np.isnan(typed) if typed.dtype.kind == "f" else typed == "" if typed.dtype == TEXT else None
        if missing is not None and missing.any():
            row = int(np.flatnonzero(missing)[0])
            raise InvalidInputError(f"{self.name}, {self.place(row)}, column {name!r}: the cell is empty; fill it in")
        return np.array(typed.tolist(), np.str_) if typed.dtype == TEXT else typed

    def keys(self, name: str) -> NDArray:
        """A column that constraints look at: as `values`, but an array of objects where cells are missing, None there.

        Missing are null, NaN and, in text, the cells `MISSING_KEYS`.

        Examples
        --------
        >>> Frame("pets.csv", {"owner": np.array(["7", "NA", "", "8"], TEXT)}).keys("owner")
        array([7, None, None, 8], dtype=object)
        """
        column = self.columns[name]
        if not isinstance(column, np.ndarray) and column.null_count() and column.dtype.is_integer():
            return np.array(column.to_list(), object)  # as numbers beside null they would be rounded
        cells = self._cells(name)
        missing = np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), np.bool_)
        if cells.dtype == TEXT:
            missing = np.isin(cells, np.array(MISSING_KEYS, TEXT))
        if not missing.any():
            return self.values(name)
        found = np.full(len(cells), None, object)
        found[~missing] = as_typed(cells[~missing]).tolist()
        return found

    def labels(self, name: str, option: str) -> NDArray[np.int64]:
        """A column of whole numbers, -1 where the cell is empty.

        Raises
        ------
        InvalidInputError
            Naming the option that chose the column and the row of the first cell that is something else.
        """
        out = np.full(len(self), -1, np.int64)
        for row, value in enumerate(np.strings.strip(self._cells(name, text=True)).tolist()):
            text = value.removesuffix(".0")
            if text.lower() in _MISSING or text == "-1":
                continue
            if not _WHOLE.fullmatch(text) or text.startswith("-") or not _fits(text):
                raise InvalidInputError(
                    f"{self.name}, {self.place(row)}, column {name!r}: {option} needs whole numbers from 0, or empty "
                    f"cells where unknown, found {quoted(value)}; correct it"
                )
            out[row] = int(text)
        return out

    def numeric(self, without: Collection[str] = (), option: str = "") -> list[str]:
        """Names of the columns of numbers, but for those ``without``; numbers with zeros in front (``007``) are text.

        A column of text in Parquet is text, whatever its cells are.

        Raises
        ------
        InvalidInputError
            If a column is of numbers but for some cells, since that may be a mistake in them; ``option`` is where
            columns can be named.
        """
        found = []
        for name, column in self.columns.items():
            if name in without:
                continue
            if not isinstance(column, np.ndarray):
                if column.dtype.is_numeric():
                    found.append(name)
                continue
            if column.dtype != TEXT:
                if column.dtype.kind in "iuf":
                    found.append(name)
                continue
            cells = np.strings.strip(column)
            row, mostly = _odd_cell(cells)
            if row is None:
                found.append(name)
            elif mostly:
                raise InvalidInputError(
                    f"{self.name}, {self.place(row)}, column {name!r}: {_told(cells[row])}, in a column of numbers; "
                    f"correct it, or name the columns to use by {option}"
                )
        return found

    def others(self, names: Collection[str]) -> list[str]:
        """Columns not among ``names``, in words: of text where some cells are numbers, also the first that is not.

        Examples
        --------
        >>> frame = Frame("pets.csv", {"a": np.array([1.0, 2.0]), "b": np.array(["x", "2"], TEXT)}, np.array([2, 3]))
        >>> frame.others(["a"])
        ["'b' (line 2: 'x' is no number)"]
        """
        told = []
        for name, column in self.columns.items():
            if name in names:
                continue
            doubt = ""
            if isinstance(column, np.ndarray) and column.dtype == TEXT:
                cells = np.strings.strip(column)
                row, _ = _odd_cell(cells)
                if row is not None and any(text and _is_number(text) for text in _sample(cells)):
                    doubt = f" ({self.place(row)}: {_told(cells[row])})"
            told.append(f"{quoted(name)}{doubt}")
        return told

    def _cells(self, name: str, *, text: bool = False) -> NDArray:
        """A column as an array, text without spaces around it."""
        column = self.columns[name]
        if not isinstance(column, np.ndarray):
            import polars

            if column.dtype.is_numeric() and not text:
                plain = not column.null_count() and not column.dtype.is_decimal()
                return column.to_numpy() if plain else column.cast(polars.Float64).to_numpy()
            if column.dtype == polars.Boolean and not column.null_count() and not text:
                return column.to_numpy()
            if column.dtype.is_nested():
                raise InvalidInputError(
                    f"{self.name}, column {name!r}: holds {column.dtype}, one value per cell is needed; choose another"
                )
            column = np.array(column.cast(polars.String).fill_null("").to_list(), TEXT)
        elif text and column.dtype != TEXT:
            column = column.astype(TEXT)
        return np.strings.strip(column) if column.dtype == TEXT else column


def _odd_cell(cells: NDArray) -> tuple[int | None, bool]:
    """The first cell for which a column of text is none of numbers, or None; and whether the others mostly are."""
    values = as_floats(cells)
    if values is None:
        odd = next(row for row, text in enumerate(cells.tolist()) if not _is_number(text))
        some = [text for text in _sample(cells) if text]
        return odd, 2 * sum(map(_is_meant, some)) >= len(some)
    given = ~np.isnan(values)
    codes = np.zeros(len(cells), np.bool_)
    whole = values == np.floor(values)
    codes[whole] = [_CODE.match(text) is not None for text in cells[whole].tolist()]
    if not given.any():
        return 0, False
    if not codes.any():
        return None, True
    # names of rows may be 007 and 8, but not 0.5
    return int(np.argmax(codes)), bool((given & ~whole).any() and 2 * codes.sum() < given.sum())


def _sample(cells: NDArray) -> list[str]:
    """Some cells from the whole length of a column."""
    return cells[:: max(1, len(cells) // _SAMPLE)].tolist()


def as_floats(cells: NDArray) -> NDArray[np.float64] | None:
    """Cells as numbers, NaN where they are missing; None if one is something else.

    Examples
    --------
    >>> as_floats(np.array(["1", "", "-2e3"], TEXT))
    array([ 1.e+00,     nan, -2.e+03])
    """
    if cells.dtype.kind in "iuf":
        return cells.astype(np.float64)
    if cells.dtype != TEXT:
        return None
    filled = np.where(cells == "", "nan", cells)
    try:
        values = filled.astype(np.float64)
    except ValueError:
        return None
    return None if (np.strings.find(filled, "_") >= 0).any() else values


def as_typed(cells: NDArray) -> NDArray:
    """Cells as what all of them are: int64, float64, bool, or text as it stands.

    Examples
    --------
    >>> as_typed(np.array(["1", "2"], TEXT)), as_typed(np.array(["True", "false"], TEXT))
    (array([1, 2]), array([ True, False]))
    >>> as_typed(np.array(["007", "1"], TEXT)).tolist()
    ['007', '1']
    """
    if cells.dtype != TEXT:
        return cells
    texts = np.strings.strip(cells).tolist()
    if all(map(_WHOLE.fullmatch, texts)):
        return np.array(list(map(int, texts)), np.int64) if all(map(_fits, texts)) else cells
    if {text.lower() for text in texts[:_SAMPLE]} <= {"true", "false"}:
        lowered = [text.lower() for text in texts]
        return np.array([t == "true" for t in lowered]) if set(lowered) <= {"true", "false"} else cells
    stripped = np.array(texts, TEXT)
    floats = as_floats(stripped)
    if floats is None or np.isnan(floats).all() or _are_codes(stripped, floats) or _big(texts):
        return cells
    return floats


def as_label_names(names: Sequence[str]) -> list[Any]:
    """Names of columns as labels: whole numbers if all are, else text.

    Examples
    --------
    >>> as_label_names(["0", "1"]), as_label_names(["ham", "1"])
    ([0, 1], ['ham', '1'])
    """
    whole = all(_WHOLE.fullmatch(name) and _fits(name) for name in names)
    return [int(name) for name in names] if whole else list(names)


def _fits(text: str) -> bool:
    """Whether a whole number is one of 64 bits; Python reads no text of thousands of digits."""
    return len(text) <= 20 and -(2**63) <= int(text) < 2**63


def _are_codes(cells: NDArray, values: NDArray[np.float64]) -> bool:
    """Whether some are whole numbers with zeros in front."""
    whole = values == np.floor(values)
    return bool(whole.any()) and any(map(_CODE.match, cells[whole].tolist()))


def _big(texts: list[str]) -> bool:
    """Whether some are whole numbers that float64 would round."""
    return any(len(text) > 15 and _WHOLE.fullmatch(text) for text in texts)


def _is_number(text: str) -> bool:
    if text == "":
        return True
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _is_meant(text: str) -> bool:
    """Whether it is a number, or one as people write them: ``1,000``, ``0,7``, ``30%``."""
    return _is_number(text) or _WRITTEN.fullmatch(text) is not None


def _told(text: str) -> str:
    if _CODE.match(text) and _is_number(text):
        return f"{quoted(text)} has a zero in front"
    if text.lower() not in _MISSING:
        return f"{quoted(text)} is no number"
    return f"the cell is {'not a number (nan)' if text else 'empty'}"
