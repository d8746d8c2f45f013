"""Data frames and their columns, of pandas, polars, Arrow or any other library that narwhals knows."""

from __future__ import annotations

from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import narwhals
    import scipy.sparse as sp
    from narwhals.typing import IntoDataFrame, IntoSeries
    from numpy.typing import ArrayLike, NDArray

Table: TypeAlias = "ArrayLike | sp.spmatrix | sp.sparray | IntoDataFrame"
"""Rows of features."""
Columns: TypeAlias = "Mapping[str, ArrayLike | IntoSeries] | IntoDataFrame | None"
"""Columns with a value for every row, or other instance, by name."""
LabelsLike: TypeAlias = "Table | IntoSeries | Sequence[object]"
"""Labels of rows, sets or distributions of them, or a table of probabilities."""

_OURS = (np.ndarray, list, tuple, dict, str, type(None))


def as_frame(value: Any, name: str) -> narwhals.DataFrame[Any] | None:
    """A data frame as narwhals sees it; None for anything else.

    Raises
    ------
    InvalidInputError
        Two columns have the same name; ``name`` is what the user calls the frame.

    Examples
    --------
    >>> as_frame([[1, 2]], "proba") is None
    True
    """
    if isinstance(value, _OURS):
        return None
    import narwhals

    try:
        frame = narwhals.from_native(value, eager_only=True, pass_through=True)
    except narwhals.exceptions.DuplicateError as error:
        reason = " ".join(str(error).split())
        raise InvalidInputError(f"{name} must name every column differently: {reason}; rename or drop one") from None
    return frame if isinstance(frame, narwhals.DataFrame) else None


def filled_frame(frame: narwhals.DataFrame[Any], values: np.ndarray) -> Any:
    """The user's own kind of frame, with its index, and in its columns those of ``values`` of the same shape."""
    import narwhals

    columns = zip(frame.columns, values.T, strict=True)
    new = [narwhals.new_series(name, np.ascontiguousarray(v), backend=frame.implementation) for name, v in columns]
    return frame.with_columns(new).to_native()


def make_frame(columns: Mapping[str, NDArray[Any]], like: narwhals.DataFrame[Any] | None = None) -> Any:
    """A frame of these columns: of the library of another frame, else of polars or pandas, whichever is installed.

    Raises
    ------
    InvalidInputError
        If there is no other frame, and neither is installed.

    Examples
    --------
    >>> make_frame({"class": np.array(["ham", "spam"])}).columns
    ['class']
    """
    import narwhals

    library: Any = None if like is None else like.implementation
    library = library or next((name for name in ("polars", "pandas") if find_spec(name)), None)
    if library is None:
        raise InvalidInputError(
            "data frames need polars or pandas, neither of which is installed; pip install 'spectrem[tables]'"
        )
    return narwhals.from_dict(columns, backend=library).to_native()


def as_series(value: Any) -> narwhals.Series[Any] | None:
    """A column of a data frame as narwhals sees it; None for anything else.

    Examples
    --------
    >>> as_series(np.array([1, 2])) is None
    True
    """
    if isinstance(value, _OURS):
        return None
    import narwhals

    series = narwhals.from_native(value, series_only=True, pass_through=True)
    return series if isinstance(series, narwhals.Series) else None


def as_times(name: str, values: Any) -> NDArray[Any]:
    """A column of times as numbers or, of dates and their texts as of ISO 8601, as points in time (datetime64[us]).

    Parameters
    ----------
    name : str
        For errors.
    values : array or column of a frame, shape (n,)

    Raises
    ------
    InvalidInputError
        Naming the first cell that is missing or something else; ``keys`` has its row.

    Examples
    --------
    >>> as_times("when", np.array(["2026-01-31 20:15", "2026-02-01"]))
    array(['2026-01-31T20:15:00.000000', '2026-02-01T00:00:00.000000'],
          dtype='datetime64[us]')
    """
    series = as_series(values)
    times = cells = np.asarray(values) if series is None else series.to_numpy()
    if cells.dtype.kind == "M":
        times = cells.astype("datetime64[us]")
    elif cells.dtype.kind not in "iuf":
        times = np.array([_as_time(str(cell)) for cell in cells.tolist()], "datetime64[us]")
    missing = np.isnan(times)
    if not missing.any():
        return times
    row = int(missing.argmax())
    error = InvalidInputError(
        f"column {name} must hold numbers, or dates such as 2026-01-31 20:15, in every row, got "
        f"{quoted(cells.tolist()[row])} in row {row}; write them so, or leave the column out where rows stand in the "
        "order of time"
    )
    error.keys = {"row": row}
    raise error


def _as_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None
