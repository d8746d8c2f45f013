"""Sums over sparse features of choices, such as rows of a table or tokens: of weights, and of what labels expect.

Choice c has the features ``indices[indptr[c]:indptr[c + 1]]``, with these ``values``, or 1 each where there are none.
Feature f has a weight for each of the labels ``pair_labels[pair_indptr[f]:pair_indptr[f + 1]]``, which increase; where
``pair_indptr`` is empty it has one for every label. So most inner loops run over neighbouring labels; their indices are
unsigned, since tests for negative ones would keep them from being vectorised.
"""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def add_scores(indptr, indices, values, pair_indptr, pair_labels, weights, scores):
    """``scores[c, y] += sum over features f of c of value * weight[f, y]``; scores of shape (n_choices, n_labels)."""
    n_labels, plain, packed = scores.shape[1], len(values) == 0, len(pair_indptr) > 0
    for c in range(len(indptr) - 1):
        out = scores[c]
        for e in range(indptr[c], indptr[c + 1]):
            f = indices[e]
            value = 1.0 if plain else values[e]
            start, width = f * n_labels, n_labels
            if packed:
                start, width = pair_indptr[f], pair_indptr[f + 1] - pair_indptr[f]
            first = np.uint64(start)
            if width == n_labels:
                for y in range(np.uint64(n_labels)):
                    out[y] += value * weights[first + y]
            else:
                for k in range(first, first + np.uint64(width)):
                    out[pair_labels[k]] += value * weights[k]


@njit(cache=True, nogil=True, error_model="numpy")
def add_counts(indptr, indices, values, pair_indptr, pair_labels, shares, counts):
    """``counts[f, y] += value * shares[c, y]`` over all choices c with feature f, the transpose of `add_scores`."""
    n_labels, plain, packed = shares.shape[1], len(values) == 0, len(pair_indptr) > 0
    for c in range(len(indptr) - 1):
        own = shares[c]
        for e in range(indptr[c], indptr[c + 1]):
            f = indices[e]
            value = 1.0 if plain else values[e]
            start, width = f * n_labels, n_labels
            if packed:
                start, width = pair_indptr[f], pair_indptr[f + 1] - pair_indptr[f]
            first = np.uint64(start)
            if width == n_labels:
                for y in range(np.uint64(n_labels)):
                    counts[first + y] += value * own[y]
            else:
                for k in range(first, first + np.uint64(width)):
                    counts[k] += value * own[pair_labels[k]]
