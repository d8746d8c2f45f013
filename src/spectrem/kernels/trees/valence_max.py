"""The best projective trees with valence, LANES sentences side by side.

``valence_lanes`` says what the tables are, ``_lanes`` how sentences share them; they hold largest sums of scores. The
best tree is read from the tables afterwards, as in ``eisner_max``. Among equals the lowest root wins, a first child
over a later one, and then the split with the lowest position.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._lanes import LANES, empty_table, load_valence, longest_of
from spectrem.kernels.trees.valence_lanes import inside, inside_root


@njit(cache=True, nogil=True, error_model="numpy")
def trace(n, single_root, first, later, opened, closed, arcs, prefix, rooted, stack, heads):
    """Read one tree of n words from its tables; the stack holds at most both halves of every word."""
    top, end = 0, n
    while end > 0:
        d = 0
        while rooted[d] + closed[d, end] != prefix[end]:
            d += 1
        heads[d] = -1
        stack[top, 0], stack[top, 1] = d, end
        end = 0
        while not single_root and prefix[end] + closed[d, end] + first[d, d] != rooted[d]:
            end += 1
        stack[top + 1, 0], stack[top + 1, 1] = d, end
        top += 2
    while top > 0:
        top -= 1
        h, end = stack[top, 0], stack[top, 1]
        if end == h or end == h + 1:
            continue
        # the outermost child, and what hangs on its far side
        d = h + 1 if end > h else end
        while arcs[h, d] + closed[d, end] != opened[h, end]:
            d += 1
        heads[d] = h
        stack[top, 0], stack[top, 1] = d, end
        top += 1
        # what lies between them belongs to the child where it is the first one, else it is divided
        inner = h + 1 if d > h else h
        if closed[d, inner] + first[d, h] == arcs[h, d]:
            stack[top, 0], stack[top, 1] = d, inner
            top += 1
            continue
        at = h + 2 if d > h else d + 1
        while opened[h, at] + closed[d, at] + later[d, h] != arcs[h, d]:
            at += 1
        stack[top, 0], stack[top, 1] = d, at
        stack[top + 1, 0], stack[top + 1, 1] = h, at
        top += 2


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(order, lengths, offsets, token_offsets, scores, single_root, values, heads):
    """Score and heads of the best trees of the sentences in ``order``, none of them empty, in groups of LANES.

    A head is -1 for the root; heads of a sentence without any possible tree are left as they are. Sentences that follow
    each other should not differ much in length.
    """
    longest = longest_of(order, lengths)
    # an odd number of cache lines keeps the entries of a column from competing for the same places
    size = longest * ((longest + 1) | 1)
    first, later, arcs = empty_table(size), empty_table(size), empty_table(size)
    opened, closed, stops = empty_table(size), empty_table(size), empty_table(4 * longest)
    prefix, rooted, spare = empty_table(longest + 1), empty_table(longest), empty_table(2)
    stack, tree = np.empty((2 * longest + 2, 2), np.int64), np.empty(longest, np.int64)
    for start in range(0, len(order), LANES):
        members = order[start : start + LANES]
        n = longest_of(members, lengths)
        stride = ((n + 1) | 1) * LANES
        load_valence(members, lengths, offsets, scores, -np.inf, n, stride, first, later, stops)
        inside(True, n, stride, first, later, stops, opened, closed, arcs, spare)
        inside_root(True, n, stride, single_root, first, closed, prefix, rooted, spare)
        shape, used = (n, (n + 1) | 1, LANES), n * stride
        all_first, all_later = first[:used].reshape(shape), later[:used].reshape(shape)
        all_opened, all_closed = opened[:used].reshape(shape), closed[:used].reshape(shape)
        all_arcs = arcs[:used].reshape(shape)
        for lane in range(len(members)):
            member = members[lane]
            begin, words = token_offsets[member], lengths[member]
            values[member] = prefix[words * LANES + lane]
            if values[member] > -np.inf:
                own = (all_first[:, :, lane], all_later[:, :, lane], all_opened[:, :, lane], all_closed[:, :, lane])
                totals = (all_arcs[:, :, lane], prefix[lane::LANES], rooted[lane::LANES])
                trace(words, single_root, *own, *totals, stack, tree)
                heads[begin : begin + words] = tree[:words]
