"""Sums and shares of what is given by logarithms, for kernels in log space."""

import math

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def log_sum(terms: np.ndarray, gamma: float) -> float:
    """gamma * log(sum(exp(terms / gamma))); in nats throughout, so that no division by gamma overflows."""
    top = -np.inf
    for k in range(len(terms)):
        top = max(top, terms[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(len(terms)):
        total += math.exp((terms[k] - top) / gamma)
    return top + gamma * math.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def share_out(terms: np.ndarray, gamma: float) -> None:
    """``terms`` become their shares, exp(terms / gamma) over the sum of these; some term must be finite."""
    top, total = -np.inf, 0.0
    for k in range(len(terms)):
        top = max(top, terms[k])
    for k in range(len(terms)):
        terms[k] = math.exp((terms[k] - top) / gamma)
        total += terms[k]
    for k in range(len(terms)):
        terms[k] /= total
