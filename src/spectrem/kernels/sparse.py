"""Sparse products that skip what is not asked for."""

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def product_where(indptr, indices, data, vector, label, wanted, out):
    """``out[r] = matrix[r] @ vector`` for the rows whose label is wanted; the others are left as they are."""
    for r in range(indptr.shape[0] - 1):
        if label[r] < 0 or not wanted[label[r]]:
            continue
        total = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            total += data[k] * vector[indices[k]]
        out[r] = total


@njit(cache=True, nogil=True, error_model="numpy")
def less_prices(indptr, indices, data, multipliers, scores, out):
    """``out = scores - transpose @ multipliers``, for a matrix with one row per score."""
    for p in range(scores.shape[0]):
        value = scores[p]
        for k in range(indptr[p], indptr[p + 1]):
            value -= data[k] * multipliers[indices[k]]
        out[p] = value
