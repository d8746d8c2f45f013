"""Products of remembered steps, which are kept in single precision, with vectors; sums are in double precision.

Rows come in pairs, and are read once for two products. A block of the vectors stays in the processor's cache while all
rows are gone through. Indices are unsigned, since tests for negative ones would keep loops from being vectorised.
"""

import numpy as np

from spectrem._compiled import njit

_BLOCK = np.uint64(2048)
_ONE = np.uint64(1)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def products(rows, first, second, out):
    """``out[k] = rows[k] @ first, rows[k] @ second``."""
    n = np.uint64(len(first))
    out[:] = 0.0
    for block in range((n + _BLOCK - _ONE) // _BLOCK):
        start = np.uint64(block) * _BLOCK
        stop = min(start + _BLOCK, n)
        for k in range(0, len(rows), 2):
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for i in range(start, stop):
                even, odd = rows[k, i], rows[k + 1, i]
                a += even * first[i]
                b += even * second[i]
                c += odd * first[i]
                d += odd * second[i]
            out[k, 0] += a
            out[k, 1] += b
            out[k + 1, 0] += c
            out[k + 1, 1] += d


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def combine(rows, shares, out):
    """``out += shares @ rows``."""
    n = np.uint64(len(out))
    for block in range((n + _BLOCK - _ONE) // _BLOCK):
        start = np.uint64(block) * _BLOCK
        stop = min(start + _BLOCK, n)
        for k in range(0, len(rows), 2):
            even, odd = shares[k], shares[k + 1]
            for i in range(start, stop):
                out[i] += even * rows[k, i] + odd * rows[k + 1, i]
