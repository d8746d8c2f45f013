"""Sums over sparse features of choices where every feature has a weight for every label: rows of one table.

Choice c has the features ``indices[indptr[c]:indptr[c + 1]]``, with these ``values``, or 1 each where there are none.
"""

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def add_scores(indptr, indices, values, table, scores):
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
def add_counts(indptr, indices, values, shares, table):
    """``table[f] += value * shares[c]`` over all choices c with feature f, the transpose of `add_scores`."""
    n_labels, plain = shares.shape[1], len(values) == 0
    for c in range(len(indptr) - 1):
        for e in range(indptr[c], indptr[c + 1]):
            f = indices[e]
            value = 1.0 if plain else values[e]
            for y in range(n_labels):
                table[f, y] += value * shares[c, y]
