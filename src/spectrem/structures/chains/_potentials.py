"""Potentials of rows of scores: what the scaled passes multiply."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem.kernels.chains import potentials as kernel

FLOOR = kernel.FLOOR


class Potentials(NamedTuple):
    """exp((scores - top) / gamma) row by row, zero below FLOOR.

    Attributes
    ----------
    values : ndarray of shape (n_parts,), in [0, 1]
    tops : ndarray of shape (n_rows,), nats
    floored : ndarray of shape (n_rows,), bool
        Whether a possible part was replaced by zero.
    """

    values: NDArray[np.float64]
    tops: NDArray[np.float64]
    floored: NDArray[np.bool_]


def potentials_of(scores: NDArray[np.float64], offsets: NDArray[np.int64], gamma: float) -> Potentials:
    """Potentials of the rows ``scores[offsets[r]:offsets[r + 1]]``; the top of a row without parts is -inf."""
    n_rows = len(offsets) - 1
    result = Potentials(np.empty(len(scores)), np.empty(n_rows), np.empty(n_rows, np.bool_))
    kernel.subtract_tops(scores, offsets, gamma, result.values, result.tops)
    np.exp(result.values, out=result.values)  # which has vector instructions that a kernel does not have
    kernel.remove_small(scores, offsets, result.values, result.floored)
    return result
