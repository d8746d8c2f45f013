"""Votes of sources on items: scores of classes, and posteriors with expected counts.

Item n has the votes ``cells[offsets[n]:offsets[n + 1]]``; a cell is a source and what it said. Logarithms come as whole
numbers of 2**-BITS nats and expected counts leave as whole numbers of ``1 / scale``. Sums of whole numbers are exact,
so that neither the order of items nor that of votes, nor how items are cut into shards, changes a bit.
"""

import math

import numpy as np

from spectrem._compiled import njit

BITS = 40
"""Logarithms are rounded to 2**-40 nats: 4,000 votes of 745 nats, the most that a probability can cost, fit in 63 bits.
"""
UNIT = 2.0**-BITS
IMPOSSIBLE = -(1 << 62)
"""The logarithm of 0, which is never added."""


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
def score(offsets, cells, strengths, table, shares, group, out):
    """Log joint probabilities, nats, of classes and votes of every item, shape (n_items, n_classes).

    ``table`` has a row for every cell, ``shares`` one for every group of items. A vote counts by its strength, all by 1
    where there are no ``strengths``.
    """
    total = np.empty(table.shape[1], np.int64)
    for n in range(len(offsets) - 1):
        total[:] = shares[group[n] if len(group) else 0]
        _add_up(cells, strengths, offsets[n], offsets[n + 1], table, total)
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
def gather(offsets, cells, strengths, group, posteriors, scale, counts, sizes):
    """Expected counts of cells by class, and of classes by group, from posteriors times weights of items."""
    whole = np.empty(posteriors.shape[1], np.int64)
    for n in range(len(offsets) - 1):
        for k in range(len(whole)):
            whole[k] = np.int64(np.rint(posteriors[n, k] * scale))
        _count(cells, strengths, offsets[n], offsets[n + 1], whole, counts)
        row = sizes[group[n] if len(group) else 0]
        for k in range(len(whole)):
            row[k] += whole[k]


@njit(cache=True, nogil=True, error_model="numpy")
def expect(
    offsets, cells, strengths, table, shares, group, evidence, weights, gamma, scale, unit_of_value, counts, sizes
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
    total, whole = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    q = np.empty(n_classes)
    value = np.int64(0)
    for n in range(len(offsets) - 1):
        at = group[n] if len(group) else 0
        total[:] = shares[at]
        _add_up(cells, strengths, offsets[n], offsets[n + 1], table, total)
        top, best = -np.inf, 0
        for k in range(n_classes):
            q[k] = total[k] * UNIT if total[k] > IMPOSSIBLE else -np.inf
            if len(evidence):
                q[k] += evidence[n, k]
            if q[k] > top:
                top, best = q[k], k
        if top == -np.inf:
            return value, n
        if gamma > 0.0:
            norm = 0.0
            for k in range(n_classes):
                q[k] = math.exp((q[k] - top) / gamma)
                norm += q[k]
            top += gamma * math.log(norm)
            for k in range(n_classes):
                whole[k] = np.int64(np.rint(q[k] / norm * weights[n] * scale))
        else:
            whole[:] = 0
            whole[best] = np.int64(np.rint(weights[n] * scale))
        value += np.int64(np.rint(top * weights[n] * unit_of_value))
        _count(cells, strengths, offsets[n], offsets[n + 1], whole, counts)
        row = sizes[at]
        for k in range(n_classes):
            row[k] += whole[k]
    return value, -1


@njit(cache=True, nogil=True, error_model="numpy")
def agree(offsets, source, label, item, by_source, ends, classes, weights, first, second, numbers):
    """How often two sources agree, and would if they voted independently in every class, as they do on these items.

    Parameters
    ----------
    offsets, source, label, item
        Where the votes of an item begin; of every vote its source, what it said, and its item.
    by_source, ends
        Numbers of votes, source after source, and where those of a source begin.
    classes, weights
        Of every item, whole numbers below 2**53 even in sum, so that sums are exact: its expected classes, and its
        weight.
    first, second, numbers
        Room for the pairs that vote on an item together, the smaller number first, in increasing order; and, for
        each, for agreements, expected ones, and items, by weight.

    Returns
    -------
    int
        The number of pairs.
    """
    n_sources, n_classes = len(ends) - 1, classes.shape[1]
    agreements, seen = np.zeros(n_sources), np.zeros(n_sources, np.bool_)
    counts = np.zeros((n_sources, 2, n_classes, n_classes))  # of the other source: its votes or those of this one
    others = np.empty(n_sources, np.int64)
    n_pairs = 0
    for s in range(n_sources):
        n_others = 0
        for i in range(ends[s], ends[s + 1]):
            v = by_source[i]
            n = item[v]
            for w in range(offsets[n], offsets[n + 1]):
                t = source[w]
                if t <= s:
                    continue
                if not seen[t]:
                    seen[t] = True
                    others[n_others] = t
                    n_others += 1
                if label[v] == label[w]:
                    agreements[t] += weights[n]
                here, there = counts[t, 0, label[v]], counts[t, 1, label[w]]
                for k in range(n_classes):
                    here[k] += classes[n, k]
                    there[k] += classes[n, k]
        for t in np.sort(others[:n_others]):
            expected, total = 0.0, 0.0
            for k in range(n_classes):
                size, product = 0.0, 0.0
                for vote in range(n_classes):
                    size += counts[t, 0, vote, k]
                    product += counts[t, 0, vote, k] * counts[t, 1, vote, k]
                if size > 0.0:
                    expected += product / size
                total += size
            first[n_pairs], second[n_pairs] = s, t
            numbers[n_pairs, 0], numbers[n_pairs, 1], numbers[n_pairs, 2] = agreements[t], expected, total
            n_pairs += 1
            seen[t], agreements[t] = False, 0.0
            counts[t] = 0.0
    return n_pairs
