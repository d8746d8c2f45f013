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

All numbers of a group of sentences are in one flat array; entries are LANES numbers wide, and places count numbers.
Graphs are indexed [dependent, head], r on the diagonal. Sentences of a group are of one length, so that results
do not depend on the others of its group.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import LANES, any_below, larger, least_positive, load, spread, store

FLOOR = 1e-70
CEILING = 1e70
# Entries at the start of the array of a group: the smallest positive number where some are zero; the largest
# r[k] / s[k]; 1 where no tree is possible; a sum of a row, and that of two words, which are not kept.
_LEAST, _LARGEST, _IMPOSSIBLE, _SPARE, _ENDS = 0, LANES, 2 * LANES, 3 * LANES, 4 * LANES
_N_WATCHED = 5


@njit(cache=True, nogil=True, error_model="numpy")
def fill_exponents(sentences, lengths, starts, scores, single_root, gamma, places, exponents, tops):
    """Exponents of the potentials of groups of sentences, and what each row, and all arcs from the root, are less.

    Group g is ``sentences[g * LANES : (g + 1) * LANES]``, all of one length n, and has the block of shape
    (n, n, LANES) of ``exponents`` that starts at ``places[g]``. With a single root, arcs from the root have a top of
    their own: every tree has one of them. ``tops`` becomes the sum of all tops of a sentence, in nats.
    """
    for at in range(len(sentences)):
        sentence, place = sentences[at], places[at // LANES]
        n = lengths[sentence]
        block = scores[starts[sentence] : starts[sentence] + n * n]
        out = exponents[place : place + n * n * LANES]
        lane, total, largest_root = at % LANES, 0.0, -np.inf
        for d in range(n):
            row, top = block[d * n : (d + 1) * n], -np.inf
            for h in range(n):
                if h != d or not single_root:
                    top = row[h] if row[h] > top else top
            top = 0.0 if top == -np.inf else top
            total += top
            for h in range(n):
                out[(d * n + h) * LANES + lane] = (row[h] - top) / gamma
            largest_root = max(largest_root, row[d] - top)
        if single_root and largest_root > -np.inf:
            total += largest_root
            for d in range(n):
                out[(d * n + d) * LANES + lane] -= largest_root / gamma
        tops[sentence] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _add_products(space, out, width, step, left, count, right, row):
    """out[c] += sum over i < count of left[i] * right[i, c], for c < width.

    Entries of ``out``, and those of a row of ``right``, are ``step`` apart, rows of ``right`` are ``row`` apart.
    """
    c = 0
    while c + 4 <= width:
        at, other = out + c * step, right + c * step
        a, b = load(space, at), load(space, at + step)
        x, y = load(space, at + 2 * step), load(space, at + 3 * step)
        for factor in range(left, left + count * LANES, LANES):
            by = load(space, factor)
            a, b = a + by * load(space, other), b + by * load(space, other + step)
            x, y = x + by * load(space, other + 2 * step), y + by * load(space, other + 3 * step)
            other += row
        store(space, at, a)
        store(space, at + step, b)
        store(space, at + 2 * step, x)
        store(space, at + 3 * step, y)
        c += 4
    while c < width:
        at, other = out + c * step, right + c * step
        a = load(space, at)
        for factor in range(left, left + count * LANES, LANES):
            a, other = a + load(space, factor) * load(space, other), other + row
        store(space, at, a)
        c += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _start_again(space, graph, m, k, several, changed, total):
    """Where the sum of row k is zero, the root was eliminated before, or no tree is possible; see above."""
    for lane in range(LANES):
        if space[total + lane] == 0.0:
            root = space[graph + k * (m + 1) * LANES + lane]
            if space[several + lane] == 1.0 or root == 0.0:
                space[_IMPOSSIBLE + lane], space[total + lane] = 1.0, 1.0
                continue
            space[several + lane], space[changed + lane], space[total + lane] = 1.0, 1.0, root
            for d in range(m):
                space[graph + d * (m + 1) * LANES + lane] = 0.0
            space[graph + k * (m + 1) * LANES + lane] = root


@njit(cache=True, nogil=True, error_model="numpy")
def _normalise(space, graph, m, k, several, changed, total):
    """Divide row k by its sum over words below k, and the root where ``several`` is 1; ``total`` becomes the sum."""
    row = graph + k * m * LANES
    even, odd = load(space, several) * load(space, row + k * LANES), spread(0.0)
    for h in range(0, k - 1, 2):
        even, odd = even + load(space, row + h * LANES), odd + load(space, row + (h + 1) * LANES)
    if k % 2 == 1:
        even = even + load(space, row + (k - 1) * LANES)
    store(space, total, even + odd)
    if any_below(even + odd, spread(FLOOR)):
        _start_again(space, graph, m, k, several, changed, total)
    scale = spread(1.0) / load(space, total)
    for at in range(row, row + (k + 1) * LANES, LANES):
        store(space, at, load(space, at) * scale)
    store(space, _LARGEST, larger(load(space, _LARGEST), load(space, row + k * LANES)))


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate(space, graph, m, kept, several, changed, totals, sparse):
    """Eliminate words kept, ..., m - 1 of a graph, the last one first; their rows become shares of their heads.

    Sums of rows go to ``totals``, unless that is -1.
    """
    stride = m * LANES
    for k in range(m - 1, -1, -1):
        row, low = graph + k * stride, max(kept, k + 1)
        # what row k holds for a word that was eliminated counts with what came from those eliminated before it: four
        # words at a time, first from words before these, then among them
        end = m
        while end > low:
            width = min(4, end - low)
            first = end - width
            right = graph + end * stride + first * LANES
            _add_products(space, row + first * LANES, width, LANES, row + end * LANES, m - end, right, stride)
            for c in range(end - 2, first - 1, -1):
                left, right = row + (c + 1) * LANES, graph + (c + 1) * stride + c * LANES
                _add_products(space, row + c * LANES, 1, LANES, left, end - 1 - c, right, stride)
            end = first
        diagonal = row + k * LANES
        root = load(space, diagonal)
        for i in range(low, m):
            root = root + load(space, row + i * LANES) * load(space, graph + i * (stride + LANES))
        _add_products(space, row, low, LANES, row + low * LANES, m - low, graph + low * stride, stride)
        store(space, diagonal, root)
        if sparse:
            least = load(space, _LEAST)
            for at in range(row, row + stride, LANES):
                least = least_positive(least, load(space, at))
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
        _add_products(space, out, kept, row, heads, k, reach, column)


@njit(cache=True, nogil=True, error_model="numpy")
def _copy(space, parent, stride, m, turned, graph):
    """The first m words of a graph whose rows are ``stride`` apart, in reverse order where ``turned``."""
    for d in range(m):
        out, source, step = graph + d * m * LANES, parent + d * stride, LANES
        if turned:
            source, step = parent + (m - 1 - d) * stride + (m - 1) * LANES, -LANES
        for h in range(m):
            store(space, out + h * LANES, load(space, source + h * step))


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_one(space, graph, reach, direct, total):
    """The sums of a graph of one word."""
    store(space, reach, spread(0.0))
    store(space, direct, spread(1.0))
    left = load(space, graph)
    store(space, total, left)
    if any_below(left, spread(FLOOR)):
        for lane in range(LANES):
            if space[total + lane] == 0.0:
                space[_IMPOSSIBLE + lane], space[total + lane] = 1.0, 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_pair(space, graph, stride, reach, row, column, direct, step, several, total):
    """The sums of a graph of two words, without further levels; ``total`` becomes the product of two sums of rows."""
    for d in range(2):
        h = 1 - d
        root, arc = load(space, graph + h * (stride + LANES)), load(space, graph + d * stride + h * LANES)
        away = load(space, graph + h * stride + d * LANES) + load(space, several) * root
        ends = load(space, graph + d * (stride + LANES)) * away + arc * root
        store(space, _SPARE, away)
        store(space, total, ends)
        store(space, direct + d * step, spread(1.0))
        if any_below(away, spread(FLOOR)) or any_below(ends, spread(FLOOR)):
            for lane in range(LANES):
                if space[_SPARE + lane] == 0.0:  # word h is the root, and d hangs on it
                    space[direct + d * step + lane] = 0.0
                    space[_SPARE + lane] = space[graph + h * (stride + LANES) + lane]
                if space[total + lane] == 0.0:
                    space[_IMPOSSIBLE + lane], space[total + lane], space[_SPARE + lane] = 1.0, 1.0, 1.0
        ahead = root / load(space, _SPARE)
        store(space, reach + d * row + h * column, ahead)
        store(space, reach + d * (row + column), spread(0.0))
        store(space, _LARGEST, larger(load(space, _LARGEST), ahead))


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate_all_but_each(space, n, graphs, reach, direct, ways, totals, sparse):
    """Fill ``reach``, indexed [before which word, from which], and ``direct`` for the first of ``graphs``.

    Level l has words of level l - 1 of which half were eliminated. It copies these, eliminates the second half and goes
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
            _copy(space, graphs[level - 1], stride, m, half == 1, graphs[level])
            store(space, several, load(space, above))
            store(space, changed, spread(0.0))
            _eliminate(space, graphs[level], m, kept, several, changed, totals if counting else -1, sparse)
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
            changed = ways + (2 * level + 1) * LANES
            if any_below(spread(0.0), load(space, changed)):
                for lane in range(LANES):
                    if space[changed + lane] == 1.0:
                        for d in range(kept):
                            space[first + d * step + lane] = 0.0
            halves[level] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _load_potentials(potentials, sentences, starts, scores, n, space, graph, state):
    """Copy potentials of a group to its first graph; returns whether some are zero.

    Those below FLOOR become zero; ``state`` becomes 1 for sentences of which one does that was not zero.
    """
    sparse = False
    for k in range(n * n):
        if any_below(load(potentials, k * LANES), spread(FLOOR)):
            sparse = True
            for lane in range(LANES):
                if potentials[k * LANES + lane] < FLOOR:
                    potentials[k * LANES + lane] = 0.0
                    if scores[starts[sentences[lane]] + k] > -np.inf:
                        state[lane] = 1
        store(space, graph + k * LANES, load(potentials, k * LANES))
    return sparse


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
def sum_pass(
    sentences, lengths, starts, scores, single_root, gamma, places, potentials, tops, values, marginals, status
):
    """Values and marginals of groups of sentences; ``status`` becomes 0 but where log space is needed.

    ``potentials`` are exponentials of what ``fill_exponents`` made. A group may end with its last sentence repeated.
    """
    longest = 0
    for group in range(len(places)):
        longest = max(longest, lengths[sentences[group * LANES]])
    depth, size, n_entries = 1, longest, _N_WATCHED + 3 * longest * longest
    while size > 2:
        size = (size + 1) // 2
        n_entries, depth = n_entries + size * size, depth + 1
    n_entries += 2 * longest + 2 * (depth + 1)
    numbers = np.empty((n_entries + 1) * LANES)
    space = numbers[-(numbers.ctypes.data // 8) % LANES :]  # so that no entry takes two lines of the cache
    state, graphs = np.zeros(LANES, np.int64), np.zeros(depth + 1, np.int64)
    for group in range(len(places)):
        members = sentences[group * LANES : (group + 1) * LANES]
        n = lengths[members[0]]
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
        sparse = _load_potentials(potentials[places[group] :], members, starts, scores, n, space, graphs[0], state)
        for entry, number in ((_LEAST, 1.0), (_LARGEST, 0.0), (_IMPOSSIBLE, 0.0), (ways, 0.0 if single_root else 1.0)):
            store(space, entry, spread(number))
        _eliminate_all_but_each(space, n, graphs, reach, direct, ways, totals, sparse)
        _share_heads(space, graphs[0], reach, direct, n)
        for lane in range(LANES):
            sentence = members[lane]
            if space[_LEAST + lane] < FLOOR or space[_LARGEST + lane] > CEILING:
                state[lane] = 1
            if state[lane] == 1 or status[sentence] == 0:
                continue
            status[sentence] = 0
            if space[_IMPOSSIBLE + lane] == 1.0:
                values[sentence] = -np.inf
                continue
            values[sentence] = tops[sentence] + gamma * _log_of_product(space, totals, n, lane)
            start, weight = starts[sentence], graphs[0] + lane
            for k in range(n * n):
                marginals[start + k] = space[weight + k * LANES]
