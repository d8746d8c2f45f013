"""Inside and outside passes of projective trees, scaled, LANES sentences side by side.

``projective_steps`` of the structures says what the tables are, both indexed [head, other end], and ``_lanes`` how
sentences share them. The potentials of a word as a dependent are scaled to a largest one of 1. So a sum over partial
trees is at most their number, which is below (27/4)^n for n words. Outside sums, the derivatives of the log of the
total by inside sums, are at most that number divided by the total. Whatever underflows loses less than 1e-307 of a sum,
which changes the total and all probabilities by no more than 1e-307 times both numbers. A sentence is left to the
engine of derivations where this could be noticed, which is where the logs of both together are above ROOM; below it,
nothing overflows either. So are sentences of more than LONGEST words: one of them takes a sixth of the time there of a
group of them here.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._lanes import LANES, add_products, combine, empty_table, load_arcs, longest_of, sum_products

ROOM = 600.0
GROWTH = math.log(27 / 4)
LONGEST = 200


@njit(cache=True, nogil=True, error_model="numpy")
def inside(hard, n, stride, arcs, complete, incomplete, joint):
    """Sums end by end: what they read of the spans that end at j, half of all, stays in the first-level cache.

    Where ``hard``, tables hold largest sums of scores in place of sums of products of potentials.
    """
    for i in range(n):
        complete[i * (stride + LANES) : i * (stride + LANES) + LANES] = 0.0 if hard else 1.0
    for j in range(1, n):
        for i in range(j - 1, -1, -1):
            width = j - i
            ii, ij, ji = i * stride + i * LANES, i * stride + j * LANES, j * stride + i * LANES
            combine(hard, joint, 0, complete, ii, LANES, complete, ji + LANES, LANES, width)
            combine(hard, incomplete, ij, joint, 0, 0, arcs, ji, 0, 1)
            combine(hard, incomplete, ji, joint, 0, 0, arcs, ij, 0, 1)
            combine(hard, complete, ij, incomplete, ii + LANES, LANES, complete, ij + stride, stride, width)
            combine(hard, complete, ji, incomplete, ji, LANES, complete, ii, stride, width)


@njit(cache=True, nogil=True, error_model="numpy")
def inside_root(hard, n, stride, single_root, arcs, complete, prefix, rooted, spare):
    """With a single root the only prefix that another root may follow is the empty one."""
    prefix[:LANES] = 0.0 if hard else 1.0
    for d in range(n):
        row = d * stride
        combine(hard, spare, 0, prefix, 0, LANES, complete, row, LANES, 1 if single_root else d + 1)
        combine(hard, rooted, d * LANES, spare, 0, 0, arcs, row + d * LANES, 0, 1)
        if not single_root or d == n - 1:
            combine(hard, prefix, (d + 1) * LANES, rooted, 0, LANES, complete, d * LANES, stride, d + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside_root(n, stride, single_root, arcs, complete, prefix, rooted, d_prefix, d_rooted, d_complete, spare):
    """Derivatives by the sums of ``inside_root``; ``d_prefix`` holds that by the whole in the end, zeros before."""
    d_complete[:], d_rooted[:] = 0.0, 0.0
    for d in range(n - 1, -1, -1):
        here, row = d * LANES, d * stride
        if not single_root or d == n - 1:
            for k in range(d + 1):
                add_products(d_rooted, k * LANES, d_prefix, here + LANES, 0, complete, k * stride + here, 0, 1)
                add_products(d_complete, k * stride + here, d_prefix, here + LANES, 0, rooted, k * LANES, 0, 1)
        sum_products(spare, 0, d_rooted, here, 0, arcs, row + here, 0, 1)
        sum_products(arcs, row + here, d_rooted, here, 0, rooted, here, 0, 1)
        for k in range(1 if single_root else d + 1):
            add_products(d_prefix, k * LANES, spare, 0, 0, complete, row + k * LANES, 0, 1)
            add_products(d_complete, row + k * LANES, spare, 0, 0, prefix, k * LANES, 0, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(n, stride, arcs, complete, incomplete, d_complete, d_joint, spare):
    """Derivatives by the sums of ``inside``, in the opposite order; probabilities take the place of ``arcs``.

    Every derivative is gathered from all the wider spans that its own is part of. That of a complete span comes from
    those that it ends and from those that it meets another one in.
    """
    for j in range(n - 1, 0, -1):
        for i in range(j):
            row_i, row_j, at_i, at_j = i * stride, j * stride, i * LANES, j * LANES
            ij, ji, after = row_i + at_j, row_j + at_i, n - 1 - j
            add_products(d_complete, ij, d_complete, at_j, stride, incomplete, at_i, stride, i)
            add_products(
                d_complete, ij, d_joint, ij + LANES, LANES, complete, row_j + stride + at_j + LANES, stride, after
            )
            add_products(
                d_complete, ji, d_complete, ji + stride, stride, incomplete, row_j + stride + at_j, stride, after
            )
            add_products(d_complete, ji, d_joint, at_j, stride, complete, at_i - LANES, stride, i)
            # the derivatives by both incomplete spans, to the right and to the left
            sum_products(spare, 0, d_complete, ij, LANES, complete, row_j + at_j, LANES, n - j)
            sum_products(spare, LANES, d_complete, row_j, LANES, complete, row_i, LANES, i + 1)
            sum_products(d_joint, ij, spare, 0, 0, arcs, ji, 0, 1)
            add_products(d_joint, ij, spare, LANES, 0, arcs, ij, 0, 1)
            sum_products(arcs, ji, spare, 0, 0, incomplete, ij, 0, 1)
            sum_products(arcs, ij, spare, LANES, 0, incomplete, ji, 0, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, lengths, offsets, parts, tops, token_offsets, gamma, single_root, values, status):
    """Smoothed max and marginals of the sentences in ``order``, none of them empty, in groups of LANES.

    Sentence n has the potentials ``parts[offsets[n]:offsets[n + 1]]``, indexed [dependent, head], with arcs from the
    root on the diagonal, and its words the scores ``tops``, in nats, that were taken off. Marginals take the place of
    potentials, and ``status`` becomes 0; where this fails, both are left as they are. Sentences that follow each other
    should not differ much in length.
    """
    longest = longest_of(order, lengths)
    # an odd number of cache lines keeps the entries of a column from competing for the same places
    columns = longest | 1
    arcs, complete = empty_table(longest * columns), empty_table(longest * columns)
    incomplete, d_complete = empty_table(longest * columns), empty_table(longest * columns)
    d_joint, spare = empty_table(longest * columns), empty_table(2)
    prefix, d_prefix = empty_table(longest + 1), empty_table(longest + 1)
    rooted, d_rooted = empty_table(longest), empty_table(longest)
    for start in range(0, len(order), LANES):
        members = order[start : start + LANES]
        n = longest_of(members, lengths)
        stride = (n | 1) * LANES
        load_arcs(members, lengths, offsets, parts, 0.0, 1.0, n, stride, arcs)
        inside(False, n, stride, arcs, complete, incomplete, spare)
        inside_root(False, n, stride, single_root, arcs, complete, prefix, rooted, spare)
        d_prefix[:] = 0.0
        for lane in range(len(members)):
            member, total = members[lane], prefix[n * LANES + lane]
            first, size = token_offsets[member], lengths[member]
            log_total = math.log(total) if total > 0.0 else -np.inf
            if size * GROWTH - log_total <= ROOM:
                status[member], d_prefix[n * LANES + lane] = 0, 1.0 / total
                value = gamma * log_total
                for d in range(first, first + size):
                    value += tops[d]
                values[member] = value
        _outside_root(
            n, stride, single_root, arcs, complete, prefix, rooted, d_prefix, d_rooted, d_complete[: n * stride], spare
        )
        _outside(n, stride, arcs, complete, incomplete, d_complete, d_joint, spare)
        for lane in range(len(members)):
            member = members[lane]
            own, size = parts[offsets[member] : offsets[member + 1]], lengths[member]
            if status[member] != 0:
                continue
            for d in range(size):
                row = arcs[d * stride : d * stride + size * LANES]
                for h in range(size):
                    own[d * size + h] = min(row[h * LANES + lane], 1.0)
