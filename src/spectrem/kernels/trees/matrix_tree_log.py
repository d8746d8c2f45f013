"""The sum pass of ``matrix_tree`` in log space, one sentence at a time, with derivatives along a direction.

The same elimination without subtraction, with sums for products and log-sums for sums; see there. All is in nats, so
that no division by gamma overflows, and nothing under- or overflows. Graphs are indexed [dependent, head], ways from
the root on the diagonal.

At every level the words of a sentence are divided among twice as many nodes, which are intervals. A node takes the
graph of the node that it is a half of, and eliminates the words of the other half, the farthest first; so what is left
at the last level is one word.

Every number has a slope: its derivative as scores move along the direction. That of a sum is the mean of those of its
terms by their shares, so that slopes keep their digits, too. Arrays of numbers have the slopes as their last axis.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import share_out


@njit(cache=True, nogil=True, error_model="numpy")
def _add(a, b, gamma):
    """gamma * log(exp(a / gamma) + exp(b / gamma)) of two numbers with their slopes."""
    top, low = (a, b) if a[0] > b[0] else (b, a)
    if low[0] == -np.inf:
        return top
    part = math.exp((low[0] - top[0]) / gamma)
    return top[0] + gamma * math.log1p(part), (top[1] + part * low[1]) / (1.0 + part)


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate(graph, bottom, top, k, low, high, several, gamma):
    """Eliminate word k from a graph of bottom, ..., top - 1, of which low, ..., high - 1 are left besides.

    Its row becomes shares of its heads.

    Returns the log of the sum of the row, -inf where no tree is possible, and whether ways from the root are no longer
    small.
    """
    total = (graph[k, k, 0], graph[k, k, 1]) if several else (-np.inf, 0.0)
    for h in range(low, high):
        total = _add(total, (graph[k, h, 0], graph[k, h, 1]), gamma)
    if total[0] == -np.inf:
        total, graph[k, k, 0] = (graph[k, k, 0], graph[k, k, 1]), -np.inf
        if several or total[0] == -np.inf:
            return -np.inf, several
        for d in range(bottom, top):
            graph[d, d, 0] = -np.inf
        several, graph[k, k, 0], graph[k, k, 1] = True, total[0], total[1]
    graph[k, k, 0] -= total[0]
    graph[k, k, 1] -= total[1]
    for h in range(low, high):
        graph[k, h, 0] -= total[0]
        graph[k, h, 1] -= total[1]
    for d in range(low, high):
        factor, slope = graph[d, k, 0], graph[d, k, 1]
        if factor > -np.inf:
            for h in range(low, high):
                share = graph[k, k] if h == d else graph[k, h]
                if share[0] > -np.inf:
                    way = (factor + share[0], slope + share[1])
                    graph[d, h, 0], graph[d, h, 1] = _add((graph[d, h, 0], graph[d, h, 1]), way, gamma)
    return total[0], several


@njit(cache=True, nogil=True, error_model="numpy")
def _interval(n, level, node):
    """The words of a node, and those of the node that it is a half of."""
    above = node // 2
    return node * n >> level, (node + 1) * n >> level, above * n >> level - 1, (above + 1) * n >> level - 1


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate_all_but_each(n, depth, graphs, several, reach, direct, gamma):
    """Fill ``reach``, indexed [from which word, before which], and ``direct`` as in ``matrix_tree``; return the value.

    ``graphs[level, 0]`` holds the graphs of first halves, ``graphs[level, 1]`` those of the others; ``several`` says of
    every node whether ways from the root are no longer small.
    """
    value = 0.0
    for level in range(1, depth + 1):
        for node in range(1 << level):
            first, end, bottom, top = _interval(n, level, node)
            low, high = bottom, top
            graph, rooted = graphs[level, node % 2], several[level - 1, node // 2]
            parent = graphs[level - 1, node // 2 % 2]
            for d in range(low, high):
                for h in range(low, high):
                    graph[d, h, 0], graph[d, h, 1] = parent[d, h, 0], parent[d, h, 1]
            while first < end and (low < first or end < high):
                k = low if low < first else high - 1
                low, high = (low + 1, high) if low < first else (low, high - 1)
                total, rooted = _eliminate(graph, bottom, top, k, low, high, rooted, gamma)
                if total == -np.inf:
                    return total
                value += total if first == 0 else 0.0
            several[level, node] = rooted
            if level == depth and first < end:
                if graph[first, first, 0] == -np.inf:
                    return -np.inf
                reach[first, first, 0], reach[first, first, 1], direct[first] = -np.inf, 0.0, True
                value += graph[0, 0, 0] if first == 0 else 0.0
    for level in range(depth, 0, -1):
        for node in range(1 << level):
            first, end, bottom, top = _interval(n, level, node)
            graph = graphs[level, node % 2]
            for d in range(first, end):
                low, high = first, end
                while bottom < low or high < top:
                    k = low - 1 if bottom < low else high
                    total = (graph[k, k, 0], graph[k, k, 1]) if direct[d] else (-np.inf, 0.0)
                    for h in range(low, high):
                        way = (graph[k, h, 0] + reach[h, d, 0], graph[k, h, 1] + reach[h, d, 1])
                        total = _add(total, way, gamma)
                    reach[k, d, 0], reach[k, d, 1] = total
                    low, high = (k, high) if bottom < low else (low, high + 1)
            if several[level, node] and not several[level - 1, node // 2]:
                direct[first:end] = False
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(lengths, starts, scores, along, single_root, gamma, values, marginals, slopes, status):
    """Values and marginals of the sentences of ``status`` 1, which becomes 0, and slopes of marginals, times gamma.

    The slope of a marginal along a direction is its covariance with the sum of this over the arcs of a tree.
    """
    for sentence in range(len(status)):
        if status[sentence] != 1:
            continue
        status[sentence] = 0
        n, depth = lengths[sentence], 1
        while 1 << depth < n:
            depth += 1
        arcs = slice(starts[sentence], starts[sentence] + n * n)
        block = np.stack((scores[arcs], along[arcs]), axis=1).reshape((n, n, 2))
        graphs, several = np.empty((depth + 1, 2, n, n, 2)), np.empty((depth + 1, 1 << depth), np.bool_)
        reach, direct = np.empty((n, n, 2)), np.empty(n, np.bool_)
        graphs[0, 0], several[0, 0] = block, not single_root
        values[sentence] = _eliminate_all_but_each(n, depth, graphs, several, reach, direct, gamma)
        if values[sentence] == -np.inf:
            continue
        out, slope = marginals[arcs].reshape((n, n)), slopes[arcs].reshape((n, n))
        for d in range(n):
            for h in range(n):
                out[d, h] = block[d, h, 0] + reach[h, d, 0]
                slope[d, h] = block[d, h, 1] + reach[h, d, 1]
            out[d, d], slope[d, d] = block[d, d, 0] if direct[d] else -np.inf, block[d, d, 1]
            share_out(out[d], gamma)
            mean = 0.0
            for h in range(n):
                mean += out[d, h] * slope[d, h]
            for h in range(n):
                slope[d, h] = out[d, h] * (slope[d, h] - mean)
