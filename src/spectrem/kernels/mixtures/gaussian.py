"""Log-densities of Gaussians at rows of data, LANES rows side by side.

Within a group of rows, the values of one feature stand together, which the compiler turns into vector instructions. All
quadratic forms are sums of squares of differences from a mean, so that data far from the origin lose no digits.
"""

import numpy as np

from spectrem._compiled import njit

LANES = 128


@njit(cache=True, nogil=True, error_model="numpy")
def turn(x, start, n, out):
    """Rows ``start : start + n`` of ``x`` into the columns of ``out``."""
    for lane in range(n):
        for j in range(x.shape[1]):
            out[j, lane] = x[start + lane, j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def invert_lower(lower, out):
    """Inverse of a lower triangular matrix into ``out``, which holds zeros.

    Small solves by LAPACK wait for threads of BLAS, which takes long where processors are busy.
    """
    for i in range(len(lower)):
        for j in range(i):
            factor = lower[i, j]
            for c in range(j + 1):
                out[i, c] -= factor * out[j, c]
        scale = 1.0 / lower[i, i]
        for c in range(i):
            out[i, c] *= scale
        out[i, i] = scale


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _subtract(rows, mean, out):
    for j in range(len(mean)):
        shift = mean[j]
        for lane in range(LANES):
            out[j, lane] = rows[j, lane] - shift


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _row_product(row, length, rows, out):
    """``out[lane] = sum of row[i] * rows[i, lane]`` for i < length, four at a time."""
    out[:] = 0.0
    i = 0
    while i + 4 <= length:
        a, b, c, d = row[i], row[i + 1], row[i + 2], row[i + 3]
        for lane in range(LANES):
            out[lane] += a * rows[i, lane] + b * rows[i + 1, lane] + c * rows[i + 2, lane] + d * rows[i + 3, lane]
        i += 4
    while i < length:
        a = row[i]
        for lane in range(LANES):
            out[lane] += a * rows[i, lane]
        i += 1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def full_scores(x, means, factors, constants, out):
    """``constants[k] - |F_k (x - mean_k)|^2 / 2`` for lower triangular F, shape (n, n_components)."""
    n, d = x.shape
    rows, apart = np.zeros((d, LANES)), np.empty((d, LANES))
    product, square = np.empty(LANES), np.empty(LANES)
    for start in range(0, n, LANES):
        own = min(LANES, n - start)
        turn(x, start, own, rows)
        for k in range(len(means)):
            _subtract(rows, means[k], apart)
            square[:] = 0.0
            for j in range(d):
                _row_product(factors[k, j], j + 1, apart, product)
                for lane in range(LANES):
                    square[lane] += product[lane] * product[lane]
            for lane in range(own):
                out[start + lane, k] = constants[k] - 0.5 * square[lane]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def tied_scores(x, centre, factor, centres, constants, out):
    """``constants[k] - |F (x - centre) - centres[k]|^2 / 2`` with one lower triangular F."""
    n, d = x.shape
    rows, apart, white = np.zeros((d, LANES)), np.empty((d, LANES)), np.empty((d, LANES))
    square = np.empty(LANES)
    for start in range(0, n, LANES):
        own = min(LANES, n - start)
        turn(x, start, own, rows)
        _subtract(rows, centre, apart)
        for j in range(d):
            _row_product(factor[j], j + 1, apart, white[j])
        for k in range(len(centres)):
            square[:] = 0.0
            for j in range(d):
                shift = centres[k, j]
                for lane in range(LANES):
                    square[lane] += (white[j, lane] - shift) ** 2
            for lane in range(own):
                out[start + lane, k] = constants[k] - 0.5 * square[lane]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def diagonal_scores(x, means, scales, constants, out):
    """``constants[k] - sum of (scales[k] (x - mean_k))^2 / 2``, scales being square roots of precisions."""
    n, d = x.shape
    rows, square = np.zeros((d, LANES)), np.empty(LANES)
    for start in range(0, n, LANES):
        own = min(LANES, n - start)
        turn(x, start, own, rows)
        for k in range(len(means)):
            square[:] = 0.0
            for j in range(d):
                shift, scale = means[k, j], scales[k, j]
                for lane in range(LANES):
                    square[lane] += (scale * (rows[j, lane] - shift)) ** 2
            for lane in range(own):
                out[start + lane, k] = constants[k] - 0.5 * square[lane]
