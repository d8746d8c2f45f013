"""Two alignment chains of opposite direction coupled by duals: a whole E-step, LANES sentence pairs side by side.

`spectrem.kernels.alignments.direction_passes` says how the numbers of a group lie. Both directions index their
potentials and posteriors by cell, so that nothing is transposed. Pairs shorter than their group are padded with
positions that only NULL explains (with weight one, which changes nothing) and with words that cannot be linked. A pair
whose total leaves the range of a double is reported in ``status`` and solved without a group, as are pairs too long for
one.
"""

from typing import NamedTuple

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import LANES, larger, load, spread, store
from spectrem.kernels.alignments.cells import anchor
from spectrem.kernels.alignments.direction_passes import (
    LARGEST,
    PAD,
    SMALLEST,
    Side,
    Work,
    chain_pass,
    fill,
    mixture_pass,
    normalise_potentials,
    reach_of,
)

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
    """What a pass adds up for one direction, as in `Direction`; ``links`` by cell value or by cell."""

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
    found = one + y * (one + y * spread(0.5) * series)
    for _ in range(halvings):
        found = found * found
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _agree(rate, space, rows, columns, pitch, side, other):
    """One gradient step on the multipliers of agreement, folded into the potentials of both directions."""
    halvings, pace = 4 + max(0, int(np.ceil(np.log2(max(rate, 1.0))))), spread(rate)
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
    excess, price = 0.0, 0.0
    for i in range(states):
        expected = 0.0
        for s in range(steps):
            expected += space[side.posterior + i * side.state + s * side.step + lane]
        excess = max(excess, expected - most)
        price += space[side.limit + i * LANES + lane] * most
    return excess, price


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
def _copy_cells(lane, weight, rows, columns, pitch, space, one, other, links):
    """Write a lane's posteriors of both directions to its cells."""
    for i in range(rows):
        row, at = links[i * columns : (i + 1) * columns], i * pitch + lane
        for j in range(columns):
            row[j, 0] = weight * space[one.posterior + at + j * LANES]
            row[j, 1] = weight * space[other.posterior + at + j * LANES]


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
    """Potentials that change nothing, of a whole group."""
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
    every_cell = pairs.cells.view(np.uint32)
    weight, lengths = np.empty(LANES), np.zeros((2, LANES), np.int64)
    for start in range(0, len(order), LANES):
        members = order[start : start + LANES]
        lengths[:] = 0
        weight[:] = 0.0
        for lane in range(len(members)):
            n = members[lane]
            weight[lane] = pairs.weights[n]
            lengths[0, lane] = pairs.source_offsets[n + 1] - pairs.source_offsets[n]
            lengths[1, lane] = pairs.target_offsets[n + 1] - pairs.target_offsets[n]
        rows, columns = lengths[0].max(), lengths[1].max()
        # an odd number of entries apart, so that rows do not compete for the same places of the cache
        pitch = (columns | 1) * LANES
        one, at = _place_side(0, rows * pitch, columns, rows, LANES, pitch)
        other, at = _place_side(at, rows * pitch, rows, columns, pitch, LANES)
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
                excess, price = _fertility(lane, width, height, space, one, duals.most)
                other_excess, other_price = _fertility(lane, height, width, space, other, duals.most)
                gap[n] = max(gap[n], excess, other_excess)
                last[n] += price + other_price
            begin, end = pairs.cell_offsets[n], pairs.cell_offsets[n] + height * width
            if by_cell:
                _copy_cells(lane, weight[lane], height, width, pitch, space, one, other, to_forward.links[begin:end])
            elif weight[lane] != 0.0:
                cells = every_cell[begin:end]
                _unload_cells(lane, weight[lane], cells, height, width, pitch, space, one, other, to_forward.links)
                _unload_side(chain, lane, weight[lane], width, height, pairs.target_offsets[n], space, one, to_forward)
                _unload_side(
                    chain, lane, weight[lane], height, width, pairs.source_offsets[n], space, other, to_backward
                )
        if chain and not by_cell:
            _count_chain(weight, lengths[0], rows, space, work, forward.moves, to_forward)
            _count_chain(weight, lengths[1], columns, space, other_work, backward.moves, to_backward)
