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
EPS = float(np.finfo(np.float64).eps)


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
def diagonal_scores(x, means, scales, constants, gaps, absent, out):
    """``constants[k] - sum of (scales[k] (x - mean_k))^2 / 2``, scales being square roots of precisions.

    With ``gaps``, x may be NaN, for whose square ``absent[k]`` stands in.
    """
    n, d = x.shape
    rows, square = np.zeros((d, LANES)), np.empty(LANES)
    for start in range(0, n, LANES):
        size = min(LANES, n - start)
        _turn(x, start, size, rows)
        for k in range(len(means)):
            square[:] = 0.0
            for j in range(d):
                shift, scale, instead = means[k, j], scales[k, j], absent[k, j]
                if gaps:
                    for lane in range(LANES):
                        apart = scale * (rows[j, lane] - shift)
                        within = apart if apart == apart else 0.0
                        square[lane] = square[lane] + within * within + (0.0 if apart == apart else instead)
                else:
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
def diagonal_moments(x, shares, means, gaps, variances, counts, first, second):
    """Add sums of shares, of shares times ``x - mean_k`` and of shares times its squares, shape (n_components, d).

    With ``gaps``, x may be NaN, for which the mean stands in, and the variance for the square.
    """
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
                shift, variance, once, twice = means[k, j], variances[k, j], 0.0, 0.0
                if gaps:
                    for lane in range(size):
                        apart = rows[j, lane] - shift
                        once += share[k, lane] * (apart if apart == apart else 0.0)
                        twice += share[k, lane] * (apart * apart if apart == apart else variance)
                else:
                    for lane in range(size):
                        apart = rows[j, lane] - shift
                        shared = share[k, lane] * apart
                        once += shared
                        twice += shared * apart
                first[k, j] += once
                second[k, j] += twice


# ---- rows with missing coordinates, by patterns of these -------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _observed_first(missing, coordinates):
    """Observed coordinates, then missing ones, into ``coordinates``; returns how many are observed."""
    n_observed, at = len(missing) - missing.sum(), np.zeros(2, np.int64)
    at[1] = n_observed
    for j in range(len(missing)):
        kind = int(missing[j])
        coordinates[at[kind]] = j
        at[kind] += 1
    return n_observed


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _factorise(covariance, coordinates, n, lower):
    """Cholesky factor of the covariance of the first n coordinates; rounding errors leave no variance below EPS."""
    for i in range(n):
        for j in range(i + 1):
            rest = covariance[coordinates[i], coordinates[j]]
            for c in range(j):
                rest -= lower[i, c] * lower[j, c]
            if j < i:
                lower[i, j] = rest / lower[j, j]
            else:
                lower[i, i] = math.sqrt(max(rest, EPS * covariance[coordinates[i], coordinates[i]]))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _condition(covariance, coordinates, n_observed, lower, slopes, spread):
    """Slopes of the missing coordinates, shape (n_missing, n_observed), on the observed ones, which leave ``spread``.

    Of ``spread``, over all coordinates, the lower triangle is meaningful.
    """
    d = len(coordinates)
    _factorise(covariance, coordinates, d, lower)
    spread[:] = 0.0
    for j in range(n_observed, d):
        slope = slopes[j - n_observed]
        for i in range(n_observed - 1, -1, -1):
            slope[i] = lower[j, i]
            for c in range(i + 1, n_observed):
                slope[i] -= slope[c] * lower[c, i]
            slope[i] /= lower[i, i]
        for i in range(n_observed, j + 1):
            for c in range(n_observed, i + 1):
                spread[coordinates[j], coordinates[i]] += lower[j, c] * lower[i, c]


@njit(cache=True, nogil=True, error_model="numpy")
def _turn_observed(x, rows, coordinates, n_observed, out):
    """Observed coordinates of some rows of x into the columns of ``out``."""
    for lane in range(len(rows)):
        for i in range(n_observed):
            out[i, lane] = x[rows[lane], coordinates[i]]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def incomplete_scores(x, order, starts, missing, means, covariances, log_weights, out):
    """Log joint densities of the observed coordinates of rows.

    Rows ``order[starts[p] : starts[p + 1]]`` miss the coordinates where ``missing[p]`` is true. ``covariances`` has
    one matrix, or one for each component.
    """
    n_components, d = means.shape
    coordinates, constants = np.empty(d, np.int64), np.empty(n_components)
    factors, rows, white = np.zeros((len(covariances), d, d)), np.zeros((d, LANES)), np.empty((d, LANES))
    square = np.empty(LANES)
    for p in range(len(missing)):
        n_observed = _observed_first(missing[p], coordinates)
        for k in range(n_components):
            if k < len(covariances):
                _factorise(covariances[k], coordinates, n_observed, factors[k])
            lower = factors[min(k, len(factors) - 1)]
            constants[k] = log_weights[k] - 0.5 * n_observed * math.log(2 * math.pi)
            for i in range(n_observed):
                constants[k] -= math.log(lower[i, i])
        for start in range(starts[p], starts[p + 1], LANES):
            size = min(LANES, starts[p + 1] - start)
            _turn_observed(x, order[start : start + size], coordinates, n_observed, rows)
            for k in range(n_components):
                lower = factors[min(k, len(factors) - 1)]
                square[:] = 0.0
                for j in range(n_observed):
                    shift, scale = means[k, coordinates[j]], 1.0 / lower[j, j]
                    for lane in range(size):
                        white[j, lane] = scale * (rows[j, lane] - shift)
                    for i in range(j):
                        factor = scale * lower[j, i]
                        for lane in range(size):
                            white[j, lane] -= factor * white[i, lane]
                    for lane in range(size):
                        square[lane] += white[j, lane] * white[j, lane]
                for lane in range(size):
                    out[order[start + lane], k] = constants[k] - 0.5 * square[lane]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def incomplete_moments(x, order, starts, missing, shares, means, covariances, counts, first, second):
    """Add the moments of `full_moments`, expected over the missing coordinates of rows; see `incomplete_scores`."""
    n_components, d = means.shape
    coordinates, lower = np.empty(d, np.int64), np.zeros((d, d))
    slopes, spreads = np.empty((len(covariances), d, d)), np.empty((len(covariances), d, d))
    rows, share, count = np.zeros((d, LANES)), np.zeros((n_components, LANES)), np.empty(n_components)
    whole, apart, shared = np.empty((d, LANES)), np.zeros((d + 1, LANES)), np.zeros((d + 1, LANES))
    for p in range(len(missing)):
        n_observed = _observed_first(missing[p], coordinates)
        for k in range(len(covariances)):
            _condition(covariances[k], coordinates, n_observed, lower, slopes[k], spreads[k])
        count[:] = 0.0
        for start in range(starts[p], starts[p + 1], LANES):
            size = min(LANES, starts[p + 1] - start)
            _turn_observed(x, order[start : start + size], coordinates, n_observed, rows)
            for lane in range(size):
                for k in range(n_components):
                    share[k, lane] = shares[order[start + lane], k]
            for k in range(n_components):
                count[k] += _sum(share[k], size)
                for i in range(n_observed):
                    shift = means[k, coordinates[i]]
                    for lane in range(size):
                        whole[i, lane] = rows[i, lane] - shift
                for i in range(n_observed, d):
                    slope = slopes[min(k, len(slopes) - 1), i - n_observed]
                    whole[i, :size] = 0.0
                    for c in range(n_observed):
                        for lane in range(size):
                            whole[i, lane] += slope[c] * whole[c, lane]
                for i in range(d):
                    j = coordinates[i]
                    for lane in range(size):
                        apart[j, lane] = whole[i, lane]
                        shared[j, lane] = share[k, lane] * whole[i, lane]
                    first[k, j] += _sum(shared[j], size)
                _add_products(d, shared, apart, size, second[k])
        for k in range(n_components):
            counts[k] += count[k]
            for j in range(d):
                for i in range(j + 1):
                    second[k, j, i] += count[k] * spreads[min(k, len(spreads) - 1), j, i]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def impute_rows(x, order, starts, missing, posteriors, means, covariances, out):
    """Add what is expected of the missing coordinates of rows to ``out``; see `incomplete_scores`."""
    d = x.shape[1]
    coordinates, lower, slopes, spread = np.empty(d, np.int64), np.zeros((d, d)), np.empty((d, d)), np.empty((d, d))
    for p in range(len(missing)):
        n_observed = _observed_first(missing[p], coordinates)
        for k in range(len(means)):
            if k < len(covariances):
                _condition(covariances[k], coordinates, n_observed, lower, slopes, spread)
            for row in order[starts[p] : starts[p + 1]]:
                for j in range(n_observed, d):
                    value = means[k, coordinates[j]]
                    for i in range(n_observed):
                        value += slopes[j - n_observed, i] * (x[row, coordinates[i]] - means[k, coordinates[i]])
                    out[row, coordinates[j]] += posteriors[row, k] * value
