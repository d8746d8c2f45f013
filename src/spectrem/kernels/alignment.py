"""Forward-backward and Viterbi passes of the alignment chain, one sentence pair at a time.

Every target position j picks a source position i or NULL. A link from the last source position p (-1 at the
start; NULL keeps p, [OchNey2003]) to i scores ``unary[j, i] + jump[clip(i - p)] + departure[I, p + 1]``, the last
p of a pair ``end[min(I - 1 - p, W)]``. Links and NULLs at the same p share one future, so the backward pass needs I + 1
states only.

The scaled pass replaces every potential and every normalised forward probability below FLOOR by zero, so that no
product can underflow. From the first such removal on it carries, state by state, an upper bound on the mass removed
so far; a pair where the bound ends above LOSS (as a share of its total) is reported in ``status`` and belongs in the
log-space pass.
"""

import numpy as np
from numba import njit

FLOOR = 1e-100
LOSS = 1e-12


@njit(cache=True, nogil=True, error_model="numpy")
def _potential(score, top, gamma):
    """exp((score - top) / gamma), 0 below FLOOR."""
    if score == -np.inf:
        return 0.0
    potential = np.exp((score - top) / gamma)
    return potential if potential >= FLOOR else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _transitions(n_source, jump, departure, gamma, into, out_of, bound):
    """Potentials of moving from p (row p + 1) to i, their transpose and their upper bounds; the score they are over.

    Also whether the floor removed one.
    """
    width = (len(jump) - 1) // 2
    top = -np.inf
    for p in range(-1, n_source):
        for i in range(n_source):
            d = min(max(i - p, -width), width)
            score = jump[d + width] + departure[n_source, p + 1]
            bound[p + 1, i] = score
            top = max(top, score)
    if top == -np.inf:
        top = 0.0
    floored = False
    for p in range(n_source + 1):
        for i in range(n_source):
            potential = _potential(bound[p, i], top, gamma)
            removed = potential == 0.0 and bound[p, i] > -np.inf
            floored = floored or removed
            into[p, i], out_of[i, p], bound[p, i] = potential, potential, FLOOR if removed else potential
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
def _move_loss(row, emit, bound, fresh, lost, moved):
    """Carry the bound on what is lost over one position; potentials below the floor count as FLOOR."""
    n_source = len(row) - 1
    moved[:] = 0.0
    for p in range(n_source + 1):
        for i in range(n_source):
            moved[i + 1] += lost[p] * bound[p, i]
    for i in range(n_source):
        moved[i + 1] *= max(emit[i], FLOOR if row[i] > -np.inf else 0.0)
    null = max(emit[n_source], FLOOR if row[n_source] > -np.inf else 0.0)
    for p in range(n_source + 1):
        lost[p] = moved[p] + null * lost[p] + fresh


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(block, end, shift, floored, gamma, emit, into, bound, finish, real, position, scale, lost, moved):
    """Scaled forward pass; ``real[j, i]`` links, ``position[j + 1, p + 1]`` links and NULLs together.

    Fills ``finish`` with the normalised potentials of the end. Returns the value and the share of the total that may
    be missing.
    """
    n_target, n_source = emit.shape[0], emit.shape[1] - 1
    value, share, leaking = 0.0, 0.0, False
    position[0, :] = 0.0
    position[0, 0] = 1.0
    for j in range(n_target):
        top, emit_floored = _emissions(block[j], shift, gamma, emit[j])
        fresh = (2.0 * FLOOR if emit_floored else 0.0) + (FLOOR if floored else 0.0)
        if leaking:
            _move_loss(block[j], emit[j], bound, fresh, lost, moved)
        else:
            lost[:] = fresh
        leaking = leaking or fresh > 0.0
        real[j, :] = 0.0
        for p in range(n_source + 1):
            mass = position[j, p]
            if mass != 0.0:
                for i in range(n_source):
                    real[j, i] += mass * into[p, i]
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
            removed = mass if mass < FLOOR else 0.0
            position[j + 1, p] = mass - removed
            lost[p] = lost[p] * scale[j] + removed
            share += lost[p]
        leaking = leaking or share > 0.0
        if leaking:
            for p in range(n_source + 1):
                # The bound itself must not underflow.
                lost[p] = max(lost[p], FLOOR * FLOOR)
    top, _ = _emissions(end, 0.0, gamma, finish)
    total, share = 0.0, 0.0
    for p in range(n_source + 1):
        removed = finish[p] == 0.0 and end[p] > -np.inf
        leaking = leaking or removed
        share += lost[p] * (FLOOR if removed else finish[p]) if leaking else 0.0
        share += FLOOR if removed else 0.0
        total += position[n_target, p] * finish[p]
    if total == 0.0:
        return -np.inf, 1.0 if leaking else 0.0
    finish /= total
    return value + top + gamma * np.log(total), share / total


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(emit, out_of, finish, real, position, scale, arrive, beta):
    """Scaled backward pass; ``arrive[j, i]`` = emission x future of a link.

    Where nothing arrives the future is unbounded and must not be carried on.
    """
    n_target, n_source = emit.shape[0], emit.shape[1] - 1
    for p in range(n_source + 1):
        beta[n_target, p] = finish[p] if position[n_target, p] > 0.0 else 0.0
    for j in range(n_target - 1, -1, -1):
        null = emit[j, n_source] * scale[j]
        for p in range(n_source + 1):
            beta[j, p] = null * beta[j + 1, p]
        for i in range(n_source):
            arrive[j, i] = emit[j, i] * beta[j + 1, i + 1] * scale[j] if real[j, i] > 0.0 else 0.0
            mass = arrive[j, i]
            if mass != 0.0:
                for p in range(n_source + 1):
                    beta[j, p] += mass * out_of[i, p]
        for p in range(n_source + 1):
            beta[j, p] = beta[j, p] if position[j, p] > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _count_jumps(weight, into, position, arrive, jump_counts, departure_counts):
    """Add the expected counts of jump widths and of departures (both shared by the batch)."""
    n_target, n_source = arrive.shape
    width = (len(jump_counts) - 1) // 2
    for j in range(n_target):
        for p in range(n_source + 1):
            mass = position[j, p] * weight
            if mass != 0.0:
                total = 0.0
                for i in range(n_source):
                    pair = mass * into[p, i] * arrive[j, i]
                    d = min(max(i - p + 1, -width), width)
                    jump_counts[d + width] += pair
                    total += pair
                departure_counts[n_source, p] += total


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(
    source_lengths, target_lengths, offsets, unary, jump, departure, end, gamma, active, weights,
    values, marginals, jump_counts, departure_counts, end_counts, status,
):  # fmt: skip
    """Smoothed max of every active instance in scaled probabilities; ``status`` 1 where it lost mass."""
    longest_source, longest_target = 0, 0
    for n in range(len(source_lengths)):
        longest_source = max(longest_source, source_lengths[n])
        longest_target = max(longest_target, target_lengths[n])
    emit_space = np.empty(longest_target * (longest_source + 1))
    real_space = np.empty(longest_target * longest_source)
    arrive_space = np.empty(longest_target * longest_source)
    position_space = np.empty((longest_target + 1) * (longest_source + 1))
    beta_space = np.empty((longest_target + 1) * (longest_source + 1))
    into_space = np.empty((longest_source + 1) * longest_source)
    out_of_space = np.empty((longest_source + 1) * longest_source)
    scale = np.empty(longest_target)
    bound_space = np.empty((longest_source + 1) * longest_source)
    end_space, finish_space = np.empty(longest_source + 1), np.empty(longest_source + 1)
    lost_space, moved_space = np.empty(longest_source + 1), np.empty(longest_source + 1)
    built, shift, floored = -1, 0.0, False
    for n in range(len(source_lengths)):
        rows, columns = target_lengths[n], source_lengths[n]
        if not active[n] or rows == 0:
            continue
        into = into_space[: (columns + 1) * columns].reshape(columns + 1, columns)
        out_of = out_of_space[: (columns + 1) * columns].reshape(columns, columns + 1)
        bound = bound_space[: (columns + 1) * columns].reshape(columns + 1, columns)
        if built != columns:
            shift, floored = _transitions(columns, jump, departure, gamma, into, out_of, bound)
            built = columns
        emit = emit_space[: rows * (columns + 1)].reshape(rows, columns + 1)
        real = real_space[: rows * columns].reshape(rows, columns)
        arrive = arrive_space[: rows * columns].reshape(rows, columns)
        position = position_space[: (rows + 1) * (columns + 1)].reshape(rows + 1, columns + 1)
        beta = beta_space[: (rows + 1) * (columns + 1)].reshape(rows + 1, columns + 1)
        at = offsets[n]
        block = unary[at : at + rows * (columns + 1)].reshape(rows, columns + 1)
        ending, finish = end_space[: columns + 1], finish_space[: columns + 1]
        for p in range(columns + 1):
            ending[p] = end[min(columns - p, len(end) - 1)]
        value, share = _forward(
            block, ending, shift, floored, gamma, emit, into, bound, finish, real, position, scale,
            lost_space[: columns + 1], moved_space[: columns + 1],
        )  # fmt: skip
        if not (share <= LOSS):
            status[n] = 1
            continue
        values[n] = value
        if value == -np.inf:
            continue
        _backward(emit, out_of, finish, real, position, scale, arrive, beta)
        for j in range(rows):
            null = 0.0
            for p in range(columns + 1):
                null += position[j, p] * beta[j + 1, p]
            marginals[at + j * (columns + 1) + columns] = null * emit[j, columns] * scale[j]
            for i in range(columns):
                marginals[at + j * (columns + 1) + i] = real[j, i] * beta[j + 1, i + 1]
        _count_jumps(weights[n], into, position, arrive, jump_counts, departure_counts)
        for p in range(columns + 1):
            end_counts[min(columns - p, len(end) - 1)] += weights[n] * position[rows, p] * beta[rows, p]


@njit(cache=True, nogil=True, error_model="numpy")
def _log_add(a, b):
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + np.log1p(np.exp(b - a))


@njit(cache=True, nogil=True, error_model="numpy")
def log_sum_pass(
    source_lengths, target_lengths, offsets, unary, jump, departure, end, gamma, chosen, weights,
    values, marginals, jump_counts, departure_counts, end_counts,
):  # fmt: skip
    """The same in log space, several times slower, for the instances ``chosen``; impossible ones get value -inf."""
    width = (len(jump) - 1) // 2
    for n in range(len(source_lengths)):
        if not chosen[n]:
            continue
        rows, columns = target_lengths[n], source_lengths[n]
        at = offsets[n]
        score = unary[at : at + rows * (columns + 1)].reshape(rows, columns + 1) / gamma
        move = np.empty((columns + 1, columns))
        for p in range(columns + 1):
            for i in range(columns):
                d = min(max(i - p + 1, -width), width)
                move[p, i] = (jump[d + width] + departure[columns, p]) / gamma
        real = np.full((rows, columns), -np.inf)
        position = np.full((rows + 1, columns + 1), -np.inf)
        position[0, 0] = 0.0
        for j in range(rows):
            for p in range(columns + 1):
                if position[j, p] > -np.inf:
                    for i in range(columns):
                        real[j, i] = _log_add(real[j, i], position[j, p] + move[p, i] + score[j, i])
            for p in range(columns + 1):
                position[j + 1, p] = position[j, p] + score[j, columns]
            for i in range(columns):
                position[j + 1, i + 1] = _log_add(position[j + 1, i + 1], real[j, i])
        beta = np.full((rows + 1, columns + 1), -np.inf)
        total = -np.inf
        for p in range(columns + 1):
            beta[rows, p] = end[min(columns - p, len(end) - 1)] / gamma
            total = _log_add(total, position[rows, p] + beta[rows, p])
        values[n] = gamma * total
        for k in range(at, at + rows * (columns + 1)):
            marginals[k] = 0.0
        if total == -np.inf:
            continue
        for p in range(columns + 1):
            count = weights[n] * np.exp(position[rows, p] + beta[rows, p] - total)
            end_counts[min(columns - p, len(end) - 1)] += count
        for j in range(rows - 1, -1, -1):
            null = 0.0
            for p in range(columns + 1):
                stay = score[j, columns] + beta[j + 1, p]
                null += np.exp(position[j, p] + stay - total)
                beta[j, p] = stay
                departed = 0.0
                for i in range(columns):
                    go = move[p, i] + score[j, i] + beta[j + 1, i + 1]
                    beta[j, p] = _log_add(beta[j, p], go)
                    pair = weights[n] * np.exp(position[j, p] + go - total)
                    d = min(max(i - p + 1, -width), width)
                    jump_counts[d + width] += pair
                    departed += pair
                departure_counts[columns, p] += departed
            marginals[at + j * (columns + 1) + columns] = null
            for i in range(columns):
                marginals[at + j * (columns + 1) + i] = np.exp(real[j, i] + beta[j + 1, i + 1] - total)


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(
    source_lengths, target_lengths, offsets, unary, jump, departure, end, active, weights,
    values, choices, jump_counts, departure_counts, end_counts,
):  # fmt: skip
    """Best alignment of every active instance; ``choices`` (flat over target positions): I is NULL, -2 impossible."""
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
        came_from = np.empty((rows, columns), np.int32)
        linked = np.zeros((rows, columns + 1), np.bool_)
        for j in range(rows):
            following = best + score[j, columns]
            for i in range(columns):
                top, top_p = -np.inf, 0
                for p in range(columns + 1):
                    d = min(max(i - p + 1, -width), width)
                    candidate = best[p] + (jump[d + width] + departure[columns, p])
                    if candidate > top:
                        top, top_p = candidate, p
                came_from[j, i] = top_p
                if top + score[j, i] >= following[i + 1] and top + score[j, i] > -np.inf:
                    following[i + 1] = top + score[j, i]
                    linked[j, i + 1] = True
            best = following
        for p in range(columns + 1):
            best[p] += end[min(columns - p, len(end) - 1)]
        p = int(np.argmax(best))
        values[n] = best[p]
        if best[p] == -np.inf:
            choices[first : first + rows] = -2
            continue
        end_counts[min(columns - p, len(end) - 1)] += weights[n]
        for j in range(rows - 1, -1, -1):
            if linked[j, p]:
                choices[first + j] = p - 1
                previous = came_from[j, p - 1]
                d = min(max(p - previous, -width), width)
                jump_counts[d + width] += weights[n]
                departure_counts[columns, previous] += weights[n]
                p = previous
            else:
                choices[first + j] = columns
