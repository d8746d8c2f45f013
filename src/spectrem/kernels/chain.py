"""Forward-backward and Viterbi passes of first-order chains.

Token t of the batch may take the states ``states[offsets[t]:offsets[t + 1]]``, or every state when ``dense`` is
true; ``offsets`` also delimits its entries of ``unary``. Instance n owns the tokens
``token_offsets[n]:token_offsets[n + 1]``.

The scaled pass replaces every potential and every normalised forward probability below FLOOR by zero, so that no
product can underflow. From the first such removal on it carries, state by state, an upper bound on the mass removed
so far; an instance where the bound ends above LOSS (as a share of its total) is reported in ``status`` and belongs in
the log-space pass.
"""

import math

import numpy as np
from numba import njit

FLOOR = 1e-100
LOSS = 1e-12


@njit(cache=True, nogil=True, error_model="numpy")
def _longest(offsets):
    longest = 0
    for n in range(len(offsets) - 1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    return longest


@njit(cache=True, nogil=True, error_model="numpy")
def _exponentiate(scores, gamma, potentials):
    """potentials = exp((scores - top) / gamma), floored. Returns top and whether the floor removed anything."""
    top = -np.inf
    for k in range(len(scores)):
        top = max(top, scores[k])
    floored = False
    for k in range(len(scores)):
        potential = 0.0
        if scores[k] > -np.inf:
            potential = math.exp((scores[k] - top) / gamma)
            if potential < FLOOR:
                potential = 0.0
                floored = True
        potentials[k] = potential
    return top, floored


@njit(cache=True, nogil=True, error_model="numpy")
def _exponentiate_transitions(transition, gamma, into, out_of, bound):
    """Potentials of the transitions, their transpose and their upper bounds: FLOOR where the floor removed one."""
    top, floored = _exponentiate(transition.ravel(), gamma, into.ravel())
    for i in range(len(transition)):
        for j in range(len(transition)):
            out_of[j, i] = into[i, j]
            bound[i, j] = FLOOR if into[i, j] == 0.0 and transition[i, j] > -np.inf else into[i, j]
    return top, floored


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply(vector, matrix, out):
    """out = vector @ matrix."""
    for j in range(len(out)):
        out[j] = 0.0
    for i in range(len(vector)):
        mass = vector[i]
        if mass != 0.0:
            for j in range(len(out)):
                out[j] += mass * matrix[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply_allowed(vector, matrix, rows, columns, out):
    """out = vector @ matrix[rows][:, columns]."""
    for j in range(len(columns)):
        out[j] = 0.0
    for i in range(len(rows)):
        mass = vector[i]
        if mass != 0.0:
            row = rows[i]
            for j in range(len(columns)):
                out[j] += mass * matrix[row, columns[j]]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_outer(weight, left, right, counts):
    """counts += weight * outer(left, right)."""
    for i in range(len(left)):
        mass = weight * left[i]
        if mass != 0.0:
            for j in range(len(right)):
                counts[i, j] += mass * right[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_outer_allowed(weight, left, right, rows, columns, counts):
    for i in range(len(rows)):
        mass = weight * left[i]
        if mass != 0.0:
            row = rows[i]
            for j in range(len(columns)):
                counts[row, columns[j]] += mass * right[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(
    first, n_tokens, offsets, states, dense, unary, gamma, transition_top, transition_floored, into, bound,
    emit_space, alpha_space, lost_space, scale,
):  # fmt: skip
    """Scaled forward pass of one instance. Returns its value and the share of the total that may be missing."""
    value, share, leaking = 0.0, 0.0, False
    before = states[:0]
    for t in range(n_tokens):
        start, stop = offsets[first + t], offsets[first + t + 1]
        width = stop - start
        here = states if dense else states[start:stop]
        emit, alpha, lost = emit_space[t, :width], alpha_space[t, :width], lost_space[t % 2, :width]
        top, floored = _exponentiate(unary[start:stop], gamma, emit)
        fresh = FLOOR if floored else 0.0
        if t == 0:
            for k in range(width):
                alpha[k], lost[k] = emit[k], fresh
        else:
            value += transition_top
            if transition_floored:
                fresh += FLOOR
            previous, previous_lost = alpha_space[t - 1, : len(before)], lost_space[1 - t % 2, : len(before)]
            if leaking and dense:
                _multiply(previous_lost, bound, lost)
            elif leaking:
                _multiply_allowed(previous_lost, bound, before, here, lost)
            for k in range(width):
                removed = FLOOR if unary[start + k] > -np.inf else 0.0
                lost[k] = fresh + (lost[k] * max(emit[k], removed) if leaking else 0.0)
            if dense:
                _multiply(previous, into, alpha)
            else:
                _multiply_allowed(previous, into, before, here, alpha)
            for k in range(width):
                alpha[k] *= emit[k]
        leaking = leaking or fresh > 0.0
        total = 0.0
        for k in range(width):
            total += alpha[k]
        if total == 0.0:
            # Without any removal a total of zero is exact: no structure is possible.
            return -np.inf, 1.0 if leaking else 0.0
        scale[t] = 1.0 / total
        share = 0.0
        for k in range(width):
            mass = alpha[k] * scale[t]
            removed = mass if mass < FLOOR else 0.0
            alpha[k] = mass - removed
            lost[k] = lost[k] * scale[t] + removed
            share += lost[k]
        leaking = leaking or share > 0.0
        if leaking:
            for k in range(width):
                # The bound itself must not underflow.
                lost[k] = max(lost[k], FLOOR * FLOOR)
        value += top + gamma * math.log(total)
        before = here
    return value, share


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(
    first, n_tokens, offsets, states, dense, out_of, weight, emit_space, alpha_space, scale, beta_space, future_space,
    marginals, pairs,
):  # fmt: skip
    """Scaled backward pass: marginals, and into ``pairs`` the expected transition counts over their potentials."""
    start, stop = offsets[first + n_tokens - 1], offsets[first + n_tokens]
    here = states if dense else states[start:stop]
    beta = beta_space[: len(here)]
    for k in range(len(here)):
        beta[k] = 1.0
        marginals[start + k] = alpha_space[n_tokens - 1, k]
    for t in range(n_tokens - 1, 0, -1):
        future = future_space[: len(here)]
        for k in range(len(here)):
            future[k] = emit_space[t, k] * beta[k] * scale[t]
        start, stop = offsets[first + t - 1], offsets[first + t]
        before = states if dense else states[start:stop]
        alpha, beta = alpha_space[t - 1, : len(before)], beta_space[: len(before)]
        if dense:
            _add_outer(weight, alpha, future, pairs)
            _multiply(future, out_of, beta)
        else:
            _add_outer_allowed(weight, alpha, future, before, here, pairs)
            _multiply_allowed(future, out_of, here, before, beta)
        for k in range(len(before)):
            # Where nothing arrives the future is unbounded and must not be carried on.
            beta[k] = beta[k] if alpha[k] > 0.0 else 0.0
            marginals[start + k] = alpha[k] * beta[k]
        here = before


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(
    token_offsets, offsets, states, dense, unary, transition, gamma, active, weights,
    values, marginals, counts, status,
):  # fmt: skip
    """Smoothed max of every active instance in scaled probabilities; ``status`` 1 where the floor removed too much."""
    n_states, longest = len(transition), _longest(token_offsets)
    emit, alpha, scale = np.empty((longest, n_states)), np.empty((longest, n_states)), np.empty(longest)
    beta, future, lost = np.empty(n_states), np.empty(n_states), np.empty((2, n_states))
    into, out_of = np.empty((n_states, n_states)), np.empty((n_states, n_states))
    bound, pairs = np.empty((n_states, n_states)), np.zeros((n_states, n_states))
    top, floored = _exponentiate_transitions(transition, gamma, into, out_of, bound)
    for n in range(len(token_offsets) - 1):
        if not active[n]:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        value, share = _forward(
            first, n_tokens, offsets, states, dense, unary, gamma, top, floored, into, bound, emit, alpha, lost, scale,
        )  # fmt: skip
        if not (share <= LOSS):
            status[n] = 1
            continue
        values[n] = value
        if value > -np.inf and n_tokens > 0:
            _backward(
                first, n_tokens, offsets, states, dense, out_of, weights[n], emit, alpha, scale, beta, future,
                marginals, pairs,
            )  # fmt: skip
    for i in range(n_states):
        for j in range(n_states):
            counts[i, j] += pairs[i, j] * into[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def log_sum_pass(
    token_offsets, offsets, states, dense, unary, transition, gamma, chosen, weights,
    values, marginals, counts,
):  # fmt: skip
    """The same in log space (nats, so that no division by gamma overflows), many times slower, for ``chosen``."""
    n_states = len(transition)
    longest = _longest(token_offsets)
    alpha_space = np.empty((longest, n_states))
    scale = np.empty(longest)
    beta = np.empty(n_states)
    future = np.empty(n_states)
    for n in range(len(token_offsets) - 1):
        if not chosen[n]:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        value = 0.0
        before = states[:0]
        for t in range(n_tokens):
            start, stop = offsets[first + t], offsets[first + t + 1]
            here = states if dense else states[start:stop]
            alpha = alpha_space[t]
            top = -np.inf
            for k in range(len(here)):
                alpha[k] = unary[start + k]
                if t > 0 and alpha[k] > -np.inf:
                    best = -np.inf
                    for i in range(len(before)):
                        best = max(best, alpha_space[t - 1, i] + transition[before[i], here[k]])
                    total = 0.0
                    if best > -np.inf:
                        for i in range(len(before)):
                            arriving = alpha_space[t - 1, i] + transition[before[i], here[k]]
                            total += math.exp((arriving - best) / gamma)
                    alpha[k] = alpha[k] + best + gamma * math.log(total) if total > 0.0 else -np.inf
                top = max(top, alpha[k])
            if top == -np.inf:
                value = -np.inf
                break
            total = 0.0
            for k in range(len(here)):
                total += math.exp((alpha[k] - top) / gamma)
            scale[t] = top + gamma * math.log(total)
            value += scale[t]
            for k in range(len(here)):
                alpha[k] -= scale[t]
            before = here
        values[n] = value
        if value == -np.inf or n_tokens == 0:
            continue

        start, stop = offsets[first + n_tokens - 1], offsets[first + n_tokens]
        here = states if dense else states[start:stop]
        for k in range(len(here)):
            beta[k] = 0.0
            marginals[start + k] = math.exp(alpha_space[n_tokens - 1, k] / gamma)
        for t in range(n_tokens - 1, 0, -1):
            for k in range(len(here)):
                future[k] = beta[k] + unary[offsets[first + t] + k] - scale[t]
            start, stop = offsets[first + t - 1], offsets[first + t]
            before = states if dense else states[start:stop]
            for i in range(len(before)):
                best = -np.inf
                for k in range(len(here)):
                    best = max(best, transition[before[i], here[k]] + future[k])
                beta[i], marginals[start + i] = -np.inf, 0.0
                if best == -np.inf:
                    continue
                total = 0.0
                for k in range(len(here)):
                    leaving = transition[before[i], here[k]] + future[k]
                    total += math.exp((leaving - best) / gamma)
                    pair = math.exp((alpha_space[t - 1, i] + leaving) / gamma)
                    counts[before[i], here[k]] += weights[n] * pair
                beta[i] = best + gamma * math.log(total)
                marginals[start + i] = math.exp((alpha_space[t - 1, i] + beta[i]) / gamma)
            here = before


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(
    token_offsets, offsets, states, dense, unary, transition, active, weights,
    values, choices, counts,
):  # fmt: skip
    """Best state sequence of every active instance; ``choices[t]`` indexes the token's own states, -1 if impossible."""
    n_states = len(transition)
    longest = _longest(token_offsets)
    came_from = np.empty((longest, n_states), np.int64)
    best = np.empty(n_states)
    following = np.empty(n_states)
    for n in range(len(token_offsets) - 1):
        if not active[n]:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        values[n] = 0.0
        if n_tokens == 0:
            continue
        before = states[:0]
        for t in range(n_tokens):
            start, stop = offsets[first + t], offsets[first + t + 1]
            here = states if dense else states[start:stop]
            origin = came_from[t]
            for k in range(len(here)):
                following[k] = 0.0 if t == 0 else -np.inf
                origin[k] = 0
            for i in range(len(before)):
                row, so_far = transition[before[i]], best[i]
                if so_far == -np.inf:
                    continue
                if dense:
                    for k in range(n_states):
                        better = so_far + row[k] > following[k]
                        following[k] = so_far + row[k] if better else following[k]
                        origin[k] = i if better else origin[k]
                else:
                    for k in range(len(here)):
                        if so_far + row[here[k]] > following[k]:
                            following[k] = so_far + row[here[k]]
                            origin[k] = i
            for k in range(len(here)):
                best[k] = following[k] + unary[start + k]
            before = here
        last = 0
        for k in range(1, len(before)):
            if best[k] > best[last]:
                last = k
        if len(before) == 0 or best[last] == -np.inf:
            values[n] = -np.inf
            for t in range(n_tokens):
                choices[first + t] = -1
            continue
        values[n] = best[last]
        for t in range(n_tokens - 1, -1, -1):
            choices[first + t] = last
            if t > 0:
                arrived = states[last] if dense else states[offsets[first + t] + last]
                last = came_from[t, last]
                left = states[last] if dense else states[offsets[first + t - 1] + last]
                counts[left, arrived] += weights[n]
