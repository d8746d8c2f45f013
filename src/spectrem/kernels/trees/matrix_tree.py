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

The marginal of an arc is w[d, h] e[h, d] over the sum of these and r[d], where e[h, d] says how likely a walk from h
along heads is at the root before it is at d, but for a factor of d alone. For this, all words but d are eliminated,
for every d: those of one half for all of the other half at once, and so on within each half, which in all is 7/9 n^3
products. Going back, e of an eliminated word is the mean of e of its heads, another n^3 / 2.

Potentials below FLOOR, unless zero, and a r[k] / s[k] above CEILING leave a sentence to the log-space pass. All other
numbers but e are at least FLOOR or zero: they only grow, and where some are zero all are looked at after every step.
So no product that counts underflows; an e that does belongs to an arc of less than FLOOR.

Arrays of a group are indexed [dependent, head, lane], r on the diagonal. Sentences of a group are of one length, so
that a sentence gives the same bits in every company. The four lanes are written out, as the compiler then keeps them in
registers, and words are eliminated in pairs, which halves what is stored.
"""

import math

import numpy as np

from spectrem._compiled import njit

LANES = 4
FLOOR = 1e-70
CEILING = 1e70


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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_row(out, factor, row, k):
    """out[:k] += factor * row[:k], lane by lane."""
    a, b, c, d = factor[0], factor[1], factor[2], factor[3]
    for h in range(k):
        out0, out1 = out[h, 0] + a * row[h, 0], out[h, 1] + b * row[h, 1]
        out2, out3 = out[h, 2] + c * row[h, 2], out[h, 3] + d * row[h, 3]
        out[h, 0], out[h, 1], out[h, 2], out[h, 3] = out0, out1, out2, out3


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_rows(first, second, factors, p, q, k):
    """first += factors[0] * p + factors[1] * q and second += factors[2] * p + factors[3] * q, lane by lane."""
    a0, a1, a2, a3 = factors[0, 0], factors[0, 1], factors[0, 2], factors[0, 3]
    b0, b1, b2, b3 = factors[1, 0], factors[1, 1], factors[1, 2], factors[1, 3]
    c0, c1, c2, c3 = factors[2, 0], factors[2, 1], factors[2, 2], factors[2, 3]
    d0, d1, d2, d3 = factors[3, 0], factors[3, 1], factors[3, 2], factors[3, 3]
    for h in range(k):
        p0, p1, p2, p3 = p[h, 0], p[h, 1], p[h, 2], p[h, 3]
        q0, q1, q2, q3 = q[h, 0], q[h, 1], q[h, 2], q[h, 3]
        x0, x1 = first[h, 0] + a0 * p0 + b0 * q0, first[h, 1] + a1 * p1 + b1 * q1
        x2, x3 = first[h, 2] + a2 * p2 + b2 * q2, first[h, 3] + a3 * p3 + b3 * q3
        y0, y1 = second[h, 0] + c0 * p0 + d0 * q0, second[h, 1] + c1 * p1 + d1 * q1
        y2, y3 = second[h, 2] + c2 * p2 + d2 * q2, second[h, 3] + c3 * p3 + d3 * q3
        first[h, 0], first[h, 1], first[h, 2], first[h, 3] = x0, x1, x2, x3
        second[h, 0], second[h, 1], second[h, 2], second[h, 3] = y0, y1, y2, y3


@njit(cache=True, nogil=True, error_model="numpy")
def _normalise(graph, m, k, several, changed, counting, product, state, totals):
    """Divide row k by its sum over words below k, and the root where ``several`` is 1.

    ``several`` becomes 1 where the sum is zero, and ``changed`` with it; ``product`` is multiplied where ``counting``.
    ``state`` of a lane becomes 1 where a number is too large, 2 where no tree is possible.
    """
    row = graph[k]
    sum0, sum1, sum2, sum3 = 0.0, 0.0, 0.0, 0.0
    for h in range(k):
        sum0, sum1, sum2, sum3 = sum0 + row[h, 0], sum1 + row[h, 1], sum2 + row[h, 2], sum3 + row[h, 3]
    totals[0], totals[1], totals[2], totals[3] = sum0, sum1, sum2, sum3
    for lane in range(LANES):
        total, root = totals[lane], row[k, lane]
        if several[lane] == 1.0:
            total += root
        if total == 0.0:
            if several[lane] == 1.0 or root == 0.0:
                state[lane] = 2 if state[lane] == 0 else state[lane]
                total = 1.0
            else:
                several[lane], changed[lane] = 1.0, 1.0
                for d in range(m):
                    graph[d, d, lane] = 0.0
                row[k, lane], total = root, root
        if counting:
            product[lane] += math.log(total)
        totals[lane] = 1.0 / total
        if row[k, lane] * totals[lane] > CEILING:
            state[lane] = max(state[lane], 1)
    scale0, scale1, scale2, scale3 = totals[0], totals[1], totals[2], totals[3]
    for h in range(k + 1):
        row[h, 0], row[h, 1] = row[h, 0] * scale0, row[h, 1] * scale1
        row[h, 2], row[h, 3] = row[h, 2] * scale2, row[h, 3] * scale3


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate(graph, m, kept, several, changed, counting, product, state, sparse, factors):
    """Eliminate words kept, ..., m - 1 of a graph, the last one first; their rows become shares of their heads."""
    k = m - 1
    while k >= kept:
        p = graph[k]
        _normalise(graph, m, k, several, changed, counting, product, state, factors[5])
        j = k - 1
        if j < kept:
            for d in range(k):
                row = graph[d]
                for lane in range(LANES):
                    factors[0, lane] = row[k, lane]
                    factors[4, lane] = row[d, lane] + row[k, lane] * p[k, lane]
                _add_row(row, factors[0], p, k)
                row[d] = factors[4]
        else:
            q = graph[j]
            for lane in range(LANES):
                factors[4, lane] = q[j, lane] + q[k, lane] * p[k, lane]
            _add_row(q, q[k], p, j)
            q[j] = factors[4]
            _normalise(graph, m, j, several, changed, counting, product, state, factors[5])
            for d in range(0, j, 2):
                last = d == j - 1
                first, second = graph[d], graph[d if last else d + 1]
                e = d if last else d + 1
                for lane in range(LANES):
                    factors[0, lane] = first[k, lane]
                    factors[1, lane] = first[j, lane] + first[k, lane] * p[j, lane]
                    factors[2, lane] = second[k, lane]
                    factors[3, lane] = second[j, lane] + second[k, lane] * p[j, lane]
                    pk, qj = p[k, lane], q[j, lane]
                    factors[4, lane] = first[d, lane] + factors[0, lane] * pk + factors[1, lane] * qj
                    factors[5, lane] = second[e, lane] + factors[2, lane] * pk + factors[3, lane] * qj
                if last:
                    _add_row(first, factors[0], p, j)
                    _add_row(first, factors[1], q, j)
                else:
                    _add_rows(first, second, factors, p, q, j)
                    second[e] = factors[5]
                first[d] = factors[4]
            k = j
        if sparse:
            for d in range(k):
                for h in range(k):
                    for lane in range(LANES):
                        if 0.0 < graph[d, h, lane] < FLOOR:
                            state[lane] = max(state[lane], 1)
        k -= 1


@njit(cache=True, nogil=True, error_model="numpy")
def _start_row(row, k, own, kept, into):
    """What a walk adds that goes to the root from word k at once; ``own[d]`` is 0 where this no longer counts."""
    for d in range(kept):
        for lane in range(LANES):
            into[d, lane] = row[k, lane] * own[d, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _look_back(graph, m, kept, small, own, turned, reach, factors):
    """``reach`` of all words of a graph before each of its first ``kept``, of which ``small`` holds that of the latter.

    Words of ``reach`` stand in reverse order where ``turned``. The rows of ``small`` after the first ``kept`` are used.
    """
    k = kept
    while k < m:
        last = k == m - 1
        a, b, first, second = graph[k], graph[m - 1 if last else k + 1], small[k], small[m - 1 if last else k + 1]
        _start_row(a, k, own, kept, first)
        if not last:
            _start_row(b, k + 1, own, kept, second)
        for h in range(0, k - 1, 2):
            if last:
                _add_row(first, a[h], small[h], kept)
                _add_row(first, a[h + 1], small[h + 1], kept)
                continue
            for lane in range(LANES):
                factors[0, lane], factors[1, lane] = a[h, lane], a[h + 1, lane]
                factors[2, lane], factors[3, lane] = b[h, lane], b[h + 1, lane]
            _add_rows(first, second, factors, small[h], small[h + 1], kept)
        if k % 2 == 1:
            _add_row(first, a[k - 1], small[k - 1], kept)
            if not last:
                _add_row(second, b[k - 1], small[k - 1], kept)
        if not last:
            _add_row(second, b[k], first, kept)
        k += 2
    for h in range(m):
        for d in range(kept):
            source, to = small[h, d], reach[m - 1 - h, m - 1 - d] if turned else reach[h, d]
            to[0], to[1], to[2], to[3] = source[0], source[1], source[2], source[3]


@njit(cache=True, nogil=True, error_model="numpy")
def _copy(parent, m, turned, graph):
    """The first m words of a graph, in reverse order where ``turned``."""
    for d in range(m):
        for h in range(m):
            source, to = parent[m - 1 - d, m - 1 - h] if turned else parent[d, h], graph[d, h]
            to[0], to[1], to[2], to[3] = source[0], source[1], source[2], source[3]


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_pair(parent, reach, own, several, counting, product, state):
    """What the levels below a graph of two words would find."""
    for lane in range(LANES):
        for d in range(2):
            h = 1 - d
            away, root = parent[h, d, lane], parent[h, h, lane]
            total = away + root if several[lane] == 1.0 else away
            ends = parent[d, d, lane] * total + (parent[d, h, lane] * root if total > 0.0 else 0.0)
            reach[d, d, lane], own[d, lane] = 0.0, 1.0
            if total == 0.0:  # word h is the root, and d hangs on it
                ends, own[d, lane], total = parent[d, h, lane] * root, 0.0, root
            if ends == 0.0:
                state[lane] = 2 if state[lane] == 0 else state[lane]
                continue
            reach[h, d, lane] = root / total
            if reach[h, d, lane] > CEILING:
                state[lane] = max(state[lane], 1)
            if d == 0 and counting:
                product[lane] += math.log(ends)


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate_all_but_each(n, graphs, reaches, owns, several, changed, product, state, sparse, factors):
    """Fill ``reaches[1]`` and ``owns[1]`` for the graph in ``graphs[0]``.

    Level l has words of level l - 1 of which half were eliminated; ``graphs[l]`` is its own copy of these, of which it
    eliminates the second half and goes one level down, and then the first. ``owns[l, d]`` becomes 0 for words d before
    which a sum of a row was zero at this level or below, so that r of the levels above does not count. The first way
    down makes ``product``.
    """
    sizes, halves = np.zeros(len(graphs), np.int64), np.zeros(len(graphs), np.int64)
    level, counting = 1, True
    sizes[1] = n
    while level > 0:
        m, half = sizes[level], halves[level]
        if m > 2 and half < 2:
            kept = (m + 1) // 2 if half == 0 else m // 2
            _copy(graphs[level - 1], m, half == 1, graphs[level])
            several[level] = several[level - 1]
            changed[level] = 0.0
            ways, began = several[level], changed[level]
            _eliminate(graphs[level], m, kept, ways, began, counting, product, state, sparse, factors)
            level += 1
            sizes[level], halves[level] = kept, 0
            continue
        if m == 1:
            for lane in range(LANES):
                reaches[level, 0, 0, lane], owns[level, 0, lane] = 0.0, 1.0
                left = graphs[level - 1, 0, 0, lane]
                if left == 0.0:
                    state[lane] = 2 if state[lane] == 0 else state[lane]
                elif counting:
                    product[lane] += math.log(left)
            counting = False
        elif m == 2:
            ways = several[level - 1]
            _solve_pair(graphs[level - 1], reaches[level], owns[level], ways, counting, product, state)
            counting = False
        level -= 1
        if level > 0:
            m, kept, turned, below = sizes[level], sizes[level + 1], halves[level] == 1, owns[level + 1]
            _look_back(graphs[level], m, kept, reaches[level + 1], below, turned, reaches[level], factors)
            for d in range(kept):
                for lane in range(LANES):
                    at = m - 1 - d if turned else d
                    owns[level, at, lane] = 0.0 if changed[level, lane] == 1.0 else below[d, lane]
            halves[level] += 1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _share_heads(weight, reach, root, d, totals):
    """Make the weights of arcs to a word their probabilities."""
    for lane in range(LANES):
        weight[d, lane] *= root[lane]
    sum0, sum1, sum2, sum3 = weight[d, 0], weight[d, 1], weight[d, 2], weight[d, 3]
    for h in range(len(weight)):
        if h != d:
            arc, ahead = weight[h], reach[h]
            arc0, arc1, arc2, arc3 = arc[0] * ahead[0], arc[1] * ahead[1], arc[2] * ahead[2], arc[3] * ahead[3]
            sum0, sum1, sum2, sum3 = sum0 + arc0, sum1 + arc1, sum2 + arc2, sum3 + arc3
            arc[0], arc[1], arc[2], arc[3] = arc0, arc1, arc2, arc3
    totals[0], totals[1], totals[2], totals[3] = 1.0 / sum0, 1.0 / sum1, 1.0 / sum2, 1.0 / sum3
    for h in range(len(weight)):
        for lane in range(LANES):
            weight[h, lane] *= totals[lane]


def working_space(longest):
    """Arrays that ``sum_pass`` may use for sentences of up to so many words; most of them is never touched."""
    depth = max(longest - 1, 1).bit_length() + 2
    return np.empty((2, depth * longest * longest * LANES)), np.empty((depth, longest, LANES))


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(
    sentences,
    lengths,
    starts,
    scores,
    single_root,
    gamma,
    places,
    potentials,
    tops,
    space,
    around,
    values,
    marginals,
    status,
):
    """Values and marginals of groups of sentences; ``status`` becomes 0 but where log space is needed.

    ``potentials`` are exponentials of what ``fill_exponents`` made. A group may end with its last sentence repeated.
    ``space`` and ``around`` are from ``working_space``.
    """
    depth = len(around) - 1
    several, changed, product = np.empty((depth + 1, LANES)), np.empty((depth + 1, LANES)), np.empty(LANES)
    state, factors = np.empty(LANES, np.int64), np.empty((6, LANES))
    for group in range(len(places)):
        own = sentences[group * LANES : (group + 1) * LANES]
        n = lengths[own[0]]
        size = (depth + 1) * n * n * LANES
        graphs = space[0, :size].reshape((depth + 1, n, n, LANES))
        reaches = space[1, :size].reshape((depth + 1, n, n, LANES))
        weight = potentials[places[group] : places[group] + n * n * LANES].reshape((n, n, LANES))
        state[:], product[:] = 0, 0.0
        several[0] = 0.0 if single_root else 1.0
        sparse = False
        for d in range(n):
            for h in range(n):
                arc = weight[d, h]
                if min(min(arc[0], arc[1]), min(arc[2], arc[3])) < FLOOR:
                    sparse = True
                    for lane in range(LANES):
                        if arc[lane] < FLOOR:
                            arc[lane] = 0.0
                            if scores[starts[own[lane]] + d * n + h] > -np.inf:
                                state[lane] = 1
        graphs[0] = weight
        _eliminate_all_but_each(n, graphs, reaches, around, several, changed, product, state, sparse, factors)
        reach, root = reaches[1], around[1]
        for d in range(n):
            _share_heads(weight[d], reach[:, d], root[d], d, factors[0])
        for lane in range(LANES):
            sentence = own[lane]
            if state[lane] == 1 or status[sentence] == 0:
                continue
            status[sentence] = 0
            if state[lane] == 2:
                values[sentence] = -np.inf
                continue
            values[sentence] = tops[sentence] + gamma * product[lane]
            start = starts[sentence]
            for d in range(n):
                row, into = weight[d], marginals[start + d * n : start + (d + 1) * n]
                for h in range(n):
                    into[h] = row[h, lane]
