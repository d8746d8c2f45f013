"""Draws of trees, projective or not: words are eliminated one by one, and put back into a tree of those that are left.

``matrix_tree`` says how words are eliminated without subtraction. Eliminating word k makes of the weight of an arc a
sum, w[d, h] + w[d, k] p[k, h], where p[k, h] = w[k, h] / s[k]: over the way straight to the head and that over k. In a
tree over the words before k every arc is one of the two, drawn in proportion. Word k is put back as follows, after the
idea of [Durfee2017] for graphs without directions. Arcs that go over k, from a set D of words, end at k; and k takes a
head in proportion to p[k, h] among the root and the words that reach the root without these arcs.

This is exact. Without the arcs of D, the words fall into one piece with the root and one for every word of D; let q[0]
and q[1], q[2], ... be the sums of p[k, h] over the heads h in them. The ends of the arcs over k make a tree of pieces,
in which each piece but that of the root counts q of the one that it hangs on. By Cayley's formula these trees sum to
q[0] (q[0] + q[1] + ...) ** (len(D) - 1), which is q[0], the sum over the heads that k may take.

Elimination, which all draws of a sentence share, takes n^3 / 3 sums. A draw looks at n weights for the head of every
word, and at no more for every arc that ends at a word put back, n^3 / 6 if these were all arcs every time. A random
walk with loop erasure [Wilson1996] takes as long as it stays among words that want each other, which nothing bounds:
for 30 words whose scores have a deviation of 1 it took 60 steps on average, of 10 some 10,000, of 20 over a million.

With a single root arcs from the root are infinitely small, until a word has no other: this word is the root then. So
before that a word takes the root as its head only where no other word reaches the root. Everything is in log space, in
nats, and nothing is subtracted, so that scores may be of any size and probabilities keep their digits.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import choose, log_sum, share_out


@njit(cache=True, nogil=True, error_model="numpy")
def _list_ways(block, graph, d, h, k, root, ways):
    """Fill ``ways`` with the logs of those from d to h, straight and over each word after k; returns their number.

    A way to the root has h = d. Where word ``root`` is after k, all trees have it as their root: ways to the root go
    over it, or over a word before it.
    """
    end = len(block)
    ways[0] = block[d, h]
    if h == d and k < root:
        ways[0], end = -np.inf, root + 1
    for i in range(k + 1, end):
        ways[i - k] = graph[d, i] + graph[i, i if h == d else h]
    return end - k


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate(block, single_root, gamma, graph, ways):
    """Fill ``graph``: row k holds logs of w[k, h] for words h after k, of p[k, h] for others, that of the root at k.

    Returns the word that has no arc but that from the root, if there is a single root, else -1; and whether there is a
    tree.
    """
    root = -1
    for k in range(len(block) - 1, -1, -1):
        for h in range(len(block) - 1, -1, -1):
            graph[k, h] = log_sum(ways[: _list_ways(block, graph, k, h, max(h, k), root, ways)], gamma)
        small = single_root and root == -1
        total = log_sum(graph[k, : k if small else k + 1], gamma)
        if small and total == -np.inf:
            root, total = k, graph[k, k]
        if total == -np.inf:
            return root, False
        for h in range(k + 1):
            graph[k, h] -= total
    return root, True


@njit(cache=True, nogil=True, error_model="numpy")
def _mark_reaching(tree, over, k, reaches):
    """Whether words before k reach the root without an arc over k; returns whether any does."""
    for d in range(k):
        reaches[d] = -1
    some = False
    for d in range(k):
        v = d
        while reaches[v] == -1 and over[v] != k and tree[v] != v:
            v = tree[v]
        answer = reaches[v] if reaches[v] != -1 else np.int64(over[v] != k)
        some = some or answer == 1
        end, v = v, d
        while v != end:
            reaches[v], v = answer, tree[v]
        reaches[end] = answer
    return some


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_tree(block, graph, root, single_root, gamma, rng, terms, reaches, over, tree):
    """Draw the heads of a sentence; ``over`` becomes the next word over which an arc goes, or one already put back."""
    for k in range(len(tree)):
        over[k] = -1
        some = _mark_reaching(tree, over, k, reaches)
        for h in range(k):
            terms[h] = graph[k, h] if reaches[h] == 1 else -np.inf
        terms[k] = -np.inf if some and single_root and k > root else graph[k, k]
        share_out(terms[: k + 1], gamma)
        tree[k] = choose(terms[: k + 1], 1.0 - rng.random())
        for d in range(k + 1):
            if over[d] == k:
                tree[d] = k
            elif d < k:
                continue
            n_ways = _list_ways(block, graph, d, tree[d], k, root, terms)
            share_out(terms[:n_ways], gamma)
            over[d] = k + choose(terms[:n_ways], 1.0 - rng.random())
    for d in range(len(tree)):
        tree[d] = -1 if tree[d] == d else tree[d]


@njit(cache=True, nogil=True, error_model="numpy")
def sample(lengths, starts, token_offsets, scores, single_root, gamma, rng, heads):
    """Fill ``heads``, shape (n, n_tokens), by n draws of every sentence; those of an impossible one stay."""
    for sentence in range(len(lengths)):
        n = lengths[sentence]
        block, graph = scores[starts[sentence] : starts[sentence] + n * n].reshape((n, n)), np.empty((n, n))
        terms, reaches, over = np.empty(n + 1), np.empty(n, np.int64), np.empty(n, np.int64)
        root, possible = _eliminate(block, single_root, gamma, graph, terms)
        if not possible:
            continue
        for row in range(len(heads)):
            tree = heads[row, token_offsets[sentence] : token_offsets[sentence + 1]]
            _draw_tree(block, graph, root, single_root, gamma, rng, terms, reaches, over, tree)
