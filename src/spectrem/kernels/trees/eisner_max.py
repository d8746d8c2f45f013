"""The best projective tree of every sentence; see ``eisner_log`` for the tables."""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _inside(n, scores, complete, incomplete):
    for h in range(n):
        complete[h, h] = 0.0
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            joint, right, left = -np.inf, -np.inf, -np.inf
            for k in range(i, j):
                joint = max(joint, complete[i, k] + complete[j, k + 1])
            incomplete[i, j] = joint + scores[j, i]
            incomplete[j, i] = joint + scores[i, j]
            for d in range(i + 1, j + 1):
                right = max(right, incomplete[i, d] + complete[d, j])
            for d in range(i, j):
                left = max(left, incomplete[j, d] + complete[d, i])
            complete[i, j], complete[j, i] = right, left


@njit(cache=True, nogil=True, error_model="numpy")
def _inside_root(n, scores, single_root, complete, prefix, rooted):
    prefix[:] = -np.inf
    prefix[0] = 0.0
    for d in range(n):
        rooted[d] = -np.inf
        for k in range(d + 1):
            rooted[d] = max(rooted[d], prefix[k] + complete[d, k])
        rooted[d] += scores[d, d]
        if not single_root or d == n - 1:
            for k in range(d + 1):
                prefix[d + 1] = max(prefix[d + 1], rooted[k] + complete[k, d])


@njit(cache=True, nogil=True, error_model="numpy")
def _trace(n, scores, complete, incomplete, prefix, rooted, stack, heads):
    """Read the best tree from the tables: of several best ways to make a span, the leftmost.

    A sum that is computed again is the same to the last bit, so that no way needs to be remembered.
    """
    top, end = 0, n
    while end > 0:
        d = 0
        while rooted[d] + complete[d, end - 1] != prefix[end]:
            d += 1
        heads[d] = -1
        stack[top, 0], stack[top, 1] = d, end - 1
        end = 0
        while prefix[end] + complete[d, end] + scores[d, d] != rooted[d]:
            end += 1
        stack[top + 1, 0], stack[top + 1, 1] = d, end
        top += 2
    while top > 0:
        top -= 1
        h, e = stack[top]
        if h == e:
            continue
        d, last = (h + 1, e) if h < e else (e, h - 1)
        while d < last and incomplete[h, d] + complete[d, e] != complete[h, e]:
            d += 1
        heads[d] = h
        stack[top, 0], stack[top, 1] = d, e
        i, j = min(h, d), max(h, d)
        k = i
        while complete[i, k] + complete[j, k + 1] + scores[d, h] != incomplete[h, d]:
            k += 1
        stack[top + 1, 0], stack[top + 1, 1] = i, k
        stack[top + 2, 0], stack[top + 2, 1] = j, k + 1
        top += 3


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(lengths, offsets, token_offsets, scores, single_root, active, values, heads):
    """Score and heads of the best tree of every active sentence; a head is -1 for the root, -2 if impossible."""
    longest = 0
    for n in range(len(active)):
        longest = max(longest, lengths[n])
    complete, incomplete = np.empty((2, longest, longest))
    prefix, rooted = np.empty((2, longest + 1))
    stack = np.empty((2 * longest + 4, 2), np.int64)
    for n in range(len(active)):
        if not active[n] or lengths[n] == 0:
            continue
        size, first = lengths[n], token_offsets[n]
        own = scores[offsets[n] : offsets[n + 1]].reshape(size, size)
        _inside(size, own, complete, incomplete)
        _inside_root(size, own, single_root, complete, prefix, rooted)
        values[n] = prefix[size]
        heads[first : first + size] = -2
        if values[n] > -np.inf:
            _trace(size, own, complete, incomplete, prefix, rooted, stack, heads[first : first + size])
