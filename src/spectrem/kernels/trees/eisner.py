"""Inside and outside passes, and best trees, of projective trees, LANES sentences side by side.

``projective_steps`` of the structures says what the tables are, both indexed [head, other end], and ``_lanes`` how
sentences share them. A group is worked on as if all its sentences had the length n of the longest: words that a shorter
one does not have are impossible, and it ends at a place of its own, ``prefix[length]``.

Sums: the potentials of a word as a dependent are scaled to a largest one of 1. So a sum over partial trees is at most
their number, which is below (27/4)^n for n words. Outside sums, the derivatives of the log of the total by inside sums,
are at most that number divided by the total. Whatever underflows loses less than 1e-307 of a sum, which changes the
total and all probabilities by no more than 1e-307 times both numbers. A sentence is left to the engine of derivations
where this could be noticed, which is where the logs of both together are above ROOM; below it, nothing overflows
either. So are sentences of more than LONGEST words: one of them takes a sixth of the time there of a group here.
Potentials with slopes (see ``_vectors``) give the slopes of marginals, too, for which the same holds as long as the
largest number of a direction is far from that range.

Maxima: tables hold largest sums of scores. The best tree is read from them afterwards, sentence by sentence: a sum that
is computed again is the same to the last bit, so that no pass needs to remember the best way to make a span.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._lanes import (
    LANES,
    add_products,
    as_numbers,
    combine,
    empty_numbers,
    empty_table,
    empty_tables,
    extent_of,
    fill,
    sum_products,
)

ROOM = 600.0
GROWTH = math.log(27 / 4)
LONGEST = 200
LONGEST_MAX = 128  # one of sixteen longer sentences side by side takes as long as alone, and 16 times the memory


# ---- what trees with and without valence share ----------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def load_arcs(members, lengths, offsets, values, first, step, never, n, stride, table):
    """Put values of the arcs of some sentences, at most LANES, into a table indexed [dependent, head].

    Those of sentence m are every ``step``-th of ``values[offsets[m]:offsets[m + 1]]`` from ``first`` on. The longest
    sentence has n words, and rows are ``stride`` apart; words that a sentence does not have get ``never``.
    """
    table[: n * stride] = never
    for lane in range(len(members)):
        size, numbers = lengths[members[lane]], values[offsets[members[lane]] + first : offsets[members[lane] + 1]]
        for d in range(size):
            row = table[d * stride : d * stride + size * LANES]
            for h in range(size):
                row[h * LANES + lane] = numbers[(d * size + h) * step]


@njit(cache=True, nogil=True, error_model="numpy")
def unload_arcs(members, lengths, offsets, status, stride, table, first, step, most, values):
    """The way back of ``load_arcs``, for the sentences of ``status`` 0; no value is above ``most``."""
    for lane in range(len(members)):
        size, numbers = lengths[members[lane]], values[offsets[members[lane]] + first : offsets[members[lane] + 1]]
        if status[members[lane]] != 0:
            continue
        for d in range(size):
            row = table[d * stride : d * stride + size * LANES]
            for h in range(size):
                numbers[(d * size + h) * step] = min(row[h * LANES + lane], most)


@njit(cache=True, nogil=True, error_model="numpy")
def inside_root(hard, shortest, n, stride, single_root, arcs, complete, behind, prefix, rooted, spare):
    """Sums over the words under the root; the right half of a word that ends with word e is at e + ``behind``.

    With a single root the only prefix that another root may follow is the empty one, and only prefixes that may be a
    sentence are needed.
    """
    zero = np.int64(0)
    fill(prefix, zero, LANES, 0.0 if hard else 1.0)
    for d in range(n):
        row, here = d * stride, d * LANES
        combine(hard, spare, zero, prefix, zero, LANES, complete, row, LANES, 1 if single_root else d + 1)
        combine(hard, rooted, here, spare, zero, 0, arcs, row + here, 0, 1)
        if not single_root or d + 1 >= shortest:
            combine(hard, prefix, here + LANES, rooted, zero, LANES, complete, here + behind * LANES, stride, d + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def outside_root(
    shortest, n, stride, single_root, arcs, complete, behind, prefix, rooted, d_prefix, d_rooted, d_complete, spare
):
    """Derivatives by the sums of ``inside_root``; ``d_prefix`` holds those by the totals, and zeros elsewhere."""
    zero = np.int64(0)
    fill(d_complete, zero, n * stride, 0.0)
    fill(d_rooted, zero, n * LANES, 0.0)
    for d in range(n - 1, -1, -1):
        row, here = d * stride, d * LANES
        if not single_root or d + 1 >= shortest:
            for k in range(d + 1):
                right = k * stride + here + behind * LANES
                add_products(d_rooted, k * LANES, d_prefix, here + LANES, 0, complete, right, 0, 1)
                add_products(d_complete, right, d_prefix, here + LANES, 0, rooted, k * LANES, 0, 1)
        sum_products(spare, zero, d_rooted, here, 0, arcs, row + here, 0, 1)
        sum_products(arcs, row + here, d_rooted, here, 0, rooted, here, 0, 1)
        for k in range(1 if single_root else d + 1):
            add_products(d_prefix, k * LANES, spare, zero, 0, complete, row + k * LANES, 0, 1)
            add_products(d_complete, row + k * LANES, spare, zero, 0, prefix, k * LANES, 0, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def take_totals(members, lengths, token_offsets, tops, per_word, gamma, prefix, d_prefix, values, status):
    """Values of the sentences whose sums are exact, whose ``status`` becomes 0, and the derivatives by their totals.

    ``prefix`` and ``d_prefix`` are tuples of tables.
    """
    for table in d_prefix:
        table[:] = 0.0
    for lane in range(len(members)):
        member = members[lane]
        end, first = lengths[member] * LANES + lane, per_word * token_offsets[member]
        total = prefix[0][end]
        log_total = math.log(total) if total > 0.0 else -np.inf
        if lengths[member] * GROWTH - log_total <= ROOM:
            status[member], d_prefix[0][end] = 0, 1.0 / total
            if len(prefix) == 2:
                d_prefix[1][end] = -prefix[1][end] / total / total
            value = gamma * log_total
            for row in range(first, first + per_word * lengths[member]):
                value += tops[row]
            values[member] = value


@njit(cache=True, nogil=True, error_model="numpy")
def by_lane(table, n, columns):
    """A table of a group as an array of shape (n, columns, LANES)."""
    return table[: n * columns * LANES].reshape((n, columns, LANES))


@njit(cache=True, nogil=True, error_model="numpy")
def trace_roots(end, arcs, complete, behind, prefix, rooted, stack, heads):
    """Find the words under the root of a best tree; their halves go on the stack, whose height is returned."""
    top = 0
    while end > 0:
        d = 0
        while rooted[d] + complete[d, end - 1 + behind] != prefix[end]:
            d += 1
        heads[d] = -1
        stack[top, 0], stack[top, 1] = d, end - 1 + behind
        end = 0
        while prefix[end] + complete[d, end] + arcs[d, d] != rooted[d]:
            end += 1
        stack[top + 1, 0], stack[top + 1, 1] = d, end
        top += 2
    return top


# ---- trees without valence ------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _inside(hard, n, stride, arcs, complete, incomplete, joint):
    """Sums end by end: what they read of the spans that end at j, half of all, stays in the first-level cache.

    Where ``hard``, tables hold largest sums of scores in place of sums of products of potentials.
    """
    zero = np.int64(0)
    for i in range(n):
        fill(complete, i * (stride + LANES), LANES, 0.0 if hard else 1.0)
    for j in range(1, n):
        for i in range(j - 1, -1, -1):
            width = j - i
            ii, ij, ji = i * stride + i * LANES, i * stride + j * LANES, j * stride + i * LANES
            combine(hard, joint, zero, complete, ii, LANES, complete, ji + LANES, LANES, width)
            combine(hard, incomplete, ij, joint, zero, 0, arcs, ji, 0, 1)
            combine(hard, incomplete, ji, joint, zero, 0, arcs, ij, 0, 1)
            combine(hard, complete, ij, incomplete, ii + LANES, LANES, complete, ij + stride, stride, width)
            combine(hard, complete, ji, incomplete, ji, LANES, complete, ii, stride, width)


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(n, stride, arcs, complete, incomplete, d_complete, d_joint, spare):
    """Derivatives by the sums of ``_inside``, in the opposite order; probabilities take the place of ``arcs``.

    Every derivative is gathered from all the wider spans that its own is part of. That of a complete span comes from
    those that it ends and from those that it meets another one in.
    """
    zero, lanes = np.int64(0), np.int64(LANES)
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
            sum_products(spare, zero, d_complete, ij, LANES, complete, row_j + at_j, LANES, n - j)
            sum_products(spare, lanes, d_complete, row_j, LANES, complete, row_i, LANES, i + 1)
            sum_products(d_joint, ij, spare, zero, 0, arcs, ji, 0, 1)
            add_products(d_joint, ij, spare, lanes, 0, arcs, ij, 0, 1)
            sum_products(arcs, ji, spare, zero, 0, incomplete, ij, 0, 1)
            sum_products(arcs, ij, spare, lanes, 0, incomplete, ji, 0, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, lengths, offsets, token_offsets, parts, tops, gamma, single_root, values, status):
    """Smoothed max and marginals of the sentences in ``order``, none of them empty, in groups of LANES.

    Sentence n has the potentials ``parts[0][offsets[n]:offsets[n + 1]]``, indexed [dependent, head], with arcs from the
    root on the diagonal, and its words the scores ``tops``, in nats, that were taken off. Marginals take the place of
    potentials, and ``status`` becomes 0; where this fails, both are left as they are. ``parts[1]``, where there is one,
    holds the slopes of potentials along a direction, whose place those of marginals take. Sentences that follow each
    other should not differ much in length.
    """
    _, longest = extent_of(order, lengths)
    # an odd number of cache lines keeps the entries of a column from competing for the same places
    size = longest * (longest | 1)
    arc_tables = empty_tables(parts, size)
    prefix_tables, d_prefix_tables = empty_tables(parts, longest + 1), empty_tables(parts, longest + 1)
    arcs, prefix, d_prefix = as_numbers(arc_tables), as_numbers(prefix_tables), as_numbers(d_prefix_tables)
    complete, incomplete = empty_numbers(parts, size), empty_numbers(parts, size)
    d_complete, d_joint = empty_numbers(parts, size), empty_numbers(parts, size)
    rooted, d_rooted = empty_numbers(parts, longest), empty_numbers(parts, longest)
    spare = empty_numbers(parts, np.int64(2))
    behind = np.int64(0)
    for start in range(0, len(order), LANES):
        members = order[start : start + LANES]
        shortest, n = extent_of(members, lengths)
        stride = (n | 1) * LANES
        for k in range(len(parts)):
            load_arcs(members, lengths, offsets, parts[k], np.int64(0), 1, 0.0, n, stride, arc_tables[k])
        _inside(False, n, stride, arcs, complete, incomplete, spare)
        inside_root(False, shortest, n, stride, single_root, arcs, complete, behind, prefix, rooted, spare)
        totals = prefix_tables, d_prefix_tables
        take_totals(members, lengths, token_offsets, tops, np.int64(1), gamma, *totals, values, status)
        outside_root(
            shortest, n, stride, single_root, arcs, complete, behind, prefix, rooted, d_prefix, d_rooted, d_complete,
            spare,
        )  # fmt: skip
        _outside(n, stride, arcs, complete, incomplete, d_complete, d_joint, spare)
        for k in range(len(parts)):
            most = 1.0 if k == 0 else np.inf
            unload_arcs(members, lengths, offsets, status, stride, arc_tables[k], np.int64(0), 1, most, parts[k])


@njit(cache=True, nogil=True, error_model="numpy")
def _trace(n, arcs, complete, incomplete, prefix, rooted, stack, heads):
    """Read one tree of n words from its tables: of several best ways to make a span, the leftmost.

    Every word puts a span of each side on the stack, so that this holds at most two of each.
    """
    top = trace_roots(n, arcs, complete, np.int64(0), prefix, rooted, stack, heads)
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
    _, longest = extent_of(order, lengths)
    size = longest * (longest | 1)
    arcs, complete, incomplete = empty_table(size), empty_table(size), empty_table(size)
    prefix, rooted, spare = empty_table(longest + 1), empty_table(longest), empty_table(np.int64(1))
    stack = np.empty((2 * longest + 2, 2), np.int64)
    for start in range(0, len(order), LANES):
        members = order[start : start + LANES]
        shortest, n = extent_of(members, lengths)
        stride = (n | 1) * LANES
        load_arcs(members, lengths, offsets, scores, np.int64(0), 1, -np.inf, n, stride, arcs)
        _inside(True, n, stride, arcs, complete, incomplete, spare)
        inside_root(True, shortest, n, stride, single_root, arcs, complete, np.int64(0), prefix, rooted, spare)
        of_arcs, of_complete = by_lane(arcs, n, n | 1), by_lane(complete, n, n | 1)
        of_incomplete = by_lane(incomplete, n, n | 1)
        for lane in range(len(members)):
            member, words = members[lane], lengths[members[lane]]
            values[member] = prefix[words * LANES + lane]
            if values[member] > -np.inf:
                tables = of_arcs[:, :, lane], of_complete[:, :, lane], of_incomplete[:, :, lane]
                tree = heads[token_offsets[member] : token_offsets[member + 1]]
                _trace(words, *tables, prefix[lane::LANES], rooted[lane::LANES], stack, tree)
