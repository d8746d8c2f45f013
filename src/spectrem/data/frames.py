"""Data frames and their columns, of pandas, polars, Arrow or any other library that narwhals knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import narwhals
    import scipy.sparse as sp
    from narwhals.typing import IntoDataFrame, IntoSeries
    from numpy.typing import ArrayLike

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
