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
def _score(scores, tree):
    """The sum of the scores of the arcs of a tree, from the first word to the last."""
    value = 0.0
    for d in range(len(tree)):
        value += scores[d, d if tree[d] < 0 else tree[d]]
    return value


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
        for d in range(n):
            heads[token_offsets[sentence] + d] = tree[d]
        values[sentence] = _score(block, tree)


@njit(cache=True, nogil=True, error_model="numpy")
def _insert(value, tree, start, barred, values, trees, starts, bars, expanded):
    """Insert a tree into a list of the best ones, behind all that are not worse; the last one drops out."""
    place = len(values)
    while place > 0 and value > values[place - 1]:
        place -= 1
    if place == len(values):
        return
    for m in range(len(values) - 1, place, -1):
        values[m], starts[m], expanded[m] = values[m - 1], starts[m - 1], expanded[m - 1]
        for d in range(len(tree)):
            trees[m, d], bars[m, d] = trees[m - 1, d], bars[m - 1, d]
    values[place], starts[place], expanded[place] = value, start, False
    for d in range(len(tree)):
        trees[place, d], bars[place, d] = tree[d], barred[d]


@njit(cache=True, nogil=True, error_model="numpy")
def n_best(lengths, block_offsets, token_offsets, scores, single_root, values, heads):
    """Fill ``values``, shape (n_sentences, n), decreasing, -inf where there are fewer trees, and ``heads``.

    ``heads`` have the shape (n, n_tokens), and stay as they are where there is no tree. Every tree of the list is the
    best one of a set: words before its ``start`` have its heads, and the word at ``start`` has none that is barred. The
    other trees of the set are divided by the first word that has another head, and the best one of each of these sets
    is inserted, in the order of the words [Lawler1972].
    """
    most = values.shape[1]
    starts, expanded = np.empty(most, np.int64), np.empty(most, np.bool_)
    for sentence in range(len(values)):
        n = lengths[sentence]
        block = scores[block_offsets[sentence] : block_offsets[sentence] + n * n].reshape((n, n))
        best, trees = values[sentence], heads[:, token_offsets[sentence] : token_offsets[sentence + 1]]
        best[:], expanded[:] = -np.inf, True
        bars, barred = np.empty((most, n), np.bool_), np.zeros(n, np.bool_)
        tree, fixed, m = np.empty(n, np.int64), np.empty(n, np.int64), 0
        if _best_tree(block, single_root, tree):
            _insert(_score(block, tree), tree, 0, barred, best, trees, starts, bars, expanded)
        while m < most - 1:
            if expanded[m]:
                m += 1
                continue
            start, part, expanded[m] = starts[m], block.copy(), True
            for d in range(n):
                fixed[d], barred[d] = trees[m, d], bars[m, d]
            for d in range(n):
                head = d if fixed[d] < 0 else fixed[d]
                if d >= start:
                    barred[head] = True
                    for h in range(n):
                        if barred[h]:
                            part[d, h] = -np.inf
                    if _best_tree(part, single_root, tree):
                        _insert(_score(block, tree), tree, d, barred, best, trees, starts, bars, expanded)
                    barred[:] = False
                part[d, :] = -np.inf
                part[d, head] = block[d, head]
            m = 0  # by rounding, a tree may be better than the one that it departs from
