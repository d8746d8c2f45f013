"""A user's columns as numbers, of which missing ones are NaN however they are spelled, or as coded text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.compilation.groups import Coded, Key, as_key, numbers_of
from spectrem.data.frames import as_frame, as_series
from spectrem.exceptions import InvalidInputError
from spectrem.structures._columns import TEXT

if TYPE_CHECKING:
    import narwhals


_EXACT = 2**53  # float64 holds every whole number up to it


def as_column(name: str, values: ArrayLike | Coded) -> Key:
    """A user's column as numbers, truth values or text.

    Parameters
    ----------
    name : str
        For errors.
    values : array-like of shape (n,), or of numbers of shape (n, n_labels)
        An array, a list, or a column of pandas, polars or Arrow. None, NaN, ``pandas.NA``, ``NaT``, null and masked
        entries are missing. A matrix has a number for every label, such as its cost.

    Returns
    -------
    ndarray of shape (n,) or (n, n_labels), or Coded
        Text is coded, unless it is an array of it. Missing numbers are NaN, beside which whole numbers and truth values
        are floats (and whole numbers that floats would round are text).

    Raises
    ------
    InvalidInputError
        If it has other dimensions or holds other values, such as dates, or text beside numbers.

    Examples
    --------
    >>> as_column("household", ["a", None, "b"]).codes
    array([ 0, -1,  1], dtype=int32)
    >>> as_column("age", [31, None, 4])
    array([31., nan,  4.])
    """
    if isinstance(values, Coded):
        return values
    column = _read(values)
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.dtype.kind == "O":
        column = np.array(column.tolist())
    if len(column.shape) != 1 and not (len(column.shape) == 2 and column.dtype.kind in "biuf"):
        raise InvalidInputError(
            f"extra column {name!r} must have one dimension, or be a matrix of numbers with a column for every label, "
            f"got {column.dtype} of shape {column.shape}"
        )
    if isinstance(column, Coded):
        return column
    if column.dtype == TEXT:
        missing = np.isnan(column)
        return _text(column[~missing].tolist(), missing) if not missing.all() else np.full(len(column), np.nan)
    if column.dtype.kind in "OT":
        return _typed(name, column.tolist())
    if column.dtype.kind not in "biufU":
        raise _refused(name, f"dtype {column.dtype}")
    return column


def missing_of(values: Key) -> NDArray[np.bool_] | None:
    """Where a user's column is missing; None where its kind has no missing values."""
    if isinstance(values, Coded):
        return values.missing
    return np.isnan(values) if values.dtype.kind == "f" else None


def same_values(one: Key, other: Key) -> bool:
    """Whether two columns of one kind are equal, missing where the other is."""
    return np.array_equal(numbers_of(one), numbers_of(other), equal_nan=numbers_of(one).dtype.kind == "f")


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT, or the NA of pandas.

    Examples
    --------
    >>> [is_missing(value) for value in (None, float("nan"), 0, "", "nan")]
    [True, True, False, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.generic) and bool(value != value)


def _read(values: Any) -> Key:
    """A user's column, of objects unless its kind is plain."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(values.tolist(), object)
    if isinstance(values, np.ndarray):
        return values
    series = as_series(values)
    if series is not None:
        return _read_series(series)
    if hasattr(values, "to_pylist"):  # an array of Arrow, which is not a column of a table
        values = values.to_pylist()
    if isinstance(values, list | tuple):
        return np.asarray(values, object)  # NumPy would turn NaN beside text into the text "nan"
    return np.asarray(values)


def _read_series(series: narwhals.Series[Any]) -> Key:
    """A column of a data frame; its text is never made into objects of Python."""
    import narwhals

    if series.dtype.is_numeric():
        if series.null_count() == 0 and series.dtype != narwhals.Decimal:
            return series.to_numpy()
        is_whole = series.dtype.is_integer() and series.null_count() < len(series)
        if is_whole and max(-int(series.min()), int(series.max())) > _EXACT:
            return np.asarray(series.to_list(), object)
        return series.cast(narwhals.Float64).to_numpy()
    if series.dtype not in (narwhals.String, narwhals.Categorical, narwhals.Enum):
        return np.asarray(series.to_list(), object) if series.null_count() else series.to_numpy()
    if series.dtype != narwhals.String:
        values = series.drop_nulls().to_list()
        if not all(isinstance(value, str) for value in values):
            return np.asarray(series.to_list(), object)
        series = series.cast(narwhals.String)
    known = series.drop_nulls()
    distinct_text = sorted(known.unique().to_list())
    codes = np.full(len(series), -1, np.int32)
    numbers = known.replace_strict(distinct_text, range(len(distinct_text)), return_dtype=narwhals.Int32)
    codes[~series.is_null().to_numpy()] = numbers.to_numpy()
    return Coded(np.array(distinct_text, np.str_), codes)


def _typed(name: str, cells: list[Any]) -> Key:
    """A column of objects, as numbers or as text: whichever all values are that are not missing."""
    missing = np.fromiter(map(is_missing, cells), np.bool_, len(cells))
    known = [cell for cell, out in zip(cells, missing.tolist(), strict=True) if not out] if missing.any() else cells
    if known and all(isinstance(cell, str) for cell in known):
        return _text(known, missing)
    for cell in known:
        if not isinstance(cell, bool | int | float | np.bool_ | np.integer | np.floating):
            mixed = isinstance(cell, str) or any(isinstance(other, str) for other in known)
            raise _refused(name, "text beside other values" if mixed else f"{type(cell).__name__}, as in {cell!r}")
    array = np.array(known) if known else np.zeros(0)
    if array.dtype.kind == "O" or (known and array.dtype.kind == "f" and not _has_float(known)):
        raise _refused(name, "whole numbers beyond 64 bits")
    if not missing.any():
        return array
    if array.dtype.kind in "iu" and max(map(abs, known), default=0) > _EXACT:
        return _text([str(cell) for cell in known], missing)
    numbers = np.full(len(missing), np.nan)
    numbers[~missing] = array
    return numbers


def _has_float(cells: list[Any]) -> bool:
    return any(isinstance(cell, float | np.floating) for cell in cells)


def _text(known: list[str], missing: NDArray[np.bool_]) -> Coded:
    """Coded text from the values that are not missing."""
    key = as_key(np.array(known, np.str_))
    assert isinstance(key, Coded)
    codes = np.full(len(missing), -1, np.int32)
    codes[~missing] = key.codes
    return Coded(key.values, codes)


def _refused(name: str, found: str) -> InvalidInputError:
    return InvalidInputError(
        f"extra column {name!r} must hold numbers, truth values or text, got {found}; turn it into text or numbers"
    )


@dataclass(frozen=True)
class UserColumns(Mapping[str, Key]):
    """Columns of a mapping or a data frame, turned into arrays when a constraint asks for them.

    Parameters
    ----------
    source : mapping of str -> array-like
    lengths : mapping of unit -> int
        How many values a column may have: one per unit ("rows") of each of these.
    hint : str
        The end of an error about a column of another length: what to do about it.

    Raises
    ------
    InvalidInputError
        If a column has another length, or holds neither numbers nor truth values nor text.

    Examples
    --------
    >>> columns = read_columns({"document": ["a", "a", "b"]}, {"rows": 3})
    >>> columns["document"].tolist()
    ['a', 'a', 'b']
    """

    source: Mapping[str, Any]
    lengths: Mapping[str, int]
    hint: str
    _known: dict[str, Key] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Key:
        if name not in self._known:
            column = as_key(as_column(name, self.source[name]))
            if len(column) not in self.lengths.values():
                sizes = ", ".join(f"{size} {unit}" for unit, size in self.lengths.items())
                raise InvalidInputError(
                    f"columns: {name!r} has shape {column.shape}, and the table has {sizes}; {self.hint}"
                )
            self._known[name] = column
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self.source

    def __iter__(self) -> Iterator[str]:
        yield from self.source

    def __len__(self) -> int:
        return len(self.source)


def read_columns(
    columns: Any, lengths: Mapping[str, int], *, taken: Collection[str] = (), hint: str = "give one for each"
) -> UserColumns:
    """A user's columns under their names; None has none.

    Raises
    ------
    InvalidInputError
        If it is neither a mapping nor a frame, or has a column whose name is ``taken``.
    """
    frame = as_frame(columns, "columns")
    if frame is not None:
        columns = dict(zip(frame.columns, frame.iter_columns(), strict=True))
    elif columns is not None and not isinstance(columns, Mapping):
        raise InvalidInputError(
            f"columns must be a data frame or a mapping from names to arrays, got {type(columns).__name__}; "
            'write columns={"document": [...]}'
        )
    source = {str(name): column for name, column in (columns or {}).items()}
    for name in taken:
        if name in source:
            raise InvalidInputError(f"columns: the name {name!r} belongs to the table; rename the column")
    return UserColumns(source, lengths, hint)
