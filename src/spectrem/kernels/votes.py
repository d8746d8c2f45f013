"""Votes of sources on items: scores of classes, and posteriors with expected counts.

Item n has the next ``sizes[n]`` of the ``cells``; a cell is a source and what it said. Logarithms come as whole
numbers of 2**-BITS nats and expected counts leave as whole numbers of ``1 / scale``. Sums of whole numbers are exact,
so that neither the order of items nor that of votes, nor how items are cut into shards, changes a bit.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import exponentials
from spectrem._vectors import LANES, add_whole, largest, load, of_whole, spread, store, to_whole
from spectrem._vectors import total as sum_of_lanes

BITS = 40
"""Logarithms are rounded to 2**-40 nats: 4,000 votes of 745 nats, the most that a probability can cost, fit in 63 bits.
"""
UNIT = 2.0**-BITS
IMPOSSIBLE = -(1 << 62)
"""The logarithm of 0, which is never added."""
COUNTS_AT_ONCE = 1 << 19
"""Counts of pairs of sources that are held at a time, 4 MiB."""
MOST_ROUNDED = 2.0**51
"""Vectors of numbers below it are rounded at once."""


@njit(cache=True, nogil=True, error_model="numpy")
def _add_up(cells, strengths, first, last, table, total):
    """Add the rows of an item's votes to ``total``, which stays `IMPOSSIBLE` where it or a vote is."""
    for v in range(first, last):
        row = table[cells[v]]
        if len(strengths):
            for k in range(len(total)):
                if total[k] > IMPOSSIBLE and row[k] > IMPOSSIBLE:
                    total[k] += np.int64(np.rint(strengths[v] * row[k]))
                elif strengths[v] > 0.0:
                    total[k] = IMPOSSIBLE
        else:
            for k in range(len(total)):  # selects instead of branches, so that classes go side by side
                total[k] = total[k] + row[k] if total[k] > IMPOSSIBLE and row[k] > IMPOSSIBLE else IMPOSSIBLE


@njit(cache=True, nogil=True, error_model="numpy")
def score(sizes, cells, strengths, table, shares, group, out):
    """Log joint probabilities, nats, of classes and votes of every item, shape (n_items, n_classes).

    ``table`` has a row for every cell, ``shares`` one for every group of items. A vote counts by its strength, all by 1
    where there are no ``strengths``.
    """
    total, last = np.empty(table.shape[1], np.int64), np.int64(0)
    for n in range(len(sizes)):
        first, last = last, last + np.int64(sizes[n])
        total[:] = shares[group[n] if len(group) else 0]
        _add_up(cells, strengths, first, last, table, total)
        for k in range(len(total)):
            out[n, k] = total[k] * UNIT if total[k] > IMPOSSIBLE else -np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _count(cells, strengths, first, last, whole, counts):
    """Add an item's expected classes, in whole numbers, to the counts of the cells of its votes."""
    for v in range(first, last):
        row = counts[cells[v]]
        if len(strengths):
            for k in range(len(whole)):
                row[k] += np.int64(np.rint(strengths[v] * whole[k]))
        else:
            for k in range(len(whole)):
                row[k] += whole[k]


@njit(cache=True, nogil=True, error_model="numpy")
def gather(sizes, cells, strengths, group, posteriors, scale, counts, groups):
    """Expected counts of cells by class, and of classes by group, from posteriors times weights of items."""
    whole, last = np.empty(posteriors.shape[1], np.int64), np.int64(0)
    for n in range(len(sizes)):
        first, last = last, last + np.int64(sizes[n])
        for k in range(len(whole)):
            whole[k] = np.int64(np.rint(posteriors[n, k] * scale))
        _count(cells, strengths, first, last, whole, counts)
        row = groups[group[n] if len(group) else 0]
        for k in range(len(whole)):
            row[k] += whole[k]


@njit(cache=True, nogil=True, error_model="numpy")
def expect(
    sizes, cells, strengths, table, shares, group, evidence, weights, gamma, scale, unit_of_value, counts, groups
):
    """The E-step of items in one pass: expected counts, as `gather` adds them, and the weighted sum of their values.

    Returns
    -------
    value : int
        Nats times ``unit_of_value``.
    impossible : int
        The first item that has no possible class, or -1.
    """
    n_classes = table.shape[1]
    width = (n_classes + LANES - 1) // LANES * LANES
    # Rows of whole vectors: lanes beyond the classes are impossible and count 0.
    rows, priors = np.zeros((len(table), width), np.int64), np.full((len(shares), width), -np.inf)
    rows[:, :n_classes] = table
    for g in range(len(shares)):
        for k in range(n_classes):
            priors[g, k] = shares[g, k] * UNIT if shares[g, k] > IMPOSSIBLE else -np.inf
    is_sum = len(strengths) == 0  # of whole numbers, and no more
    for cell in range(len(table)):
        for k in range(n_classes):
            is_sum &= table[cell, k] > IMPOSSIBLE
    logs, first_logs, per_gamma = rows.ravel(), priors.ravel(), min(1.0 / gamma, 1e300)
    added, added_groups = np.zeros(len(table) * width, np.int64), np.zeros(len(shares) * width, np.int64)
    total, whole, q = np.empty(n_classes, np.int64), np.zeros(width, np.int64), np.empty(width)
    value, last = np.int64(0), np.int64(0)
    for n in range(len(sizes)):
        at, first, last = group[n] if len(group) else 0, last, last + np.int64(sizes[n])
        if is_sum:
            for c in range(0, width, LANES):
                vector = spread(0.0)  # its bits are those of the integer 0
                for v in range(first, last):
                    vector = add_whole(vector, load(logs, cells[v] * width + c))
                store(q, c, of_whole(vector) * spread(UNIT) + load(first_logs, at * width + c))
        else:
            total[:] = 0
            _add_up(cells, strengths, first, last, table, total)
            for k in range(n_classes):
                q[k] = total[k] * UNIT + priors[at, k] if total[k] > IMPOSSIBLE else -np.inf
            q[n_classes:] = -np.inf
        if len(evidence):
            for k in range(n_classes):
                q[k] += evidence[n, k]
        top = -np.inf
        for c in range(0, width, LANES):
            top = max(top, largest(load(q, c)))
        if top == -np.inf:
            return value, n
        share = weights[n] * scale
        if gamma > 0.0:
            norm = 0.0
            for c in range(0, width, LANES):
                vector = exponentials((load(q, c) - spread(top)) * spread(per_gamma))
                norm += sum_of_lanes(vector)
                store(q, c, vector)
            top += gamma * math.log(norm)
            for c in range(0, width, LANES):
                store(whole, c, to_whole(load(q, c) * spread(share / norm)))
            if share >= MOST_ROUNDED:
                for k in range(n_classes):
                    whole[k] = np.int64(np.rint(q[k] / norm * share))
        else:
            whole[:] = 0
            whole[np.argmax(q)] = np.int64(np.rint(share))
        value += np.int64(np.rint(top * weights[n] * unit_of_value))
        if len(strengths):
            _count(cells, strengths, first, last, whole[:n_classes], counts)
        else:
            for c in range(0, width, LANES):
                vector = load(whole, c)
                for v in range(first, last):
                    place = cells[v] * width + c
                    store(added, place, add_whole(load(added, place), vector))
        for c in range(0, width, LANES):
            place = at * width + c
            store(added_groups, place, add_whole(load(added_groups, place), load(whole, c)))
    counts += added.reshape(len(table), width)[:, :n_classes]
    groups += added_groups.reshape(len(shares), width)[:, :n_classes]
    return value, -1


@njit(cache=True, nogil=True, error_model="numpy")
def agree(sizes, cells, n_sources, posteriors, weights, scale, first, second, numbers):
    """How often two sources agree, and would if they voted independently in every class, as they do on these items.

    Parameters
    ----------
    sizes, cells
        Votes of items, as above.
    n_sources : int
    posteriors, weights
        Classes of every item, and how much it counts.
    scale : float
        What weights are multiplied by and rounded, so that their sums are whole numbers below 2**53, which are exact.
    first, second, numbers
        Room for the pairs that vote on an item together, the smaller number first, in increasing order; and, for
        each, for agreements, expected ones, and items, by weight times scale.

    Returns
    -------
    int
        The number of pairs.
    """
    k = posteriors.shape[1]
    # Items are gone through for some sources at a time, whose counts beside all others stay in the cache.
    n_rows = max(1, min(n_sources, COUNTS_AT_ONCE // max(n_sources * 2 * k * k, 1)))
    agreements = np.empty((n_rows, n_sources))
    counts = np.empty((n_rows, n_sources, 2, k, k))  # votes of the two by class, where both vote
    most = np.int64(0)
    for n in range(len(sizes)):
        most = max(most, np.int64(sizes[n]))
    source, label, whole, n_pairs = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(k), 0
    for start in range(0, n_sources, n_rows):
        agreements[:], counts[:], last = 0.0, 0.0, np.int64(0)
        for n in range(len(sizes)):
            size, last = np.int64(sizes[n]), last + np.int64(sizes[n])
            for v in range(size):
                cell = np.int64(cells[last - size + v])
                source[v] = cell // k
                label[v] = cell - source[v] * k
            weight = np.rint(weights[n] * scale)
            for y in range(k):
                whole[y] = np.rint(posteriors[n, y] * weights[n] * scale)
            for v in range(size):
                row = source[v] - start
                if row < 0 or row >= n_rows:
                    continue
                for w in range(size):
                    if source[w] > source[v]:
                        t = source[w]
                        if label[v] == label[w]:
                            agreements[row, t] += weight
                        here, there = counts[row, t, 0, label[v]], counts[row, t, 1, label[w]]
                        for y in range(k):
                            here[y] += whole[y]
                            there[y] += whole[y]
        for row in range(min(n_rows, n_sources - start)):
            for t in range(start + row + 1, n_sources):
                expected, total = 0.0, 0.0
                for y in range(k):
                    size_of_class, product = 0.0, 0.0
                    for vote in range(k):
                        size_of_class += counts[row, t, 0, vote, y]
                        product += counts[row, t, 0, vote, y] * counts[row, t, 1, vote, y]
                    if size_of_class > 0.0:
                        expected += product / size_of_class
                    total += size_of_class
                if total > 0.0:
                    first[n_pairs], second[n_pairs] = start + row, t
                    numbers[n_pairs, 0], numbers[n_pairs, 1], numbers[n_pairs, 2] = agreements[row, t], expected, total
                    n_pairs += 1
    return n_pairs
