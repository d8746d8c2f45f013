"""Potentials of rows of scores: what the scaled passes of chains multiply, and of trees that do not cross."""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import exponentiate
from spectrem._vectors import LANES, larger, largest, load, load_some, spread, store

FLOOR = 1e-100


@njit(cache=True, nogil=True, error_model="numpy")
def fill_potentials(scores, offsets, gamma, least, potentials, tops):
    """exp((score - top) / gamma) of the rows ``scores[offsets[r]:offsets[r + 1]]``, zero below ``least``.

    Returns whether some are zero. The top of a row without parts is -inf. A row is gone through a vector at a time;
    what the last of its vectors writes beyond it belongs to later rows, which write it again. Where that would be
    beyond the array, single numbers are gone through.
    """
    scale = spread(gamma)
    for r in range(len(tops)):
        start, stop = offsets[r], offsets[r + 1]
        whole, top = start + (stop - start) // LANES * LANES, -np.inf
        if whole + LANES > len(potentials):
            row, out = scores[start:stop], potentials[start:stop]
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
            store(potentials, at, (load(scores, at) - base) / scale)
    return exponentiate(potentials, least)


@njit(cache=True, nogil=True, error_model="numpy")
def find_floored(scores, offsets, potentials, floored):
    """Whether a row of potentials has a zero for something possible."""
    for r in range(len(floored)):
        row, out = scores[offsets[r] : offsets[r + 1]], potentials[offsets[r] : offsets[r + 1]]
        floored[r] = False
        for k in range(len(out)):
            floored[r] |= out[k] == 0.0 and row[k] > -np.inf
