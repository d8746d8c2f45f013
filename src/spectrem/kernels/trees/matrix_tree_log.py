"""The sum pass of ``matrix_tree`` in log space, one sentence at a time, for what under- or overflows there.

The same elimination without subtraction, with sums for products and log-sums for sums; see there. All is in nats, so
that no division by gamma overflows. Graphs are indexed [dependent, head], ways from the root on the diagonal.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import share_out


@njit(cache=True, nogil=True, error_model="numpy")
def _add(a, b, gamma):
    """gamma * log(exp(a / gamma) + exp(b / gamma))."""
    top, low = (a, b) if a > b else (b, a)
    if low == -np.inf:
        return top
    return top + gamma * math.log1p(math.exp((low - top) / gamma))


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate(graph, m, kept, several, gamma):
    """Eliminate words kept, ..., m - 1 of a graph, the last one first.

    Returns the sum of logs of all row sums, -inf where no tree is possible, whether ways from the root are no longer
    small, and whether this began here.
    """
    value, changed = 0.0, False
    for k in range(m - 1, kept - 1, -1):
        total = -np.inf
        for h in range(k):
            total = _add(total, graph[k, h], gamma)
        root = graph[k, k]
        if several:
            total = _add(total, root, gamma)
        if total == -np.inf:
            if several or root == -np.inf:
                return -np.inf, several, changed
            several, changed, total = True, True, root
            for d in range(m):
                graph[d, d] = -np.inf
            graph[k, k] = root
        value += total
        for h in range(k + 1):
            graph[k, h] -= total
        for d in range(k):
            factor = graph[d, k]
            if factor == -np.inf:
                continue
            for h in range(k):
                share = graph[k, k] if h == d else graph[k, h]
                if share > -np.inf:
                    graph[d, h] = _add(graph[d, h], factor + share, gamma)
    return value, several, changed


@njit(cache=True, nogil=True, error_model="numpy")
def _look_back(graph, m, kept, small, reach, turned, below, changed, own, gamma):
    """``reach`` and ``own`` before the first ``kept`` words of a graph from those of the level below."""
    for d in range(kept):
        at = m - 1 - d if turned else d
        own[at] = 0.0 if changed else below[d]
        for i in range(kept):
            reach[m - 1 - i if turned else i, at] = small[i, d]
        for k in range(kept, m):
            total = graph[k, k] if below[d] == 1.0 else -np.inf
            for h in range(k):
                total = _add(total, graph[k, h] + reach[m - 1 - h if turned else h, at], gamma)
            reach[m - 1 - k if turned else k, at] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate_all_but_each(n, graphs, reaches, owns, single_root, gamma):
    """Fill ``reaches[1]`` and ``owns[1]`` for the graph in ``graphs[0]``, as in ``matrix_tree``; returns its value."""
    sizes, halves = np.zeros(len(graphs), np.int64), np.zeros(len(graphs), np.int64)
    several, changed = np.zeros(len(graphs), np.bool_), np.zeros(len(graphs), np.bool_)
    level, counting, value = 1, True, 0.0
    sizes[1], several[0] = n, not single_root
    while level > 0:
        m, half = sizes[level], halves[level]
        if m > 1 and half < 2:
            kept, parent, graph = (m + 1) // 2 if half == 0 else m // 2, graphs[level - 1], graphs[level]
            for d in range(m):
                for h in range(m):
                    graph[d, h] = parent[m - 1 - d, m - 1 - h] if half else parent[d, h]
            here, several[level], changed[level] = _eliminate(graph, m, kept, several[level - 1], gamma)
            if here == -np.inf:
                return here
            value += here if counting else 0.0
            level += 1
            sizes[level], halves[level] = kept, 0
            continue
        if m == 1:
            reaches[level, 0, 0], owns[level, 0] = -np.inf, 1.0
            left = graphs[level - 1, 0, 0]
            if left == -np.inf:
                return left
            value += left if counting else 0.0
            counting = False
        level -= 1
        if level > 0:
            m, kept, turned = sizes[level], sizes[level + 1], halves[level] == 1
            small, below = reaches[level + 1], owns[level + 1]
            _look_back(graphs[level], m, kept, small, reaches[level], turned, below, changed[level], owns[level], gamma)
            halves[level] += 1
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(lengths, starts, scores, single_root, gamma, values, marginals, status):
    """Values and marginals of the sentences of ``status`` 1, which becomes 0."""
    longest = 1
    for sentence in range(len(status)):
        if status[sentence] == 1:
            longest = max(longest, lengths[sentence])
    depth = 2
    while 1 << (depth - 2) < longest:
        depth += 1
    graphs, reaches = np.empty((depth + 1, longest, longest)), np.empty((depth + 1, longest, longest))
    owns = np.empty((depth + 1, longest))
    for sentence in range(len(status)):
        if status[sentence] != 1:
            continue
        status[sentence] = 0
        n = lengths[sentence]
        block = scores[starts[sentence] : starts[sentence] + n * n].reshape((n, n))
        graphs[0, :n, :n] = block
        values[sentence] = _eliminate_all_but_each(n, graphs, reaches, owns, single_root, gamma)
        if values[sentence] == -np.inf:
            continue
        out = marginals[starts[sentence] : starts[sentence] + n * n].reshape((n, n))
        for d in range(n):
            for h in range(n):
                root = block[d, h] if owns[1, d] == 1.0 else -np.inf
                out[d, h] = root if h == d else block[d, h] + reaches[1, h, d]
            share_out(out[d], gamma)
