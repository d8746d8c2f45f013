"""A user's column as an array whose missing values, however they are spelled, are NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.data.frames import as_series
from spectrem.exceptions import InvalidInputError

TEXT = np.dtypes.StringDType(na_object=np.nan)
"""Text of which some is missing; text without missing values has a fixed width."""

_EXACT = 2**53  # float64 holds every whole number up to it


def as_column(name: str, values: ArrayLike) -> NDArray:
    """A user's column as numbers, truth values or text.

    Parameters
    ----------
    name : str
        For errors.
    values : array-like of shape (n,)
        An array, a list, or a column of pandas, polars or Arrow. None, NaN, ``pandas.NA``, ``NaT``, null and masked
        entries are missing.

    Returns
    -------
    ndarray of shape (n,)
        Missing values are NaN, beside which whole numbers and truth values are floats (and whole numbers that floats
        would round are text).

    Raises
    ------
    InvalidInputError
        If it has more than one dimension or holds other values, such as dates, or text beside numbers.

    Examples
    --------
    >>> as_column("household", ["a", None, "b"])
    array(['a', nan, 'b'], dtype=StringDType(na_object=nan))
    >>> as_column("age", [31, None, 4])
    array([31., nan,  4.])
    """
    array = _as_array(values)
    if array.ndim != 1:
        raise InvalidInputError(f"extra column {name!r} must have one dimension, got shape {array.shape}")
    if array.dtype.kind in "OT":
        array = _typed(name, array.tolist())
    if array.dtype.kind not in "biufUT":
        raise _refused(name, f"dtype {array.dtype}")
    return array


def missing_of(values: NDArray) -> NDArray[np.bool_] | None:
    """Where a user's column is missing; None where its kind has no missing values."""
    return np.isnan(values) if values.dtype.kind in "fT" else None


def same_values(one: NDArray, other: NDArray) -> bool:
    """Whether two columns of one kind are equal, missing where the other is."""
    equal, missing = np.asarray(one == other), missing_of(one)
    if missing is not None:
        equal = equal | (missing & np.isnan(other))
    return bool(equal.all())


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


def _as_array(values: Any) -> NDArray:
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(values.tolist(), object)
    if isinstance(values, np.ndarray):
        return values
    series = as_series(values)
    if series is not None:
        values = series.to_list() if series.null_count() or not series.dtype.is_numeric() else series.to_numpy()
    elif hasattr(values, "to_pylist"):  # an array of Arrow, which is no column of a table
        values = values.to_pylist()
    if isinstance(values, list | tuple):
        return np.asarray(values, object)  # NumPy would turn NaN beside text into the text "nan"
    return np.asarray(values)


def _typed(name: str, cells: list[Any]) -> NDArray:
    """Objects as what all of them are that are not missing."""
    missing = np.fromiter(map(is_missing, cells), np.bool_, len(cells))
    known = [cell for cell, out in zip(cells, missing.tolist(), strict=True) if not out] if missing.any() else cells
    if known and all(isinstance(cell, str) for cell in known):
        return with_missing(known, missing, TEXT) if missing.any() else np.array(known, np.str_)
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
        return with_missing([str(cell) for cell in known], missing, TEXT)
    return with_missing(array, missing, np.float64)


def _has_float(cells: list[Any]) -> bool:
    return any(isinstance(cell, float | np.floating) for cell in cells)


def with_missing(known: ArrayLike, missing: NDArray[np.bool_], dtype: Any) -> NDArray:
    """Known values where they are not missing, NaN elsewhere."""
    out = np.full(len(missing), np.nan, dtype)
    out[~missing] = known
    return out


def _refused(name: str, found: str) -> InvalidInputError:
    return InvalidInputError(
        f"extra column {name!r} must hold numbers, truth values or text, got {found}; turn it into text or numbers"
    )
