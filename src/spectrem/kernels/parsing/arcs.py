"""Scores of arcs by hashed features, and the transposed sums over arcs, without a matrix of features.

A feature is a *part* of the head's context joined with one of the dependent's; a part is some atoms (numbers of forms
and tags) of words near by. Feature and weight are brought together by a hash: parts of heads and of dependents are
hashed once per word, and an arc adds the two, multiplies by an odd number and takes the upper bits, which say a row of
the table. A row has the 16 CELLS of one cache line in single precision: 0 for the feature as it is, 1 and 2 with the
direction of the arc (dependent on the right or on the left), 3 to 8 and 9 to 14 with the direction and the length in
six bins. An arc reads three cells of a row, so that the two conjunctions cost no further line; what takes time is the
line, some four nanoseconds where the table fits the second cache.

Parts of one word alone have rows, too. Their cells are added up once per word (``_sum_ends``), so that an arc reads one
number for all of them; ``add_counts`` goes the other way, from arcs to words to rows.

Words are numbered from 1 here, and 0 is the root, which stands before the first word; what lies beyond the sentence on
either side has atoms of its own by its distance. Arithmetic of hashes is modulo 2^32: every product is cast, since
Numba would widen it.
"""

import numpy as np

from spectrem._compiled import njit

CELLS = 16
_OUTSIDE = 3  # the farthest that a part looks beyond a sentence
_SPREAD = np.uint32(0x9E3779B1)
_STIR = np.uint32(0x85EBCA6B)


@njit(cache=True, nogil=True, error_model="numpy")
def _joined(a, b):
    """A hash of two numbers of 32 bits, not symmetric."""
    h = np.uint32(np.uint32(a * _SPREAD) + b)
    h = np.uint32(h ^ (h >> np.uint32(15)))
    h = np.uint32(h * _STIR)
    return np.uint32(h ^ (h >> np.uint32(13)))


@njit(cache=True, nogil=True, error_model="numpy")
def _first_cell(h, shift):
    """The place in the table of the row of a hash."""
    return np.int64(np.uint32(h * _SPREAD) >> shift) * CELLS


@njit(cache=True, nogil=True, error_model="numpy")
def _cell(distance):
    """The cell of an arc to the right of so many words."""
    if distance <= 3:
        return 2 + distance
    return 6 if distance <= 5 else 7 if distance <= 10 else 8


@njit(cache=True, nogil=True, error_model="numpy")
def _hash_parts(atoms, parts, hashes):
    """``hashes[q, k]``: part k of word q, for the root and all words; atoms of the sentence's words alone."""
    n = len(atoms)
    for q in range(n + 1):
        for k in range(len(parts)):
            h = np.uint32(k + 1)
            for j in range(parts.shape[1]):
                column, away = parts[k, j, 0], parts[k, j, 1]
                if column < 0:
                    break
                at = q + away - 1
                if 0 <= at < n:
                    h = _joined(h, atoms[at, column])
                else:
                    h = _joined(h, np.uint32(-at if at < 0 else _OUTSIDE + 1 + at - n))
            hashes[q, k] = h


@njit(cache=True, nogil=True, error_model="numpy")
def _hash_ends(hashes, pairs, between, heads, dependents, middles):
    """Hashes of every pair of parts, by head and by dependent; the last column is that of tags in between."""
    n_pairs = len(pairs)
    for q in range(len(hashes)):
        for t in range(n_pairs):
            heads[q, t] = _joined(np.uint32(256 + t), hashes[q, pairs[t, 0]])
            dependents[q, t] = _joined(np.uint32(1), hashes[q, pairs[t, 1]])
        heads[q, n_pairs] = _joined(np.uint32(256 + n_pairs), hashes[q, between])
        dependents[q, n_pairs] = _joined(np.uint32(2), hashes[q, between])
        middles[q] = _joined(np.uint32(3), hashes[q, between])


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_ends(hashes, single, side, shift, table, sums):
    """Per word and cell, the weights of all parts of the word alone; conjunctions contain what they refine."""
    for q in range(len(hashes)):
        sums[q] = 0.0
        for k in single:
            first = _first_cell(_joined(np.uint32(16 + side), hashes[q, k]), shift)
            for c in range(CELLS):
                sums[q, c] += table[first + c]
        for c in range(6):
            sums[q, 3 + c] += sums[q, 0] + sums[q, 1]
            sums[q, 9 + c] += sums[q, 0] + sums[q, 2]


@njit(cache=True, nogil=True, error_model="numpy")
def _see(tag, seen, n_seen):
    """Add a tag to those seen, unless it is there; returns their number."""
    for k in range(n_seen):
        if seen[k] == tag:
            return n_seen
    seen[n_seen] = tag
    return n_seen + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _scratch(lengths, n_parts, n_pairs):
    size = 1
    for n in lengths:
        size = max(size, n + 1)
    return (
        np.empty((size, n_parts), np.uint32),
        np.empty((size, n_pairs + 1), np.uint32),
        np.empty((size, n_pairs + 1), np.uint32),
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def score_arcs(lengths, atoms, parts, pairs, between, head_parts, dependent_parts, shift, table, scores):
    """Fill the scores of all arcs, of every sentence a block [dependent, head], arcs from the root on its diagonal.

    ``parts[k]`` lists (column of atoms, distance), ended by -1; ``pairs`` the parts of head and dependent;
    ``head_parts`` and ``dependent_parts`` the parts of one word alone; ``between`` the part that is collected from the
    words in between, each value once. The table has ``2 ** (32 - shift)`` rows.
    """
    n_pairs = len(pairs)
    hashes, heads, dependents, middles, seen = _scratch(lengths, len(parts), n_pairs)
    head_sums = np.empty((len(hashes), CELLS))
    dependent_sums = np.empty((len(hashes), CELLS))
    token, start = 0, 0
    for n in lengths:
        word_hashes = hashes[: n + 1]
        _hash_parts(atoms[token : token + n], parts, word_hashes)
        _hash_ends(word_hashes, pairs, between, heads, dependents, middles)
        _sum_ends(word_hashes, head_parts, np.int64(0), shift, table, head_sums)
        _sum_ends(word_hashes, dependent_parts, np.int64(1), shift, table, dependent_sums)
        block = scores[start : start + n * n].reshape((n, n))
        for q in range(n + 1):
            for step in (1, -1):
                n_seen, side = np.int64(0), 1 if step == 1 else 2
                d = q + step
                while 1 <= d <= n and not (q == 0 and step == -1):
                    if abs(d - q) > 1:
                        n_seen = _see(middles[d - step], seen, n_seen)
                    cell = _cell(abs(d - q)) + 6 * (side - 1)
                    total = head_sums[q, cell] + dependent_sums[d, cell]
                    for t in range(n_pairs):
                        first = _first_cell(np.uint32(heads[q, t] + dependents[d, t]), shift)
                        total += table[first] + table[first + side] + table[first + cell]
                    both = np.uint32(heads[q, n_pairs] + dependents[d, n_pairs])
                    for k in range(n_seen):
                        first = _first_cell(np.uint32(both + seen[k]), shift)
                        total += table[first] + table[first + side] + table[first + cell]
                    block[d - 1, d - 1 if q == 0 else q - 1] = total
                    d += step
        token += n
        start += n * n


@njit(cache=True, nogil=True, error_model="numpy")
def add_arcs(
    lengths, atoms, parts, pairs, between, head_parts, dependent_parts, shift, shares, least, rate, clock, table, later
):
    """``table += rate * features`` of all arcs times their shares, the transpose of `score_arcs`.

    Shares of a size of at most ``least`` are left out. Unless ``later`` is empty it gets ``clock`` times the same, from
    which the average of a table over a course of changes is made.
    """
    n_pairs = len(pairs)
    hashes, heads, dependents, middles, seen = _scratch(lengths, len(parts), n_pairs)
    head_sums = np.zeros((len(hashes), CELLS))
    dependent_sums = np.zeros((len(hashes), CELLS))
    averages = len(later) > 0
    token, start = 0, 0
    for n in lengths:
        word_hashes = hashes[: n + 1]
        _hash_parts(atoms[token : token + n], parts, word_hashes)
        _hash_ends(word_hashes, pairs, between, heads, dependents, middles)
        head_sums[: n + 1] = 0.0
        dependent_sums[: n + 1] = 0.0
        block = shares[start : start + n * n].reshape((n, n))
        for q in range(n + 1):
            for step in (1, -1):
                n_seen, side = np.int64(0), 1 if step == 1 else 2
                d = q + step
                while 1 <= d <= n and not (q == 0 and step == -1):
                    if abs(d - q) > 1:
                        n_seen = _see(middles[d - step], seen, n_seen)
                    share = block[d - 1, d - 1 if q == 0 else q - 1]
                    if abs(share) > least:
                        cell = _cell(abs(d - q)) + 6 * (side - 1)
                        both = np.uint32(heads[q, n_pairs] + dependents[d, n_pairs])
                        for sums, word in ((head_sums, q), (dependent_sums, d)):
                            sums[word, 0] += share
                            sums[word, side] += share
                            sums[word, cell] += share
                        for t in range(n_pairs + n_seen):
                            if t < n_pairs:
                                first = _first_cell(np.uint32(heads[q, t] + dependents[d, t]), shift)
                            else:
                                first = _first_cell(np.uint32(both + seen[t - n_pairs]), shift)
                            change = rate * share
                            table[first] += change
                            table[first + side] += change
                            table[first + cell] += change
                            if averages:
                                later[first] += clock * change
                                later[first + side] += clock * change
                                later[first + cell] += clock * change
                    d += step
        for side in range(2):
            single, sums = (head_parts, head_sums) if side == 0 else (dependent_parts, dependent_sums)
            for q in range(n + 1):
                for k in single:
                    first = _first_cell(_joined(np.uint32(16 + side), word_hashes[q, k]), shift)
                    for c in range(CELLS):
                        change = rate * sums[q, c]
                        table[first + c] += change
                        if averages:
                            later[first + c] += clock * change
        token += n
        start += n * n
