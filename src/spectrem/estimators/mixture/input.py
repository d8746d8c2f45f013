"""What GaussianMixture is fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_sample_weight, check_same_index
from spectrem.constraints import check_columns
from spectrem.constraints.columns import read_columns
from spectrem.exceptions import InvalidInputError, setting, warn

KEPT = (np.float64, np.float32)
"""Data of these types are taken as they are, others made the first; results are of the same type, whatever is
computed."""


@dataclass(frozen=True, eq=False)
class MixtureRows:
    """Rows to be trained on.

    Attributes
    ----------
    x : ndarray of shape (n_rows, n_features), float64
    dtype : dtype
        The dtype of the data as they were given, which results have, too.
    labels : ndarray of shape (n_rows,), or None
        Known components, -1 where unknown.
    weights : ndarray of shape (n_rows,), or None
        None where all are 1.
    columns : mapping of name -> ndarray of shape (n_rows,)
        Columns that constraints name.
    """

    x: Floats
    dtype: Any
    labels: Ints | None
    weights: Floats | None
    columns: Mapping[str, NDArray]


def read_rows(
    mixture: Any, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None, columns: Any
) -> MixtureRows:
    """The arguments of `GaussianMixture.fit`, checked.

    Raises
    ------
    InvalidInputError
        If one of them breaks its rule.
    """
    check_same_index(X=X, y=y, sample_weight=sample_weight, columns=columns)
    x = validate_data(mixture, X, dtype=KEPT, order="C", ensure_min_samples=2)
    labels = _known(mixture, y, len(x))
    weights = as_sample_weight(sample_weight, len(x), "row of X")
    counted = len(x) if weights is None else int((weights > 0).sum())
    if counted < mixture.n_components:
        raise InvalidInputError(
            f"X must have at least {setting('n_components')} = {mixture.n_components} rows of positive weight, got "
            f"n_samples = {counted}; lower {setting('n_components')}"
        )
    found = read_columns(columns, {"rows": len(x)}, taken=("row", "label"))
    given = {name: np.asarray(found[name]) for name in found}
    check_columns(mixture.constraints, {"row": range(len(x)), **given})
    return MixtureRows(np.asarray(x, np.float64), x.dtype, labels, weights, given)


def _known(mixture: Any, y: ArrayLike | None, n_rows: int) -> Ints | None:
    """Known components of rows, shape (n_rows,), -1 where unknown; None if no component is known."""
    if y is None:
        return None
    labels = np.asarray(y)
    if not mixture.partial_labels:
        if labels.dtype.kind == "i" and labels.size and labels.min() == -1 and 0 <= labels.max() < mixture.n_components:
            warn("y looks like known components and is ignored: set partial_labels=True")
        return None
    if labels.shape != (n_rows,):
        raise InvalidInputError(f"y must have shape ({n_rows},), a component or -1 per row of X; got {labels.shape}")
    if labels.dtype.kind not in "iu":
        raise InvalidInputError(
            f"y must hold integers with partial_labels=True, got dtype {labels.dtype}; number the components from 0"
        )
    wrong = (labels < -1) | (labels >= mixture.n_components)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InvalidInputError(
            f"y must hold components from 0 to {mixture.n_components - 1}, or -1 for unknown; got {labels[at]} at row "
            f"{at}; raise n_components or leave y out"
        )
    return labels.astype(np.int64)
