"""Columns of series: checks of their values, and their scales."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectrem._arrays import Floats
from spectrem.exceptions import InvalidInputError


def finite_or_missing(x: Floats, names: Sequence[str]) -> None:
    """Raise `InvalidInputError`, naming the column, if a cell is infinite."""
    infinite = np.isinf(x)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise InvalidInputError(
            f"column {names[column]} must hold finite numbers, or NaN where they are missing, got {x[row, column]} in "
            f"row {row}; correct it, or make it NaN"
        )


def whole_or_missing(x: Floats, names: Sequence[str]) -> None:
    """Raise `InvalidInputError`, naming the column, if a cell is not a whole number of at least 0."""
    wrong = ~(np.isnan(x) | ((x >= 0) & (x == np.floor(x)) & np.isfinite(x)))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InvalidInputError(
            f"column {names[column]} must hold whole numbers of at least 0, or NaN where they are missing, got "
            f"{x[row, column]} in row {row}; choose emissions of real numbers for it, such as 'gaussian'"
        )


def mean_of(x: Floats) -> Floats:
    """The mean of every column over the rows that have it, shape (n_columns,); 0 for columns without any value."""
    there = ~np.isnan(x)
    return np.divide(np.where(there, x, 0.0).sum(axis=0), np.maximum(there.sum(axis=0), 1))


def spread_of(x: Floats) -> Floats:
    """The standard deviation of every column, shape (n_columns,); 1 for those whose values are all equal."""
    there = ~np.isnan(x)
    apart = np.where(there, x - mean_of(x), 0.0)
    scale = np.abs(apart).max(axis=0, initial=0.0)  # squares of it alone stay within the range of floating point
    unit = np.where(scale > 0, scale, 1.0)
    spread = unit * np.sqrt(((apart / unit) ** 2).sum(axis=0) / np.maximum(there.sum(axis=0), 1))
    size = np.abs(np.where(there, x, 0.0)).max(axis=0, initial=0.0)
    return np.where(spread > 1e-12 * size, spread, 1.0)
