"""Potentials of rows of scores: what the scaled passes of chains multiply."""

import math

import numpy as np

from spectrem._compiled import njit

FLOOR = 1e-100


@njit(cache=True, nogil=True, error_model="numpy")
def exponentiate(scores, offsets, gamma, potentials, tops, floored):
    """exp((score - top) / gamma) of the rows ``scores[offsets[r]:offsets[r + 1]]``, zero below FLOOR.

    ``floored`` says whether a row lost something to the floor. The top of a row without parts is -inf.
    """
    for r in range(len(tops)):
        top = -np.inf
        for k in range(offsets[r], offsets[r + 1]):
            top = max(top, scores[k])
        tops[r], floored[r] = top, False
        for k in range(offsets[r], offsets[r + 1]):
            potential = math.exp((scores[k] - top) / gamma) if scores[k] > -np.inf else 0.0
            if potential < FLOOR:
                floored[r] = floored[r] or scores[k] > -np.inf
                potential = 0.0
            potentials[k] = potential
