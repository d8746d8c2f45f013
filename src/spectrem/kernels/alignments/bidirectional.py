"""Two alignment chains of opposite direction coupled by duals: a whole E-step, eight sentence pairs in step.

A work row holds the states of one step, LANES numbers each: one per sentence pair of a group. Loops run over whole
rows, which the compiler turns into vector instructions. Pairs shorter than their group are padded with positions that
only NULL explains (with weight one, which changes nothing) and with words that cannot be linked. Potentials are not
rescaled from position to position; a pair whose total leaves the range of a double is reported in ``status`` and
solved without a group, as are pairs too long for one.
"""

from typing import NamedTuple

import numpy as np

from spectrem._compiled import njit

LANES = 8
PAD = 3
# Doubles end at 1e-308 and 1e308: what is 1e-68 of such a total, or 1e68 times as much, is still inside the range.
_SMALLEST, _LARGEST = 1e-240, 1e240


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
    for k in range(n):
        out[k] = a[k] * b[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _flow(n, moved, stay, before, out):
    """out = moved + stay * before: what arrives, and what NULL leaves where it was."""
    for k in range(n):
        out[k] = moved[k] + stay[k] * before[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _convolve(n_out, n_in, source, moves, start, step, out):
    """out[o] = sum_k source[k] * moves[start + step * (o - k)], four distances o - k at a time.

    ``source`` has PAD rows of zeros before and after its ``n_in`` rows, so that four distances share one range.
    """
    out[: n_out * LANES] = 0.0
    for distance in range(1 - n_in, n_out, 4):
        at = start + step * distance
        m0, m1, m2, m3 = moves[at], moves[at + step], moves[at + 2 * step], moves[at + 3 * step]
        first, stop = max(0, distance), min(n_out, n_in + distance + 3)
        begin, n = (first - distance + PAD) * LANES, (stop - first) * LANES
        s0, s1 = source[begin : begin + n], source[begin - LANES : begin - LANES + n]
        s2, s3 = source[begin - 2 * LANES : begin - 2 * LANES + n], source[begin - 3 * LANES : begin - 3 * LANES + n]
        part = out[first * LANES : stop * LANES]
        for k in range(n):
            part[k] += (m0 * s0[k] + m1 * s1[k]) + (m2 * s2[k] + m3 * s3[k])


@njit(cache=True, nogil=True, error_model="numpy")
def _clear_padding(n_in, source):
    source[: PAD * LANES] = 0.0
    source[(PAD + n_in) * LANES : (2 * PAD + n_in) * LANES] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _chain(keep, steps, states, emit, stay, moves, depart, end, work, link, total):
    """Forward-backward over one direction: posteriors into ``link``, sums of potentials into ``total``.

    With ``keep`` every row that counting reads stays; without, the steps take turns on two rows, which stay in cache.
    """
    real, position, onward, arrive, left, beta = work
    middle = len(moves) // 2
    n, wide, inner = states * LANES, (states + 1) * LANES, PAD * LANES
    position[0, :wide] = 0.0
    position[0, :LANES] = 1.0
    for s in range(steps):
        row, following = (s, s + 1) if keep else (s & 1, 1 - (s & 1))
        _multiply(wide, position[row], depart, onward[row, inner:])
        _clear_padding(states + 1, onward[row])
        _convolve(states, states + 1, onward[row], moves, middle + 1, 1, real[s])
        _multiply(n, real[s], emit[s], real[s])
        _multiply(LANES, position[row], stay[s], position[following])
        _flow(n, real[s], stay[s], position[row, LANES:], position[following, LANES:])
    last = steps if keep else steps & 1
    for lane in range(LANES):
        z = 0.0
        for p in range(states + 1):
            z += position[last, p * LANES + lane] * end[p * LANES + lane]
        total[lane] = z
        # The backward sums are over the total from the start, so that their products with forward sums are posteriors.
        for p in range(states + 1):
            beta[last, p * LANES + lane] = end[p * LANES + lane] / z
    for s in range(steps - 1, -1, -1):
        row, following = (s, s + 1) if keep else (s & 1, 1 - (s & 1))
        _multiply(n, emit[s], beta[following, LANES:], arrive[row, inner:])
        _clear_padding(states, arrive[row])
        _multiply(n, real[s], beta[following, LANES:], link[s])
        _convolve(states + 1, states, arrive[row], moves, middle + 1, -1, left[row])
        _multiply(wide, left[row], depart, left[row])
        _flow(wide, left[row], stay[s], beta[following], beta[row])


@njit(cache=True, nogil=True, error_model="numpy")
def _mixture(steps, states, emit, null, link, total):
    """The same without a chain: every position on its own (Models 1 and 2)."""
    share = np.empty(LANES)
    total[:] = 1.0
    for s in range(steps):
        share[:] = null[s]
        for i in range(states):
            for lane in range(LANES):
                share[lane] += emit[s, i * LANES + lane]
        total *= share
        share[:] = 1.0 / share
        for i in range(states):
            for lane in range(LANES):
                link[s, i * LANES + lane] = emit[s, i * LANES + lane] * share[lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _normalise(steps, states, emit, null, log_scale):
    """Divide every position's potentials by their largest; add its logarithm to ``log_scale``."""
    top = np.empty(LANES)
    for s in range(steps):
        top[:] = null[s]
        for i in range(states):
            for lane in range(LANES):
                top[lane] = max(top[lane], emit[s, i * LANES + lane])
        for lane in range(LANES):
            if top[lane] == 0.0:
                top[lane] = 1.0
            if top[lane] != 1.0:
                log_scale[lane] += np.log(top[lane])
                top[lane] = 1.0 / top[lane]
            null[s, lane] *= top[lane]
        for i in range(states):
            for lane in range(LANES):
                emit[s, i * LANES + lane] *= top[lane]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _exponential(n, largest, x):
    """exp of ``x`` in place, for |x| <= largest, without branches: a series on a small argument, then squarings."""
    # The small argument is at most 1/16, where the first term left out, y**9 / 9!, is below the rounding of 1. Every
    # squaring doubles the relative error, so that for |x| <= 1 it ends below 16 times that of a double.
    squarings = 4 + max(0, int(np.ceil(np.log2(max(largest, 1.0)))))
    scale = 0.5**squarings
    for k in range(n):
        y = x[k] * scale
        series = 1.0 + y * (1.0 / 6.0) * (1.0 + y * (1.0 / 7.0) * (1.0 + y * 0.125))
        x[k] = 1.0 + y * (1.0 + y * 0.5 * (1.0 + y * (1.0 / 3.0) * (1.0 + y * 0.25 * (1.0 + y * 0.2 * series))))
    for _ in range(squarings):
        for k in range(n):
            x[k] *= x[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _divide(n, a, b):
    for k in range(n):
        a[k] /= b[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _agree(rate, steps, states, emit, other_emit, link, other_link, factor):
    """One gradient step on the multipliers of agreement, folded into the potentials of both directions."""
    for s in range(steps):
        for i in range(states):
            for lane in range(LANES):
                at = i * LANES + lane
                factor[s, at] = rate * (link[s, at] - other_link[i, s * LANES + lane])
    n = steps * states * LANES
    _exponential(n, rate, factor.reshape(n))
    _divide(n, emit.reshape(n), factor.reshape(n))
    for s in range(steps):
        for i in range(states):
            for lane in range(LANES):
                other_emit[i, s * LANES + lane] *= factor[s, i * LANES + lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _limit_fertility(rate, most, steps, states, emit, link, multiplier):
    """One projected gradient step on the multipliers of ``sum over positions of link <= most``."""
    expected = np.zeros(states * LANES)
    for s in range(steps):
        for k in range(states * LANES):
            expected[k] += link[s, k]
    for k in range(states * LANES):
        change = max(rate * (expected[k] - most), -multiplier[k])
        multiplier[k] += change
        expected[k] = np.exp(-change)
    for s in range(steps):
        for k in range(states * LANES):
            emit[s, k] *= expected[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _accumulate(n, a, b, out):
    for k in range(n):
        out[k] += a[k] * b[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _count_chain(steps, states, weight, lengths, moves, work, expected):
    """Add expected counts of jumps (by distance), departures (by sentence length and position) and ends."""
    _, position, onward, arrive, left, beta = work
    middle, inner = len(moves) // 2, PAD * LANES
    for s in range(steps):
        for p in range(states + 1):
            for lane in range(LANES):
                onward[s, inner + p * LANES + lane] *= weight[lane]
    for lane in range(LANES):
        for p in range(lengths[lane] + 1 if weight[lane] != 0.0 else 0):
            at = p * LANES + lane
            count = 0.0
            for s in range(steps):
                count += position[s, at] * left[s, at]
            expected.departures[lengths[lane], p] += count * weight[lane]
            expected.ends[lengths[lane] - p] += weight[lane] * position[steps, at] * beta[steps, at]
    pairs = np.empty((states + 1) * LANES)
    for distance in range(1 - states, states + 1):
        first = max(0, 1 - distance)
        n = (min(states + 1, states + 1 - distance) - first) * LANES
        leave, come = inner + first * LANES, inner + (first + distance - 1) * LANES
        pairs[:n] = 0.0
        for s in range(steps):
            _accumulate(n, onward[s, leave:], arrive[s, come:], pairs)
        expected.jumps[middle + distance] += moves[middle + distance] * pairs[:n].sum()


@njit(cache=True, nogil=True, error_model="numpy")
def _anchor(s, steps, states):
    """The state that lies as far along as step ``s``: where a Model 2 jump starts."""
    return (2 * s + 1) * states // (2 * steps)


@njit(cache=True, nogil=True, error_model="numpy")
def _load(
    chain, begin, lengths, token, step_stride, state_stride, cells, direction,
    emit, null, stay, depart, end, log_scale,
):  # fmt: skip
    """Potentials of one direction of a group, laid out by step, state and lane."""
    steps, states = emit.shape[0], emit.shape[1] // LANES
    middle = len(direction.moves) // 2
    emit[:, :] = 0.0
    null[:steps] = 1.0
    log_scale[:] = 0.0
    depart[: (states + 1) * LANES] = 0.0
    end[: (states + 1) * LANES] = 1.0
    for lane in range(LANES):
        n_steps, n_states = lengths[lane, 0], lengths[lane, 1]
        for p in range(n_states + 1 if chain else 0):
            depart[p * LANES + lane] = direction.departures[n_states, p]
            end[p * LANES + lane] = direction.ends[n_states - p]
        for s in range(n_steps):
            null[s, lane] = direction.null[token[lane] + s]
            for i in range(n_states):
                at = begin[lane] + s * step_stride[lane] + i * state_stride[lane]
                emit[s, i * LANES + lane] = direction.links[cells[at]]
            if not chain:
                p = _anchor(s, n_steps, n_states)
                for i in range(n_states):
                    place = direction.moves[middle + i - p] * direction.departures[n_states, p + 1]
                    emit[s, i * LANES + lane] *= place
    _normalise(steps, states, emit, null, log_scale)
    for s in range(steps if chain else 0):
        for p in range(states + 1):
            for lane in range(LANES):
                stay[s, p * LANES + lane] = null[s, lane]


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
                mass = weight[lane] * link[s, i * LANES + lane]
                at = begin[lane] + s * step_stride[lane] + i * state_stride[lane]
                expected.links[at if by_cell else cells[at]] += mass
                linked += mass
                if not chain:
                    expected.jumps[middle + i - p] += mass
            expected.null[token[lane] + s] += max(weight[lane] - linked, 0.0)
            if not chain and n_states > 0:
                expected.departures[n_states, p + 1] += linked


@njit(cache=True, nogil=True, error_model="numpy")
def _rows(steps, states, space):
    """Work rows of one direction: potentials, posteriors, NULL's share, and what `_chain` fills."""
    n, wide, pad = states * LANES, (states + 1) * LANES, 2 * PAD * LANES
    work = (
        space[3, : steps * n].reshape(steps, n),
        space[4, : (steps + 1) * wide].reshape(steps + 1, wide),
        space[5, : (steps + 1) * (wide + pad)].reshape(steps + 1, wide + pad),
        space[6, : (steps + 1) * (n + pad)].reshape(steps + 1, n + pad),
        space[7, : (steps + 1) * wide].reshape(steps + 1, wide),
        space[8, : (steps + 1) * wide].reshape(steps + 1, wide),
    )
    emit, link = space[0, : steps * n].reshape(steps, n), space[1, : steps * n].reshape(steps, n)
    return emit, link, space[2, : steps * wide].reshape(steps, wide), work


@njit(cache=True, nogil=True, error_model="numpy")
def _silence(lane, steps, states, work):
    """Keep a lane without weight (or without a finite total) out of the counts."""
    _, _, onward, arrive, _, _ = work
    for s in range(steps):
        for p in range(states + 1):
            onward[s, (PAD + p) * LANES + lane] = 0.0
        for i in range(states):
            arrive[s, (PAD + i) * LANES + lane] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _fertility(lane, lengths, link, multiplier, most):
    """Largest excess of a lane's expected fertilities over ``most``, and what their multipliers add to the dual."""
    excess, price = 0.0, 0.0
    for i in range(lengths[lane, 1]):
        expected = 0.0
        for s in range(lengths[lane, 0]):
            expected += link[s, i * LANES + lane]
        excess = max(excess, expected - most)
        price += multiplier[i * LANES + lane] * most
    return excess, price


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
    longest = max(tall, wide) + 2 * PAD + 1
    space = np.empty((19, (tall + 1 + 2 * PAD) * (wide + 1 + 2 * PAD) * LANES))
    nulls, edges, limits = np.empty((2, longest, LANES)), np.empty((4, longest * LANES)), np.zeros((2, longest * LANES))
    begin, members = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    across, along = np.zeros((LANES, 2), np.int64), np.zeros((LANES, 2), np.int64)
    source_token, target_token = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    ones = np.ones(LANES, np.int64)
    weight, total, other_total = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    log_scale, other_log_scale = np.empty(LANES), np.empty(LANES)
    for start in range(0, len(order), LANES):
        n_members = min(LANES, len(order) - start)
        rows, columns = 0, 0
        across[:], along[:], weight[:], begin[:] = 0, 0, 0.0, 0
        for lane in range(n_members):
            n = order[start + lane]
            members[lane], begin[lane], weight[lane] = n, pairs.cell_offsets[n], pairs.weights[n]
            source_token[lane], target_token[lane] = pairs.source_offsets[n], pairs.target_offsets[n]
            n_source = pairs.source_offsets[n + 1] - source_token[lane]
            n_target = pairs.target_offsets[n + 1] - target_token[lane]
            across[lane, 0], across[lane, 1] = n_target, n_source
            along[lane, 0], along[lane, 1] = n_source, n_target
            rows, columns = max(rows, n_target), max(columns, n_source)
        emit, link, stay, work = _rows(rows, columns, space[:9])
        emit_2, link_2, stay_2, work_2 = _rows(columns, rows, space[9:18])
        factor = space[18, : rows * columns * LANES].reshape(rows, columns * LANES)
        _load(
            chain, begin, across, target_token, ones, across[:, 0], pairs.cells, forward,
            emit, nulls[0], stay, edges[0], edges[1], log_scale,
        )  # fmt: skip
        _load(
            chain, begin, along, source_token, along[:, 1], ones, pairs.cells, backward,
            emit_2, nulls[1], stay_2, edges[2], edges[3], other_log_scale,
        )  # fmt: skip
        limits[:] = 0.0
        for step in range(duals.steps + 1):
            keep = step == duals.steps
            if chain:
                _chain(keep, rows, columns, emit, stay, forward.moves, edges[0], edges[1], work, link, total)
                _chain(
                    keep, columns, rows, emit_2, stay_2, backward.moves, edges[2], edges[3], work_2, link_2, other_total
                )
            else:
                _mixture(rows, columns, emit, nulls[0], link, total)
                _mixture(columns, rows, emit_2, nulls[1], link_2, other_total)
            if step == 0 or keep:
                for lane in range(n_members):
                    value = np.log(total[lane]) + np.log(other_total[lane]) + log_scale[lane] + other_log_scale[lane]
                    if step == 0:
                        first[members[lane]] = value
                    last[members[lane]] = value
            if not keep:
                if duals.agreement:
                    _agree(duals.rate, rows, columns, emit, emit_2, link, link_2, factor)
                if duals.most < np.inf:
                    _limit_fertility(duals.rate, duals.most, rows, columns, emit, link, limits[0])
                    _limit_fertility(duals.rate, duals.most, columns, rows, emit_2, link_2, limits[1])
        for lane in range(n_members):
            n = members[lane]
            inside = _SMALLEST < total[lane] < _LARGEST and _SMALLEST < other_total[lane] < _LARGEST
            if not inside:
                status[n] = 1
                weight[lane] = 0.0
            if duals.agreement:
                for s in range(across[lane, 0]):
                    for i in range(across[lane, 1]):
                        gap[n] = max(gap[n], abs(link[s, i * LANES + lane] - link_2[i, s * LANES + lane]))
            if duals.most < np.inf:
                excess, price = _fertility(lane, across, link, limits[0], duals.most)
                other_excess, other_price = _fertility(lane, along, link_2, limits[1], duals.most)
                gap[n] = max(gap[n], excess, other_excess)
                last[n] += price + other_price
        for lane in range(LANES):
            if weight[lane] == 0.0:
                _silence(lane, rows, columns, work)
                _silence(lane, columns, rows, work_2)
        _unload(chain, by_cell, begin, across, target_token, ones, across[:, 0], pairs.cells, weight, link, to_forward)
        _unload(chain, by_cell, begin, along, source_token, along[:, 1], ones, pairs.cells, weight, link_2, to_backward)
        if chain:
            _count_chain(rows, columns, weight, across[:, 1], forward.moves, work, to_forward)
            _count_chain(columns, rows, weight, along[:, 1], backward.moves, work_2, to_backward)
