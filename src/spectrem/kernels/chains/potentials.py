"""Potentials of rows of scores, before and after the exponential: what the scaled passes of chains multiply."""

import numpy as np

from spectrem._compiled import njit

FLOOR = 1e-100


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
def _largest(row):
    top = -np.inf
    for k in range(len(row)):
        top = row[k] if row[k] > top else top
    return top


@njit(cache=True, nogil=True, error_model="numpy")
def subtract_tops(scores, offsets, gamma, exponents, tops):
    """(score - top) / gamma of the rows ``scores[offsets[r]:offsets[r + 1]]``; -inf where the top is -inf.

    The top of a row without parts is -inf. Rows are slices, whose places the compiler knows not to be negative.
    """
    for r in range(len(tops)):
        row, out = scores[offsets[r] : offsets[r + 1]], exponents[offsets[r] : offsets[r + 1]]
        top = _largest(row)
        tops[r] = top
        if top == -np.inf:
            out[:] = -np.inf
        elif gamma == 1.0:
            for k in range(len(row)):
                out[k] = row[k] - top
        else:
            for k in range(len(row)):
                out[k] = (row[k] - top) / gamma


@njit(cache=True, nogil=True, error_model="numpy")
def remove_small(scores, offsets, potentials, floored):
    """Replace potentials below FLOOR by zero; ``floored`` says whether a row lost something possible to it."""
    for r in range(len(floored)):
        row, out = scores[offsets[r] : offsets[r + 1]], potentials[offsets[r] : offsets[r + 1]]
        n_low = 0
        for k in range(len(out)):
            n_low += out[k] < FLOOR
        floored[r] = False
        if n_low:
            for k in range(len(out)):
                if out[k] < FLOOR:
                    floored[r] |= row[k] > -np.inf
                    out[k] = 0.0
