"""Forward-backward and the best alignment of the alignment chain, one sentence pair at a time.

Every target position j picks a source position i or NULL. A link from the last source position p (-1 at the
start; NULL keeps p, [OchNey2003]) to i scores ``unary[j, i] + jump[clip(i - p)] + departure[I, p + 1]``, the last
p of a pair ``end[min(I - 1 - p, W)]``. Links and NULLs at the same p share one future, so the backward pass needs I + 1
states only. Jumps wider than W share a potential: running sums over all of them make a pass cost J x I x min(I, W) in
place of J x I x I. The sums are of positive terms, so that every entry keeps its relative accuracy, which a fast
Fourier transform would lose.

The scaled pass replaces every potential and every normalised forward probability below FLOOR by zero, so that no
product can underflow. From the first such removal on it carries, state by state, an upper bound on the mass removed
so far; a pair where the bound ends above LOSS (as a share of its total) is reported in ``status`` and is left to the
engine of derivations.

Along a direction in the parts, the same passes find derivatives, by the complex step of [SquireTrapp1998]: potentials
are multiplied by 1 + i * STEP * direction, and the imaginary part of every number is its derivative, times STEP.
Products of two imaginary parts are far below the last digit of real ones, and products of one with a mass that counts
do not underflow, as long as the largest number of the direction lies between 1 / LONG and LONG.
"""

from typing import NamedTuple

import numpy as np

from spectrem._compiled import njit

FLOOR = 1e-100
LOSS = 1e-12
STEP = 2.0**-200
LONG = 1e40


class Scores(NamedTuple):
    """Lengths and scores of a batch; the block of pair n, of shape (J, I + 1), begins at ``unary[offsets[n]]``."""

    source_lengths: np.ndarray
    target_lengths: np.ndarray
    offsets: np.ndarray
    unary: np.ndarray
    jump: np.ndarray
    departure: np.ndarray
    end: np.ndarray


class Expected(NamedTuple):
    """Expected jumps, departures and ends, of the shapes of their scores, to which a pass adds."""

    jump: np.ndarray
    departure: np.ndarray
    end: np.ndarray


class Transitions(NamedTuple):
    """Potentials of moves and departures of a source of one length, over exp(shift / gamma).

    The bounds hold FLOOR for potentials that were replaced by zero. ``floored`` counts which of the two have any.
    """

    moves: np.ndarray
    depart: np.ndarray
    moves_bound: np.ndarray
    depart_bound: np.ndarray
    shift: float
    floored: float


@njit(cache=True, nogil=True, error_model="numpy")
def tails(width, step):
    """Both ends of the band: k <= o - before and k >= o + after are clipped; the entries of ``moves`` they share."""
    if step > 0:
        return width - 1, 2 * width, width + 1, 0
    return width + 1, 0, width - 1, 2 * width


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_four(n, m0, m1, m2, m3, source, at, out, first):
    """out += four neighbouring moves at a time; the loop becomes vector instructions."""
    s0, s1 = source[at : at + n], source[at - 1 : at - 1 + n]
    s2, s3 = source[at - 2 : at - 2 + n], source[at - 3 : at - 3 + n]
    part = out[first : first + n]
    for k in range(n):
        part[k] += (m0 * s0[k] + m1 * s1[k]) + (m2 * s2[k] + m3 * s3[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_one(n, m, source, at, out, first):
    s, part = source[at : at + n], out[first : first + n]
    for k in range(n):
        part[k] += m * s[k]


@njit(cache=True, nogil=True, error_model="numpy")
def spread(source, moves, step, out):
    """out[o] = sum_k source[k] * moves[clip(1 + step * (o - k), -W, W) + W].

    A move leads from k to o with jump width 1 + step * (o - k). Widths below W are summed one by one, all wider ones,
    which share a potential, by running sums.
    """
    n_in, n_out, width = len(source), len(out), len(moves) // 2
    before, low, after, high = tails(width, step)
    out[:] = 0.0
    shift, last = max(1 - after, 1 - n_in), min(before - 1, n_out - 1)
    while shift <= last:
        at = width + 1 + step * shift
        # Four shifts share the range in which all of them stay inside ``source``; its ends are added one by one.
        first, stop = max(0, shift + 3), min(n_out, n_in + shift)
        if shift + 3 <= last and stop > first:
            _add_four(
                stop - first, moves[at], moves[at + step], moves[at + 2 * step], moves[at + 3 * step],
                source, first - shift, out, first,
            )  # fmt: skip
            for extra in range(4):
                m = moves[at + step * extra]
                for o in range(max(0, shift + extra), first):
                    out[o] += m * source[o - shift - extra]
                for o in range(stop, min(n_out, n_in + shift + extra)):
                    out[o] += m * source[o - shift - extra]
            shift += 4
        else:
            first, stop = max(0, shift), min(n_out, n_in + shift)
            _add_one(max(0, stop - first), moves[at], source, first - shift, out, first)
            shift += 1
    mass = 0.0
    for o in range(before, n_out):
        if o - before < n_in:
            mass += source[o - before]
        out[o] += moves[low] * mass
    mass = 0.0
    for k in range(n_in - 1, after - 1, -1):
        mass += source[k]
        if k - after < n_out:
            out[k - after] += moves[high] * mass


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _dot(n, a, b):
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def count_moves(weight, source, target, moves, counts):
    """Add ``weight * source[k] * moves[...] * target[o]`` of every move (``step`` 1) to the count of its width."""
    n_in, n_out, width = len(source), len(target), len(moves) // 2
    before, low, after, high = tails(width, np.int64(1))
    for shift in range(max(1 - after, 1 - n_in), min(before, n_out)):
        first, stop = max(0, shift), min(n_out, n_in + shift)
        at = width + 1 + shift
        if stop > first:
            counts[at] += weight * moves[at] * _dot(stop - first, source[first - shift :], target[first:])
    mass, total = 0.0, 0.0
    for o in range(before, n_out):
        if o - before < n_in:
            mass += source[o - before]
        total += mass * target[o]
    counts[low] += weight * moves[low] * total
    mass, total = 0.0, 0.0
    for k in range(n_in - 1, after - 1, -1):
        mass += source[k]
        if k - after < n_out:
            total += mass * target[k - after]
    counts[high] += weight * moves[high] * total


@njit(cache=True, nogil=True, error_model="numpy")
def _tilt(potentials, along):
    """Give potentials their derivatives as the scores move along a direction."""
    for k in range(len(potentials)):
        potentials[k] *= complex(1.0, STEP * along[k])


@njit(cache=True, nogil=True, error_model="numpy")
def _potential(score, top, gamma):
    """exp((score - top) / gamma), 0 below FLOOR."""
    if score == -np.inf:
        return 0.0
    potential = np.exp((score - top) / gamma)
    return potential if potential >= FLOOR else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _floored(scores, first, stop, gamma, potentials, bounds):
    """Potentials of scores, those in ``first:stop`` over their largest, which is returned; whether the floor took one.

    ``bounds`` says what a potential may have been before.
    """
    top = -np.inf
    for k in range(first, stop):
        top = max(top, scores[k])
    if top == -np.inf:
        top = 0.0
    floored = False
    for k in range(len(scores)):
        potentials[k] = _potential(scores[k], top, gamma) if first <= k < stop else 0.0
        removed = potentials[k] == 0.0 and first <= k < stop and scores[k] > -np.inf
        floored = floored or removed
        bounds[k] = FLOOR if removed else potentials[k].real
    return top, floored


@njit(cache=True, nogil=True, error_model="numpy")
def _emissions(row, shift, gamma, emit):
    """Potentials of one target position, NULL last; the score they are over, and whether the floor removed one."""
    n_source = len(row) - 1
    # Links pay the shift of the transitions, so NULL (which makes no transition) gives it back.
    top = row[n_source] - shift
    for i in range(n_source):
        top = max(top, row[i])
    floored = False
    for i in range(n_source + 1):
        score = row[i] - (shift if i == n_source else 0.0)
        emit[i] = _potential(score, top, gamma)
        floored = floored or (emit[i] == 0.0 and score > -np.inf)
    return (0.0 if top == -np.inf else top), floored


@njit(cache=True, nogil=True, error_model="numpy")
def _move_loss(row, emit, transitions, fresh, lost, leaving, moved):
    """Carry the bound on what is lost over one position; potentials below the floor count as FLOOR."""
    n_source = len(row) - 1
    for p in range(n_source + 1):
        leaving[p] = lost[p] * transitions.depart_bound[p]
    spread(leaving, transitions.moves_bound, np.int64(1), moved)
    null = max(emit[n_source].real, FLOOR if row[n_source] > -np.inf else 0.0)
    for p in range(n_source + 1):
        come = moved[p - 1].real * max(emit[p - 1].real, FLOOR if row[p - 1] > -np.inf else 0.0) if p > 0 else 0.0
        lost[p] = come + null * lost[p] + fresh


@njit(cache=True, nogil=True, error_model="numpy")
def _leave(position, depart, leaving):
    """Forward mass that leaves every position; what falls below the floor is left out and handed back."""
    removed = 0.0
    for p in range(len(position)):
        mass = position[p] * depart[p]
        if mass.real < FLOOR:
            removed += mass.real
            mass = 0.0
        leaving[p] = mass
    return removed


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(block, end, along, at, gamma, transitions, emit, real, finish, position, scale, leaving, moved, lost):
    """Scaled forward pass; ``real[j, i]`` links, ``position[j + 1, p + 1]`` links and NULLs together.

    Fills ``finish`` with the normalised potentials of the end. Returns the value and the share of the total that may
    be missing.
    """
    n_target, n_source = emit.shape[0], emit.shape[1] - 1
    moves, depart, shift = transitions.moves, transitions.depart, transitions.shift
    value, share, leaking = 0.0, 0.0, False
    position[0, :] = 0.0
    position[0, 0] = 1.0
    for j in range(n_target):
        top, emit_floored = _emissions(block[j], shift, gamma, emit[j])
        if along is not None:
            _tilt(emit[j], along.unary[at + j * (n_source + 1) :])
        # What arrives is at most one and so are all potentials, so that each one replaced by zero took less than FLOOR;
        # two emissions, a link's and NULL's, lead to the same position.
        fresh = (2.0 * FLOOR if emit_floored else 0.0) + transitions.floored * FLOOR
        fresh += _leave(position[j], depart, leaving)
        spread(leaving, moves, np.int64(1), real[j, :n_source])
        if leaking:
            _move_loss(block[j], emit[j], transitions, fresh, lost, leaving, moved)
        else:
            for p in range(n_source + 1):
                lost[p] = fresh
        leaking = leaking or fresh > 0.0
        null = emit[j, n_source]
        total = null * position[j, 0]
        for i in range(n_source):
            real[j, i] *= emit[j, i]
            total += real[j, i] + null * position[j, i + 1]
        if total == 0.0:
            # Without any removal a total of zero is exact: no alignment is possible.
            return -np.inf, 1.0 if leaking else 0.0
        scale[j] = 1.0 / total
        value += top + shift + gamma * np.log(total)
        share = 0.0
        for p in range(n_source + 1):
            mass = null * position[j, p]
            if p > 0:
                real[j, p - 1] *= scale[j]
                mass = mass * scale[j] + real[j, p - 1]
            else:
                mass *= scale[j]
            removed = mass if mass.real < FLOOR else 0.0
            position[j + 1, p] = mass - removed
            lost[p] = lost[p] * scale[j].real + removed.real
            share += lost[p]
        leaking = leaking or share > 0.0
        if leaking:
            for p in range(n_source + 1):
                # The bound itself must not underflow.
                lost[p] = max(lost[p], FLOOR * FLOOR)
    top, _ = _emissions(end, 0.0, gamma, finish)
    if along is not None:
        for p in range(n_source + 1):
            finish[p] *= complex(1.0, STEP * along.end[min(n_source - p, len(along.end) - 1)])
    total, share = 0.0, 0.0
    for p in range(n_source + 1):
        removed = finish[p] == 0.0 and end[p] > -np.inf
        leaking = leaking or removed
        share += lost[p] * (FLOOR if removed else finish[p].real) if leaking else 0.0
        share += FLOOR if removed else 0.0
        total += position[n_target, p] * finish[p]
    if total == 0.0:
        return -np.inf, 1.0 if leaking else 0.0
    for p in range(n_source + 1):
        finish[p] /= total
    return value + top + gamma * np.log(total), share / total.real


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(
    weight, transitions, emit, finish, real, position, scale, arrive, left, leaving, beta, jump_counts, departure_counts
):  # fmt: skip
    """Scaled backward pass: forward links in ``real`` become marginals, NULL's last; adds expected counts of moves.

    Where nothing arrives the future is unbounded and must not be carried on.
    """
    n_target, n_source = emit.shape[0], emit.shape[1] - 1
    moves, depart = transitions.moves, transitions.depart
    for p in range(n_source + 1):
        beta[p] = finish[p] if position[n_target, p].real > 0.0 else 0.0
    for j in range(n_target - 1, -1, -1):
        stay = emit[j, n_source] * scale[j]
        null = 0.0
        for p in range(n_source + 1):
            null += position[j, p] * beta[p]
        for i in range(n_source):
            arrive[i] = emit[j, i] * beta[i + 1] * scale[j] if real[j, i].real > 0.0 else 0.0
            real[j, i] *= beta[i + 1]
        real[j, n_source] = null * stay
        spread(arrive, moves, np.int64(-1), left)
        if weight != 0.0:
            _leave(position[j], depart, leaving)
            count_moves(weight, leaving, arrive, moves, jump_counts)
        for p in range(n_source + 1):
            gone = left[p] * depart[p] if position[j, p].real > 0.0 else 0.0
            departure_counts[p] += weight * position[j, p] * gone
            beta[p] = stay * beta[p] + gone if position[j, p].real > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(scores, along, gamma, active, weights, values, marginals, expected, status):
    """Smoothed max of every active instance in scaled probabilities; ``status`` 1 where it lost mass.

    With a direction, of the form of scores, all that is filled is complex, and has derivatives along it, times STEP.
    """
    source_lengths, target_lengths, offsets, unary, jump, departure, end = scores
    longest, tallest, most = 0, 0, 0
    for n in range(len(source_lengths)):
        if active[n]:
            longest, tallest = max(longest, source_lengths[n]), max(tallest, target_lengths[n])
            most = max(most, (target_lengths[n] + 1) * (source_lengths[n] + 1))
    kind = marginals.dtype
    emit_space, position_space, scale = np.empty(most, kind), np.empty(most, kind), np.empty(tallest, kind)
    rows_space, real_space = np.empty((6, longest + 1), kind), np.empty((3, longest + 1))
    width = len(jump) // 2
    moves, moves_bound = np.empty(2 * width + 1, kind), np.empty(2 * width + 1)
    built, shift, floored = -1, 0.0, 0.0
    # Potentials of moves depend on the source length alone: neighbours of equal length share them.
    for n in range(len(source_lengths)):
        rows, columns = target_lengths[n], source_lengths[n]
        if not active[n] or rows == 0:
            continue
        depart, depart_bound = rows_space[0, : columns + 1], real_space[0, : columns + 1]
        ending, finish = real_space[1, : columns + 1], rows_space[1, : columns + 1]
        leaving, lost = rows_space[2, : columns + 1], real_space[2, : columns + 1]
        left, beta = rows_space[3, : columns + 1], rows_space[4, : columns + 1]
        come = rows_space[5, :columns]
        if built != columns:
            first, stop = max(0, width + 1 - columns), min(2 * width, width + columns) + 1
            top_jump, moves_floored = _floored(jump, first, stop if columns else first, gamma, moves, moves_bound)
            leave, stop = departure[columns, : columns + 1], columns + 1 if columns else 0
            top_leave, depart_floored = _floored(leave, np.int64(0), stop, gamma, depart, depart_bound)
            shift, floored = top_jump + top_leave, 1.0 * moves_floored + 1.0 * depart_floored
            if along is not None:
                _tilt(moves, along.jump)
                _tilt(depart, along.departure[columns])
            built = columns
        emit = emit_space[: rows * (columns + 1)].reshape(rows, columns + 1)
        position = position_space[: (rows + 1) * (columns + 1)].reshape(rows + 1, columns + 1)
        at = offsets[n]
        block = unary[at : at + rows * (columns + 1)].reshape(rows, columns + 1)
        real = marginals[at : at + rows * (columns + 1)].reshape(rows, columns + 1)
        for p in range(columns + 1):
            ending[p] = end[min(columns - p, len(end) - 1)]
        transitions = Transitions(moves, depart, moves_bound, depart_bound, shift, floored)
        value, share = _forward(
            block, ending, along, at, gamma, transitions, emit, real, finish, position, scale, leaving, come, lost
        )  # fmt: skip
        if not (share <= LOSS):
            status[n] = 1
            continue
        values[n] = value
        if value == -np.inf:
            real[:, :] = 0.0
            continue
        for p in range(columns + 1):
            expected.end[min(columns - p, len(end) - 1)] += weights[n] * position[rows, p] * finish[p]
        _backward(
            weights[n], transitions, emit, finish, real, position, scale, come, left, leaving, beta,
            expected.jump, expected.departure[columns],
        )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _best_moves(best, jump, leave, top, came_from):
    """Best way to every source position; of equally good ones the leftmost, as if all were tried in order."""
    n_in, n_out, width = len(best), len(top), len(jump) // 2
    before, low, after, high = tails(width, np.int64(1))
    below, below_at = -np.inf, 0
    for i in range(n_out):
        if before <= i:
            candidate = best[i - before] + (jump[low] + leave[i - before])
            if candidate > below:
                below, below_at = candidate, i - before
        most, most_at = below, below_at
        for p in range(max(0, i - before + 1), min(n_in, i + after)):
            candidate = best[p] + (jump[width + 1 + i - p] + leave[p])
            if candidate > most:
                most, most_at = candidate, p
        top[i], came_from[i] = most, most_at
    above, above_at = -np.inf, 0
    for p in range(n_in - 1, after - 1, -1):
        candidate = best[p] + (jump[high] + leave[p])
        if candidate >= above:
            above, above_at = candidate, p
        if above > top[p - after]:
            top[p - after], came_from[p - after] = above, above_at


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(scores, active, weights, values, choices, expected):
    """Best alignment of every active instance; ``choices`` (flat over target positions): I is NULL, -2 impossible."""
    source_lengths, target_lengths, offsets, unary, jump, departure, end = scores
    width = (len(jump) - 1) // 2
    begin = 0
    for n in range(len(source_lengths)):
        rows, columns = target_lengths[n], source_lengths[n]
        first, begin = begin, begin + rows
        if not active[n] or rows == 0:
            continue
        score = unary[offsets[n] : offsets[n] + rows * (columns + 1)].reshape(rows, columns + 1)
        best = np.full(columns + 1, -np.inf)
        best[0] = 0.0
        came_from, top = np.empty((rows, columns), np.int32), np.empty(columns)
        linked = np.zeros((rows, columns + 1), np.bool_)
        for j in range(rows):
            following = best + score[j, columns]
            _best_moves(best, jump, departure[columns], top, came_from[j])
            for i in range(columns):
                if top[i] + score[j, i] >= following[i + 1] and top[i] + score[j, i] > -np.inf:
                    following[i + 1] = top[i] + score[j, i]
                    linked[j, i + 1] = True
            best = following
        for p in range(columns + 1):
            best[p] += end[min(columns - p, len(end) - 1)]
        p = int(np.argmax(best))
        values[n] = best[p]
        if best[p] == -np.inf:
            choices[first : first + rows] = -2
            continue
        expected.end[min(columns - p, len(end) - 1)] += weights[n]
        for j in range(rows - 1, -1, -1):
            if linked[j, p]:
                choices[first + j] = p - 1
                previous = came_from[j, p - 1]
                d = min(max(p - previous, -width), width)
                expected.jump[d + width] += weights[n]
                expected.departure[columns, previous] += weights[n]
                p = previous
            else:
                choices[first + j] = columns
