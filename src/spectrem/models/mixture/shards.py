"""The shards of a table: blocks of rows that are small enough for a processor's cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_weights
from spectrem.exceptions import InvalidInputError

ROWS = 4096
UNKNOWN = -1


class MixtureShard(NamedTuple):
    """Some rows of the data.

    Attributes
    ----------
    instances : ndarray of shape (n,), int
        Numbers of the rows in the data.
    x : ndarray of shape (n, n_features)
    weights : ndarray of shape (n,)
    labels : ndarray of shape (n,), int, or None
        The component of each row, -1 where it is not known; None if that is so for all.
    columns : mapping of name -> ndarray of shape (n,)
        For constraints.
    """

    instances: Ints
    x: Floats
    weights: Floats
    labels: Ints | None
    columns: Mapping[str, NDArray]


def build_shards(
    x: Floats,
    weights: ArrayLike | None = None,
    labels: Ints | None = None,
    columns: Mapping[str, ArrayLike] | None = None,
    *,
    rows: int = ROWS,
) -> list[MixtureShard]:
    """Cut data into shards, which do not depend on the number of threads.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_features)
    weights : array-like of shape (n_rows,), optional
        At least 0; by default 1.
    labels : ndarray of shape (n_rows,), int, optional
        Components that are known; -1 for the others.
    columns : mapping of name -> array-like of shape (n_rows,), optional
        Values of every row that constraints may refer to.
    rows : int
        Number of rows of a shard.

    Raises
    ------
    InvalidInputError
        If a weight is negative or not finite, or a column has another length than the data.

    Examples
    --------
    >>> [shard.instances.tolist() for shard in build_shards(np.zeros((3, 1)), rows=2)]
    [[0, 1], [2]]
    """
    n = len(x)
    weight = as_weights(weights, n)
    arrays = {name: np.asarray(values) for name, values in (columns or {}).items()}
    for name, values in arrays.items():
        if values.shape != (n,):
            raise InvalidInputError(
                f"columns[{name!r}] must have shape ({n},), a value per row of the data; got {values.shape}"
            )
    data = np.require(x, np.float64, ["C", "W"])
    shards = []
    for start in range(0, n, rows):
        own = slice(start, min(start + rows, n))
        known = None if labels is None or (labels[own] == UNKNOWN).all() else labels[own]
        given = {name: values[own] for name, values in arrays.items()}
        shards.append(MixtureShard(np.arange(own.start, own.stop), data[own], weight[own], known, given))
    return shards
