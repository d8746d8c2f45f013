"""Two alignment chains of opposite direction coupled by duals: a whole E-step, eight sentence pairs in step.

The last axis of every work array is a lane: one of LANES sentence pairs. Pairs shorter than their group are padded
with positions that only NULL explains (with weight one, which changes nothing) and with words that cannot be linked.
Potentials are not rescaled from position to position; a pair whose total leaves the range of a double is reported in
``status`` and solved by the generic path, as are pairs too long for a group.

The lanes are written out by hand where time is spent: all eight loads stand before the eight stores, which is what
the compiler needs to use vector registers without knowing that the arrays do not overlap.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

LANES = 8
_SMALLEST, _LARGEST = 1e-240, 1e240
# Multiplier changes below this (in nats over gamma) are not worth an exponential.
_NEGLIGIBLE = 1e-12


class Pairs(NamedTuple):
    """A shard of sentence pairs; the cell of source i and target j of pair n is ``cell_offsets[n] + i * J + j``."""

    source_offsets: np.ndarray
    target_offsets: np.ndarray
    cell_offsets: np.ndarray
    cells: np.ndarray
    weights: np.ndarray


class Direction(NamedTuple):
    """Potentials of one direction: by cell value, by token (NULL), by jump distance, by length and departure, by end.

    ``ends[r]`` is for a last position r words before the end of the sentence.
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
    """What a pass adds up for one direction; ``links`` by cell value or by cell, the rest as in `Direction`."""

    links: np.ndarray
    null: np.ndarray
    jumps: np.ndarray
    departures: np.ndarray
    ends: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _multiply(n, a, b, out):
    """out = a * b over ``n`` rows of lanes."""
    for i in range(n):
        x0, x1, x2, x3 = a[i, 0] * b[i, 0], a[i, 1] * b[i, 1], a[i, 2] * b[i, 2], a[i, 3] * b[i, 3]
        x4, x5, x6, x7 = a[i, 4] * b[i, 4], a[i, 5] * b[i, 5], a[i, 6] * b[i, 6], a[i, 7] * b[i, 7]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = x0, x1, x2, x3
        out[i, 4], out[i, 5], out[i, 6], out[i, 7] = x4, x5, x6, x7


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _move(n_out, n_in, source, moves, start, step, factor, null, stay, moved, following):
    """moved[o] = factor[o] * sum_k source[k] * moves[start + step * (o - k)]; following = moved + null * stay."""
    for o in range(n_out):
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
        for k in range(n_in):
            m = moves[start + step * (o - k)]
            a0 += source[k, 0] * m
            a1 += source[k, 1] * m
            a2 += source[k, 2] * m
            a3 += source[k, 3] * m
            a4 += source[k, 4] * m
            a5 += source[k, 5] * m
            a6 += source[k, 6] * m
            a7 += source[k, 7] * m
        a0, a1, a2, a3 = a0 * factor[o, 0], a1 * factor[o, 1], a2 * factor[o, 2], a3 * factor[o, 3]
        a4, a5, a6, a7 = a4 * factor[o, 4], a5 * factor[o, 5], a6 * factor[o, 6], a7 * factor[o, 7]
        b0, b1 = a0 + null[0] * stay[o, 0], a1 + null[1] * stay[o, 1]
        b2, b3 = a2 + null[2] * stay[o, 2], a3 + null[3] * stay[o, 3]
        b4, b5 = a4 + null[4] * stay[o, 4], a5 + null[5] * stay[o, 5]
        b6, b7 = a6 + null[6] * stay[o, 6], a7 + null[7] * stay[o, 7]
        moved[o, 0], moved[o, 1], moved[o, 2], moved[o, 3] = a0, a1, a2, a3
        moved[o, 4], moved[o, 5], moved[o, 6], moved[o, 7] = a4, a5, a6, a7
        following[o, 0], following[o, 1], following[o, 2], following[o, 3] = b0, b1, b2, b3
        following[o, 4], following[o, 5], following[o, 6], following[o, 7] = b4, b5, b6, b7


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _scale(n, a, b, out):
    """out = a * b over ``n`` rows of lanes, with one row ``b``."""
    b0, b1, b2, b3, b4, b5, b6, b7 = b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]
    for i in range(n):
        x0, x1, x2, x3 = a[i, 0] * b0, a[i, 1] * b1, a[i, 2] * b2, a[i, 3] * b3
        x4, x5, x6, x7 = a[i, 4] * b4, a[i, 5] * b5, a[i, 6] * b6, a[i, 7] * b7
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = x0, x1, x2, x3
        out[i, 4], out[i, 5], out[i, 6], out[i, 7] = x4, x5, x6, x7


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _chain(
    keep, steps, states, emit, null, moves, depart, end, real, position, onward, arrive, left, beta, link, total
):
    """Forward-backward over one direction: posteriors into ``link``, sums of potentials into ``total``.

    With ``keep`` 1 the rows that counting reads stay; with 0 every step reuses the first, which keeps them in cache.
    """
    middle = len(moves) // 2
    for p in range(states + 1):
        for lane in range(LANES):
            position[0, p, lane] = 1.0 if p == 0 else 0.0
    for s in range(steps):
        row, following = keep * s, keep * (s + 1)
        _multiply(states + 1, position[row], depart, onward[row])
        for lane in range(LANES):
            position[following, 0, lane] = null[s, lane] * position[row, 0, lane]
        _move(
            states, states + 1, onward[row], moves, middle + 1, 1, emit[s], null[s], position[row, 1:],
            real[s], position[following, 1:],
        )  # fmt: skip
    last = keep * steps
    for lane in range(LANES):
        z = 0.0
        for p in range(states + 1):
            z += position[last, p, lane] * end[p, lane]
        total[lane] = z
        for p in range(states + 1):
            beta[last, p, lane] = end[p, lane] / z
    for s in range(steps - 1, -1, -1):
        row, following = keep * s, keep * (s + 1)
        _multiply(states, emit[s], beta[following, 1:], arrive[row])
        _multiply(states, real[s], beta[following, 1:], link[s])
        _move(
            states + 1, states, arrive[row], moves, middle + 1, -1, depart, null[s], beta[following],
            left[row], beta[row],
        )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _mixture(steps, states, emit, null, link, total):
    """The same without a chain: every position on its own (Models 1 and 2)."""
    share = np.empty(LANES)
    for lane in range(LANES):
        total[lane] = 1.0
    for s in range(steps):
        a0, a1, a2, a3 = null[s, 0], null[s, 1], null[s, 2], null[s, 3]
        a4, a5, a6, a7 = null[s, 4], null[s, 5], null[s, 6], null[s, 7]
        for i in range(states):
            a0 += emit[s, i, 0]
            a1 += emit[s, i, 1]
            a2 += emit[s, i, 2]
            a3 += emit[s, i, 3]
            a4 += emit[s, i, 4]
            a5 += emit[s, i, 5]
            a6 += emit[s, i, 6]
            a7 += emit[s, i, 7]
        share[0], share[1], share[2], share[3] = a0, a1, a2, a3
        share[4], share[5], share[6], share[7] = a4, a5, a6, a7
        for lane in range(LANES):
            total[lane] *= share[lane]
            share[lane] = 1.0 / share[lane]
        _scale(states, emit[s], share, link[s])


@njit(cache=True, nogil=True, error_model="numpy")
def _normalise(steps, states, emit, null, log_scale):
    """Divide every position's potentials by their largest; add its logarithm to ``log_scale``."""
    for s in range(steps):
        for lane in range(LANES):
            top = null[s, lane]
            for i in range(states):
                top = max(top, emit[s, i, lane])
            if top > 0.0 and top != 1.0:
                log_scale[lane] += np.log(top)
                top = 1.0 / top
                null[s, lane] *= top
                for i in range(states):
                    emit[s, i, lane] *= top


@njit(cache=True, nogil=True, error_model="numpy")
def _agree(rate, steps, states, emit, other_emit, link, other_link):
    """One gradient step on the multipliers of agreement, folded into the potentials of both directions."""
    for s in range(steps):
        for i in range(states):
            for lane in range(LANES):
                change = rate * (link[s, i, lane] - other_link[i, s, lane])
                if abs(change) > _NEGLIGIBLE:
                    factor = np.exp(change)
                    emit[s, i, lane] /= factor
                    other_emit[i, s, lane] *= factor


@njit(cache=True, nogil=True, error_model="numpy")
def _limit_fertility(rate, most, steps, states, emit, link, multiplier):
    """One projected gradient step on the multipliers of ``sum over positions of link <= most``."""
    for i in range(states):
        for lane in range(LANES):
            expected = 0.0
            for s in range(steps):
                expected += link[s, i, lane]
            change = max(rate * (expected - most), -multiplier[i, lane])
            if abs(change) > _NEGLIGIBLE:
                multiplier[i, lane] += change
                factor = np.exp(-change)
                for s in range(steps):
                    emit[s, i, lane] *= factor


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _count_chain(steps, states, weight, lengths, moves, position, onward, arrive, left, beta, expected):
    """Add expected counts of jumps (by distance), departures (by sentence length and position) and ends."""
    middle = len(moves) // 2
    for s in range(steps):
        for p in range(states + 1):
            for lane in range(LANES):
                onward[s, p, lane] *= weight[lane]
    for lane in range(LANES):
        for p in range(lengths[lane] + 1 if weight[lane] != 0.0 else 0):
            count = 0.0
            for s in range(steps):
                count += position[s, p, lane] * left[s, p, lane]
            expected.departures[lengths[lane], p] += count * weight[lane]
            expected.ends[lengths[lane] - p] += weight[lane] * position[steps, p, lane] * beta[steps, p, lane]
    for distance in range(1 - states, states + 1):
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
        first = max(0, 1 - distance)
        n = min(states + 1, states + 1 - distance) - first
        for s in range(steps):
            leave, come = onward[s, first:], arrive[s, first + distance - 1 :]
            for k in range(n):
                a0 += leave[k, 0] * come[k, 0]
                a1 += leave[k, 1] * come[k, 1]
                a2 += leave[k, 2] * come[k, 2]
                a3 += leave[k, 3] * come[k, 3]
                a4 += leave[k, 4] * come[k, 4]
                a5 += leave[k, 5] * come[k, 5]
                a6 += leave[k, 6] * come[k, 6]
                a7 += leave[k, 7] * come[k, 7]
        expected.jumps[middle + distance] += moves[middle + distance] * (a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7)


@njit(cache=True, nogil=True, error_model="numpy")
def _anchor(s, steps, states):
    """The state that lies as far along as step ``s``: where a Model 2 jump starts."""
    return (2 * s + 1) * states // (2 * steps)


@njit(cache=True, nogil=True, error_model="numpy")
def _load(chain, begin, lengths, token, step_stride, state_stride, cells, direction, emit, null, depart, end, log_scale):
    """Potentials of one direction of a group, laid out by step, state and lane."""
    steps, states = emit.shape[0], emit.shape[1]
    middle = len(direction.moves) // 2
    for s in range(steps):
        for i in range(states):
            for lane in range(LANES):
                emit[s, i, lane] = 0.0
        for lane in range(LANES):
            null[s, lane] = 1.0
    for lane in range(LANES):
        log_scale[lane] = 0.0
        for p in range(states + 1):
            depart[p, lane] = 0.0
            end[p, lane] = 1.0
        n_steps, n_states = lengths[lane, 0], lengths[lane, 1]
        for p in range(n_states + 1 if chain else 0):
            depart[p, lane] = direction.departures[n_states, p]
            end[p, lane] = direction.ends[n_states - p]
        for s in range(n_steps):
            null[s, lane] = direction.null[token[lane] + s]
            for i in range(n_states):
                at = begin[lane] + s * step_stride[lane] + i * state_stride[lane]
                emit[s, i, lane] = direction.links[cells[at]]
            if not chain:
                p = _anchor(s, n_steps, n_states)
                for i in range(n_states):
                    emit[s, i, lane] *= direction.moves[middle + i - p] * direction.departures[n_states, p + 1]
    _normalise(steps, states, emit, null, log_scale)


@njit(cache=True, nogil=True, error_model="numpy")
def _unload(chain, by_cell, begin, lengths, token, step_stride, state_stride, cells, weight, link, expected):
    """Add a group's posteriors to the expected counts of one direction."""
    middle = len(expected.jumps) // 2
    for lane in range(LANES):
        n_steps, n_states = lengths[lane, 0], lengths[lane, 1]
        for s in range(n_steps if weight[lane] != 0.0 else 0):
            linked = 0.0
            p = _anchor(s, n_steps, n_states)
            for i in range(n_states):
                mass = weight[lane] * link[s, i, lane]
                at = begin[lane] + s * step_stride[lane] + i * state_stride[lane]
                expected.links[at if by_cell else cells[at]] += mass
                linked += mass
                if not chain:
                    expected.jumps[middle + i - p] += mass
            expected.null[token[lane] + s] += max(weight[lane] - linked, 0.0)
            if not chain and n_states > 0:
                expected.departures[n_states, p + 1] += linked


@njit(cache=True, nogil=True, error_model="numpy")
def couple(chain, by_cell, order, pairs, duals, forward, backward, to_forward, to_backward, first, last, gap, status):
    """E-step of both directions of the pairs in ``order``, in groups of LANES.

    Runs ``duals.steps`` fixed gradient steps ([Samdani2012] alg. 3) and adds expected counts of the last posteriors
    to ``to_forward`` and ``to_backward``. Per pair: ``first`` and ``last`` are dual values (divided by gamma) at
    multipliers zero and at the last ones, ``gap`` the worst violation, ``status`` 1 where a total left the range of a
    double.
    """
    tall, wide = 0, 0
    for n in order:
        wide = max(wide, pairs.source_offsets[n + 1] - pairs.source_offsets[n])
        tall = max(tall, pairs.target_offsets[n + 1] - pairs.target_offsets[n])
    size = (tall + 1) * (wide + 1) * LANES
    space = np.empty((16, size))
    margin = np.empty((6, max(tall, wide) + 1, LANES))
    limits = np.zeros((2, max(tall, wide) + 1, LANES))
    begin = np.zeros(LANES, np.int64)
    across, along = np.zeros((LANES, 2), np.int64), np.zeros((LANES, 2), np.int64)
    source_token, target_token = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    ones = np.ones(LANES, np.int64)
    weight, total, other_total = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    log_scale, other_log_scale = np.empty(LANES), np.empty(LANES)
    for start in range(0, len(order), LANES):
        rows, columns = 0, 0
        for lane in range(LANES):
            across[lane, :], along[lane, :], weight[lane], begin[lane] = 0, 0, 0.0, 0
            if start + lane < len(order):
                n = order[start + lane]
                begin[lane], weight[lane] = pairs.cell_offsets[n], pairs.weights[n]
                source_token[lane], target_token[lane] = pairs.source_offsets[n], pairs.target_offsets[n]
                n_source = pairs.source_offsets[n + 1] - source_token[lane]
                n_target = pairs.target_offsets[n + 1] - target_token[lane]
                across[lane, 0], across[lane, 1] = n_target, n_source
                along[lane, 0], along[lane, 1] = n_source, n_target
                rows, columns = max(rows, n_target), max(columns, n_source)
        flat, up, right, full = rows * columns, (rows + 1) * columns, rows * (columns + 1), (rows + 1) * (columns + 1)
        emit = space[0, : flat * LANES].reshape(rows, columns, LANES)
        real = space[1, : flat * LANES].reshape(rows, columns, LANES)
        arrive = space[2, : flat * LANES].reshape(rows, columns, LANES)
        link = space[3, : flat * LANES].reshape(rows, columns, LANES)
        onward = space[4, : right * LANES].reshape(rows, columns + 1, LANES)
        left = space[5, : right * LANES].reshape(rows, columns + 1, LANES)
        position = space[6, : full * LANES].reshape(rows + 1, columns + 1, LANES)
        beta = space[7, : full * LANES].reshape(rows + 1, columns + 1, LANES)
        emit_2 = space[8, : flat * LANES].reshape(columns, rows, LANES)
        real_2 = space[9, : flat * LANES].reshape(columns, rows, LANES)
        arrive_2 = space[10, : flat * LANES].reshape(columns, rows, LANES)
        link_2 = space[11, : flat * LANES].reshape(columns, rows, LANES)
        onward_2 = space[12, : up * LANES].reshape(columns, rows + 1, LANES)
        left_2 = space[13, : up * LANES].reshape(columns, rows + 1, LANES)
        position_2 = space[14, : full * LANES].reshape(columns + 1, rows + 1, LANES)
        beta_2 = space[15, : full * LANES].reshape(columns + 1, rows + 1, LANES)
        null, depart, end, null_2, depart_2, end_2 = margin[0], margin[1], margin[2], margin[3], margin[4], margin[5]
        _load(
            chain, begin, across, target_token, ones, across[:, 0], pairs.cells, forward,
            emit, null, depart, end, log_scale,
        )  # fmt: skip
        _load(
            chain, begin, along, source_token, along[:, 1], ones, pairs.cells, backward,
            emit_2, null_2, depart_2, end_2, other_log_scale,
        )  # fmt: skip
        limits[:] = 0.0
        for step in range(duals.steps + 1):
            keep = 1 if step == duals.steps else 0
            if chain:
                _chain(
                    keep, rows, columns, emit, null, forward.moves, depart, end,
                    real, position, onward, arrive, left, beta, link, total,
                )  # fmt: skip
                _chain(
                    keep, columns, rows, emit_2, null_2, backward.moves, depart_2, end_2,
                    real_2, position_2, onward_2, arrive_2, left_2, beta_2, link_2, other_total,
                )  # fmt: skip
            else:
                _mixture(rows, columns, emit, null, link, total)
                _mixture(columns, rows, emit_2, null_2, link_2, other_total)
            for lane in range(min(LANES, len(order) - start)):
                value = np.log(total[lane]) + np.log(other_total[lane]) + log_scale[lane] + other_log_scale[lane]
                if step == 0:
                    first[order[start + lane]] = value
                last[order[start + lane]] = value
            if step < duals.steps:
                if duals.agreement:
                    _agree(duals.rate, rows, columns, emit, emit_2, link, link_2)
                if duals.most < np.inf:
                    _limit_fertility(duals.rate, duals.most, rows, columns, emit, link, limits[0])
                    _limit_fertility(duals.rate, duals.most, columns, rows, emit_2, link_2, limits[1])
        for lane in range(min(LANES, len(order) - start)):
            n = order[start + lane]
            inside = _SMALLEST < total[lane] < _LARGEST and _SMALLEST < other_total[lane] < _LARGEST
            if not inside:
                status[n] = 1
                weight[lane] = 0.0
            if duals.agreement:
                for s in range(across[lane, 0]):
                    for i in range(across[lane, 1]):
                        gap[n] = max(gap[n], abs(link[s, i, lane] - link_2[i, s, lane]))
            if duals.most < np.inf:
                for which in range(2):
                    for i in range(across[lane, 1] if which == 0 else along[lane, 1]):
                        expected = 0.0
                        for s in range(across[lane, 0] if which == 0 else along[lane, 0]):
                            expected += link[s, i, lane] if which == 0 else link_2[s, i, lane]
                        gap[n] = max(gap[n], expected - duals.most)
                        last[n] += limits[which, i, lane] * duals.most
        for lane in range(LANES):
            if weight[lane] == 0.0:
                onward[:, :, lane], arrive[:, :, lane] = 0.0, 0.0
                onward_2[:, :, lane], arrive_2[:, :, lane] = 0.0, 0.0
        _unload(
            chain, by_cell, begin, across, target_token, ones, across[:, 0], pairs.cells, weight, link, to_forward
        )
        _unload(
            chain, by_cell, begin, along, source_token, along[:, 1], ones, pairs.cells, weight, link_2, to_backward
        )
        if chain:
            _count_chain(
                rows, columns, weight, across[:, 1], forward.moves, position, onward, arrive, left, beta, to_forward
            )
            _count_chain(
                columns, rows, weight, along[:, 1], backward.moves, position_2, onward_2, arrive_2, left_2, beta_2,
                to_backward,
            )  # fmt: skip
