"""Inside, outside and Viterbi passes of projective trees whose heads take children one by one, from the inside out.

One sentence at a time, of any length and with scores of any size; ``valence_lanes`` and ``valence_max`` do the same
with many at once. Every head is split into its left and its right half [Eisner1996]. A half that reaches no further
than its head has no child yet, so that the first child of a side is told from later ones, and stopping without a child
from stopping with one, by the width of spans alone: the passes take O(n^3) steps, as those of trees without valence.

Parts of a sentence of n words, from ``offsets[m]`` on: arcs [dependent, head, 0: first child of its head on that side,
1: later], row-major, the entry [d, d, 0] being the arc from the root; behind them stops [head, 0: left / 1: right,
0: without / 1: with a child]. Entries [d, d, 1] belong to no tree.

A half of a head is named by the place where it ends, and places stand between words: place b lies before word b.
``opened[h, b]`` is the half of h that ends at b, to the left of h where b <= h and to its right where b > h, before it
stops; ``closed[h, b]`` the same half after it has stopped, and ``by_end[b, h]`` its copy. Both halves of a word without
children thus have entries, b = h and b = h + 1. ``linked[h, d]`` are the words from h to d under an arc from h to d, of
which ``later[h, d]`` is the sum where d is a later child. ``prefix`` and ``rooted`` are those of ``eisner_wide``, as is
all else.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._lanes import longest_of
from spectrem._wide import MARGIN, add, divide, entry, fill_row, nats, put, share, sum_products, times, unit_of
from spectrem.kernels.trees.eisner_wide import TILE, inside_root, outside_root
from spectrem.kernels.trees.valence_max import trace


@njit(cache=True, nogil=True, error_model="numpy")
def _empty_tables(n):
    """Tables for sentences of up to n words: arcs, stops, opened, closed, by_end, linked, later, prefix, rooted."""
    spans = (2, n + 1, n + 1 + MARGIN)
    chart = (np.zeros(spans), np.zeros(spans), np.zeros(spans), np.zeros(spans), np.zeros(spans))
    rows = (np.zeros((2, 1, n + 1 + MARGIN)), np.zeros((2, 1, n + 1 + MARGIN)))
    return np.zeros((2, n, 2 * n)), np.zeros((2, n, 4)), *chart, *rows


@njit(cache=True, nogil=True, error_model="numpy")
def _put_half(opened, closed, by_end, head, place, number, stops, stop):
    """A half before it stops and, in both tables, after."""
    put(opened, head, place, number)
    put(closed, head, place, times(number, stops, head, stop))
    put(by_end, place, head, entry(closed, head, place))


@njit(cache=True, nogil=True, error_model="numpy")
def _inside(n, parts, unit, hard, single_root, arcs, stops, opened, closed, by_end, linked, later, prefix, rooted):
    """Fill the tables of one sentence from scores / unit.

    Returns the sum of the largest scores of all words and halves, which the tables leave out; 0 if hard.
    """
    columns, tops = opened.shape[2], 0.0
    for h in range(n):
        tops += fill_row(parts[2 * n * h : 2 * n * (h + 1)], unit, hard, arcs[0, h], arcs[1, h])
        for side in range(2):
            own = parts[2 * n * n + 4 * h + 2 * side : 2 * n * n + 4 * h + 2 * side + 2]
            tops += fill_row(own, unit, hard, stops[0, h, 2 * side :], stops[1, h, 2 * side :])
            _put_half(opened, closed, by_end, h, h + side, (1.0, 0.0), stops, 2 * side)
    for last in range(0, n, TILE):
        for first in range(last, -1, -TILE):
            for j in range(last, min(last + TILE, n)):
                for i in range(min(first + TILE, j) - 1, first - 1, -1):
                    at_i, at_j, width = i * columns + i, j * columns + i, j - i
                    joint = sum_products(hard, opened, at_i + 2, closed, at_j + 2, width - 1)
                    put(later, i, j, times(joint, arcs, j, 2 * i + 1))
                    only = times(entry(closed, j, i + 1), arcs, j, 2 * i)
                    put(linked, i, j, add(hard, only, entry(later, i, j)))
                    joint = sum_products(hard, closed, at_i + 1, opened, at_j + 1, width - 1)
                    put(later, j, i, times(joint, arcs, i, 2 * j + 1))
                    only = times(entry(closed, i, j), arcs, i, 2 * j)
                    put(linked, j, i, add(hard, only, entry(later, j, i)))
                    right = sum_products(hard, linked, at_i + 1, by_end, at_j + columns + 1, width)
                    _put_half(opened, closed, by_end, i, j + 1, right, stops, 3)
                    left = sum_products(hard, linked, at_j, by_end, at_i, width)
                    _put_half(opened, closed, by_end, j, i, left, stops, 1)
    inside_root(n, hard, single_root, arcs, 2, closed, by_end, 1, prefix, rooted)
    return tops


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(n, arcs, opened, closed, by_end, linked, later, terms, m_opened, m_closed, m_by_end, m_linked, found):
    """Divide probabilities of closed halves among arcs and stops, those of the widest halves first."""
    columns, stops = opened.shape[2], found[2 * n * n :]
    for last in range((n - 1) // TILE * TILE, -1, -TILE):
        for first in range(0, last + 1, TILE):
            for j in range(min(last + TILE, n) - 1, last - 1, -1):
                for i in range(first, min(first + TILE, j)):
                    at_i, at_j, width = i * columns + i, j * columns + i, j - i
                    beyond = at_j + columns + 1
                    stopped = m_closed[i, j + 1] + m_by_end[j + 1, i]
                    stops[4 * i + 3] += stopped
                    mass = m_opened[i, j + 1] + stopped
                    share(mass, linked, at_i + 1, by_end, beyond, width, terms, m_linked, at_i + 1, m_by_end, beyond)
                    stopped = m_closed[j, i] + m_by_end[i, j]
                    stops[4 * j + 1] += stopped
                    mass = m_opened[j, i] + stopped
                    share(mass, linked, at_j, by_end, at_i, width, terms, m_linked, at_j, m_by_end, at_i)
                    only = times(entry(closed, j, i + 1), arcs, j, 2 * i)
                    p_first, p_later = divide(m_linked[i, j], only, entry(later, i, j))
                    found[2 * (j * n + i)], found[2 * (j * n + i) + 1] = p_first, p_later
                    m_closed[j, i + 1] += p_first
                    left, right = at_i + 2, at_j + 2
                    share(p_later, opened, left, closed, right, width - 1, terms, m_opened, left, m_closed, right)
                    only = times(entry(closed, i, j), arcs, i, 2 * j)
                    p_first, p_later = divide(m_linked[j, i], only, entry(later, j, i))
                    found[2 * (i * n + j)], found[2 * (i * n + j) + 1] = p_first, p_later
                    m_closed[i, j] += p_first
                    left, right = at_i + 1, at_j + 1
                    share(p_later, closed, left, opened, right, width - 1, terms, m_closed, left, m_opened, right)
    for h in range(n):
        for side in range(2):
            stops[4 * h + 2 * side] = m_closed[h, h + side] + m_by_end[h + side, h]


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, lengths, offsets, scores, gamma, single_root, values, marginals):
    """Smoothed max, nats, and marginals of the sentences in ``order``, none of them empty.

    Marginals are zero at first.
    """
    longest = longest_of(order, lengths)
    tables, spans = _empty_tables(longest), (longest + 1, longest + 1 + MARGIN)
    arcs, _, opened, closed, by_end, linked, later, prefix, rooted = tables
    m_opened, m_closed, m_by_end, m_linked = np.empty(spans), np.empty(spans), np.empty(spans), np.empty(spans)
    masses = (m_opened, m_closed, m_by_end, m_linked)
    p_prefix, p_rooted, terms = np.empty(spans[1]), np.empty(spans[1]), np.empty(spans[1])
    for m in order:
        n, parts, found = lengths[m], scores[offsets[m] : offsets[m + 1]].copy(), marginals[offsets[m] : offsets[m + 1]]
        for d in range(n):
            parts[2 * (d * n + d) + 1] = -np.inf
        unit = unit_of(parts, gamma)
        tops = _inside(n, parts, unit, False, single_root, *tables)
        values[m] = nats(entry(prefix, 0, n), unit, tops)
        if values[m] == -np.inf:
            continue
        for table in masses:
            table[: n + 1] = 0.0
        outside_root(n, closed, by_end, 1, prefix, rooted, terms, m_closed, m_by_end, p_prefix, p_rooted)
        _outside(n, arcs, opened, closed, by_end, linked, later, terms, *masses, found)
        for d in range(n):
            found[2 * (d * n + d)] = p_rooted[d]
        np.minimum(found, 1.0, found)


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(order, lengths, offsets, token_offsets, scores, single_root, values, heads):
    """Score and heads of the best trees of the sentences in ``order``, as in ``valence_max``, to the last bit."""
    longest = longest_of(order, lengths)
    tables, stack = _empty_tables(longest), np.empty((2 * longest + 2, 2), np.int64)
    _, _, opened, closed, _, linked, _, prefix, rooted = tables
    for m in order:
        n, begin, parts = lengths[m], token_offsets[m], scores[offsets[m] : offsets[m + 1]]
        _inside(n, parts, 1.0, True, single_root, *tables)
        values[m] = prefix[1, 0, n]
        if values[m] > -np.inf:
            arcs, sums = (
                parts[: 2 * n * n].reshape(n, n, 2),
                (opened[1], closed[1], linked[1], prefix[1, 0], rooted[1, 0]),
            )
            trace(n, single_root, arcs[:, :, 0], arcs[:, :, 1], *sums, stack, heads[begin : begin + n])
