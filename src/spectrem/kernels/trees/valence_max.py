"""The best projective tree with valence: the recursions of `valence` with maxima, and the way back.

``heads`` of a sentence are positions in it, -1 under the root, -2 throughout where no tree is possible. Among equals
the split with the lowest position wins, and the lowest root.
"""

import numpy as np

from spectrem._compiled import njit

RIGHT, LEFT, RIGHT_ARC, LEFT_ARC = range(4)


@njit(cache=True, nogil=True, error_model="numpy")
def _best_pair(first, second):
    """The largest ``first + second`` of two rows and its place; -1 where none is possible."""
    top, at = -np.inf, -1
    for k in range(len(first)):
        if first[k] + second[k] > top:
            top, at = first[k] + second[k], k
    return top, at


@njit(cache=True, nogil=True, error_model="numpy")
def _climb(n, arcs, stops, tables, splits):
    """Scores of the best items and, in ``splits``, where each is put together."""
    open_right, open_left, right_arc, left_arc = tables[0], tables[1], tables[2], tables[3]
    right, right_end, left, left_end = tables[4], tables[5], tables[6], tables[7]
    for i in range(n):
        open_right[i, i] = open_left[i, i] = 0.0
        right[i, i] = right_end[i, i] = stops[i, 1, 0]
        left[i, i] = left_end[i, i] = stops[i, 0, 0]
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            first = left[j, i + 1] + arcs[j, i, 0]
            later, at = _best_pair(open_right[i, i + 1 : j], left[j, i + 2 : j + 1])
            later += arcs[j, i, 1]
            right_arc[i, j], splits[RIGHT_ARC, i, j] = (later, i + 1 + at) if later > first else (first, i)
            first = right[i, j - 1] + arcs[i, j, 0]
            later, at = _best_pair(right[i, i : j - 1], open_left[j, i + 1 : j])
            later += arcs[i, j, 1]
            left_arc[j, i], splits[LEFT_ARC, i, j] = (later, i + at) if later > first else (first, j - 1)
            open_right[i, j], at = _best_pair(right_arc[i, i + 1 : j + 1], right_end[j, i + 1 : j + 1])
            splits[RIGHT, i, j] = i + 1 + at
            right[i, j] = right_end[j, i] = open_right[i, j] + stops[i, 1, 1]
            open_left[j, i], at = _best_pair(left_arc[j, i:j], left_end[i, i:j])
            splits[LEFT, i, j] = i + at
            left[j, i] = left_end[i, j] = open_left[j, i] + stops[j, 0, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(kind, i, j, splits, heads, stack):
    """Set the heads of all words of an item but its own head."""
    size = 1
    stack[0, 0], stack[0, 1], stack[0, 2] = kind, i, j
    while size > 0:
        size -= 1
        kind, i, j = stack[size, 0], stack[size, 1], stack[size, 2]
        if i == j:
            continue
        k = splits[kind, i, j]
        if kind == RIGHT:
            pair = ((RIGHT_ARC, i, k), (RIGHT, k, j))
        elif kind == LEFT:
            pair = ((LEFT_ARC, k, j), (LEFT, i, k))
        else:
            pair = ((RIGHT, i, k), (LEFT, k + 1, j))
            if kind == RIGHT_ARC:
                heads[j] = i
            else:
                heads[i] = j
        for item in pair:
            stack[size, 0], stack[size, 1], stack[size, 2] = item
            size += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _root_one(n, arcs, left_end, right_end, splits, heads, stack):
    best, root = -np.inf, -1
    for r in range(n):
        own = left_end[0, r] + right_end[n - 1, r] + arcs[r, r, 0]
        if own > best:
            best, root = own, r
    if root >= 0:
        heads[root] = -1
        _descend(LEFT, 0, root, splits, heads, stack)
        _descend(RIGHT, root, n - 1, splits, heads, stack)
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _root_many(n, arcs, left_end, right_end, splits, heads, stack, reached, rooted, starts, roots):
    reached[0] = 0.0
    for j in range(n):
        rooted[j] = reached[j + 1] = -np.inf
        starts[j] = roots[j] = -1
        for i in range(j + 1):
            own = reached[i] + left_end[i, j] + arcs[j, j, 0]
            if own > rooted[j]:
                rooted[j], starts[j] = own, i
        for r in range(j + 1):
            own = rooted[r] + right_end[j, r]
            if own > reached[j + 1]:
                reached[j + 1], roots[j] = own, r
    stop = n - 1
    while stop >= 0 and reached[n] > -np.inf:
        root = roots[stop]
        heads[root] = -1
        _descend(RIGHT, root, stop, splits, heads, stack)
        _descend(LEFT, starts[root], root, splits, heads, stack)
        stop = starts[root] - 1
    return reached[n]


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(lengths, offsets, token_offsets, single_root, scores, active, values, heads):
    """The best tree of every active sentence; entries of the others stay."""
    longest = 0
    for m in range(len(lengths)):
        if active[m]:
            longest = max(longest, lengths[m])
    tables, splits = np.empty((8, longest, longest)), np.empty((4, longest, longest), np.int64)
    stack = np.empty((2 * longest + 2, 3), np.int64)
    reached, rooted = np.empty(longest + 1), np.empty(longest)
    starts, roots = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for m in range(len(lengths)):
        if not active[m]:
            continue
        n, start = lengths[m], offsets[m]
        values[m] = 0.0
        if n == 0:
            continue
        own = heads[token_offsets[m] : token_offsets[m + 1]]
        own[:] = -2
        n_arcs = 2 * n * n
        arcs = scores[start : start + n_arcs].reshape(n, n, 2)
        stops = scores[start + n_arcs : offsets[m + 1]].reshape(n, 2, 2)
        _climb(n, arcs, stops, tables, splits)
        if single_root:
            values[m] = _root_one(n, arcs, tables[7], tables[5], splits, own, stack)
        else:
            values[m] = _root_many(n, arcs, tables[7], tables[5], splits, own, stack, reached, rooted, starts, roots)
