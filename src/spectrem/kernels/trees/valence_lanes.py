"""Inside and outside passes of projective trees with valence, scaled, LANES sentences side by side.

``valence_steps`` of the structures says what the tables are, ``_lanes`` how sentences share them; ``linked`` is called
``arcs`` here, and ``joint`` is ``later`` without the arc.

The scores of an arc and of a stop are scaled as in ``eisner``: by the largest one of the dependent, and of a side of a
head, so that no sum is above the number of trees, which is below (27/4)^n. As there, sentences that are long, or in
which something might under- or overflow, are left to the engine of derivations. Words that a sentence shorter than
others of its group does not have are impossible; it ends at a place of its own.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._lanes import (
    LANES,
    add_products,
    combine,
    combine_more,
    empty_table,
    load_valence,
    longest_of,
    sum_products,
)
from spectrem.kernels.trees.eisner import GROWTH, ROOM


@njit(cache=True, nogil=True, error_model="numpy")
def _unload(members, lengths, offsets, status, stride, first, later, stops, marginals):
    """Marginals of the sentences of ``status`` 0 from tables as those of potentials."""
    for lane in range(len(members)):
        own, size = marginals[offsets[members[lane]] : offsets[members[lane] + 1]], lengths[members[lane]]
        if status[members[lane]] != 0:
            continue
        for d in range(size):
            row, other = first[d * stride : (d + 1) * stride], later[d * stride : (d + 1) * stride]
            for h in range(size):
                own[2 * (d * size + h)] = min(row[h * LANES + lane], 1.0)
                own[2 * (d * size + h) + 1] = min(other[h * LANES + lane], 1.0) if h != d else 0.0
        for k in range(4 * size):
            own[2 * size * size + k] = min(stops[k * LANES + lane], 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def inside(hard, n, stride, first, later, stops, opened, closed, arcs, joint):
    """Sums end by end, as in ``eisner``; those of ``joint`` are not kept where ``hard``."""
    for h in range(n):
        left, right = h * (stride + LANES), h * (stride + LANES) + LANES
        opened[left : right + LANES] = 0.0 if hard else 1.0
        closed[left:right] = stops[4 * h * LANES : (4 * h + 1) * LANES]
        closed[right : right + LANES] = stops[(4 * h + 2) * LANES : (4 * h + 3) * LANES]
    for j in range(1, n):
        for i in range(j - 1, -1, -1):
            width = j - i
            ii, jj = i * (stride + LANES), j * (stride + LANES)
            ij, ji = ii + width * LANES, jj - width * LANES
            at_ij, at_ji = (0, LANES) if hard else (ij, ji)
            combine(hard, joint, at_ij, opened, ii + 2 * LANES, LANES, closed, ji + 2 * LANES, LANES, width - 1)
            combine(hard, joint, at_ji, closed, ii + LANES, LANES, opened, ji + LANES, LANES, width - 1)
            combine(hard, arcs, ij, joint, at_ij, 0, later, ji, 0, 1)
            combine_more(hard, arcs, ij, closed, ji + LANES, 0, first, ji, 0, 1)
            combine(hard, arcs, ji, joint, at_ji, 0, later, ij, 0, 1)
            combine_more(hard, arcs, ji, closed, ij, 0, first, ij, 0, 1)
            combine(hard, opened, ij + LANES, arcs, ii + LANES, LANES, closed, ij + stride + LANES, stride, width)
            combine(hard, opened, ji, arcs, ji, LANES, closed, ii, stride, width)
            combine(hard, closed, ij + LANES, opened, ij + LANES, 0, stops, (4 * i + 3) * LANES, 0, 1)
            combine(hard, closed, ji, opened, ji, 0, stops, (4 * j + 1) * LANES, 0, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def inside_root(hard, n, stride, single_root, first, closed, prefix, rooted, spare):
    """With a single root the only prefix that another root may follow is the empty one."""
    prefix[:LANES] = 0.0 if hard else 1.0
    for d in range(n):
        row, here = d * stride, d * LANES
        combine(hard, spare, 0, prefix, 0, LANES, closed, row, LANES, 1 if single_root else d + 1)
        combine(hard, rooted, here, spare, 0, 0, first, row + here, 0, 1)
        combine(hard, prefix, here + LANES, rooted, 0, LANES, closed, here + LANES, stride, d + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside_root(n, stride, single_root, first, closed, prefix, rooted, d_prefix, d_rooted, d_closed, spare):
    """Derivatives by the sums of ``inside_root``; ``d_prefix`` holds those by the totals, and zeros elsewhere."""
    d_closed[: n * stride], d_rooted[:] = 0.0, 0.0
    for d in range(n - 1, -1, -1):
        row, here = d * stride, d * LANES
        for k in range(d + 1):
            add_products(d_rooted, k * LANES, d_prefix, here + LANES, 0, closed, k * stride + here + LANES, 0, 1)
            add_products(d_closed, k * stride + here + LANES, d_prefix, here + LANES, 0, rooted, k * LANES, 0, 1)
        sum_products(spare, 0, d_rooted, here, 0, first, row + here, 0, 1)
        sum_products(first, row + here, d_rooted, here, 0, rooted, here, 0, 1)
        for k in range(1 if single_root else d + 1):
            add_products(d_prefix, k * LANES, spare, 0, 0, closed, row + k * LANES, 0, 1)
            add_products(d_closed, row + k * LANES, spare, 0, 0, prefix, k * LANES, 0, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside_halves(n, stride, i, j, stops, opened, closed, arcs, d_joint, d_first, d_half, found):
    """Derivatives by both halves between i and j, before they stop; stops are found on the way.

    ``d_half`` holds what the root adds to the derivatives by closed halves. Entry 0 of ``opened`` is one.
    """
    ii, jj, after = i * (stride + LANES), j * (stride + LANES), n - 1 - j
    right, left = ii + (j - i + 1) * LANES, jj - (j - i) * LANES
    at_i, at_j, next_j = i * LANES, j * LANES, (j + 1) * stride
    # closed to the right: under a head on the left, beside a later, or the first, child of a head on the right
    add_products(d_half, right, d_half, at_j + LANES, stride, arcs, at_i, stride, i)
    beside = next_j + stride
    add_products(d_half, right, d_joint, beside + at_i, stride, opened, beside + at_j + LANES, stride, after - 1)
    if after > 0:
        add_products(d_half, right, d_first, next_j + at_i, 0, opened, 0, 0, 1)
    # closed to the left, the other way round
    add_products(d_half, left, d_half, next_j + at_i, stride, arcs, next_j + at_j, stride, after)
    add_products(d_half, left, d_joint, at_j, stride, opened, at_i, stride, i - 1)
    if i > 0:
        add_products(d_half, left, d_first, (i - 1) * stride + at_j, 0, opened, 0, 0, 1)
    some = 1 if j > i else 0
    add_products(found, (4 * i + 2 + some) * LANES, d_half, right, 0, closed, right, 0, 1)
    add_products(found, (4 * j + some) * LANES, d_half, left, 0, closed, left, 0, 1)
    # before they stop, or take another child
    sum_products(d_half, right, d_half, right, 0, stops, (4 * i + 3) * LANES, 0, 1)
    add_products(d_half, right, d_joint, right, LANES, closed, next_j + at_j + LANES, stride, after)
    sum_products(d_half, left, d_half, left, 0, stops, (4 * j + 1) * LANES, 0, 1)
    add_products(d_half, left, d_joint, j * stride, LANES, closed, at_i, stride, i)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside_arc(at, back, inner, opened, closed, joint, first, later, d_first, spare):
    """Marginals of the arc of entry ``at`` [head, dependent], ``back`` [dependent, head], from the derivative by it.

    They take the place of its potentials, and the derivative by ``joint`` that of the sum itself. ``inner`` is the
    dependent's half on the side of its head, where it is the first child.
    """
    sum_products(spare, LANES, spare, 0, 0, later, back, 0, 1)
    sum_products(d_first, at, spare, 0, 0, first, back, 0, 1)
    sum_products(later, back, spare, LANES, 0, joint, at, 0, 1)
    sum_products(first, back, d_first, at, 0, closed, inner, 0, 1)
    sum_products(joint, at, spare, LANES, 0, opened, 0, 0, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(n, stride, first, later, stops, opened, closed, arcs, joint, d_half, d_first, found, spare):
    """Derivatives by the sums of ``inside``, in the opposite order, each gathered from all wider spans.

    Marginals of arcs take the place of potentials in the end, those of stops are added to ``found``.
    """
    found[: 4 * n * LANES] = 0.0
    for j in range(n - 1, -1, -1):
        for i in range(j + 1):
            _outside_halves(n, stride, i, j, stops, opened, closed, arcs, joint, d_first, d_half, found)
            if i < j:
                ij, ji = i * stride + j * LANES, j * stride + i * LANES
                below = j * (stride + LANES) + LANES
                sum_products(spare, 0, d_half, ij + LANES, LANES, closed, below, LANES, n - j)
                _outside_arc(ij, ji, ji + LANES, opened, closed, joint, first, later, d_first, spare)
                sum_products(spare, 0, d_half, j * stride, LANES, closed, i * stride, LANES, i + 1)
                _outside_arc(ji, ij, ij, opened, closed, joint, first, later, d_first, spare)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, lengths, offsets, parts, tops, token_offsets, gamma, single_root, values, status):
    """Smoothed max and marginals of the sentences in ``order``, none of them empty, in groups of LANES.

    Sentence n has the potentials ``parts[offsets[n]:offsets[n + 1]]``. ``tops`` are the scores that were taken off, in
    nats, three for every word of the batch. Marginals take the place of potentials, and ``status`` becomes 0; where
    this fails, both are left as they are. Sentences that follow each other should not differ much in length.
    """
    longest = longest_of(order, lengths)
    # an odd number of cache lines keeps the entries of a column from competing for the same places
    size = longest * ((longest + 1) | 1)
    first, later, opened, closed = empty_table(size), empty_table(size), empty_table(size), empty_table(size)
    arcs, joint, d_half, d_first = empty_table(size), empty_table(size), empty_table(size), empty_table(size)
    stops, found = empty_table(4 * longest), empty_table(4 * longest)
    prefix, d_prefix = empty_table(longest + 1), empty_table(longest + 1)
    rooted, d_rooted, spare = empty_table(longest), empty_table(longest), empty_table(2)
    for start in range(0, len(order), LANES):
        members = order[start : start + LANES]
        n = longest_of(members, lengths)
        stride = ((n + 1) | 1) * LANES
        load_valence(members, lengths, offsets, parts, 0.0, n, stride, first, later, stops)
        inside(False, n, stride, first, later, stops, opened, closed, arcs, joint)
        inside_root(False, n, stride, single_root, first, closed, prefix, rooted, spare)
        d_prefix[:] = 0.0
        for lane in range(len(members)):
            member = members[lane]
            end, words = lengths[member] * LANES + lane, token_offsets[member]
            log_total = math.log(prefix[end]) if prefix[end] > 0.0 else -np.inf
            if lengths[member] * GROWTH - log_total <= ROOM:
                status[member], d_prefix[end] = 0, 1.0 / prefix[end]
                value = gamma * log_total
                for row in range(3 * words, 3 * (words + lengths[member])):
                    value += tops[row]
                values[member] = value
        _outside_root(n, stride, single_root, first, closed, prefix, rooted, d_prefix, d_rooted, d_half, spare)
        _outside(n, stride, first, later, stops, opened, closed, arcs, joint, d_half, d_first, found, spare)
        _unload(members, lengths, offsets, status, stride, first, later, found, parts)
