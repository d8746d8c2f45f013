"""Sums over sparse features of choices, and products of remembered steps with vectors.

Choice c has the features ``indices[indptr[c]:indptr[c + 1]]``, with these ``values``, or 1 each where there are none.
Either every feature has a weight for every label, and weights are a table, or feature f has one for each of the labels
``pair_labels[pair_indptr[f]:pair_indptr[f + 1]]``, which increase. Indices of inner loops are unsigned, since tests for
negative ones would keep them from being vectorised.

The first features, those below ``len(wide)``, may also be given as rows of a table with a place for every label: what
they have in ``wide`` stands in for what they have in the flat array. Rows have a multiple of LANES places, so that the
compiler makes vector instructions of them; this is quicker than single pairs from about six labels on.

Remembered steps are rows in single precision, whose products are summed in double precision. They come in pairs, and
are read once for two products. A block of the vectors stays in the processor's cache while all rows are gone through.
"""

import numpy as np

from spectrem._compiled import njit

LANES = 8
_BLOCK = np.uint64(2048)
_ONE = np.uint64(1)


@njit(cache=True, nogil=True, error_model="numpy")
def add_table_scores(indptr, indices, values, table, scores):
    """``scores[c] += sum over features f of c of value * table[f]``; scores of shape (n_choices, n_labels)."""
    n_labels, plain = scores.shape[1], len(values) == 0
    for c in range(len(indptr) - 1):
        if n_labels == 1:  # the sum stays in a register
            total = 0.0
            for e in range(indptr[c], indptr[c + 1]):
                total += table[indices[e], 0] * (1.0 if plain else values[e])
            scores[c, 0] += total
            continue
        for e in range(indptr[c], indptr[c + 1]):
            f = indices[e]
            value = 1.0 if plain else values[e]
            for y in range(n_labels):
                scores[c, y] += value * table[f, y]


@njit(cache=True, nogil=True, error_model="numpy")
def add_table_counts(indptr, indices, values, shares, table):
    """``table[f] += value * shares[c]`` over all choices c with feature f, the transpose of `add_table_scores`."""
    n_labels, plain = shares.shape[1], len(values) == 0
    for c in range(len(indptr) - 1):
        for e in range(indptr[c], indptr[c + 1]):
            f = indices[e]
            value = 1.0 if plain else values[e]
            for y in range(n_labels):
                table[f, y] += value * shares[c, y]


@njit(cache=True, nogil=True, error_model="numpy")
def add_scores(indptr, indices, values, pair_indptr, pair_labels, weights, wide, scores):
    """``scores[c, y] += sum over features f of c of value * weight[f, y]``; scores of shape (n_choices, n_labels)."""
    n_labels, plain = scores.shape[1], len(values) == 0
    n_wide, n_places = wide.shape
    padded = np.empty(max(n_places, n_labels))
    for c in range(len(indptr) - 1):
        padded[n_labels:] = 0.0
        out = padded if n_wide else scores[c]
        if n_wide:
            for y in range(n_labels):
                padded[y] = scores[c, y]
        for e in range(indptr[c], indptr[c + 1]):
            f = indices[e]
            value = 1.0 if plain else values[e]
            if f < n_wide:
                row = wide[f]
                for b in range(0, n_places, LANES):
                    for k in range(LANES):
                        out[b + k] += value * row[b + k]
                continue
            first, width = np.uint64(pair_indptr[f]), pair_indptr[f + 1] - pair_indptr[f]
            if width == n_labels:
                for y in range(np.uint64(n_labels)):
                    out[y] += value * weights[first + y]
            else:
                for k in range(first, first + np.uint64(width)):
                    out[pair_labels[k]] += value * weights[k]
        if n_wide:
            for y in range(n_labels):
                scores[c, y] = padded[y]


@njit(cache=True, nogil=True, error_model="numpy")
def add_counts(indptr, indices, values, pair_indptr, pair_labels, shares, wide, counts):
    """``counts[f, y] += value * shares[c, y]`` over all choices c with feature f, the transpose of `add_scores`."""
    n_labels, plain = shares.shape[1], len(values) == 0
    n_wide, n_places = wide.shape
    padded = np.zeros(max(n_places, n_labels))
    for c in range(len(indptr) - 1):
        of_choice = padded if n_wide else shares[c]
        if n_wide:
            for y in range(n_labels):
                padded[y] = shares[c, y]
        for e in range(indptr[c], indptr[c + 1]):
            f = indices[e]
            value = 1.0 if plain else values[e]
            if f < n_wide:
                row = wide[f]
                for b in range(0, n_places, LANES):
                    for k in range(LANES):
                        row[b + k] += value * of_choice[b + k]
                continue
            first, width = np.uint64(pair_indptr[f]), pair_indptr[f + 1] - pair_indptr[f]
            if width == n_labels:
                for y in range(np.uint64(n_labels)):
                    counts[first + y] += value * of_choice[y]
            else:
                for k in range(first, first + np.uint64(width)):
                    counts[k] += value * of_choice[pair_labels[k]]


@njit(cache=True, nogil=True, error_model="numpy")
def mark(indptr, indices, offsets, labels, label, seen):
    """Set ``seen`` at the features of all choices that may have a label."""
    for c in range(len(indptr) - 1):
        for k in range(offsets[c], offsets[c + 1]):
            if labels[k] == label:
                for e in range(indptr[c], indptr[c + 1]):
                    seen[indices[e]] = True


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
