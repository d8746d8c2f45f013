"""Forward-backward of first-order chains without restrictions, WIDTH sentences side by side.

Numbers of one state and one step stand together, one per sentence of the group (its lane): the step from token to
token is a product of the transition matrix with such rows, which the compiler turns into vector instructions, and the
expected transitions of a whole group are one matrix product over all its steps. The longest sentence of a group takes
the first lane, and lengths should differ little: lanes that have ended hold zeros to the end of the group.

Probabilities are scaled to a sum of one at every step. Potentials and probabilities below FLOOR are removed, so that no
product can underflow, and from the first removal on a lane carries an upper bound on the share of its total that may be
missing. This bound does not tell states apart and so grows faster than that of ``chain.sum_pass``: at every step lost
mass may become ``growth`` times as much, the largest sum of the potentials that leave a state. A sentence where it ends
above LOSS adds nothing and keeps its ``status`` for that pass.

Arrays of a group are flat over (state, lane) for one step, or of shape (states, steps * WIDTH + 8) for all of them: the
odd number of cache lines keeps rows from competing for the same places. States are padded with zeros to a multiple
of TILE.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem.kernels.chains.chain import LOSS
from spectrem.kernels.chains.potentials import FLOOR

WIDTH = 32
TILE = 4


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _multiply(n, matrix, rows, out):
    """out[j] = sum_i matrix[i, j] * rows[i], four by four."""
    for k in range(n * WIDTH):
        out[k] = 0.0
    for j in range(0, n, TILE):
        into = out[j * WIDTH : (j + TILE) * WIDTH]
        for i in range(0, n, TILE):
            come = rows[i * WIDTH : (i + TILE) * WIDTH]
            a0, a1, a2, a3 = matrix[i, j], matrix[i, j + 1], matrix[i, j + 2], matrix[i, j + 3]
            b0, b1, b2, b3 = matrix[i + 1, j], matrix[i + 1, j + 1], matrix[i + 1, j + 2], matrix[i + 1, j + 3]
            c0, c1, c2, c3 = matrix[i + 2, j], matrix[i + 2, j + 1], matrix[i + 2, j + 2], matrix[i + 2, j + 3]
            d0, d1, d2, d3 = matrix[i + 3, j], matrix[i + 3, j + 1], matrix[i + 3, j + 2], matrix[i + 3, j + 3]
            for lane in range(WIDTH):
                a, b = come[lane], come[WIDTH + lane]
                c, d = come[2 * WIDTH + lane], come[3 * WIDTH + lane]
                into[lane] = into[lane] + a0 * a + b0 * b + c0 * c + d0 * d
                into[WIDTH + lane] = into[WIDTH + lane] + a1 * a + b1 * b + c1 * c + d1 * d
                into[2 * WIDTH + lane] = into[2 * WIDTH + lane] + a2 * a + b2 * b + c2 * c + d2 * d
                into[3 * WIDTH + lane] = into[3 * WIDTH + lane] + a3 * a + b3 * b + c3 * c + d3 * d


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _add_products(n, left, right, length, out):
    """out[i, j] += left[i, :length] @ right[j, WIDTH : WIDTH + length], four by four."""
    for i in range(0, n, TILE):
        a0, a1, a2, a3 = left[i, :length], left[i + 1, :length], left[i + 2, :length], left[i + 3, :length]
        for j in range(0, n, TILE):
            b0, b1 = right[j, WIDTH : WIDTH + length], right[j + 1, WIDTH : WIDTH + length]
            b2, b3 = right[j + 2, WIDTH : WIDTH + length], right[j + 3, WIDTH : WIDTH + length]
            s00, s01, s02, s03, s10, s11, s12, s13 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            s20, s21, s22, s23, s30, s31, s32, s33 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for k in range(length):
                a, b, c, d = a0[k], a1[k], a2[k], a3[k]
                p, q, r, s = b0[k], b1[k], b2[k], b3[k]
                s00, s01, s02, s03 = s00 + a * p, s01 + a * q, s02 + a * r, s03 + a * s
                s10, s11, s12, s13 = s10 + b * p, s11 + b * q, s12 + b * r, s13 + b * s
                s20, s21, s22, s23 = s20 + c * p, s21 + c * q, s22 + c * r, s23 + c * s
                s30, s31, s32, s33 = s30 + d * p, s31 + d * q, s32 + d * r, s33 + d * s
            sums = (
                (s00, s01, s02, s03),
                (s10, s11, s12, s13),
                (s20, s21, s22, s23),
                (s30, s31, s32, s33),
            )
            for k in range(TILE):
                for m in range(TILE):
                    out[i + k, j + m] += sums[k][m]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _emit(n_states, at, emit, moved, total):
    """moved *= emit at one step; ``total`` by lane."""
    total[:] = 0.0
    for k in range(n_states):
        potential, mass = emit[k, at : at + WIDTH], moved[k * WIDTH : (k + 1) * WIDTH]
        for lane in range(WIDTH):
            mass[lane] *= potential[lane]
            total[lane] += mass[lane]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _normalise(n_states, at, moved, scale, removed, alpha, current):
    """alpha = current = moved * scale without what is below FLOOR, which adds to ``removed``."""
    factor = scale[at : at + WIDTH]
    for k in range(n_states):
        mass, kept = moved[k * WIDTH : (k + 1) * WIDTH], current[k * WIDTH : (k + 1) * WIDTH]
        stored = alpha[k, at : at + WIDTH]
        for lane in range(WIDTH):
            share = mass[lane] * factor[lane]
            low = share if share < FLOOR else 0.0
            removed[lane] += low
            kept[lane] = share - low
            stored[lane] = share - low


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _look_back(n_states, at, beta, scale, weights, alpha, future, current, posterior):
    """posterior = alpha * beta; future = current = future * beta * scale, where ``future`` held potentials."""
    factor = scale[at : at + WIDTH]
    for k in range(n_states):
        mass, ahead = alpha[k, at : at + WIDTH], future[k, at : at + WIDTH]
        rows = slice(k * WIDTH, (k + 1) * WIDTH)
        after, out, share = beta[rows], current[rows], posterior[rows]
        for lane in range(WIDTH):
            # Where nothing arrives the future is unbounded and must not be carried on.
            reached = after[lane] if mass[lane] > 0.0 else 0.0
            share[lane] = mass[lane] * reached
            out[lane] = ahead[lane] * reached * factor[lane]
            ahead[lane] = out[lane]
            mass[lane] *= weights[lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(first, lengths, rows, table, into, growth, alpha, future, scale, work, values, lost):
    """Fills ``alpha``, ``future`` (with potentials) and ``scale`` of a group; values and bounds by lane."""
    current, moved, total, fresh = work[0], work[1], work[2, :WIDTH], work[2, WIDTH : 2 * WIDTH]
    n_states, active = len(table.first), WIDTH
    # A floored potential takes less than FLOOR from every state: what arrives is at most one, all potentials too.
    leak = n_states * FLOOR
    for t in range(lengths[0]):
        at = t * WIDTH
        while lengths[active - 1] <= t:
            active -= 1
        for lane in range(active, WIDTH):
            for k in range(n_states):
                future[k, at + lane] = 0.0
        for lane in range(active):
            row = rows[first[lane] + t]
            start = table.offsets[row]
            potentials = table.potentials[start : start + n_states]
            for k in range(n_states):
                future[k, at + lane] = potentials[k]
            values[lane] += table.tops[row] + (table.factor_tops[1 if t > 0 else 0])
            fresh[lane] = leak if table.floored[row] else 0.0
            if table.factor_floored[1 if t > 0 else 0]:
                fresh[lane] += leak
        if t == 0:
            for k in range(n_states):
                moved[k * WIDTH : (k + 1) * WIDTH] = table.first[k]
        else:
            _multiply(len(into), into, current, moved)
        _emit(n_states, at, future, moved, total)
        for lane in range(WIDTH):
            scale[at + lane] = 1.0 / total[lane] if total[lane] > 0.0 else 0.0
        for lane in range(active):
            if values[lane] == -np.inf:
                continue
            if total[lane] == 0.0:
                # Without any removal a total of zero is exact: no structure is possible.
                values[lane] = -np.inf
                lost[lane] = np.inf if lost[lane] + fresh[lane] > 0.0 else 0.0
            else:
                values[lane] += table.gamma * math.log(total[lane])
                lost[lane] = (lost[lane] * growth + fresh[lane]) * scale[at + lane]
        _normalise(n_states, at, moved, scale, lost, alpha, current)


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(first, lengths, rows, table, out_of, open_lanes, weights, alpha, future, scale, work, expected):
    """Counts rows and first states; leaves in ``alpha`` and ``future`` the factors of the transition counts."""
    current, posterior, beta = work[0], work[1], work[2]
    n_states, active = len(table.first), 0
    beta[:] = 0.0
    for t in range(lengths[0] - 1, -1, -1):
        at = t * WIDTH
        while active < WIDTH and lengths[active] > t:
            for k in range(n_states):
                beta[k * WIDTH + active] = 1.0 if open_lanes[active] else 0.0
            active += 1
        _look_back(n_states, at, beta, scale, weights[1], alpha, future, current, posterior)
        for lane in range(active):
            weight = weights[0, lane]
            if weight != 0.0:
                start = table.offsets[rows[first[lane] + t]]
                counts = expected.rows[start : start + n_states]
                for k in range(n_states):
                    counts[k] += weight * posterior[k * WIDTH + lane]
                if t == 0:
                    for k in range(n_states):
                        expected.first[k] += weight * posterior[k * WIDTH + lane]
        if t > 0:
            _multiply(len(out_of), out_of, current, beta)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, token_offsets, rows, table, row_weights, weights, values, expected, status):
    """Smoothed max of the sentences in ``order``, none of them empty, in groups of WIDTH.

    Adds posteriors times ``row_weights`` to ``expected.rows`` and ``expected.first``, and expected transitions times
    ``weights`` to ``expected.later``. ``status`` becomes 0 where this succeeds.
    """
    n_states, longest = len(table.first), 0
    for n in order:
        longest = max(longest, token_offsets[n + 1] - token_offsets[n])
    move = table.later[0]
    size = -(-n_states // TILE) * TILE
    into, out_of, pairs = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    growth = 0.0
    # Potentials that were removed count as FLOOR; emissions are at most one and can be left out.
    for i in range(n_states):
        sum_of_bounds = 0.0
        for j in range(n_states):
            into[i, j] = out_of[j, i] = move[i, j]
            sum_of_bounds += max(move[i, j], FLOOR if table.later_scores[0, i, j] > -np.inf else 0.0)
        growth = max(growth, sum_of_bounds)
    space, work = np.empty((2, size * (longest * WIDTH + 8))), np.zeros((3, max(size, 2) * WIDTH))
    scale, lost, value = np.empty(longest * WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    first, lengths = np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64)
    lane_weights, open_lanes = np.empty((2, WIDTH)), np.empty(WIDTH, np.bool_)
    for start in range(0, len(order), WIDTH):
        members = order[start : start + WIDTH]
        lengths[:], value[:], lost[:], lane_weights[:] = 0, 0.0, 0.0, 0.0
        open_lanes[:] = False
        for lane in range(len(members)):
            first[lane] = token_offsets[members[lane]]
            lengths[lane] = token_offsets[members[lane] + 1] - first[lane]
        stride = lengths[0] * WIDTH + 8
        alpha, future = space[0, : size * stride].reshape(size, stride), space[1, : size * stride].reshape(size, stride)
        alpha[n_states:], future[n_states:], work[:] = 0.0, 0.0, 0.0
        _forward(first, lengths, rows, table, into, growth, alpha, future, scale, work, value, lost)
        for lane in range(len(members)):
            n = members[lane]
            if lost[lane] <= LOSS:
                status[n], values[n], open_lanes[lane] = 0, value[lane], True
                lane_weights[0, lane], lane_weights[1, lane] = row_weights[n], weights[n]
        _backward(first, lengths, rows, table, out_of, open_lanes, lane_weights, alpha, future, scale, work, expected)
        _add_products(size, alpha, future, (lengths[0] - 1) * WIDTH, pairs)
    for i in range(n_states):
        for j in range(n_states):
            expected.later[0, i, j] += pairs[i, j] * move[i, j]
