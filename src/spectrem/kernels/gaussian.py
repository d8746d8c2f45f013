"""Mixtures of Gaussians: log-densities, posteriors and weighted moments of rows of data.

Densities and moments take LANES rows side by side: within such a group the values of one feature stand together, which
the compiler turns into vector instructions. Quadratic forms are sums of squares of differences from a mean, so that
data far from the origin lose no digits. The compiler may reorder the sums over the lanes of a moment; with the groups
fixed, their order is the same in every run.
"""

import math

import numpy as np

from spectrem._compiled import njit

LANES = 128


@njit(cache=True, nogil=True, error_model="numpy")
def _turn(x, start, n, out):
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
        size = min(LANES, n - start)
        _turn(x, start, size, rows)
        for k in range(len(means)):
            _subtract(rows, means[k], apart)
            square[:] = 0.0
            for j in range(d):
                _row_product(factors[k, j], j + 1, apart, product)
                for lane in range(LANES):
                    square[lane] += product[lane] * product[lane]
            for lane in range(size):
                out[start + lane, k] = constants[k] - 0.5 * square[lane]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def tied_scores(x, centre, factor, centres, constants, out):
    """``constants[k] - |F (x - centre) - centres[k]|^2 / 2`` with one lower triangular F."""
    n, d = x.shape
    rows, apart, white = np.zeros((d, LANES)), np.empty((d, LANES)), np.empty((d, LANES))
    square = np.empty(LANES)
    for start in range(0, n, LANES):
        size = min(LANES, n - start)
        _turn(x, start, size, rows)
        _subtract(rows, centre, apart)
        for j in range(d):
            _row_product(factor[j], j + 1, apart, white[j])
        for k in range(len(centres)):
            square[:] = 0.0
            for j in range(d):
                shift = centres[k, j]
                for lane in range(LANES):
                    square[lane] += (white[j, lane] - shift) ** 2
            for lane in range(size):
                out[start + lane, k] = constants[k] - 0.5 * square[lane]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def diagonal_scores(x, means, scales, constants, out):
    """``constants[k] - sum of (scales[k] (x - mean_k))^2 / 2``, scales being square roots of precisions."""
    n, d = x.shape
    rows, square = np.zeros((d, LANES)), np.empty(LANES)
    for start in range(0, n, LANES):
        size = min(LANES, n - start)
        _turn(x, start, size, rows)
        for k in range(len(means)):
            square[:] = 0.0
            for j in range(d):
                shift, scale = means[k, j], scales[k, j]
                for lane in range(LANES):
                    square[lane] += (scale * (rows[j, lane] - shift)) ** 2
            for lane in range(size):
                out[start + lane, k] = constants[k] - 0.5 * square[lane]


@njit(cache=True, nogil=True, error_model="numpy")
def soft_pass(scores, gamma, weights, values):
    """``gamma * logsumexp(scores / gamma)`` of every row; scores become posteriors times the row's weight."""
    for n in range(len(scores)):
        row = scores[n]
        top = -np.inf
        for k in range(len(row)):
            top = max(top, row[k])
        values[n] = top
        if top == -np.inf:
            row[:] = 0.0
            continue
        total = 0.0
        for k in range(len(row)):
            row[k] = math.exp((row[k] - top) / gamma)
            total += row[k]
        values[n] += gamma * math.log(total)
        share = weights[n] / total
        for k in range(len(row)):
            row[k] *= share


@njit(cache=True, nogil=True, error_model="numpy")
def hard_pass(scores, weights, values):
    """The largest score of every row; the first that has it takes the row's weight, the others 0."""
    for n in range(len(scores)):
        row = scores[n]
        best = np.argmax(row)
        values[n] = row[best]
        row[:] = 0.0
        if values[n] > -np.inf:
            row[best] = weights[n]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _sum(values, n):
    total = 0.0
    for lane in range(n):
        total += values[lane]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _add_products(d, left, right, n, out):
    """``out[j, i] += left[j, :n] @ right[i, :n]`` for i <= j, two by two; row d of both is zero."""
    for j in range(0, d, 2):
        for i in range(0, j + 1, 2):
            s00, s01, s10, s11 = 0.0, 0.0, 0.0, 0.0
            for lane in range(n):
                a, b = left[j, lane], left[j + 1, lane]
                p, q = right[i, lane], right[i + 1, lane]
                s00 += a * p
                s01 += a * q
                s10 += b * p
                s11 += b * q
            out[j, i] += s00
            if i + 1 < d:
                out[j, i + 1] += s01
            if j + 1 < d:
                out[j + 1, i] += s10
                if i + 1 < d:
                    out[j + 1, i + 1] += s11


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def full_moments(x, shares, means, counts, first, second):
    """Add sums of shares, of shares times ``x - mean_k`` and of shares times its outer product.

    Of ``second``, shape (n_components, d, d), the lower triangle is meaningful.
    """
    n, d = x.shape
    n_components = len(means)
    rows, share = np.zeros((d, LANES)), np.zeros((n_components, LANES))
    apart, shared = np.zeros((d + 1, LANES)), np.zeros((d + 1, LANES))
    for start in range(0, n, LANES):
        size = min(LANES, n - start)
        _turn(x, start, size, rows)
        _turn(shares, start, size, share)
        for k in range(n_components):
            counts[k] += _sum(share[k], size)
            for j in range(d):
                shift = means[k, j]
                for lane in range(size):
                    apart[j, lane] = rows[j, lane] - shift
                    shared[j, lane] = share[k, lane] * apart[j, lane]
                first[k, j] += _sum(shared[j], size)
            _add_products(d, shared, apart, size, second[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def diagonal_moments(x, shares, means, counts, first, second):
    """Add sums of shares, of shares times ``x - mean_k`` and of shares times its squares, shape (n_components, d)."""
    n, d = x.shape
    n_components = len(means)
    rows, share = np.zeros((d, LANES)), np.zeros((n_components, LANES))
    for start in range(0, n, LANES):
        size = min(LANES, n - start)
        _turn(x, start, size, rows)
        _turn(shares, start, size, share)
        for k in range(n_components):
            counts[k] += _sum(share[k], size)
            for j in range(d):
                shift, once, twice = means[k, j], 0.0, 0.0
                for lane in range(size):
                    apart = rows[j, lane] - shift
                    shared = share[k, lane] * apart
                    once += shared
                    twice += shared * apart
                first[k, j] += once
                second[k, j] += twice
