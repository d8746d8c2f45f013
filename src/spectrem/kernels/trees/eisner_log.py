"""Inside and outside passes of projective trees in log space, for what the scaled passes lose.

The words of a sentence stand in a row, and every subtree spans an interval [Eisner1996]. Two tables, both indexed
[head, other end], hold sums over partial trees: ``complete[h, e]`` of the words from h to e, all of which descend from
h; ``incomplete[h, d]`` of the words from h to d, where d is a dependent of h and has no dependents beyond itself yet.
An incomplete span joins a complete span of each end, where the two meet (``joint[i, j]``, the same for both arcs
between i and j), with an arc; a complete span joins the incomplete span of the outermost dependent with the complete
span of what hangs on its far side. The root stands before the first word, and ``prefix[e]`` sums over the first e
words with all their roots; ``rooted[d]`` is a prefix whose last root is d, without what hangs on the right of d.

Sums run upwards in log space. Probabilities run downwards: every span divides its own among the ways to make it, so
that nothing is subtracted but a total from its terms.
"""

import math

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _log_sum(terms, gamma):
    """gamma * log(sum(exp(terms / gamma))); in nats throughout, so that no division by gamma overflows."""
    top = -np.inf
    for k in range(len(terms)):
        top = max(top, terms[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(len(terms)):
        total += math.exp((terms[k] - top) / gamma)
    return top + gamma * math.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _inside(n, scores, gamma, complete, incomplete, joint, terms):
    for h in range(n):
        complete[h, h] = 0.0
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            for k in range(width):
                terms[k] = complete[i, i + k] + complete[j, i + k + 1]
            joint[i, j] = _log_sum(terms[:width], gamma)
            incomplete[i, j] = joint[i, j] + scores[j, i]
            incomplete[j, i] = joint[i, j] + scores[i, j]
            for k in range(width):
                terms[k] = incomplete[i, i + k + 1] + complete[i + k + 1, j]
            complete[i, j] = _log_sum(terms[:width], gamma)
            for k in range(width):
                terms[k] = incomplete[j, i + k] + complete[i + k, i]
            complete[j, i] = _log_sum(terms[:width], gamma)


@njit(cache=True, nogil=True, error_model="numpy")
def _inside_root(n, scores, gamma, single_root, complete, prefix, rooted, terms):
    """With a single root the only prefix that another root may follow is the empty one."""
    prefix[:] = -np.inf
    prefix[0] = 0.0
    for d in range(n):
        for k in range(d + 1):
            terms[k] = prefix[k] + complete[d, k]
        rooted[d] = _log_sum(terms[: d + 1], gamma) + scores[d, d]
        if not single_root or d == n - 1:
            for k in range(d + 1):
                terms[k] = rooted[k] + complete[k, d]
            prefix[d + 1] = _log_sum(terms[: d + 1], gamma)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside_root(n, gamma, scores, complete, prefix, rooted, mass, p_prefix, p_rooted, marginals):
    """Divide the probability of the whole among roots; ``mass`` takes that of complete spans."""
    p_prefix[:], p_rooted[:] = 0.0, 0.0
    p_prefix[n] = 1.0
    for d in range(n - 1, -1, -1):
        if p_prefix[d + 1] > 0.0:
            for k in range(d + 1):
                share = p_prefix[d + 1] * math.exp((rooted[k] + complete[k, d] - prefix[d + 1]) / gamma)
                p_rooted[k] += share
                mass[k, d] += share
        marginals[d, d] = p_rooted[d]
        if p_rooted[d] > 0.0:
            for k in range(d + 1):
                share = p_rooted[d] * math.exp((prefix[k] + complete[d, k] + scores[d, d] - rooted[d]) / gamma)
                p_prefix[k] += share
                mass[d, k] += share


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(n, gamma, complete, incomplete, joint, mass, marginals):
    """Divide probabilities of complete spans, the widest first; those of incomplete spans are those of arcs."""
    for width in range(n - 1, 0, -1):
        for i in range(n - width):
            j = i + width
            if mass[i, j] > 0.0:
                for d in range(i + 1, j + 1):
                    share = mass[i, j] * math.exp((incomplete[i, d] + complete[d, j] - complete[i, j]) / gamma)
                    marginals[d, i] += share
                    mass[d, j] += share
            if mass[j, i] > 0.0:
                for d in range(i, j):
                    share = mass[j, i] * math.exp((incomplete[j, d] + complete[d, i] - complete[j, i]) / gamma)
                    marginals[d, j] += share
                    mass[d, i] += share
            both = marginals[j, i] + marginals[i, j]
            if both > 0.0:
                for k in range(i, j):
                    share = both * math.exp((complete[i, k] + complete[j, k + 1] - joint[i, j]) / gamma)
                    mass[i, k] += share
                    mass[j, k + 1] += share


@njit(cache=True, nogil=True, error_model="numpy")
def inside(scores, gamma, single_root):
    """The tables of one sentence, upwards: complete, incomplete, joint, prefix, rooted.

    ``scores`` are indexed [dependent, head], with arcs from the root on the diagonal.
    """
    n = len(scores)
    complete, incomplete, joint = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    prefix, rooted, terms = np.empty(n + 1), np.empty(n), np.empty(n)
    _inside(n, scores, gamma, complete, incomplete, joint, terms)
    _inside_root(n, scores, gamma, single_root, complete, prefix, rooted, terms)
    return complete, incomplete, joint, prefix, rooted


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(lengths, offsets, scores, gamma, single_root, values, marginals, status):
    """Smoothed max and marginals of the sentences of ``status`` 1, which becomes 0; none of them is empty.

    Sentence n has the scores ``scores[offsets[n]:offsets[n + 1]]``; ``marginals`` are zero at first.
    """
    for n in range(len(status)):
        if status[n] != 1:
            continue
        status[n], size = 0, lengths[n]
        own = scores[offsets[n] : offsets[n + 1]].reshape(size, size)
        complete, incomplete, joint, prefix, rooted = inside(own, gamma, single_root)
        values[n] = prefix[size]
        if values[n] == -np.inf:
            continue
        found, mass = marginals[offsets[n] : offsets[n + 1]].reshape(size, size), np.zeros((size, size))
        p_prefix, p_rooted = np.empty(size + 1), np.empty(size)
        _outside_root(size, gamma, own, complete, prefix, rooted, mass, p_prefix, p_rooted, found)
        _outside(size, gamma, complete, incomplete, joint, mass, found)
