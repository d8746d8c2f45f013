"""The best tree, projective or not: best arcs are taken, and cycles of them contracted to one word each.

Words are visited along best arcs until these lead to the root or to a word that is done. Where they come back, the
cycle is contracted: an arc into it has what it gains over the arc of the cycle that it replaces. This takes time in
proportion to the square of the number of words, as every contraction is linear in it per word of the cycle
[Tarjan1977].

With a single root an arc from the root is taken only where there is no other. That is the same algorithm over pairs,
the number of arcs from the root before the score: no arc of a cycle comes from the root, so that numbers never change.

``gains[v, u]`` is what the best arc from u into v adds, over contracted words; both stand in the place of their first
word. The diagonal holds arcs from the root. ``ends[v, u]`` and ``heads[v, u]`` are the dependent and the head of it.
"""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _best_head(gains, alive, v, single_root):
    """The first of the best heads of v, which is v for the root; -1 if there is none."""
    best, top = -1, -np.inf
    for u in range(len(alive)):
        if alive[u] and (u != v or not single_root) and gains[v, u] > top:
            best, top = u, gains[v, u]
    if best == -1 and gains[v, v] > -np.inf:
        return v
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _contract(cycle, best, gains, ends, heads, alive):
    """Contract the words of a cycle, in increasing order, to the first of them."""
    new = cycle[0]
    for v in cycle:
        alive[v] = False
    lost = np.empty(len(cycle))
    for i in range(len(cycle)):
        lost[i] = gains[cycle[i], best[cycle[i]]]
    top, end, head = -np.inf, 0, 0
    for i in range(len(cycle)):
        v = cycle[i]
        if gains[v, v] - lost[i] > top:
            top, end, head = gains[v, v] - lost[i], ends[v, v], heads[v, v]
    for u in range(len(alive)):
        if not alive[u]:
            continue
        into, into_end, into_head = -np.inf, 0, 0
        out, out_end, out_head = -np.inf, 0, 0
        for i in range(len(cycle)):
            v = cycle[i]
            if gains[v, u] - lost[i] > into:
                into, into_end, into_head = gains[v, u] - lost[i], ends[v, u], heads[v, u]
            if gains[u, v] > out:
                out, out_end, out_head = gains[u, v], ends[u, v], heads[u, v]
        gains[new, u], ends[new, u], heads[new, u] = into, into_end, into_head
        gains[u, new], ends[u, new], heads[u, new] = out, out_end, out_head
    gains[new, new], ends[new, new], heads[new, new] = top, end, head
    alive[new] = True


@njit(cache=True, nogil=True, error_model="numpy")
def _best_tree(scores, single_root, tree):
    """Heads of a sentence, -1 for the root; whether there is a tree."""
    n = len(scores)
    gains, ends, heads = scores.copy(), np.empty((n, n), np.int64), np.empty((n, n), np.int64)
    for d in range(n):
        for h in range(n):
            ends[d, h], heads[d, h] = d, (-1 if h == d else h)
    alive, place = np.ones(n, np.bool_), np.full(n, -1)  # -1: not visited, -2: done, else its place on the way
    best, node = np.empty(n, np.int64), np.arange(n)  # the number of a word, of words that were contracted from n on
    above = np.full(2 * n, -1)
    chosen_end, chosen_head = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    n_nodes, n_roots = n, 0
    way = np.empty(n, np.int64)
    for start in range(n):
        if not alive[start] or place[start] == -2:
            continue
        length, v = 1, start
        way[0], place[start] = start, 0
        while True:
            u = _best_head(gains, alive, v, single_root)
            if u == -1:
                return False
            best[v] = u
            chosen_end[node[v]], chosen_head[node[v]] = ends[v, u], heads[v, u]
            if u == v or place[u] == -2:
                n_roots += u == v
                for i in range(length):
                    place[way[i]] = -2
                break
            if place[u] == -1:
                way[length], place[u] = u, length
                length += 1
                v = u
                continue
            first = place[u]
            cycle = way[first:length]
            for i in range(1, len(cycle)):
                w, k = cycle[i], i
                while k > 0 and cycle[k - 1] > w:
                    cycle[k] = cycle[k - 1]
                    k -= 1
                cycle[k] = w
            for w in cycle:
                above[node[w]] = n_nodes
                place[w] = -1
            _contract(cycle, best, gains, ends, heads, alive)
            v = cycle[0]
            node[v] = n_nodes
            n_nodes += 1
            way[first], place[v] = v, first
            length = first + 1
    if single_root and n_roots > 1:
        return False
    expanded = np.zeros(n_nodes, np.bool_)
    for one in range(n_nodes - 1, -1, -1):
        if expanded[one]:
            continue
        end = chosen_end[one]
        tree[end] = chosen_head[one]
        while end != one:
            expanded[end] = True
            end = above[end]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(lengths, starts, token_offsets, scores, single_root, active, values, heads):
    """Best tree of every active sentence; heads of an impossible one stay as they are."""
    for sentence in range(len(active)):
        if not active[sentence]:
            continue
        n = lengths[sentence]
        block = scores[starts[sentence] : starts[sentence] + n * n].reshape((n, n))
        tree = np.empty(n, np.int64)
        if not _best_tree(block, single_root, tree):
            values[sentence] = -np.inf
            continue
        value = 0.0
        for d in range(n):
            heads[token_offsets[sentence] + d] = tree[d]
            value += block[d, d if tree[d] < 0 else tree[d]]
        values[sentence] = value
