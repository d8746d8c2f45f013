"""Two alignment chains of opposite direction coupled by duals: a whole E-step, LANES sentence pairs side by side.

All numbers of a group are in one flat array ``space`` of vectors, one lane per sentence pair; places count numbers. A
direction has one stride for its steps (words produced) and one for its states (words of the other side), so that
potentials and posteriors of both directions lie by cell, [source, target], and nothing is transposed. Potentials of a
position are scaled by a power of two, which rounds nothing, and then never again. Pairs shorter than their group are
padded with positions that only NULL explains (with weight one, which changes nothing) and with words that cannot be
linked. A pair whose total leaves the range of a double is reported in ``status`` and solved without a group, as are
pairs too long for one.
"""

import math
from typing import NamedTuple

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import (
    LANES,
    any_below,
    exponent,
    larger,
    least_positive,
    load,
    load_one,
    power_of_two,
    spread,
    store,
)
from spectrem.kernels.alignments.cells import anchor

PAD = 3
# Doubles end at 1e-308 and 1e308: what is 1e-68 of such a total, or 1e68 times as much, is still inside the range.
SMALLEST, LARGEST = 1e-240, 1e240


class Side(NamedTuple):
    """Where the numbers of one direction of a group are in ``space``, and how far apart those of cells are."""

    potential: int
    posterior: int
    step: int
    state: int
    null: int
    depart: int
    end: int
    total: int
    scale: int
    limit: int


class Work(NamedTuple):
    """Rows in ``space`` that passes over one direction work on: sums, and counts that are kept of the last pass.

    Jumps of more than ``reach`` words share their potentials, those forth and those back; they are summed in
    ``before`` and ``after`` where ``states`` are many.
    """

    reach: int
    before: int
    after: int
    position: int
    arrive: int
    beta: int
    departures: int
    jumps: int
    onward: int


@njit(cache=True, nogil=True, error_model="numpy")
def fill(space, at, count, number):
    x = spread(number)
    for k in range(at, at + count * LANES, LANES):
        store(space, k, x)


@njit(cache=True, nogil=True, error_model="numpy")
def _arrive(space, sum_, stay, emit, link, position, edge, onward):
    """Store the mass that comes to a position by a link and by NULL, and the mass that leaves it."""
    mass = sum_ * load(space, emit)
    store(space, link, mass)
    mass = mass + stay * load(space, position)
    store(space, position, mass)
    store(space, onward, mass * load(space, edge))


@njit(cache=True, nogil=True, error_model="numpy")
def reach_of(moves):
    """The least w such that all wider jumps have one potential in each direction, moves[W + k] = moves[-1], k > w."""
    width = len(moves) // 2
    while width > 0 and moves[len(moves) // 2 + width] == moves[-1] and moves[len(moves) // 2 - width] == moves[0]:
        width -= 1
    return width


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_far(space, row, count, before, after):
    """Sums of the entries of a row before and from each place on."""
    x, y = spread(0.0), spread(0.0)
    store(space, before, x)
    store(space, after + count * LANES, y)
    for k in range(0, count * LANES, LANES):
        x = x + load(space, row + k)
        store(space, before + k + LANES, x)
        back = (count - 1) * LANES - k
        y = y + load(space, row + back)
        store(space, after + back, y)


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(keep, space, steps, states, side, work, moves):
    """Forward sums: what arrives at every link into the posteriors, and the last ones into the position row.

    The rows of what leaves every position are kept for all steps with ``keep``, else steps take turns on two.
    """
    wide, middle = (states + 1) * LANES, len(moves) // 2
    forth, back = spread(moves[len(moves) - 1]), spread(moves[0])
    position, edge = work.position, side.depart
    fill(space, position, states + 1, 0.0)
    fill(space, work.onward, states + 1, 0.0)
    store(space, position, spread(1.0))
    store(space, work.onward, load(space, edge))
    for s in range(steps):
        here = work.onward + (s if keep else s & 1) * wide
        there = work.onward + (s + 1 if keep else 1 - (s & 1)) * wide
        emit, link = side.potential + s * side.step, side.posterior + s * side.step
        stay = load(space, side.null + s * LANES)
        first = stay * load(space, position)
        store(space, position, first)
        store(space, there, first * load(space, edge))
        if work.reach >= 0:
            _sum_far(space, here, states + 1, work.before, work.after)
        i = 0
        while i < states:
            e, to = i * side.state, (i + 1) * LANES
            low, high, far = 0, states + 1, spread(0.0)
            if work.reach >= 0:
                low, high = max(0, i + 1 - work.reach), min(states + 1, i + 5 + work.reach)
                far = forth * load(space, work.before + low * LANES) + back * load(space, work.after + high * LANES)
            a, b, c, d, at = far, far, far, far, middle + 1 + i - low
            if i + 4 <= states:
                for p in range(here + low * LANES, here + high * LANES, LANES):
                    x = load(space, p)
                    a, b = a + x * load_one(moves, at), b + x * load_one(moves, at + 1)
                    c, d = c + x * load_one(moves, at + 2), d + x * load_one(moves, at + 3)
                    at -= 1
                _arrive(space, a, stay, emit + e, link + e, position + to, edge + to, there + to)
                e, to = e + side.state, to + LANES
                _arrive(space, b, stay, emit + e, link + e, position + to, edge + to, there + to)
                e, to = e + side.state, to + LANES
                _arrive(space, c, stay, emit + e, link + e, position + to, edge + to, there + to)
                e, to = e + side.state, to + LANES
                _arrive(space, d, stay, emit + e, link + e, position + to, edge + to, there + to)
                i += 4
            else:
                for p in range(here + low * LANES, here + high * LANES, LANES):
                    a, at = a + load(space, p) * load_one(moves, at), at - 1
                _arrive(space, a, stay, emit + e, link + e, position + to, edge + to, there + to)
                i += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _leave(keep, space, sum_, stay, beta, edge, onward, departures):
    """Backward sum of a position, from that of all ways to leave it."""
    if keep:
        store(space, departures, load(space, departures) + load(space, onward) * sum_)
    store(space, beta, stay * load(space, beta) + sum_ * load(space, edge))


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(keep, space, steps, states, side, work, moves):
    """Backward sums, which make posteriors of what `_forward` left; with ``keep`` counts of departures and jumps."""
    wide, middle = (states + 1) * LANES, len(moves) // 2
    forth, back = spread(moves[len(moves) - 1]), spread(moves[0])
    beta, arrive, edge = work.beta, work.arrive, side.depart
    for s in range(steps - 1, -1, -1):
        onward = work.onward + s * wide
        emit, link = side.potential + s * side.step, side.posterior + s * side.step
        stay = load(space, side.null + s * LANES)
        for i in range(states):
            e, ahead = i * side.state, load(space, beta + (i + 1) * LANES)
            store(space, arrive + i * LANES, ahead * load(space, emit + e))
            store(space, link + e, ahead * load(space, link + e))
        if work.reach >= 0:
            _sum_far(space, arrive, states, work.before, work.after)
        p = 0
        while p <= states:
            to, low, high, far = p * LANES, 0, states, spread(0.0)
            if work.reach >= 0:
                low, high = max(0, p - 1 - work.reach), min(states, p + 3 + work.reach)
                far = back * load(space, work.before + low * LANES) + forth * load(space, work.after + high * LANES)
            a, b, c, d, at = far, far, far, far, middle + 1 - p + low
            if p + 4 <= states + 1:
                for i in range(arrive + low * LANES, arrive + high * LANES, LANES):
                    x = load(space, i)
                    a, b = a + x * load_one(moves, at), b + x * load_one(moves, at - 1)
                    c, d = c + x * load_one(moves, at - 2), d + x * load_one(moves, at - 3)
                    at += 1
                _leave(keep, space, a, stay, beta + to, edge + to, onward + to, work.departures + to)
                to += LANES
                _leave(keep, space, b, stay, beta + to, edge + to, onward + to, work.departures + to)
                to += LANES
                _leave(keep, space, c, stay, beta + to, edge + to, onward + to, work.departures + to)
                to += LANES
                _leave(keep, space, d, stay, beta + to, edge + to, onward + to, work.departures + to)
                p += 4
            else:
                for i in range(arrive + low * LANES, arrive + high * LANES, LANES):
                    a, at = a + load(space, i) * load_one(moves, at), at + 1
                _leave(keep, space, a, stay, beta + to, edge + to, onward + to, work.departures + to)
                p += 1
        if keep:
            _pair(space, states, onward, arrive, work.jumps)


@njit(cache=True, nogil=True, error_model="numpy")
def _pair(space, states, onward, arrive, jumps):
    """Add the products of what leaves and what arrives to ``jumps``, by distance from 1 - ``states`` on.

    PAD rows of zeros lie before and after those of what arrives, so that four distances share one range.
    """
    for first in range(1 - states, states + 1, 4):
        at = jumps + (first + states - 1) * LANES
        begin, stop = max(0, -2 - first), min(states + 1, states + 1 - first)
        come = arrive + (begin + first - 1) * LANES
        a, b, c, d = load(space, at), load(space, at + LANES), load(space, at + 2 * LANES), load(space, at + 3 * LANES)
        for p in range(onward + begin * LANES, onward + stop * LANES, LANES):
            x = load(space, p)
            a, b = a + x * load(space, come), b + x * load(space, come + LANES)
            c, d = c + x * load(space, come + 2 * LANES), d + x * load(space, come + 3 * LANES)
            come += LANES
        store(space, at, a)
        store(space, at + LANES, b)
        store(space, at + 2 * LANES, c)
        store(space, at + 3 * LANES, d)


@njit(cache=True, nogil=True, error_model="numpy")
def chain_pass(keep, space, steps, states, side, work, moves):
    """Forward-backward over one direction: posteriors of all links, and the sum of all potentials."""
    _forward(keep, space, steps, states, side, work, moves)
    total = spread(0.0)
    for p in range(0, (states + 1) * LANES, LANES):
        total = total + load(space, work.position + p) * load(space, side.end + p)
    store(space, side.total, total)
    # The backward sums are over the total from the start, so that their products with forward sums are posteriors.
    for p in range(0, (states + 1) * LANES, LANES):
        store(space, work.beta + p, load(space, side.end + p) / total)
    if keep:
        fill(space, work.departures, states + 1, 0.0)
        fill(space, work.jumps, 2 * states + 4, 0.0)
        fill(space, work.arrive - PAD * LANES, np.int64(PAD), 0.0)
        fill(space, work.arrive + states * LANES, np.int64(PAD), 0.0)
        for p in range(0, (states + 1) * LANES, LANES):
            end = load(space, work.position + p) * load(space, work.beta + p)
            store(space, work.position + p, end)
    _backward(keep, space, steps, states, side, work, moves)


@njit(cache=True, nogil=True, error_model="numpy")
def mixture_pass(space, steps, states, side):
    """Posteriors and the sum of all potentials without a chain, every position on its own (Models 1 and 2)."""
    total, scale, least = spread(1.0), spread(0.0), spread(1.0)
    for s in range(steps):
        emit, link = side.potential + s * side.step, side.posterior + s * side.step
        share = load(space, side.null + s * LANES)
        for i in range(0, states * side.state, side.state):
            share = share + load(space, emit + i)
        total, least = total * share, least_positive(least, share)
        grown = exponent(total)
        total, scale = total * power_of_two(spread(0.0) - grown), scale + grown
        share = spread(1.0) / share
        for i in range(0, states * side.state, side.state):
            store(space, link + i, share * load(space, emit + i))
    store(space, side.total, total)
    store(space, side.scale, scale)
    if any_below(least, spread(SMALLEST)):
        store(space, side.depart, least)
        for lane in range(LANES):
            if space[side.depart + lane] < SMALLEST:
                space[side.total + lane] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def normalise_potentials(space, steps, states, side):
    """Divide every position's potentials by the power of two below their largest; the scale takes its exponent."""
    scale = load(space, side.scale)
    for s in range(steps):
        emit, null = side.potential + s * side.step, side.null + s * LANES
        top = load(space, null)
        for i in range(0, states * side.state, side.state):
            top = larger(top, load(space, emit + i))
        top = larger(spread(-1000.0), spread(0.0) - exponent(top))
        factor, scale = power_of_two(top), scale - top
        store(space, null, factor * load(space, null))
        for i in range(0, states * side.state, side.state):
            store(space, emit + i, factor * load(space, emit + i))
    store(space, side.scale, scale)


_LOG2 = np.log(2.0)
# Jumps beyond reach are summed up where states are at least so many more than those within: it takes two more passes.
_LEAST_FAR = 12


class Pairs(NamedTuple):
    """A shard of sentence pairs; the cell of source i and target j of pair n is ``cell_offsets[n] + i * J + j``."""

    source_offsets: np.ndarray
    target_offsets: np.ndarray
    cell_offsets: np.ndarray
    cells: np.ndarray
    weights: np.ndarray


class Direction(NamedTuple):
    """Potentials of one direction: by cell value, by token (NULL), by jump distance, by length and departure, by end.

    ``links`` holds those of both directions, forward first, so that each cell is looked up once. ``ends[r]`` is for a
    last position r words before the end of the sentence.
    """

    links: np.ndarray
    null: np.ndarray
    moves: np.ndarray
    departures: np.ndarray
    ends: np.ndarray


class Duals(NamedTuple):
    """The constraints and the fixed-step method; ``rate`` is step size / gamma, ``most`` inf without fertility."""

    steps: int
    rate: float
    agreement: bool
    most: float


class Expected(NamedTuple):
    """Expected counts of one direction, as in `Direction`; ``links`` by cell value or by cell."""

    links: np.ndarray
    null: np.ndarray
    jumps: np.ndarray
    departures: np.ndarray
    ends: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def _exponential(x, halvings):
    """exp of ``x`` without branches: a series on a small argument, x / 2**halvings, then squarings."""
    # The small argument is at most 1/16, where the first term left out, y**9 / 9!, is below the rounding of 1. Every
    # squaring doubles the relative error, so that for |x| <= 1 it ends below 16 times that of a double.
    one, y = spread(1.0), x * spread(0.5**halvings)
    series = one + y * spread(1.0 / 6.0) * (one + y * spread(1.0 / 7.0) * (one + y * spread(0.125)))
    series = one + y * spread(1.0 / 3.0) * (one + y * spread(0.25) * (one + y * spread(0.2) * series))
    value = one + y * (one + y * spread(0.5) * series)
    for _ in range(halvings):
        value = value * value
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _agree(rate, space, rows, columns, pitch, side, other):
    """One gradient step on the multipliers of agreement, folded into the potentials of both directions."""
    halvings, pace = 4 + max(0, math.ceil(math.log2(max(rate, 1.0)))), spread(rate)
    for i in range(rows):
        for at in range(i * pitch, i * pitch + columns * LANES, LANES):
            excess = load(space, side.posterior + at) - load(space, other.posterior + at)
            factor = _exponential(pace * excess, halvings)
            store(space, side.potential + at, load(space, side.potential + at) / factor)
            store(space, other.potential + at, load(space, other.potential + at) * factor)


@njit(cache=True, nogil=True, error_model="numpy")
def _widest_gap(space, rows, columns, pitch, side, other, out):
    """The largest difference between posteriors of both directions."""
    gap = spread(0.0)
    for i in range(rows):
        for at in range(i * pitch, i * pitch + columns * LANES, LANES):
            excess = load(space, side.posterior + at) - load(space, other.posterior + at)
            gap = larger(larger(gap, excess), spread(0.0) - excess)
    store(space, out, gap)


@njit(cache=True, nogil=True, error_model="numpy")
def _limit_fertility(rate, most, space, steps, states, side):
    """One projected gradient step on the multipliers of ``sum over positions of link <= most``."""
    for i in range(states):
        for lane in range(LANES):
            at, limit, expected = i * side.state + lane, side.limit + i * LANES + lane, 0.0
            for s in range(steps):
                expected += space[side.posterior + at + s * side.step]
            change = max(rate * (expected - most), -space[limit])
            space[limit] += change
            change = np.exp(-change)
            for s in range(steps):
                space[side.potential + at + s * side.step] *= change


@njit(cache=True, nogil=True, error_model="numpy")
def _fertility(lane, steps, states, space, side, most):
    """Largest excess of a lane's expected fertilities over ``most``, and what their multipliers add to the dual."""
    excess, cost = 0.0, 0.0
    for i in range(states):
        expected = 0.0
        for s in range(steps):
            expected += space[side.posterior + i * side.state + s * side.step + lane]
        excess = max(excess, expected - most)
        cost += space[side.limit + i * LANES + lane] * most
    return excess, cost


@njit(cache=True, nogil=True, error_model="numpy")
def _load_side(chain, lane, steps, states, token, space, side, direction):
    """Potentials of a lane's direction besides those of its cells, which get their places in Models 1 and 2."""
    for s in range(steps):
        space[side.null + s * LANES + lane] = direction.null[token + s]
    if chain:
        for p in range(states + 1):
            space[side.depart + p * LANES + lane] = direction.departures[states, p]
            space[side.end + p * LANES + lane] = direction.ends[states - p]
        return
    middle = len(direction.moves) // 2
    for s in range(steps):
        p = anchor(s, steps, states)
        depart, moves = direction.departures[states, p + 1], direction.moves[middle - p : middle - p + states]
        at = side.potential + s * side.step + lane
        for i in range(states):
            space[at + i * side.state] *= moves[i] * depart


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_links(space, steps, states, side):
    """How much of every word produced is linked, which takes the place of NULL's potentials."""
    for s in range(steps):
        linked, link = spread(0.0), side.posterior + s * side.step
        for i in range(link, link + states * side.state, side.state):
            linked = linked + load(space, i)
        store(space, side.null + s * LANES, linked)


@njit(cache=True, nogil=True, error_model="numpy")
def _unload_side(chain, lane, weight, steps, states, token, space, side, expected):
    """Add what a lane's posteriors say of NULL, and of places in Models 1 and 2, to expected counts."""
    middle = len(expected.jumps) // 2
    for s in range(steps):
        linked = space[side.null + s * LANES + lane]
        expected.null[token + s] += weight * max(1.0 - linked, 0.0)
        if not chain:
            p, at = anchor(s, steps, states), side.posterior + s * side.step + lane
            jumps = expected.jumps[middle - p : middle - p + states]
            for i in range(states):
                jumps[i] += weight * space[at + i * side.state]
            expected.departures[states, p + 1] += weight * linked


@njit(cache=True, nogil=True, error_model="numpy")
def _count_chain(weight, lengths, states, space, work, moves, expected):
    """Add expected counts of jumps (by distance), departures (by sentence length and position) and ends."""
    middle = len(moves) // 2
    for lane in range(LANES):
        if weight[lane] != 0.0:
            for p in range(lengths[lane] + 1):
                at = p * LANES + lane
                expected.departures[lengths[lane], p] += weight[lane] * space[work.departures + at]
                expected.ends[lengths[lane] - p] += weight[lane] * space[work.position + at]
    for distance in range(1 - states, states + 1):
        count, at = 0.0, work.jumps + (distance + states - 1) * LANES
        for lane in range(LANES):
            if weight[lane] != 0.0:
                count += weight[lane] * space[at + lane]
        expected.jumps[middle + distance] += moves[middle + distance] * count


@njit(cache=True, nogil=True, error_model="numpy")
def _load_cells(lane, cells, links, rows, columns, pitch, space, one, other):
    """Potentials of a lane's cells, of both directions."""
    for i in range(rows):
        row, at = cells[i * columns : (i + 1) * columns], i * pitch + lane
        for j in range(columns):
            k = row[j]
            space[one + at + j * LANES] = links[k, 0]
            space[other + at + j * LANES] = links[k, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def _unload_cells(lane, weight, cells, rows, columns, pitch, space, one, other, links):
    """Add a lane's posteriors to the expected counts of both directions."""
    for i in range(rows):
        row, at = cells[i * columns : (i + 1) * columns], i * pitch + lane
        for j in range(columns):
            k = row[j]
            links[k, 0] += weight * space[one.posterior + at + j * LANES]
            links[k, 1] += weight * space[other.posterior + at + j * LANES]


@njit(cache=True, nogil=True, error_model="numpy")
def _place_side(at, n_cells, steps, states, step, state):
    """Places of one direction of a group, from ``at`` on, and what comes after them."""
    null = at + 2 * n_cells
    depart = null + steps * LANES
    end = depart + (states + 1) * LANES
    total = end + (states + 1) * LANES
    limit = total + 2 * LANES
    return Side(at, at + n_cells, step, state, null, depart, end, total, total + LANES, limit), limit + states * LANES


@njit(cache=True, nogil=True, error_model="numpy")
def _place_work(at, steps, states, reach):
    """Places of the rows that passes over one direction work on, from ``at`` on, and what comes after them."""
    row = (states + 2 * PAD + 1) * LANES
    onward, sums = at + 8 * row, at + 6 * row
    reach = reach if states > 2 * reach + _LEAST_FAR else -1
    work = Work(
        reach, sums, sums + row, at, at + row + PAD * LANES, at + 2 * row, at + 3 * row, at + 4 * row, onward
    )  # fmt: skip
    return work, onward + (steps + 1) * (states + 1) * LANES


@njit(cache=True, nogil=True, error_model="numpy")
def _clear(space, n_cells, steps, states, side):
    """Set the potentials of a group to those of padding, which change no total."""
    fill(space, side.potential, n_cells // LANES, 0.0)
    fill(space, side.null, steps, 1.0)
    fill(space, side.depart, states + 1, 0.0)
    fill(space, side.end, states + 1, 1.0)
    fill(space, side.scale, 1 + states, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _is_inside(total):
    return SMALLEST < total < LARGEST


@njit(cache=True, nogil=True, error_model="numpy")
def side_by_side(forward, backward, entries, out):
    """Put some entries of two tables into the columns of ``out``."""
    for k in range(len(entries)):
        out[k, 0], out[k, 1] = forward[entries[k]], backward[entries[k]]


@njit(cache=True, nogil=True, error_model="numpy")
def couple(chain, by_cell, order, pairs, duals, forward, backward, to_forward, to_backward, first, last, gap, status):
    """E-step of both directions of the pairs in ``order``, in groups of LANES.

    Runs ``duals.steps`` fixed gradient steps ([Samdani2012] alg. 3) and adds expected counts of the last posteriors
    to ``to_forward`` and ``to_backward``; with ``by_cell`` of links alone. Per pair: ``first`` and ``last`` are dual
    values (divided by gamma) at multipliers zero and at the last ones, ``gap`` the worst violation, ``status`` 1 where
    a total left the range of a double.
    """
    tall, wide = 0, 0
    for n in order:
        tall = max(tall, pairs.source_offsets[n + 1] - pairs.source_offsets[n])
        wide = max(wide, pairs.target_offsets[n + 1] - pairs.target_offsets[n])
    numbers = np.empty((6 * (tall + 1) * (wide + 2) + 24 * (tall + wide + 2 * PAD + 2)) * LANES)
    space = numbers[-(numbers.ctypes.data // 8) % LANES :]
    every_cell, places = pairs.cells.view(np.uint32), np.empty(tall * wide if by_cell else 0, np.uint32)
    for k in range(len(places)):
        places[k] = k
    weight, lengths = np.empty(LANES), np.zeros((2, LANES), np.int64)
    for start in range(0, len(order), LANES):
        members = order[start : start + LANES]
        lengths[:] = 0
        weight[:] = 0.0
        rows, columns = np.int64(0), np.int64(0)
        for lane in range(len(members)):
            n = members[lane]
            weight[lane] = pairs.weights[n]
            lengths[0, lane] = pairs.source_offsets[n + 1] - pairs.source_offsets[n]
            lengths[1, lane] = pairs.target_offsets[n + 1] - pairs.target_offsets[n]
            rows, columns = max(rows, lengths[0, lane]), max(columns, lengths[1, lane])
        # an odd number of entries apart, so that rows do not compete for the same places of the cache
        pitch = (columns | 1) * LANES
        one, at = _place_side(np.int64(0), rows * pitch, columns, rows, np.int64(LANES), pitch)
        other, at = _place_side(at, rows * pitch, rows, columns, pitch, np.int64(LANES))
        work, at = _place_work(at, columns, rows, reach_of(forward.moves))
        other_work, at = _place_work(at, rows, columns, reach_of(backward.moves))
        _clear(space, rows * pitch, columns, rows, one)
        _clear(space, rows * pitch, rows, columns, other)
        for lane in range(len(members)):
            n, height, width = members[lane], lengths[0, lane], lengths[1, lane]
            cells = every_cell[pairs.cell_offsets[n] : pairs.cell_offsets[n] + height * width]
            _load_cells(lane, cells, forward.links, height, width, pitch, space, one.potential, other.potential)
            _load_side(chain, lane, width, height, pairs.target_offsets[n], space, one, forward)
            _load_side(chain, lane, height, width, pairs.source_offsets[n], space, other, backward)
        if chain:
            normalise_potentials(space, columns, rows, one)
            normalise_potentials(space, rows, columns, other)
        for step in range(duals.steps + 1):
            keep = step == duals.steps
            if chain:
                chain_pass(keep and not by_cell, space, columns, rows, one, work, forward.moves)
                chain_pass(keep and not by_cell, space, rows, columns, other, other_work, backward.moves)
            else:
                mixture_pass(space, columns, rows, one)
                mixture_pass(space, rows, columns, other)
            if step == 0 or keep:
                for lane in range(len(members)):
                    value = np.log(space[one.total + lane]) + np.log(space[other.total + lane])
                    value += _LOG2 * (space[one.scale + lane] + space[other.scale + lane])
                    if step == 0:
                        first[members[lane]] = value
                    last[members[lane]] = value
            if not keep:
                if duals.agreement:
                    _agree(duals.rate, space, rows, columns, pitch, one, other)
                if duals.most < np.inf:
                    _limit_fertility(duals.rate, duals.most, space, columns, rows, one)
                    _limit_fertility(duals.rate, duals.most, space, rows, columns, other)
        if duals.agreement:
            _widest_gap(space, rows, columns, pitch, one, other, work.beta)
        _sum_links(space, columns, rows, one)
        _sum_links(space, rows, columns, other)
        for lane in range(len(members)):
            n, height, width = members[lane], lengths[0, lane], lengths[1, lane]
            if not (_is_inside(space[one.total + lane]) and _is_inside(space[other.total + lane])):
                status[n] = 1
                weight[lane] = 0.0
                continue
            if duals.agreement:
                gap[n] = max(gap[n], space[work.beta + lane])
            if duals.most < np.inf:
                excess, cost = _fertility(lane, width, height, space, one, duals.most)
                other_excess, other_cost = _fertility(lane, height, width, space, other, duals.most)
                gap[n] = max(gap[n], excess, other_excess)
                last[n] += cost + other_cost
            if weight[lane] == 0.0:
                continue
            begin, end = pairs.cell_offsets[n], pairs.cell_offsets[n] + height * width
            if by_cell:
                links = to_forward.links[begin:end]
                _unload_cells(lane, weight[lane], places, height, width, pitch, space, one, other, links)
                continue
            cells = every_cell[begin:end]
            _unload_cells(lane, weight[lane], cells, height, width, pitch, space, one, other, to_forward.links)
            _unload_side(chain, lane, weight[lane], width, height, pairs.target_offsets[n], space, one, to_forward)
            _unload_side(chain, lane, weight[lane], height, width, pairs.source_offsets[n], space, other, to_backward)
        if chain and not by_cell:
            _count_chain(weight, lengths[0], rows, space, work, forward.moves, to_forward)
            _count_chain(weight, lengths[1], columns, space, other_work, backward.moves, to_backward)
