"""Forward-backward and Viterbi passes of the alignment chain, one sentence pair at a time.

Every target position j picks a source position i or NULL. A link from the last source position p (-1 at the
start; NULL keeps p, [OchNey2003]) to i scores ``unary[j, i] + jump[clip(i - p)] + departure[I, p + 1]``, the last
p of a pair ``end[min(I - 1 - p, W)]``. Links and NULLs at the same p share one future, so the backward pass needs I + 1
states only.
"""

import numpy as np
from numba import njit

# A backward pass whose total disagrees with the forward one by more has lost mass to underflow.
_TOTALS_AGREE = 1e-9


@njit(cache=True, nogil=True, error_model="numpy")
def _transitions(n_source, jump, departure, gamma, into, out_of):
    """Potentials exp(score / gamma - shift) of moving from p (row p + 1) to i, and their transpose.

    Returns the shift, and whether a possible move underflowed.
    """
    width = (len(jump) - 1) // 2
    shift = -np.inf
    for p in range(-1, n_source):
        for i in range(n_source):
            d = min(max(i - p, -width), width)
            score = jump[d + width] + departure[n_source, p + 1]
            into[p + 1, i] = score
            if score > shift:
                shift = score
    if shift == -np.inf:
        shift = 0.0
    lost = False
    for p in range(n_source + 1):
        for i in range(n_source):
            potential = np.exp((into[p, i] - shift) / gamma)
            lost |= potential == 0.0 and into[p, i] > -np.inf
            into[p, i] = potential
            out_of[i, p] = potential
    return shift / gamma, lost


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(emit, into, end, real, position, scale):
    """Scaled forward pass; ``real[j, i]`` links, ``position[j + 1, p + 1]`` links and NULLs together.

    Returns log Z and divides ``end`` by its last factor.
    """
    n_target, n_source = emit.shape[0], emit.shape[1] - 1
    log_total = 0.0
    position[0, :] = 0.0
    position[0, 0] = 1.0
    for j in range(n_target):
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
        if not (total > 1e-290 and total < 1e290):
            return -np.inf
        scale[j] = 1.0 / total
        log_total += np.log(total)
        position[j + 1, 0] = null * position[j, 0] * scale[j]
        for i in range(n_source):
            real[j, i] *= scale[j]
            position[j + 1, i + 1] = real[j, i] + null * position[j, i + 1] * scale[j]
    total = 0.0
    for p in range(n_source + 1):
        total += position[n_target, p] * end[p]
    if not (total > 1e-290 and total < 1e290):
        return -np.inf
    end /= total
    return log_total + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(emit, out_of, end, scale, arrive, beta):
    """Scaled backward pass; ``arrive[j, i]`` is emission x future of a link. Returns the total, 1 if nothing was lost."""
    n_target, n_source = emit.shape[0], emit.shape[1] - 1
    beta[n_target, :] = end
    for j in range(n_target - 1, -1, -1):
        null = emit[j, n_source] * scale[j]
        for p in range(n_source + 1):
            beta[j, p] = null * beta[j + 1, p]
        for i in range(n_source):
            arrive[j, i] = emit[j, i] * scale[j] * beta[j + 1, i + 1]
            mass = arrive[j, i]
            if mass != 0.0:
                for p in range(n_source + 1):
                    beta[j, p] += mass * out_of[i, p]
    return beta[0, 0]


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
    finish_space = np.empty(longest_source + 1)
    built, shift, lost_move = -1, 0.0, False
    for n in range(len(source_lengths)):
        rows, columns = target_lengths[n], source_lengths[n]
        if not active[n] or rows == 0:
            continue
        into = into_space[: (columns + 1) * columns].reshape(columns + 1, columns)
        out_of = out_of_space[: (columns + 1) * columns].reshape(columns, columns + 1)
        if built != columns:
            shift, lost_move = _transitions(columns, jump, departure, gamma, into, out_of)
            built = columns
        emit = emit_space[: rows * (columns + 1)].reshape(rows, columns + 1)
        real = real_space[: rows * columns].reshape(rows, columns)
        arrive = arrive_space[: rows * columns].reshape(rows, columns)
        position = position_space[: (rows + 1) * (columns + 1)].reshape(rows + 1, columns + 1)
        beta = beta_space[: (rows + 1) * (columns + 1)].reshape(rows + 1, columns + 1)
        at = offsets[n]
        finish = finish_space[: columns + 1]
        top = -np.inf
        for p in range(columns + 1):
            finish[p] = end[min(columns - p, len(end) - 1)] / gamma
            top = max(top, finish[p])
        if top == -np.inf:
            top = 0.0
        lost = lost_move
        for p in range(columns + 1):
            potential = np.exp(finish[p] - top)
            lost |= potential == 0.0 and finish[p] > -np.inf
            finish[p] = potential
        log_total = top
        for j in range(rows):
            row = unary[at + j * (columns + 1) : at + (j + 1) * (columns + 1)]
            # Links pay the shift of the transitions, so NULL (which makes no transition) gives it back.
            top = row[columns] / gamma - shift
            for i in range(columns):
                top = max(top, row[i] / gamma)
            if top == -np.inf:
                top = 0.0
            for i in range(columns):
                emit[j, i] = np.exp(row[i] / gamma - top)
                lost |= emit[j, i] == 0.0 and row[i] > -np.inf
            emit[j, columns] = np.exp(row[columns] / gamma - shift - top)
            lost |= emit[j, columns] == 0.0 and row[columns] > -np.inf
            log_total += top + shift
        log_total += -np.inf if lost else _forward(emit, into, finish, real, position, scale)
        if log_total == -np.inf or abs(_backward(emit, out_of, finish, scale, arrive, beta) - 1.0) > _TOTALS_AGREE:
            status[n] = 1
            continue
        values[n] = gamma * log_total
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
