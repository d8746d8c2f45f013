"""Inside-outside and Viterbi passes of projective trees whose heads take children one by one, from the inside out.

Every head is split into its left and its right half [Eisner1996]. A half that reaches no further than its head has no
child yet, so that the first child of a side is told from later ones, and stopping without a child from stopping with
one, by the width of spans alone: the passes take O(n^3) steps, as those of trees without valence.

Parts of a sentence of n words, from ``offsets[m]`` on: arcs [dependent, head, 0: first child of its head on that side,
1: later], row-major, the entry [d, d, 0] being the arc from the root; behind them stops [head, 0: left / 1: right,
0: without / 1: with a child]. Entries [d, d, 1] belong to no tree.

Everything is done in log space with one exponential per pair of items: the sums below are the inside values of items,
and what is carried down in the outside pass are marginals of items, which stay within [0, 1]. So nothing under- or
overflows whatever the scores and gamma. Of every table there is one copy by head and, where the sums run along the
other axis, one by end, so that all inner loops read neighbouring memory.
"""

import math

import numpy as np

from spectrem._compiled import njit

_FARTHEST = 1e290  # sums of so many gammas are still far from the largest number


@njit(cache=True, nogil=True, error_model="numpy")
def _log_sum(first, second):
    """Logarithms of sums of ``exp(first + second)``, elementwise over two rows."""
    top = -np.inf
    for k in range(len(first)):
        top = max(top, first[k] + second[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(len(first)):
        total += math.exp(first[k] + second[k] - top)
    return top + math.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_add(a, b):
    top = max(a, b)
    if top == -np.inf:
        return top
    return top + math.log(math.exp(a - top) + math.exp(b - top))


@njit(cache=True, nogil=True, error_model="numpy")
def _inside(n, arcs, stops, open_right, open_left, right_arc, left_arc, right, right_end, left, left_end):
    """Fill the tables of a sentence; the last axis of each is the one that sums run along.

    ``open_right[i, k]``: the right half of head i down to word k, which may go on. ``right[i, k]``: the same, stopped;
    ``right_end[k, i]`` is its copy. ``right_arc[i, j]``: the words from i to j under an arc from i to j. To the left
    ``open_left[j, i]``, ``left[j, i]``, ``left_end[i, j]`` and ``left_arc[j, i]``, with j the head.
    """
    for i in range(n):
        open_right[i, i] = open_left[i, i] = 0.0
        right[i, i] = right_end[i, i] = stops[i, 1, 0]
        left[i, i] = left_end[i, i] = stops[i, 0, 0]
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            first = left[j, i + 1] + arcs[j, i, 0]
            later = _log_sum(open_right[i, i + 1 : j], left[j, i + 2 : j + 1]) + arcs[j, i, 1]
            right_arc[i, j] = _log_add(first, later)
            first = right[i, j - 1] + arcs[i, j, 0]
            later = _log_sum(right[i, i : j - 1], open_left[j, i + 1 : j]) + arcs[i, j, 1]
            left_arc[j, i] = _log_add(first, later)
            open_right[i, j] = _log_sum(right_arc[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1])
            right[i, j] = right_end[j, i] = open_right[i, j] + stops[i, 1, 1]
            open_left[j, i] = _log_sum(left_arc[j, i:j], left_end[i, i:j])
            left[j, i] = left_end[i, j] = open_left[j, i] + stops[j, 0, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def _share(mass, whole, first, second, more, first_mass, second_mass):
    """Divide the marginal of an item among pairs of items whose ``exp(first + second + more)`` add up to ``whole``."""
    total = 0.0
    shift = more - whole
    for k in range(len(first)):
        own = mass * math.exp(first[k] + second[k] + shift)
        first_mass[k] += own
        second_mass[k] += own
        total += own
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(
    n, arcs, stops, open_right, open_left, right_arc, left_arc, right, right_end, left, left_end,
    m_open_right, m_open_left, m_right_arc, m_left_arc, m_right, m_right_end, m_left, m_left_end,
    found_arcs, found_stops,
):  # fmt: skip
    """Marginals of all items from those of stopped halves, which ``m_right_end`` and ``m_left_end`` add to."""
    for width in range(n - 1, 0, -1):
        for i in range(n - width):
            j = i + width
            mass = m_right[i, j] + m_right_end[j, i]
            if mass > 0.0:
                found_stops[i, 1, 1] += mass
                m_open_right[i, j] += mass
            mass = m_open_right[i, j]
            if mass > 0.0:
                _share(
                    mass, open_right[i, j], right_arc[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1], 0.0,
                    m_right_arc[i, i + 1 : j + 1], m_right_end[j, i + 1 : j + 1],
                )  # fmt: skip
            mass = m_left[j, i] + m_left_end[i, j]
            if mass > 0.0:
                found_stops[j, 0, 1] += mass
                m_open_left[j, i] += mass
            mass = m_open_left[j, i]
            if mass > 0.0:
                _share(
                    mass,
                    open_left[j, i],
                    left_arc[j, i:j],
                    left_end[i, i:j],
                    0.0,
                    m_left_arc[j, i:j],
                    m_left_end[i, i:j],
                )
            mass, whole = m_right_arc[i, j], right_arc[i, j]
            if mass > 0.0:
                own = mass * math.exp(left[j, i + 1] + arcs[j, i, 0] - whole)
                m_left[j, i + 1] += own
                found_arcs[j, i, 0] = own
                found_arcs[j, i, 1] = _share(
                    mass, whole, open_right[i, i + 1 : j], left[j, i + 2 : j + 1], arcs[j, i, 1],
                    m_open_right[i, i + 1 : j], m_left[j, i + 2 : j + 1],
                )  # fmt: skip
            mass, whole = m_left_arc[j, i], left_arc[j, i]
            if mass > 0.0:
                own = mass * math.exp(right[i, j - 1] + arcs[i, j, 0] - whole)
                m_right[i, j - 1] += own
                found_arcs[i, j, 0] = own
                found_arcs[i, j, 1] = _share(
                    mass, whole, right[i, i : j - 1], open_left[j, i + 1 : j], arcs[i, j, 1],
                    m_right[i, i : j - 1], m_open_left[j, i + 1 : j],
                )  # fmt: skip
    for i in range(n):
        found_stops[i, 1, 0] = m_right[i, i] + m_right_end[i, i]
        found_stops[i, 0, 0] = m_left[i, i] + m_left_end[i, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _one_root(n, arcs, left_end, right_end, m_left_end, m_right_end, found_arcs):
    """Log of the sum over the word under the root, whose halves span the sentence; their marginals are set."""
    total = -np.inf
    for r in range(n):
        total = _log_add(total, left_end[0, r] + right_end[n - 1, r] + arcs[r, r, 0])
    if total > -np.inf:
        for r in range(n):
            own = math.exp(left_end[0, r] + right_end[n - 1, r] + arcs[r, r, 0] - total)
            m_left_end[0, r] = m_right_end[n - 1, r] = found_arcs[r, r, 0] = own
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _many_roots(n, arcs, left_end, right_end, m_left_end, m_right_end, found_arcs, reached, rooted, m_reached):
    """The same with any number of words under the root: ``reached[i]`` sums over forests of the first i words."""
    reached[0] = 0.0
    for j in range(n):
        rooted[j] = -np.inf  # forests of all words before the subtree of j, and its left half
        for i in range(j + 1):
            rooted[j] = _log_add(rooted[j], reached[i] + left_end[i, j])
        rooted[j] += arcs[j, j, 0]
        reached[j + 1] = -np.inf
        for r in range(j + 1):
            reached[j + 1] = _log_add(reached[j + 1], rooted[r] + right_end[j, r])
    total = reached[n]
    if total == -np.inf:
        return total
    m_reached[: n + 1] = 0.0
    m_reached[n] = 1.0
    for r in range(n):
        found_arcs[r, r, 0] = 0.0
    for j in range(n - 1, -1, -1):
        if m_reached[j + 1] > 0.0:
            for r in range(j + 1):
                own = m_reached[j + 1] * math.exp(rooted[r] + right_end[j, r] - reached[j + 1])
                found_arcs[r, r, 0] += own
                m_right_end[j, r] += own
        # Whatever ends at or after j has been divided by now: the mass of a root at j is complete.
        if found_arcs[j, j, 0] > 0.0:
            for i in range(j + 1):
                own = found_arcs[j, j, 0] * math.exp(reached[i] + left_end[i, j] + arcs[j, j, 0] - rooted[j])
                m_reached[i] += own
                m_left_end[i, j] += own
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(lengths, offsets, single_root, scores, gamma, active, values, marginals):
    """Smoothed max, nats, and marginals of every active sentence; values of the others stay."""
    longest = 0
    for m in range(len(lengths)):
        if active[m]:
            longest = max(longest, lengths[m])
    tables, masses = np.empty((8, longest, longest)), np.empty((8, longest, longest))
    reached, rooted, m_reached = np.empty(longest + 1), np.empty(longest), np.empty(longest + 1)
    for m in range(len(lengths)):
        if not active[m]:
            continue
        n, start = lengths[m], offsets[m]
        values[m] = 0.0
        if n == 0:
            continue
        n_arcs = 2 * n * n
        # a gamma so small that scores over it would overflow says the same as one that is a little larger
        unit = gamma
        for k in range(start, offsets[m + 1]):
            if scores[k] > -np.inf:
                unit = max(unit, abs(scores[k]) / _FARTHEST)
        arcs = (scores[start : start + n_arcs] / unit).reshape(n, n, 2)
        stops = (scores[start + n_arcs : offsets[m + 1]] / unit).reshape(n, 2, 2)
        found_arcs = marginals[start : start + n_arcs].reshape(n, n, 2)
        found_stops = marginals[start + n_arcs : offsets[m + 1]].reshape(n, 2, 2)
        open_right, open_left, right_arc, left_arc = tables[0], tables[1], tables[2], tables[3]
        right, right_end, left, left_end = tables[4], tables[5], tables[6], tables[7]
        _inside(n, arcs, stops, open_right, open_left, right_arc, left_arc, right, right_end, left, left_end)
        masses[:, :n, :n] = 0.0
        m_right_end, m_left_end = masses[5], masses[7]
        if single_root:
            total = _one_root(n, arcs, left_end, right_end, m_left_end, m_right_end, found_arcs)
        else:
            total = _many_roots(
                n, arcs, left_end, right_end, m_left_end, m_right_end, found_arcs, reached, rooted, m_reached
            )
        values[m] = unit * total
        if total > -np.inf:
            _outside(
                n, arcs, stops, open_right, open_left, right_arc, left_arc, right, right_end, left, left_end,
                masses[0], masses[1], masses[2], masses[3], masses[4], m_right_end, masses[6], m_left_end,
                found_arcs, found_stops,
            )  # fmt: skip
