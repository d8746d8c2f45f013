"""The best projective trees of sentences, LANES of them side by side.

``projective_steps`` of the structures says what the tables are, ``_lanes`` how sentences share them; they hold largest
sums of scores. The best tree is read from the tables afterwards, sentence by sentence: a sum that is computed again is
the same to the last bit, so that no pass needs to remember the best way to make a span.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._lanes import LANES, empty_table, load_arcs, longest_of
from spectrem.kernels.trees.eisner import inside, inside_root

LONGEST = 128  # one of sixteen longer sentences side by side takes as long as alone, and 16 times the memory


@njit(cache=True, nogil=True, error_model="numpy")
def trace(n, arcs, complete, incomplete, prefix, rooted, stack, heads):
    """Read one tree from its tables: of several best ways to make a span, the leftmost.

    Every word puts a span of each side on the stack, so that this holds at most two of each.
    """
    top, end = 0, n
    while end > 0:
        d = 0
        while rooted[d] + complete[d, end - 1] != prefix[end]:
            d += 1
        heads[d] = -1
        stack[top, 0], stack[top, 1] = d, end - 1
        end = 0
        while prefix[end] + complete[d, end] + arcs[d, d] != rooted[d]:
            end += 1
        stack[top + 1, 0], stack[top + 1, 1] = d, end
        top += 2
    while top > 0:
        top -= 1
        h, e = stack[top, 0], stack[top, 1]
        if h == e:
            continue
        d, last = (h + 1, e) if h < e else (e, h - 1)
        while d < last and incomplete[h, d] + complete[d, e] != complete[h, e]:
            d += 1
        heads[d] = h
        stack[top, 0], stack[top, 1] = d, e
        i, j = min(h, d), max(h, d)
        k = i
        while complete[i, k] + complete[j, k + 1] + arcs[d, h] != incomplete[h, d]:
            k += 1
        stack[top + 1, 0], stack[top + 1, 1] = i, k
        stack[top + 2, 0], stack[top + 2, 1] = j, k + 1
        top += 3


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(order, lengths, offsets, token_offsets, scores, single_root, values, heads):
    """Score and heads of the best trees of the sentences in ``order``, none of them empty, in groups of LANES.

    A head is -1 for the root; heads of a sentence without any possible tree are left as they are. Sentences that follow
    each other should not differ much in length.
    """
    longest = longest_of(order, lengths)
    # an odd number of cache lines keeps the entries of a column from competing for the same places
    columns = longest | 1
    arcs, complete = empty_table(longest * columns), empty_table(longest * columns)
    incomplete, spare = empty_table(longest * columns), empty_table(1)
    prefix, rooted = empty_table(longest + 1), empty_table(longest)
    stack, tree = np.empty((2 * longest + 2, 2), np.int64), np.empty(longest, np.int64)
    for start in range(0, len(order), LANES):
        members = order[start : start + LANES]
        n = longest_of(members, lengths)
        stride = (n | 1) * LANES
        load_arcs(members, lengths, offsets, scores, -np.inf, 0.0, n, stride, arcs)
        inside(True, n, stride, arcs, complete, incomplete, spare)
        prefix[:] = -np.inf
        inside_root(True, n, stride, single_root, arcs, complete, prefix, rooted, spare)
        shape, used = (n, n | 1, LANES), n * stride
        all_arcs, all_complete = arcs[:used].reshape(shape), complete[:used].reshape(shape)
        all_incomplete = incomplete[:used].reshape(shape)
        for lane in range(len(members)):
            member, value = members[lane], prefix[n * LANES + lane]
            first, size = token_offsets[member], lengths[member]
            values[member] = value
            if value > -np.inf:
                own = (all_arcs[:, :, lane], all_complete[:, :, lane], all_incomplete[:, :, lane])
                trace(n, *own, prefix[lane::LANES], rooted[lane::LANES], stack, tree)
                heads[first : first + size] = tree[:size]
