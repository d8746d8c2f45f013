"""Inside and outside passes of projective trees, one sentence at a time, of any length and with scores of any size.

The words of a sentence stand in a row, and every subtree spans an interval [Eisner1996]. Two tables, both indexed
[head, other end], hold sums over partial trees: ``complete[h, e]`` of the words from h to e, all of which descend from
h; ``incomplete[h, d]`` of the words from h to d, where d is a dependent of h and has no dependents beyond itself yet.
An incomplete span joins a complete span of each end, where the two meet, with an arc; a complete span joins the
incomplete span of the outermost dependent with the complete span of what hangs on its far side. The root stands before
the first word, and ``prefix[e]`` sums over the first e words with all their roots; ``rooted[d]`` is a prefix whose last
root is d, without what hangs on the right of d.

Sums run upwards in the numbers of ``_wide``, along rows; complete spans have a second table for this, ``by_end``.
Probabilities run downwards: every span divides its own among the ways to make it, so that what comes out are
probabilities whatever was rounded. Where ``hard`` is true, all sums are largest sums of scores.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._lanes import longest_of
from spectrem._wide import MARGIN, entry, fill_row, nats, put, share, sum_products, times, unit_of
from spectrem.kernels.trees.eisner_max import trace

# Spans are filled in squares of so many starts and ends, whose rows stay in the second-level cache.
TILE = 16


@njit(cache=True, nogil=True, error_model="numpy")
def empty_tables(n):
    """Tables for sentences of up to n words: arcs, complete, by_end, incomplete, prefix, rooted."""
    spans = (2, n, n + MARGIN)
    rows = (np.zeros((2, 1, n + 1 + MARGIN)), np.zeros((2, 1, n + MARGIN)))
    return np.zeros((2, n, n)), np.zeros(spans), np.zeros(spans), np.zeros(spans), *rows


@njit(cache=True, nogil=True, error_model="numpy")
def inside_root(n, hard, single_root, arcs, per_arc, complete, by_end, beyond, prefix, rooted):
    """With a single root the only prefix that another root may follow is the empty one.

    An arc has ``per_arc`` columns of a row of ``arcs``; the spans that end with word d are row ``d + beyond`` of
    ``by_end``.
    """
    columns = complete.shape[2]
    prefix[0], prefix[1] = 1.0, -np.inf
    prefix[1, 0, 0] = 0.0
    for d in range(n):
        before = sum_products(hard, prefix, 0, complete, d * columns, d + 1)
        put(rooted, 0, d, times(before, arcs, d, per_arc * d))
        if not single_root or d == n - 1:
            put(prefix, 0, d + 1, sum_products(hard, rooted, 0, by_end, (d + beyond) * columns, d + 1))


@njit(cache=True, nogil=True, error_model="numpy")
def inside(n, scores, unit, hard, single_root, arcs, complete, by_end, incomplete, prefix, rooted):
    """Fill the tables of one sentence from scores / unit, indexed [dependent, head]; on the diagonal stands the root.

    Returns the sum of the largest scores of all words, which the tables leave out; 0 if hard.
    """
    columns, tops = complete.shape[2], 0.0
    for d in range(n):
        tops += fill_row(scores[d], unit, hard, arcs[0, d], arcs[1, d])
        put(complete, d, d, (1.0, 0.0))
        put(by_end, d, d, (1.0, 0.0))
    for last in range(0, n, TILE):
        for first in range(last, -1, -TILE):
            for j in range(last, min(last + TILE, n)):
                for i in range(min(first + TILE, j) - 1, first - 1, -1):
                    ii, ji, width = i * (columns + 1), j * columns + i, j - i
                    joint = sum_products(hard, complete, ii, complete, ji + 1, width)
                    put(incomplete, i, j, times(joint, arcs, j, i))
                    put(incomplete, j, i, times(joint, arcs, i, j))
                    right = sum_products(hard, incomplete, ii + 1, by_end, ji + 1, width)
                    put(complete, i, j, right)
                    put(by_end, j, i, right)
                    left = sum_products(hard, incomplete, ji, by_end, ii, width)
                    put(complete, j, i, left)
                    put(by_end, i, j, left)
    inside_root(n, hard, single_root, arcs, 1, complete, by_end, 0, prefix, rooted)
    return tops


@njit(cache=True, nogil=True, error_model="numpy")
def outside_root(n, complete, by_end, beyond, prefix, rooted, terms, mass, mass_by_end, p_prefix, p_rooted):
    """Divide the probability of the whole among roots, and theirs among complete spans."""
    columns = complete.shape[2]
    p_prefix[:], p_rooted[:] = 0.0, 0.0
    p_prefix[n] = 1.0
    for d in range(n - 1, -1, -1):
        row, end = d * columns, (d + beyond) * columns
        share(p_prefix[d + 1], rooted, 0, by_end, end, d + 1, terms, p_rooted, 0, mass_by_end, end)
        share(p_rooted[d], prefix, 0, complete, row, d + 1, terms, p_prefix, 0, mass, row)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(n, complete, by_end, incomplete, terms, mass, mass_by_end, p_arcs):
    """Divide probabilities of complete spans among arcs, which are those of incomplete spans, the widest first."""
    columns = complete.shape[2]
    for last in range((n - 1) // TILE * TILE, -1, -TILE):
        for first in range(0, last + 1, TILE):
            for j in range(min(last + TILE, n) - 1, last - 1, -1):
                for i in range(first, min(first + TILE, j)):
                    ii, ji, width = i * (columns + 1), j * columns + i, j - i
                    right, left = mass[i, j] + mass_by_end[j, i], mass[j, i] + mass_by_end[i, j]
                    share(right, incomplete, ii + 1, by_end, ji + 1, width, terms, p_arcs, ii + 1, mass_by_end, ji + 1)
                    share(left, incomplete, ji, by_end, ii, width, terms, p_arcs, ji, mass_by_end, ii)
                    both = p_arcs[i, j] + p_arcs[j, i]
                    share(both, complete, ii, complete, ji + 1, width, terms, mass, ii, mass, ji + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, lengths, offsets, scores, gamma, single_root, values, marginals):
    """Smoothed max and marginals of the sentences in ``order``, none of them empty.

    Sentence m has the scores ``scores[offsets[m]:offsets[m + 1]]``; ``marginals`` of impossible ones stay.
    """
    longest = longest_of(order, lengths)
    tables, columns = empty_tables(longest), longest + MARGIN
    _, complete, by_end, incomplete, prefix, rooted = tables
    mass, mass_by_end, p_arcs = np.empty((longest, columns)), np.empty((longest, columns)), np.empty((longest, columns))
    p_prefix, p_rooted, terms = np.empty(columns + 1), np.empty(columns), np.empty(columns)
    for m in order:
        n = lengths[m]
        own = scores[offsets[m] : offsets[m + 1]].reshape(n, n)
        unit = unit_of(own, gamma)
        tops = inside(n, own, unit, False, single_root, *tables)
        values[m] = nats(entry(prefix, 0, n), unit, tops)
        if values[m] == -np.inf:
            continue
        mass[:n], mass_by_end[:n], p_arcs[:n] = 0.0, 0.0, 0.0
        outside_root(n, complete, by_end, 0, prefix, rooted, terms, mass, mass_by_end, p_prefix, p_rooted)
        _outside(n, complete, by_end, incomplete, terms, mass, mass_by_end, p_arcs)
        found = marginals[offsets[m] : offsets[m + 1]].reshape(n, n)
        for d in range(n):
            for h in range(n):
                found[d, h] = min(p_arcs[h, d], 1.0)
            found[d, d] = min(p_rooted[d], 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(order, lengths, offsets, token_offsets, scores, single_root, values, heads):
    """Score and heads of the best trees of the sentences in ``order``, as in ``eisner_max``, to the last bit."""
    longest = longest_of(order, lengths)
    tables, stack = empty_tables(longest), np.empty((2 * longest + 2, 2), np.int64)
    _, complete, _, incomplete, prefix, rooted = tables
    for m in order:
        n, first = lengths[m], token_offsets[m]
        arcs = scores[offsets[m] : offsets[m + 1]].reshape(n, n)
        inside(n, arcs, 1.0, True, single_root, *tables)
        values[m] = prefix[1, 0, n]
        if values[m] > -np.inf:
            sums = (complete[1], incomplete[1], prefix[1, 0], rooted[1, 0])
            trace(n, arcs, *sums, stack, heads[first : first + n])
