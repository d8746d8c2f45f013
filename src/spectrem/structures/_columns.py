"""Columns of which some values are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools

TEXT = np.dtypes.StringDType(na_object=np.nan)
"""Text of which some is missing; text without missing values has a fixed width."""


def missing_where(values: NDArray, lacking: Bools) -> NDArray:
    """A copy of a column that has no value at some entries (NaN, None among objects); numbers are floating-point."""
    kind = values.dtype.kind
    copied = values.astype(TEXT if kind in "UT" else object if kind == "O" else np.float64)
    copied[lacking] = None if kind == "O" else np.nan
    return copied


def missing_of(values: NDArray) -> Bools | None:
    """Where a column has no value; None for columns of a kind that always has one."""
    return np.isnan(values) if values.dtype.kind in "fT" else None


def declared_missing(structure: Any, name: str) -> Bools | None:
    """Parts that belong to no group of a column of a structure: as it says, else those without a value."""
    if hasattr(structure, "missing"):
        missing: Bools | None = structure.missing(name)
        return missing
    return missing_of(np.asarray(structure.columns[name]))
