"""Inside and outside passes, and best trees, of projective trees with valence, LANES sentences side by side.

``valence_steps`` of the structures says what the tables are, ``_lanes`` how sentences share them; ``linked`` is called
``arcs`` here, and ``joint`` is ``later`` without the arc. Scores of an arc and of a stop are scaled by the largest one
of the dependent, and of a side of a head, so that no sum is above the number of trees. Groups, sentences left to the
engine of derivations and the reading of best trees are as in ``eisner``. Of best trees the one with the lowest root
wins, then a first child over a later one, and then the split with the lowest position.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._lanes import (
    LANES,
    add_products,
    as_numbers,
    combine,
    combine_more,
    copy_numbers,
    empty_numbers,
    empty_table,
    empty_tables,
    extent_of,
    fill,
    sum_products,
)
from spectrem.kernels.trees.eisner import (
    by_lane,
    inside_root,
    load_arcs,
    outside_root,
    take_totals,
    trace_roots,
    unload_arcs,
)


@njit(cache=True, nogil=True, error_model="numpy")
def _load(members, lengths, offsets, values, never, n, stride, first, later, stops):
    """Put values of the parts of some trees into tables: arcs [dependent, head, first or later child], then stops."""
    load_arcs(members, lengths, offsets, values, np.int64(0), 2, never, n, stride, first)
    load_arcs(members, lengths, offsets, values, np.int64(1), 2, never, n, stride, later)
    stops[: 4 * n * LANES] = never
    for lane in range(len(members)):
        size = lengths[members[lane]]
        numbers = values[offsets[members[lane]] + 2 * size * size : offsets[members[lane] + 1]]
        for k in range(4 * size):
            stops[k * LANES + lane] = numbers[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _unload(members, lengths, offsets, status, stride, first, later, stops, most, marginals):
    """Marginals of the sentences of ``status`` 0, at most ``most``, from tables as those of potentials."""
    unload_arcs(members, lengths, offsets, status, stride, first, np.int64(0), 2, most, marginals)
    unload_arcs(members, lengths, offsets, status, stride, later, np.int64(1), 2, most, marginals)
    for lane in range(len(members)):
        size, numbers = lengths[members[lane]], marginals[offsets[members[lane]] : offsets[members[lane] + 1]]
        if status[members[lane]] != 0:
            continue
        for d in range(size):
            numbers[2 * d * (size + 1) + 1] = 0.0
        for k in range(4 * size):
            numbers[2 * size * size + k] = min(stops[k * LANES + lane], most)


@njit(cache=True, nogil=True, error_model="numpy")
def _inside(hard, n, stride, first, later, stops, opened, closed, arcs, joint):
    """Sums end by end, as in ``eisner``; those of ``joint`` are not kept where ``hard``."""
    lanes = np.int64(LANES)
    for h in range(n):
        left, right = h * (stride + LANES), h * (stride + LANES) + LANES
        fill(opened, left, 2 * LANES, 0.0 if hard else 1.0)
        copy_numbers(closed, left, stops, 4 * h * LANES, right - left)
        copy_numbers(closed, right, stops, (4 * h + 2) * LANES, lanes)
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
def _outside_halves(n, stride, i, j, stops, opened, closed, arcs, d_joint, d_first, d_half, stop_shares):
    """Derivatives by both halves between i and j, before they stop; stops are found on the way.

    ``d_half`` holds what the root adds to the derivatives by closed halves. Entry 0 of ``opened`` is one.
    """
    zero = np.int64(0)
    ii, jj, after = i * (stride + LANES), j * (stride + LANES), n - 1 - j
    right, left = ii + (j - i + 1) * LANES, jj - (j - i) * LANES
    at_i, at_j, next_j = i * LANES, j * LANES, (j + 1) * stride
    # closed to the right: under a head on the left, beside a later, or the first, child of a head on the right
    add_products(d_half, right, d_half, at_j + LANES, stride, arcs, at_i, stride, i)
    beside = next_j + stride
    add_products(d_half, right, d_joint, beside + at_i, stride, opened, beside + at_j + LANES, stride, after - 1)
    if after > 0:
        add_products(d_half, right, d_first, next_j + at_i, 0, opened, zero, 0, 1)
    # closed to the left, the other way round
    add_products(d_half, left, d_half, next_j + at_i, stride, arcs, next_j + at_j, stride, after)
    add_products(d_half, left, d_joint, at_j, stride, opened, at_i, stride, i - 1)
    if i > 0:
        add_products(d_half, left, d_first, (i - 1) * stride + at_j, 0, opened, zero, 0, 1)
    some = 1 if j > i else 0
    add_products(stop_shares, (4 * i + 2 + some) * LANES, d_half, right, 0, closed, right, 0, 1)
    add_products(stop_shares, (4 * j + some) * LANES, d_half, left, 0, closed, left, 0, 1)
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
    zero, lanes = np.int64(0), np.int64(LANES)
    sum_products(spare, lanes, spare, zero, 0, later, back, 0, 1)
    sum_products(d_first, at, spare, zero, 0, first, back, 0, 1)
    sum_products(later, back, spare, lanes, 0, joint, at, 0, 1)
    sum_products(first, back, d_first, at, 0, closed, inner, 0, 1)
    sum_products(joint, at, spare, lanes, 0, opened, zero, 0, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(n, stride, first, later, stops, opened, closed, arcs, joint, d_half, d_first, stop_shares, spare):
    """Derivatives by the sums of ``_inside``, in the opposite order, each gathered from all wider spans.

    Marginals of arcs take the place of potentials in the end, those of stops are added to ``stop_shares``.
    """
    zero = np.int64(0)
    fill(stop_shares, zero, 4 * n * LANES, 0.0)
    for j in range(n - 1, -1, -1):
        for i in range(j + 1):
            _outside_halves(n, stride, i, j, stops, opened, closed, arcs, joint, d_first, d_half, stop_shares)
            if i < j:
                ij, ji = i * stride + j * LANES, j * stride + i * LANES
                below = j * (stride + LANES) + LANES
                sum_products(spare, zero, d_half, ij + LANES, LANES, closed, below, LANES, n - j)
                _outside_arc(ij, ji, ji + LANES, opened, closed, joint, first, later, d_first, spare)
                sum_products(spare, zero, d_half, j * stride, LANES, closed, i * stride, LANES, i + 1)
                _outside_arc(ji, ij, ij, opened, closed, joint, first, later, d_first, spare)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, lengths, offsets, token_offsets, parts, tops, gamma, single_root, values, status):
    """Smoothed max and marginals of the sentences in ``order``, as `eisner.sum_pass` finds them.

    Sentence n has the potentials ``parts[0][offsets[n]:offsets[n + 1]]``. ``tops`` are the scores that were taken off,
    in nats, three for every word of the batch.
    """
    _, longest = extent_of(order, lengths)
    # an odd number of cache lines keeps the entries of a column from competing for the same places
    size = longest * ((longest + 1) | 1)
    first_tables, later_tables = empty_tables(parts, size), empty_tables(parts, size)
    stop_tables, share_tables = empty_tables(parts, 4 * longest), empty_tables(parts, 4 * longest)
    prefix_tables, d_prefix_tables = empty_tables(parts, longest + 1), empty_tables(parts, longest + 1)
    first, later = as_numbers(first_tables), as_numbers(later_tables)
    stops, stop_shares = as_numbers(stop_tables), as_numbers(share_tables)
    prefix, d_prefix = as_numbers(prefix_tables), as_numbers(d_prefix_tables)
    opened, closed, arcs = empty_numbers(parts, size), empty_numbers(parts, size), empty_numbers(parts, size)
    joint, d_half, d_first = empty_numbers(parts, size), empty_numbers(parts, size), empty_numbers(parts, size)
    rooted, d_rooted = empty_numbers(parts, longest), empty_numbers(parts, longest)
    spare = empty_numbers(parts, np.int64(2))
    behind = np.int64(1)
    for start in range(0, len(order), LANES):
        members = order[start : start + LANES]
        shortest, n = extent_of(members, lengths)
        stride = ((n + 1) | 1) * LANES
        for k in range(len(parts)):
            tables = first_tables[k], later_tables[k], stop_tables[k]
            _load(members, lengths, offsets, parts[k], 0.0, n, stride, *tables)
        _inside(False, n, stride, first, later, stops, opened, closed, arcs, joint)
        inside_root(False, shortest, n, stride, single_root, first, closed, behind, prefix, rooted, spare)
        totals = prefix_tables, d_prefix_tables
        take_totals(members, lengths, token_offsets, tops, np.int64(3), gamma, *totals, values, status)
        outside_root(
            shortest, n, stride, single_root, first, closed, behind, prefix, rooted, d_prefix, d_rooted, d_half, spare
        )
        _outside(n, stride, first, later, stops, opened, closed, arcs, joint, d_half, d_first, stop_shares, spare)
        for k in range(len(parts)):
            tables, most = (first_tables[k], later_tables[k], share_tables[k]), 1.0 if k == 0 else np.inf
            _unload(members, lengths, offsets, status, stride, *tables, most, parts[k])


@njit(cache=True, nogil=True, error_model="numpy")
def _trace(n, first, later, opened, closed, arcs, prefix, rooted, stack, heads):
    """Read one tree of n words from its tables; the stack holds at most both halves of every word."""
    top = trace_roots(n, first, closed, np.int64(1), prefix, rooted, stack, heads)
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
    """Score and heads of the best trees of the sentences in ``order``, as `eisner.max_pass` finds them."""
    _, longest = extent_of(order, lengths)
    size = longest * ((longest + 1) | 1)
    first, later, arcs = empty_table(size), empty_table(size), empty_table(size)
    opened, closed, stops = empty_table(size), empty_table(size), empty_table(4 * longest)
    prefix, rooted, spare = empty_table(longest + 1), empty_table(longest), empty_table(np.int64(2))
    stack = np.empty((2 * longest + 2, 2), np.int64)
    for start in range(0, len(order), LANES):
        members = order[start : start + LANES]
        shortest, n = extent_of(members, lengths)
        columns = (n + 1) | 1
        stride = columns * LANES
        _load(members, lengths, offsets, scores, -np.inf, n, stride, first, later, stops)
        _inside(True, n, stride, first, later, stops, opened, closed, arcs, spare)
        inside_root(True, shortest, n, stride, single_root, first, closed, np.int64(1), prefix, rooted, spare)
        of_first, of_later, of_arcs = by_lane(first, n, columns), by_lane(later, n, columns), by_lane(arcs, n, columns)
        of_opened, of_closed = by_lane(opened, n, columns), by_lane(closed, n, columns)
        for lane in range(len(members)):
            member, words = members[lane], lengths[members[lane]]
            values[member] = prefix[words * LANES + lane]
            if values[member] > -np.inf:
                tables = of_first[:, :, lane], of_later[:, :, lane], of_opened[:, :, lane], of_closed[:, :, lane]
                totals = of_arcs[:, :, lane], prefix[lane::LANES], rooted[lane::LANES]
                tree = heads[token_offsets[member] : token_offsets[member + 1]]
                _trace(words, *tables, *totals, stack, tree)
