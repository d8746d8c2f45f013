"""Sums over all trees, projective or not, by elimination without subtraction, LANES sentences side by side.

A tree hangs every word d on a head h or on the root, with weights w[d, h] and r[d]. The sum over all trees is a
determinant (the matrix-tree theorem), and marginals are differences of entries of an inverse [Koo2007], in which all
digits cancel where a posterior is nearly certain. Here nothing is subtracted, so that every digit stays
[Grassmann1985].

Word k is eliminated by handing its dependents on to its heads: w[d, h] += w[d, k] w[k, h] / s[k] and
r[d] += w[d, k] r[k] / s[k], where s[k] is the sum of what is left of row k; a word that would become its own head
drops out. The sum over all trees is the product of all s, the last of which is r of the word that is left. With several
roots s[k] includes r[k]. With a single root it does not: r is infinitely small beside w, and appears once, in the
last factor. Where s[k] is zero then, no way leads from k to a word that is left, so that the root is k or was
eliminated before; from there on r stands for ways to k, which are no longer small.

The marginal of an arc is w[d, h] e[d, h] over the sum of these and r[d], where e[d, h] says how likely a walk from h
along heads is at the root before it is at d, but for a factor of d alone. For this, all words but d are eliminated,
for every d: those of one half for all of the other half at once, and so on within each half, which in all is 7/9 n^3
products. Going back, e of an eliminated word is the mean of e of its heads, another n^3 / 2.

Words are eliminated from the last one down, row by row: a row gets the rows of all words that were eliminated, times
what it holds for them, in one sum of products that stays in registers. So does every e.

Potentials below FLOOR, unless zero, and a r[k] / s[k] above CEILING leave a sentence to the log-space pass. All other
numbers but e are at least FLOOR or zero: they only grow, and where some are zero all are looked at before their row is
used. So no product that counts underflows; an e that does belongs to an arc of less than FLOOR.

A pass over potentials with slopes (see ``_vectors``) finds the slopes of marginals as well. Those of a number that is
small are small, too: it is a sum of products of potentials, and its slope a mean of sums of their directions, times it.

All numbers of a group of sentences are in one flat array; entries are LANES numbers wide, and places count numbers.
Graphs are indexed [dependent, head], r on the diagonal. Sentences of a group are of one length, so that results
do not depend on the others of its group.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import exponentials
from spectrem._vectors import LANES, any_below, larger, least_positive, load, spread, store, value, where_zero

FLOOR = 1e-70
CEILING = 1e70
# Entries at the start of the array of a group: the smallest positive number where some are zero; the largest
# r[k] / s[k]; 1 where no tree is possible; a sum of a row, and that of two words, which are not kept; the sum of tops.
_LEAST, _LARGEST, _IMPOSSIBLE, _SPARE, _ENDS, _TOPS = range(0, 6 * LANES, LANES)
_N_WATCHED = 6
_LOWEST = -1.7976931348623157e308  # what is less is -inf


# The short loops of these three are put into their callers: a call, with an array and ten numbers to hand over, would
# take as long as a loop.
@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _add_products(space, start, between, out, width, step, left, count, right, row):
    """out[c] = start[c] + sum over i < count of left[i] * right[i, c], for c < width.

    Entries of ``start`` are ``between`` apart, those of ``out`` and of a row of ``right`` ``step``, rows of ``right``
    are ``row`` apart.
    """
    c = 0
    while c + 4 <= width:
        at, other = start + c * between, right + c * step
        a, b = load(space, at), load(space, at + between)
        x, y = load(space, at + 2 * between), load(space, at + 3 * between)
        for factor in range(left, left + count * LANES, LANES):
            by = load(space, factor)
            a, b = a + by * load(space, other), b + by * load(space, other + step)
            x, y = x + by * load(space, other + 2 * step), y + by * load(space, other + 3 * step)
            other += row
        at = out + c * step
        store(space, at, a)
        store(space, at + step, b)
        store(space, at + 2 * step, x)
        store(space, at + 3 * step, y)
        c += 4
    if c + 2 <= width:
        at, other = start + c * between, right + c * step
        a, b = load(space, at), load(space, at + between)
        for factor in range(left, left + count * LANES, LANES):
            by = load(space, factor)
            a, b = a + by * load(space, other), b + by * load(space, other + step)
            other += row
        at = out + c * step
        store(space, at, a)
        store(space, at + step, b)
        c += 2
    if c < width:
        a, other = load(space, start + c * between), right + c * step
        for factor in range(left, left + count * LANES, LANES):
            a, other = a + load(space, factor) * load(space, other), other + row
        store(space, out + c * step, a)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _hand_on(space, start, between, graph, stride, row, low, m):
    """row[c] = start[c] + sum over i > c of row[i] * graph[i, c], for c from m - 1 down to ``low``.

    The words from ``low`` on were eliminated, the last one first, so that what a row holds for one of them includes
    what it held for those after it. Four words at a time: first the products with all words after the four, then those
    among them, in registers. Entries of ``start`` are ``between`` apart.
    """
    end = m
    while end - low >= 4:
        at, other = start + (end - 4) * between, graph + end * stride + (end - 4) * LANES
        a, b = load(space, at), load(space, at + between)
        x, y = load(space, at + 2 * between), load(space, at + 3 * between)
        for factor in range(row + end * LANES, row + m * LANES, LANES):
            by = load(space, factor)
            a, b = a + by * load(space, other), b + by * load(space, other + LANES)
            x, y = x + by * load(space, other + 2 * LANES), y + by * load(space, other + 3 * LANES)
            other += stride
        other = graph + (end - 1) * stride + (end - 4) * LANES
        a, b = a + y * load(space, other), b + y * load(space, other + LANES)
        x, other = x + y * load(space, other + 2 * LANES), other - stride
        a, b = a + x * load(space, other), b + x * load(space, other + LANES)
        a, at = a + b * load(space, other - stride), row + (end - 4) * LANES
        store(space, at, a)
        store(space, at + LANES, b)
        store(space, at + 2 * LANES, x)
        store(space, at + 3 * LANES, y)
        end -= 4
    while end > low:
        end -= 1
        at, other = row + end * LANES, graph + (end + 1) * stride + end * LANES
        a = load(space, start + end * between)
        for factor in range(at + LANES, row + m * LANES, LANES):
            a, other = a + load(space, factor) * load(space, other), other + stride
        store(space, at, a)


@njit(cache=True, nogil=True, error_model="numpy")
def _start_again(space, graph, m, k, several, changed, total):
    """Where the sum of row k is zero, the root was eliminated before, or no tree is possible; see above."""
    zero, one, row_sum = spread(0.0), spread(1.0), load(space, total)
    root = where_zero(load(space, several), load(space, graph + k * (m + 1) * LANES), zero)
    again = where_zero(row_sum, where_zero(root, zero, one), zero)
    row_sum = where_zero(row_sum, root, row_sum)
    store(space, _IMPOSSIBLE, where_zero(row_sum, one, load(space, _IMPOSSIBLE)))
    store(space, total, where_zero(row_sum, one, row_sum))
    store(space, several, where_zero(again, load(space, several), one))
    store(space, changed, where_zero(again, load(space, changed), one))
    for at in range(graph + (k + 1) * (m + 1) * LANES, graph + m * m * LANES, (m + 1) * LANES):
        store(space, at, where_zero(again, load(space, at), zero))


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _normalise(space, graph, m, k, several, changed, total):
    """Divide row k by its sum over words below k, and the root where ``several`` is 1; ``total`` becomes the sum."""
    row = graph + k * m * LANES
    even, odd = load(space, several) * load(space, row + k * LANES), spread(0.0)
    for h in range(0, k - 1, 2):
        even, odd = even + load(space, row + h * LANES), odd + load(space, row + (h + 1) * LANES)
    if k % 2 == 1:
        even = even + load(space, row + (k - 1) * LANES)
    store(space, total, even + odd)
    if any_below(value(even + odd), spread(FLOOR)):
        _start_again(space, graph, m, k, several, changed, total)
    scale = spread(1.0) / load(space, total)
    for at in range(row, row + (k + 1) * LANES, LANES):
        store(space, at, load(space, at) * scale)
    store(space, _LARGEST, larger(value(load(space, _LARGEST)), value(load(space, row + k * LANES))))


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate(space, parent, over, turned, graph, m, kept, several, changed, totals, sparse):
    """Fill a graph with the first m words of ``parent``, of which words kept, ..., m - 1 are eliminated.

    Rows of ``parent`` are ``over`` apart; its words are taken in reverse order where ``turned``. The last word is
    eliminated first; the rows of those eliminated become shares of their heads. Sums of rows go to ``totals``, unless
    that is -1. Where the root was eliminated, ``changed`` is 1, and arcs of words that are left to it count no more.
    """
    stride, first, between = m * LANES, parent, LANES
    if turned:
        first, over, between = parent + (m - 1) * (over + LANES), -over, -LANES
    for k in range(m - 1, -1, -1):
        row, start, low = graph + k * stride, first + k * over, max(kept, k + 1)
        _hand_on(space, start, between, graph, stride, row, low, m)
        root = (spread(1.0) - load(space, changed)) * load(space, start + k * between)
        for i in range(low, m):
            root = root + load(space, row + i * LANES) * load(space, graph + i * (stride + LANES))
        left, right = row + low * LANES, graph + low * stride
        _add_products(space, start, between, row, low, LANES, left, m - low, right, stride)
        store(space, row + k * LANES, root)
        if sparse:
            least = value(load(space, _LEAST))
            for at in range(row, row + stride, LANES):
                least = least_positive(least, value(load(space, at)))
            store(space, _LEAST, least)
        if k >= kept:
            _normalise(space, graph, m, k, several, changed, _SPARE if totals == -1 else totals + k * LANES)


@njit(cache=True, nogil=True, error_model="numpy")
def _look_back(space, graph, m, kept, reach, row, column, direct, step):
    """``reach`` of the words of a graph after its first ``kept``, before each of these, from that of words before it.

    A walk that goes to the root at once counts where ``direct`` is 1.
    """
    for k in range(kept, m):
        heads, out = graph + k * m * LANES, reach + k * column
        root = load(space, heads + k * LANES)
        for d in range(kept):
            store(space, out + d * row, root * load(space, direct + d * step))
        _add_products(space, out, row, out, kept, row, heads, k, reach, column)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_one(space, graph, reach, direct, total):
    """The sums of a graph of one word."""
    store(space, reach, spread(0.0))
    store(space, direct, spread(1.0))
    left = load(space, graph)
    store(space, _IMPOSSIBLE, where_zero(left, spread(1.0), load(space, _IMPOSSIBLE)))
    store(space, total, where_zero(left, spread(1.0), left))


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_pair(space, graph, stride, reach, row, column, direct, step, several, total):
    """The sums of a graph of two words, without further levels; ``total`` becomes the product of two sums of rows."""
    for d in range(2):
        h = 1 - d
        root, arc = load(space, graph + h * (stride + LANES)), load(space, graph + d * stride + h * LANES)
        away = load(space, graph + h * stride + d * LANES) + load(space, several) * root
        ends = load(space, graph + d * (stride + LANES)) * away + arc * root
        # where nothing leads from word h to d, word h is the root, and d hangs on it
        store(space, direct + d * step, where_zero(away, spread(0.0), spread(1.0)))
        away = where_zero(ends, spread(1.0), where_zero(away, root, away))
        store(space, _IMPOSSIBLE, where_zero(ends, spread(1.0), load(space, _IMPOSSIBLE)))
        store(space, total, where_zero(ends, spread(1.0), ends))
        ahead = root / away
        store(space, reach + d * row + h * column, ahead)
        store(space, reach + d * (row + column), spread(0.0))
        store(space, _LARGEST, larger(value(load(space, _LARGEST)), value(ahead)))


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate_all_but_each(space, n, graphs, reach, direct, ways, totals, sparse):
    """Fill ``reach``, indexed [before which word, from which], and ``direct`` for the first of ``graphs``.

    Level l has words of level l - 1 of which half were eliminated. It takes these, eliminates the second half and goes
    one level down, and then the first, in reverse order of words; the levels below fill their part of ``reach`` and
    ``direct`` in place, which they see from the end then. ``direct`` becomes 0 for words before which a sum of a row
    was zero at this level or below, so that r of the levels above does not count. ``ways`` has two entries per level:
    whether r counts in sums of rows, and whether it began to here. The first way down makes ``totals``, of the last two
    words in one.
    """
    depth = len(graphs)
    sizes, halves = np.zeros(depth, np.int64), np.zeros(depth, np.int64)
    places = np.zeros((depth, 5), np.int64)  # of reach, with steps of its rows and columns, and own, with its step
    places[1, 0], places[1, 1], places[1, 2], places[1, 3], places[1, 4] = reach, n * LANES, LANES, direct, LANES
    sizes[0], sizes[1] = n, n
    level, counting = 1, True
    while level > 0:
        m, half, stride = sizes[level], halves[level], sizes[level - 1] * LANES
        place = places[level]
        start, row, column, first, step = place[0], place[1], place[2], place[3], place[4]
        several, changed = ways + 2 * level * LANES, ways + (2 * level + 1) * LANES
        above = several - 2 * LANES
        if m > 2 and half < 2:
            kept = (m + 1) // 2 if half == 0 else m // 2
            store(space, several, load(space, above))
            store(space, changed, spread(0.0))
            sums, graph = totals if counting else -1, graphs[level]
            _eliminate(space, graphs[level - 1], stride, half == 1, graph, m, kept, several, changed, sums, sparse)
            if half == 1:
                start, first = start + (m - 1) * (row + column), first + (m - 1) * step
                row, column, step = -row, -column, -step
            level += 1
            place = places[level]
            place[0], place[1], place[2], place[3], place[4] = start, row, column, first, step
            sizes[level], halves[level] = kept, 0
            continue
        total = totals if counting else _ENDS
        if m == 1:
            _solve_one(space, graphs[level - 1], start, first, total)
        elif m == 2:
            _solve_pair(space, graphs[level - 1], stride, start, row, column, first, step, above, total)
        counting = counting and m > 2
        level -= 1
        if level > 0:
            m, kept = sizes[level], sizes[level + 1]
            place = places[level + 1]
            start, row, column, first, step = place[0], place[1], place[2], place[3], place[4]
            _look_back(space, graphs[level], m, kept, start, row, column, first, step)
            changed = value(load(space, ways + (2 * level + 1) * LANES))
            if any_below(spread(0.0), changed):
                for d in range(kept):
                    place = first + d * step
                    store(space, place, where_zero(changed, load(space, place), spread(0.0)))
            halves[level] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _finite(space, a):
    """A vector with 0 in place of -inf."""
    store(space, _SPARE, a)
    for lane in range(LANES):
        if space[_SPARE + lane] == -np.inf:
            space[_SPARE + lane] = 0.0
    return load(space, _SPARE)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_potentials(space, graph, n, members, starts, scores, single_root, gamma, state):
    """Fill the first graph of a group with potentials; returns whether some are zero.

    Potentials are exp((score - top) / gamma), where every row has a top. With a single root, arcs from the root have
    one of their own: every tree has one of them. The sum of all tops goes to ``_TOPS``, in nats. Potentials below FLOOR
    become zero; ``state`` becomes 1 for sentences of which one does that was possible.
    """
    tops, largest_root, sparse = spread(0.0), spread(-np.inf), False
    for d in range(n):
        row = graph + d * n * LANES
        for lane in range(LANES):
            arcs = scores[starts[members[lane]] + d * n : starts[members[lane]] + (d + 1) * n]
            out = space[row + lane : row + n * LANES : LANES]
            for h in range(n):
                out[h] = arcs[h]
        root = row + d * LANES
        top = spread(-np.inf) if single_root else load(space, root)
        for at in range(row, root, LANES):
            top = larger(top, load(space, at))
        for at in range(root + LANES, row + n * LANES, LANES):
            top = larger(top, load(space, at))
        if any_below(top, spread(_LOWEST)):
            top = _finite(space, top)
        tops = tops + top
        for at in range(row, row + n * LANES, LANES):
            store(space, at, load(space, at) - top)
        largest_root = larger(largest_root, load(space, root))
    if single_root:
        largest_root = _finite(space, largest_root)
        tops = tops + largest_root
        for d in range(n):
            root = graph + d * (n + 1) * LANES
            store(space, root, load(space, root) - largest_root)
    store(space, _TOPS, tops)
    scale = spread(1.0 / gamma)  # where it is infinite, tops become NaN, and their sentences are left to log space
    for k in range(n * n):
        at = graph + k * LANES
        potential = exponentials(load(space, at) * scale)
        store(space, at, potential)
        if any_below(potential, spread(FLOOR)):
            sparse = True
            for lane in range(LANES):
                if space[at + lane] < FLOOR:
                    space[at + lane] = 0.0
                    if scores[starts[members[lane]] + k] > -np.inf:
                        state[lane] = 1
    return sparse


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_slopes(potentials, slopes, graph, n, members, starts, along):
    """Fill the first graph of a group with the slopes of its potentials, times gamma."""
    for lane in range(LANES):
        arcs = along[starts[members[lane]] : starts[members[lane]] + n * n]
        out = slopes[graph + lane : graph + n * n * LANES : LANES]
        for k in range(n * n):
            out[k] = arcs[k]
    for at in range(graph, graph + n * n * LANES, LANES):
        store(slopes, at, load(slopes, at) * load(potentials, at))


@njit(cache=True, nogil=True, error_model="numpy")
def _share_heads(space, weight, reach, direct, n):
    """Make the weights of arcs their probabilities."""
    for d in range(n):
        row, ahead = weight + d * n * LANES, reach + d * n * LANES
        store(space, ahead + d * LANES, load(space, direct + d * LANES))
        total = spread(0.0)
        for at in range(0, n * LANES, LANES):
            arc = load(space, row + at) * load(space, ahead + at)
            store(space, row + at, arc)
            total = total + arc
        scale = spread(1.0) / total
        for at in range(row, row + n * LANES, LANES):
            store(space, at, load(space, at) * scale)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_of_product(space, totals, n, lane):
    """The log of the sum over all trees of a lane; four sums of rows at once do not underflow."""
    log_total = math.log(space[totals + lane])  # which is that of two words
    for k in range(2, n, 4):
        product = 1.0
        for i in range(k, min(k + 4, n)):
            product *= space[totals + i * LANES + lane]
        log_total += math.log(product)
    return log_total


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(sentences, lengths, starts, scores, single_root, gamma, values, marginals, status):
    """Values and marginals of sentences, sorted by length; ``status`` becomes 1 where log space is needed.

    ``scores`` and ``marginals`` are tuples of one array, or of two: scores and a direction, marginals and their slopes
    along it, times gamma.
    """
    if len(sentences) == 0:
        return
    longest = lengths[sentences[-1]]
    depth, size, n_entries = 1, longest, _N_WATCHED + 3 * longest * longest
    while size > 2:
        size = (size + 1) // 2
        n_entries, depth = n_entries + size * size, depth + 1
    n_entries += 2 * longest + 2 * (depth + 1)
    n_rows = len(scores)
    numbers = np.empty((n_rows * n_entries + 1) * LANES)
    start = -(numbers.ctypes.data // 8) % LANES  # so that no entry takes two lines of the cache
    rows = numbers[start : start + n_rows * n_entries * LANES].reshape((n_rows, n_entries * LANES))
    numbers, space = rows[0], rows[0] if len(scores) == 1 else (rows[0], rows[1])
    members, state, graphs = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), np.zeros(depth + 1, np.int64)
    begin = 0
    while begin < len(sentences):
        n, n_members = lengths[sentences[begin]], 0
        while n_members < LANES and begin < len(sentences) and lengths[sentences[begin]] == n:
            members[n_members] = sentences[begin]
            n_members, begin = n_members + 1, begin + 1
        members[n_members:] = members[n_members - 1]
        direct = _N_WATCHED * LANES
        totals = direct + n * LANES
        ways = totals + n * LANES
        reach = ways + 2 * (depth + 1) * LANES
        graphs[0], size = reach + n * n * LANES, n
        graphs[1] = graphs[0] + n * n * LANES
        for level in range(2, depth + 1):
            graphs[level] = graphs[level - 1] + size * size * LANES
            size = (size + 1) // 2
        state[:] = 0
        sparse = _fill_potentials(numbers, graphs[0], n, members, starts, scores[0], single_root, gamma, state)
        if len(scores) == 2:
            _fill_slopes(numbers, rows[1], graphs[0], n, members, starts, scores[1])
        for entry, number in ((_LEAST, 1.0), (_LARGEST, 0.0), (_IMPOSSIBLE, 0.0), (ways, 0.0 if single_root else 1.0)):
            store(space, entry, spread(number))
        _eliminate_all_but_each(space, n, graphs, reach, direct, ways, totals, sparse)
        _share_heads(space, graphs[0], reach, direct, n)
        for lane in range(n_members):
            sentence = members[lane]
            if state[lane] == 1 or numbers[_LEAST + lane] < FLOOR or numbers[_LARGEST + lane] > CEILING:
                status[sentence] = 1
                continue
            if numbers[_IMPOSSIBLE + lane] == 1.0:
                values[sentence] = -np.inf
                continue
            values[sentence] = numbers[_TOPS + lane] + gamma * _log_of_product(numbers, totals, n, lane)
            for row in range(n_rows):
                shares = rows[row, graphs[0] + lane : graphs[0] + n * n * LANES : LANES]
                out = marginals[row][starts[sentence] : starts[sentence] + n * n]
                for k in range(n * n):
                    out[k] = shares[k]
