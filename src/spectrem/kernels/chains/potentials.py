"""Potentials of rows of scores, before and after the exponential: what the scaled passes of chains multiply."""

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import LANES, larger, largest, load, load_some, spread, store

FLOOR = 1e-100


@njit(cache=True, nogil=True, error_model="numpy")
def subtract_tops(scores, offsets, gamma, exponents, tops):
    """(score - top) / gamma of the rows ``scores[offsets[r]:offsets[r + 1]]``; -inf where the top is -inf.

    The top of a row without parts is -inf. A row is gone through a vector at a time; what the last of its vectors
    writes beyond it belongs to later rows, which write it again. Where that would be beyond the array, single numbers
    are gone through.
    """
    scale = spread(gamma)
    for r in range(len(tops)):
        start, stop = offsets[r], offsets[r + 1]
        whole, top = start + (stop - start) // LANES * LANES, -np.inf
        if whole + LANES > len(exponents):
            row, out = scores[start:stop], exponents[start:stop]
            for k in range(len(row)):
                top = max(top, row[k])
            for k in range(len(row)):
                out[k] = (row[k] - top) / gamma if top > -np.inf else -np.inf
            tops[r] = top
            continue
        several = load_some(scores, whole, stop - whole, -np.inf)
        for at in range(start, whole, LANES):
            several = larger(several, load(scores, at))
        top = largest(several)
        tops[r] = top
        base = spread(top if top > -np.inf else 0.0)
        for at in range(start, stop, LANES):
            store(exponents, at, (load(scores, at) - base) / scale)


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
