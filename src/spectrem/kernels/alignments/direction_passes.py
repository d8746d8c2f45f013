"""Forward-backward over one direction of a group of sentence pairs, LANES of them side by side.

All numbers of a group are in one flat array ``space`` of vectors, one lane per sentence pair; places count numbers. A
direction has one stride for its steps (words produced) and one for its states (words of the other side), so that
potentials and posteriors of both directions may lie by cell, [source, target]. Potentials of a position are scaled by a
power of two, which rounds nothing, and then never again.
"""

from typing import NamedTuple

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
    """What arrives at a position by a link, beside what NULL leaves there, and what leaves from there."""
    mass = sum_ * load(space, emit)
    store(space, link, mass)
    mass = mass + stay * load(space, position)
    store(space, position, mass)
    store(space, onward, mass * load(space, edge))


@njit(cache=True, nogil=True, error_model="numpy")
def reach_of(moves):
    """The widest jump whose potential differs from that of the widest of all, forth or back."""
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
        fill(space, work.arrive - PAD * LANES, PAD, 0.0)
        fill(space, work.arrive + states * LANES, PAD, 0.0)
        for p in range(0, (states + 1) * LANES, LANES):
            end = load(space, work.position + p) * load(space, work.beta + p)
            store(space, work.position + p, end)
    _backward(keep, space, steps, states, side, work, moves)


@njit(cache=True, nogil=True, error_model="numpy")
def mixture_pass(space, steps, states, side):
    """The same without a chain: every position on its own (Models 1 and 2)."""
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
