"""Forward-backward, one sentence at a time, and Viterbi passes of first-order chains.

The sum pass reads scores by row: token t of the batch takes those of row ``rows[t]`` of a `Table`. Instance n owns the
tokens ``token_offsets[n]:token_offsets[n + 1]``.

It is scaled: every potential and every normalised forward probability below FLOOR is replaced by zero, so that no
product can underflow. From the first such removal on it carries, state by state, an upper bound on the mass removed
so far, in the unit in which the mass that is kept sums to one. It moves through ``bound``, the potentials of
transitions with FLOOR for those removed: mass lost in a state from which little goes on dies out, and does not spoil
the instance. An instance where the bounds end above LOSS (as a share of its total) keeps its ``status`` and belongs in
the log-space pass.
"""

import math
from typing import NamedTuple

import numpy as np

from spectrem._compiled import njit

FLOOR = 1e-100
LOSS = 1e-12


class Table(NamedTuple):
    """Scores of rows, first states and transitions, and their potentials exp((score - top) / gamma), 0 below FLOOR.

    The parts of a row are ``offsets[row]:offsets[row + 1]``, of increasing ``states``; where ``dense``, every
    row has all states and they are listed once. What is ``floored`` has lost a potential to the floor. ``into`` holds
    the potentials of transitions [from, to], ``out_of`` is its transpose, ``bound`` has FLOOR for those removed.
    """

    offsets: np.ndarray
    states: np.ndarray
    dense: bool
    scores: np.ndarray
    potentials: np.ndarray
    tops: np.ndarray
    floored: np.ndarray
    start_scores: np.ndarray
    start: np.ndarray
    start_top: float
    start_floored: bool
    transition: np.ndarray
    into: np.ndarray
    out_of: np.ndarray
    bound: np.ndarray
    transition_top: float
    transition_floored: bool
    gamma: float


class Expected(NamedTuple):
    """What a pass adds to: posteriors by part of the table and by first state, expected transitions [from, to]."""

    rows: np.ndarray
    initial: np.ndarray
    transition: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _multiply(vector, matrix, out):
    """out = vector @ matrix."""
    n = len(matrix)
    for j in range(n):
        out[j] = 0.0
    for i in range(n):
        mass = vector[i]
        if mass != 0.0:
            for j in range(n):
                out[j] += mass * matrix[i, j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _multiply_allowed(vector, matrix, states, rows, n_rows, columns, n_columns, out):
    """out = vector @ matrix between ``n_rows`` of the ``states``, from ``rows`` on, and ``n_columns`` others."""
    for j in range(n_columns):
        out[j] = 0.0
    for i in range(n_rows):
        mass, row = vector[i], states[rows + i]
        if mass != 0.0:
            for j in range(n_columns):
                out[j] += mass * matrix[row, states[columns + j]]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_outer(weight, left, right, pairs):
    """pairs += weight * outer(left, right)."""
    n = len(pairs)
    for i in range(n):
        mass = weight * left[i]
        if mass != 0.0:
            for j in range(n):
                pairs[i, j] += mass * right[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _look_back_allowed(weight, left, right, matrix, states, rows, n_rows, columns, n_columns, pairs, out):
    """out = matrix @ right and pairs += weight * outer(left, right), both between allowed states."""
    for i in range(n_rows):
        mass, row, total = weight * left[i], states[rows + i], 0.0
        for j in range(n_columns):
            column = states[columns + j]
            total += matrix[row, column] * right[j]
            pairs[row, column] += mass * right[j]
        out[i] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(first, n_tokens, rows, table, alpha_space, lost_space, scale):
    """Scaled forward pass of one instance. Returns its value and the share of the total that may be missing."""
    value, leaking = 0.0, False
    n_states, states = len(table.start), table.states
    before, width = 0, 0
    for t in range(n_tokens):
        row, previous_width = rows[first + t], width
        begin, width = table.offsets[row], table.offsets[row + 1] - table.offsets[row]
        here = 0 if table.dense else begin
        alpha, lost = alpha_space[t], lost_space[t % 2]
        removed = table.transition_floored if t > 0 else table.start_floored
        # What arrives at a state is at most one, and so is every potential: one replaced by zero took less than FLOOR.
        fresh = (FLOOR if removed else 0.0) + (FLOOR if table.floored[row] else 0.0)
        value += table.tops[row] + (table.transition_top if t > 0 else table.start_top)
        if t == 0:
            for k in range(width):
                alpha[k] = table.start[states[here + k]]
        elif width == n_states and previous_width == n_states:
            _multiply(alpha_space[t - 1], table.into, alpha)
            if leaking:
                _multiply(lost_space[1 - t % 2], table.bound, lost)
        else:
            _multiply_allowed(alpha_space[t - 1], table.into, states, before, previous_width, here, width, alpha)
            if leaking:
                left = lost_space[1 - t % 2]
                _multiply_allowed(left, table.bound, states, before, previous_width, here, width, lost)
        total = 0.0
        for k in range(width):
            alpha[k] *= table.potentials[begin + k]
            total += alpha[k]
        if total == 0.0:
            # Without any removal a total of zero is exact: no structure is possible.
            return -np.inf, 1.0 if leaking or fresh > 0.0 else 0.0
        scale[t] = 1.0 / total
        low = 0.0
        # ``low`` charges every state with what the floor took from all: simpler, and still far below LOSS.
        for k in range(width):
            mass = alpha[k] * scale[t]
            alpha[k] = mass if mass >= FLOOR else 0.0
            low += mass - alpha[k]
        fresh = fresh * scale[t] + low
        if leaking or fresh > 0.0:
            for k in range(width):
                most = max(table.potentials[begin + k], FLOOR if table.scores[begin + k] > -np.inf else 0.0)
                # The bound itself must not underflow.
                lost[k] = max(fresh + (lost[k] * most * scale[t] if leaking else 0.0), FLOOR * FLOOR)
                if lost[k] > 1.0 / FLOOR:
                    # Nor overflow.
                    return value, 1.0
            leaking = True
        value += table.gamma * math.log(total)
        before = here
    share = 0.0
    for k in range(width if leaking else 0):
        share += lost_space[(n_tokens - 1) % 2, k]
    return value, share


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(first, n_tokens, rows, table, row_weight, weight, alpha_space, scale, beta, future, expected, pairs):
    """Scaled backward pass: posteriors, and into ``pairs`` the expected transitions over their potentials."""
    n_states, states = len(table.start), table.states
    row = rows[first + n_tokens - 1]
    begin, width = table.offsets[row], table.offsets[row + 1] - table.offsets[row]
    beta[:] = 1.0
    for t in range(n_tokens - 1, -1, -1):
        here, alpha = 0 if table.dense else begin, alpha_space[t]
        for k in range(width):
            # Where nothing arrives the future is unbounded and must not be carried on.
            beta[k] = beta[k] if alpha[k] > 0.0 else 0.0
            expected.rows[begin + k] += row_weight * alpha[k] * beta[k]
            future[k] = table.potentials[begin + k] * beta[k] * scale[t]
        if t == 0:
            for k in range(width):
                expected.initial[states[here + k]] += row_weight * alpha[k] * beta[k]
            break
        row, following, previous = rows[first + t - 1], width, alpha_space[t - 1]
        begin, width = table.offsets[row], table.offsets[row + 1] - table.offsets[row]
        before = 0 if table.dense else begin
        if width == n_states and following == n_states:
            _add_outer(weight, previous, future, pairs)
            _multiply(future, table.out_of, beta)
        else:
            _look_back_allowed(
                weight, previous, future, table.into, states, before, width, here, following, pairs, beta
            )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def longest_of(offsets):
    """The number of tokens of the instance that has most."""
    longest = 0
    for n in range(len(offsets) - 1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    return longest


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, rows, table, row_weights, weights, values, expected, status):
    """Smoothed max of every instance of ``status`` 1 in scaled probabilities; it becomes 0 where little is lost.

    Adds posteriors times ``row_weights`` and expected transitions times ``weights`` to ``expected``.
    """
    n_states, longest = len(table.start), longest_of(token_offsets)
    alpha, scale = np.empty((longest, n_states)), np.empty(longest)
    beta, future, lost = np.empty(n_states), np.empty(n_states), np.empty((2, n_states))
    pairs = np.zeros((n_states, n_states))
    for n in range(len(status)):
        if status[n] != 1:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        value, share = _forward(first, n_tokens, rows, table, alpha, lost, scale)
        if share <= LOSS:
            values[n], status[n] = value, 0
            if value > -np.inf and n_tokens > 0:
                own = row_weights[n], weights[n]
                _backward(first, n_tokens, rows, table, *own, alpha, scale, beta, future, expected, pairs)
    for i in range(n_states):
        for j in range(n_states):
            expected.transition[i, j] += pairs[i, j] * table.into[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(
    token_offsets, offsets, states, dense, unary, transition, active, weights,
    values, choices, counts,
):  # fmt: skip
    """Best state sequence of every active instance; ``choices[t]`` indexes the token's own states, -1 if impossible."""
    n_states = len(transition)
    longest = longest_of(token_offsets)
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
