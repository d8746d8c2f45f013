"""Weighted moments of rows of data about given points, LANES rows side by side.

The sums over lanes may be reordered by the compiler; with the groups fixed, their order is the same in every run.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem.kernels.mixtures.gaussian import turn

LANES = 128


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
        own = min(LANES, n - start)
        turn(x, start, own, rows)
        turn(shares, start, own, share)
        for k in range(n_components):
            counts[k] += _sum(share[k], own)
            for j in range(d):
                shift = means[k, j]
                for lane in range(own):
                    apart[j, lane] = rows[j, lane] - shift
                    shared[j, lane] = share[k, lane] * apart[j, lane]
                first[k, j] += _sum(shared[j], own)
            _add_products(d, shared, apart, own, second[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def diagonal_moments(x, shares, means, counts, first, second):
    """Add sums of shares, of shares times ``x - mean_k`` and of shares times its squares, shape (n_components, d)."""
    n, d = x.shape
    n_components = len(means)
    rows, share = np.zeros((d, LANES)), np.zeros((n_components, LANES))
    for start in range(0, n, LANES):
        own = min(LANES, n - start)
        turn(x, start, own, rows)
        turn(shares, start, own, share)
        for k in range(n_components):
            counts[k] += _sum(share[k], own)
            for j in range(d):
                shift, once, twice = means[k, j], 0.0, 0.0
                for lane in range(own):
                    apart = rows[j, lane] - shift
                    shared = share[k, lane] * apart
                    once += shared
                    twice += shared * apart
                first[k, j] += once
                second[k, j] += twice
