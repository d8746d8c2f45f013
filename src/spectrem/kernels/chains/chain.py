"""Sum and max passes of chains of first and second order, one sentence at a time.

A *node* of a token is its state and, at order 2, the state before it; that of a first token is its state. A step leads
from the node [from, middle] of a token to the node [middle, to] of the next one. At order 2 ``from`` is the state two
back and ``middle`` the one before; at order 1 ``from`` is the state before, and ``middle`` is always 0, a state that no
token has. So transitions are tensors [middle, from, to]: of shape (1, n, n) at order 1, (n, n, n) at order 2 and, to
second tokens at order 2, (n, 1, n). Probabilities of nodes lie in flat working space, those of token t from
``begins[t]`` on. The innermost loops run along memory. What a token needs is inlined by force:
where tokens have few states, calls with as many arguments would take a quarter of the time.

The sum pass reads scores by row: token t of the batch takes those of row ``rows[t]`` of a `Table`. Instance n owns the
tokens ``token_offsets[n]:token_offsets[n + 1]``. It is scaled: every potential and every normalised forward probability
below FLOOR is replaced by zero, so that no product can underflow: a probability of at least FLOOR times two potentials
of at least FLOOR is 1e-300 or more.

Sharp potentials (those of a trained model, or at a small gamma) lose something this way often, and nearly always it is
mass that could not be seen beside the rest. To find the instance where it could, the pass tracks from the first removal
on, node by node, an upper bound ``lost`` on the mass that is missing there, in the unit in which the mass that is kept
sums to one:

* an emission or a transition replaced by zero takes less than FLOOR from a node, because all potentials are at most one
  and what arrives is at most the total before (one, and the share that is missing already);
* a forward probability replaced by zero is lost as it stands;
* what was lost before moves on through the same potentials as the mass that is kept, and is rescaled with it. It dies
  out where no likely continuation follows. It grows where the mass that is kept has none: this is the case to find, and
  the reason why one number for all nodes would not do.

The sum of the bounds after the last token is the share of the total that may be missing. An instance where it is above
LOSS keeps its ``status`` and belongs in the log-space pass. The backward pass removes nothing and needs no bound: a
node that is reached has at least FLOOR, so that its future is at most 1 / FLOOR.
"""

import math
from typing import NamedTuple

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import LANES, larger, load, load_one, spread, store
from spectrem.kernels.chains.potentials import FLOOR

LOSS = 1e-12
# More than what the products of one node's bound, which have no floor, can lose by underflow.
UNDERFLOW = 1e-300


class Table(NamedTuple):
    """Scores in nats, and their potentials exp((score - top) / gamma), 0 below FLOOR.

    The parts of a row are ``offsets[row]:offsets[row + 1]``, of increasing ``states``; where ``dense``, each row has
    all states, listed once. The last entry of ``states`` is 0 and belongs to no row. ``tops`` and ``floored`` (a
    possible part was replaced by zero) are by row; ``factor_tops`` and ``factor_floored`` are those of first states,
    of transitions to second tokens and of those to later tokens. Tensors named ``back`` are [middle, to, from].
    """

    order: int
    offsets: np.ndarray
    states: np.ndarray
    dense: bool
    scores: np.ndarray
    potentials: np.ndarray
    tops: np.ndarray
    floored: np.ndarray
    first_scores: np.ndarray
    second_scores: np.ndarray
    later_scores: np.ndarray
    first: np.ndarray
    second: np.ndarray
    later: np.ndarray
    later_back: np.ndarray
    factor_tops: np.ndarray
    factor_floored: np.ndarray
    gamma: float


class Expected(NamedTuple):
    """Sums that a pass adds to: posteriors by part of rows and by first state, and transitions [middle, from, to].

    At order 1 ``second`` and ``later`` are one array.
    """

    rows: np.ndarray
    first: np.ndarray
    second: np.ndarray
    later: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def longest_of(offsets):
    """The number of tokens of the instance that has most."""
    longest = 0
    for n in range(len(offsets) - 1):
        longest = max(longest, offsets[n + 1] - offsets[n])
    return longest


@njit(cache=True, nogil=True, error_model="numpy")
def node_counts(order, token_offsets, rows, offsets):
    """The most nodes of an instance, and of a token."""
    of_instance, of_token = 0, 0
    for n in range(len(token_offsets) - 1):
        nodes, before = 0, 1
        for t in range(token_offsets[n], token_offsets[n + 1]):
            width = offsets[rows[t] + 1] - offsets[rows[t]]
            nodes += before * width
            of_token = max(of_token, before * width)
            before = width if order == 2 else 1
        of_instance = max(of_instance, nodes)
    return of_instance, of_token


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _sum(values):
    total = 0.0
    for k in range(len(values)):
        total += values[k]
    return total


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract"})
def _multiply(masses, at, step, stride, tensor, states, sources, n_sources, middle, n_middle, here, width, out, to):
    """out[to + j * width + k] = sum_i masses[at + i * step + j * stride] * tensor[middle j, source i, target k].

    ``sources``, ``middle`` and ``here`` are where the states of each begin in ``states``.
    """
    if width < tensor.shape[2]:
        for j in range(n_middle):
            m, start = states[middle + j], to + j * width
            for k in range(width):
                out[start + k] = 0.0
            for i in range(n_sources):
                mass, source = masses[at + i * step + j * stride], states[sources + i]
                if mass != 0.0:
                    for k in range(width):
                        out[start + k] += mass * tensor[m, source, states[here + k]]
        return
    fours = n_sources // 4 * 4
    for j in range(n_middle):
        m, arriving = states[middle + j], out[to + j * width : to + (j + 1) * width]
        for k in range(width):
            arriving[k] = 0.0
        for i in range(0, fours, 4):
            one = at + i * step + j * stride
            mass0, mass1, mass2, mass3 = masses[one], masses[one + step], masses[one + 2 * step], masses[one + 3 * step]
            source0, source1 = states[sources + i], states[sources + i + 1]
            source2, source3 = states[sources + i + 2], states[sources + i + 3]
            for k in range(width):
                total = arriving[k] + mass0 * tensor[m, source0, k]
                total += mass1 * tensor[m, source1, k]
                total += mass2 * tensor[m, source2, k]
                total += mass3 * tensor[m, source3, k]
                arriving[k] = total
        for i in range(fours, n_sources):
            mass, source = masses[at + i * step + j * stride], states[sources + i]
            if mass != 0.0:
                for k in range(width):
                    arriving[k] += mass * tensor[m, source, k]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract"})
def _look_back(
    weight, masses, at, future, ahead, tensor, states, sources, n_sources, middle, n_middle, here, width, pairs, out
):  # fmt: skip
    """The backward sums of the nodes of a token, transposed, and expected transitions.

    out[j, i] = sum_k tensor[middle j, source i, target k] * future[j, k], and
    pairs[middle j, source i, target k] += weight * masses[i, j] * future[j, k].
    """
    for j in range(n_middle):
        m, start = states[middle + j], ahead + j * width
        for i in range(n_sources):
            mass, source, total = weight * masses[at + i * n_middle + j], states[sources + i], 0.0
            for k in range(width):
                target = states[here + k]
                total += tensor[m, source, target] * future[start + k]
                pairs[m, source, target] += mass * future[start + k]
            out[j * n_sources + i] = total


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract"})
def _add_outer(weight, masses, at, future, ahead, states, middle, n_middle, pairs):
    """pairs[middle j, i, k] += weight * masses[i, j] * future[j, k] between tokens that have all states."""
    n_states = pairs.shape[2]
    for j in range(n_middle):
        m, leaving = states[middle + j], future[ahead + j * n_states : ahead + (j + 1) * n_states]
        for i in range(n_states):
            mass = weight * masses[at + i * n_middle + j]
            if mass != 0.0:
                for k in range(n_states):
                    pairs[m, i, k] += mass * leaving[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_outer_of_tokens(weight, masses, futures, counts):
    """counts[j] += weight * sum_t outer(masses[t, :, j], futures[t, j]), four tokens at once; all states everywhere."""
    n_middle, n_states = futures.shape[1:]
    fours = len(masses) // 4 * 4
    for t in range(0, fours, 4):
        for j in range(n_middle):
            for i in range(n_states):
                mass0, mass1 = weight * masses[t, i, j], weight * masses[t + 1, i, j]
                mass2, mass3 = weight * masses[t + 2, i, j], weight * masses[t + 3, i, j]
                for k in range(n_states):
                    total = counts[j, i, k] + mass0 * futures[t, j, k]
                    total += mass1 * futures[t + 1, j, k]
                    total += mass2 * futures[t + 2, j, k]
                    total += mass3 * futures[t + 3, j, k]
                    counts[j, i, k] = total
    for t in range(fours, len(masses)):
        for j in range(n_middle):
            for i in range(n_states):
                mass = weight * masses[t, i, j]
                for k in range(n_states):
                    counts[j, i, k] += mass * futures[t, j, k]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _emit(potentials, begin, n_middle, width, out):
    """out[j, k] *= potentials[begin + k]; returns the sum."""
    emission, total = potentials[begin : begin + width], 0.0
    for j in range(n_middle):
        for k in range(width):
            out[j * width + k] *= emission[k]
            total += out[j * width + k]
    return total


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract"})
def _normalise(alpha, scale):
    """alpha *= scale. Returns whether something is below the floor; without branches, for vector instructions."""
    n_small = 0
    for k in range(len(alpha)):
        alpha[k] *= scale
        n_small += 1 if 0.0 < alpha[k] < FLOOR else 0
    return n_small > 0


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract"})
def _lose(alpha, scale, lost, leaking):
    """Remove from alpha what is below FLOOR and add it to ``lost``. Returns the share that may be missing."""
    for k in range(len(alpha)):
        removed = alpha[k] if alpha[k] < FLOOR else 0.0
        alpha[k] -= removed
        lost[k] = (lost[k] * scale if leaking else 0.0) + removed
    return _sum(lost)


@njit(cache=True, nogil=True, error_model="numpy")
def forward(first, n_tokens, rows, table, alpha_space, lost_space, begins, scale):
    """Scaled forward pass of one instance. Returns its value and the share of the total that may be missing."""
    value, share, leaking = 0.0, 0.0, False
    offsets, states, potentials, initial = table.offsets, table.states, table.potentials, table.first
    second, later, floored, tops = table.second, table.later, table.floored, table.tops
    factor_floored, factor_tops = table.factor_floored, table.factor_tops
    order, dense, nothing, most = table.order, table.dense, len(states) - 1, len(lost_space) // 2
    prior, n_prior, before, n_before = nothing, np.int64(1), nothing, np.int64(1)
    begins[0] = 0
    for t in range(n_tokens):
        row, factor, at = rows[first + t], min(t, 2), begins[t]
        begin, width = offsets[row], offsets[row + 1] - offsets[row]
        here, n_nodes = 0 if dense else begin, n_before * width
        begins[t + 1] = at + n_nodes
        before_at = begins[max(t - 1, 0)]
        if t == 0:
            for k in range(width):
                alpha_space[k] = initial[states[here + k]]
        elif t == 1 and order == 2:
            _multiply(
                alpha_space, before_at, n_before, np.int64(1), second, states, prior, n_prior, before, n_before, here,
                width, alpha_space, at,
            )  # fmt: skip
        else:
            _multiply(
                alpha_space, before_at, n_before, np.int64(1), later, states, prior, n_prior, before, n_before, here,
                width, alpha_space, at,
            )  # fmt: skip
        alpha = alpha_space[at : at + n_nodes]
        total = _emit(potentials, begin, n_before, width, alpha)
        # What a floored emission and a floored transition take from one node, at most.
        fresh = (FLOOR if floored[row] else 0.0) + (FLOOR if factor_floored[factor] else 0.0)
        if leaking:
            lost, lost_before = t % 2 * most, (1 - t % 2) * most
            tensor = second if t == 1 else later
            _multiply(
                lost_space, lost_before, n_before, np.int64(1), tensor, states, prior, n_prior, before, n_before, here,
                width, lost_space, lost,
            )  # fmt: skip
            _emit(potentials, begin, n_before, width, lost_space[lost : lost + n_nodes])
            # What the floors take from this step is at most their share of all mass, the missing mass included.
            fresh = fresh * (1.0 + share) + UNDERFLOW
            for k in range(lost, lost + n_nodes):
                lost_space[k] += fresh
        elif fresh > 0.0:
            leaking = True
            lost = t % 2 * most
            for k in range(lost, lost + n_nodes):
                lost_space[k] = fresh
        if total == 0.0:
            # Without any removal a total of zero is exact: no structure is possible.
            return -np.inf, 1.0 if leaking else 0.0
        scale[t] = 1.0 / total
        if _normalise(alpha, scale[t]) or leaking:
            share = _lose(alpha, scale[t], lost_space[t % 2 * most : t % 2 * most + n_nodes], leaking)
            leaking = leaking or share > 0.0
        value += tops[row] + factor_tops[factor] + table.gamma * math.log(total)
        if order == 2:
            prior, n_prior, before, n_before = before, n_before, here, width
        else:
            prior, n_prior = here, width
    return value, share


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract"})
def _leave(alpha, at, n_middle, beta, potentials, begin, width, scale, weight, future, counts):
    """Counts of a token's states; future = emission * beta * scale, [middle, here] like alpha; beta is transposed."""
    if n_middle == 1:
        for k in range(width):
            # Where nothing arrives the future is unbounded and must not be carried on.
            mass, towards = alpha[at + k], beta[k]
            future[at + k] = potentials[begin + k] * scale * towards if mass > 0.0 else 0.0
            counts[begin + k] += weight * mass * towards
        return
    masses, ahead = alpha[at : at + n_middle * width], future[at : at + n_middle * width]
    for k in range(width):
        present, factor = 0.0, potentials[begin + k] * scale
        for j in range(n_middle):
            mass, towards = masses[j * width + k], beta[k * n_middle + j]
            present += mass * towards
            ahead[j * width + k] = factor * towards if mass > 0.0 else 0.0
        counts[begin + k] += weight * present


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(
    first, n_tokens, rows, table, weight, row_weight, alpha, begins, scale, beta, future, expected, seconds, laters
):  # fmt: skip
    """Scaled backward pass: counts of rows and first states; those of transitions over their potentials."""
    offsets, states, potentials, counts, starts = (
        table.offsets, table.states, table.potentials, expected.rows, expected.first
    )  # fmt: skip
    second, later, later_back = table.second, table.later, table.later_back
    order, dense, n_states, nothing = table.order, table.dense, len(table.first), len(states) - 1
    unrestricted = n_tokens > 2 and begins[n_tokens] == n_states + (n_tokens - 1) * n_states**order
    for k in range(begins[n_tokens] - begins[n_tokens - 1]):
        beta[k] = 1.0
    row = rows[first + n_tokens - 1]
    for t in range(n_tokens - 1, -1, -1):
        at, begin, width = begins[t], offsets[row], offsets[row + 1] - offsets[row]
        here, before_at = 0 if dense else begin, begins[max(t - 1, 0)]
        prior, n_prior, before, n_before = nothing, np.int64(1), nothing, np.int64(1)
        if t > 0:
            row = rows[first + t - 1]
            if order == 1:
                prior, n_prior = 0 if dense else offsets[row], offsets[row + 1] - offsets[row]
            else:
                before, n_before = 0 if dense else offsets[row], offsets[row + 1] - offsets[row]
        if order == 2 and t > 1:
            further = rows[first + t - 2]
            prior, n_prior = 0 if dense else offsets[further], offsets[further + 1] - offsets[further]
        _leave(alpha, at, n_before, beta, potentials, begin, width, scale[t], row_weight, future, counts)
        if t == 0:
            for k in range(width):
                starts[states[here + k]] += weight * alpha[k] * beta[k]
            break
        if t == 1 and order == 2:
            _look_back(
                weight, alpha, before_at, future, at, second, states, prior, n_prior, before, n_before, here, width,
                seconds, beta,
            )  # fmt: skip
        elif n_prior < n_states or width < n_states:
            _look_back(
                weight, alpha, before_at, future, at, later, states, prior, n_prior, before, n_before, here, width,
                laters, beta,
            )  # fmt: skip
        else:
            if t == 1 or not unrestricted:
                _add_outer(weight, alpha, before_at, future, at, states, before, n_before, laters)
            _multiply(
                future, at, np.int64(1), width, later_back, states, here, width, before, n_before, prior, n_prior,
                beta, np.int64(0),
            )  # fmt: skip
    if unrestricted:
        n_middle = n_states if order == 2 else 1
        masses = alpha[begins[1] : begins[n_tokens - 1]].reshape(n_tokens - 2, n_states, n_middle)
        futures = future[begins[2] : begins[n_tokens]].reshape(n_tokens - 2, n_middle, n_states)
        _add_outer_of_tokens(weight, masses, futures, laters)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_product(left, right, out):
    """out += left * right, of the shape of transitions; as a loop, since Numba takes seconds to compile the line."""
    n, m, o = out.shape
    for j in range(n):
        for i in range(m):
            for k in range(o):
                out[j, i, k] += left[j, i, k] * right[j, i, k]


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, rows, table, row_weights, weights, values, expected, status):
    """Smoothed max of every instance of ``status`` 1 in scaled probabilities; it becomes 0 where little is lost.

    Adds posteriors times ``row_weights`` to those of rows, and all other counts times ``weights``.
    """
    longest = longest_of(token_offsets)
    n_nodes, most = node_counts(table.order, token_offsets, rows, table.offsets)
    alpha, scale, begins = np.empty(n_nodes), np.empty(longest), np.empty(longest + 1, np.int64)
    lost, beta, future = np.empty(2 * most), np.empty(most), np.empty(n_nodes)
    laters = np.zeros(table.later.shape)
    seconds = np.zeros(table.second.shape) if table.order == 2 else laters
    for n in range(len(status)):
        if status[n] != 1:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        value, share = forward(first, n_tokens, rows, table, alpha, lost, begins, scale)
        if not (share <= LOSS):
            continue
        values[n], status[n] = value, 0
        if value > -np.inf and n_tokens > 0:
            _backward(
                first, n_tokens, rows, table, weights[n], row_weights[n], alpha, begins, scale, beta, future,
                expected, seconds, laters,
            )  # fmt: skip
    _add_product(laters, table.later, expected.later)
    if table.order == 2:
        _add_product(seconds, table.second, expected.second)


@njit(cache=True, nogil=True, error_model="numpy")
def _in_vectors(tensor):
    """A copy of a tensor, flat, whose rows are padded with zeros to whole vectors."""
    n, n_sources, width = tensor.shape
    padded = np.zeros((n * n_sources, (width + LANES - 1) // LANES * LANES))
    padded[:, :width] = tensor.reshape(n * n_sources, width)
    return padded.ravel()


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def _arrive(
    best, at, tensor, rows, states, prior, n_prior, before, n_before, here, width, unary, begin, to
):  # fmt: skip
    """The best score of every node here, best[to + j * width + k]; what it comes from is found for the best path.

    ``rows`` are those of the tensor in whole vectors. Where all states are here, they take their best scores side by
    side, two vectors at a time, so that one maximum need not wait for the other; what is stored beyond the states is
    written over by the next nodes.
    """
    scores, stride = unary[begin : begin + width], (width + LANES - 1) // LANES * LANES
    for j in range(n_before):
        m, arriving = states[before + j], best[to + j * width : to + (j + 1) * width]
        if width < tensor.shape[2]:
            for k in range(width):
                top, target = -np.inf, states[here + k]
                for i in range(n_prior):
                    top = max(top, best[at + i * n_before + j] + tensor[m, states[prior + i], target])
                arriving[k] = top + scores[k]
            continue
        for k in range(0, width, 2 * LANES):
            other = min(k + LANES, stride - LANES)
            low, high = spread(-np.inf), spread(-np.inf)
            for i in range(n_prior):
                so_far = load_one(best, at + i * n_before + j)
                row = (m * tensor.shape[1] + states[prior + i]) * stride
                low, high = larger(low, so_far + load(rows, row + k)), larger(high, so_far + load(rows, row + other))
            store(best, to + j * width + k, low)
            store(best, to + j * width + other, high)
        for k in range(width):
            arriving[k] += scores[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _best_forward(order, first, n_tokens, offsets, states, dense, unary, second, later, rows, best, begins):
    """The best scores of all nodes; ``rows`` are those of both tensors in whole vectors."""
    nothing = len(states) - 1
    prior, n_prior, before, n_before = nothing, np.int64(1), nothing, np.int64(1)
    begins[0] = 0
    for t in range(n_tokens):
        begin, width = offsets[first + t], offsets[first + t + 1] - offsets[first + t]
        here, at, to = 0 if dense else begin, begins[max(t - 1, 0)], begins[t]
        begins[t + 1] = to + n_before * width
        if t == 0:
            for k in range(width):
                best[k] = unary[begin + k]
        elif t == 1 and order == 2:
            _arrive(best, at, second, rows[0], states, prior, n_prior, before, n_before, here, width, unary, begin, to)
        else:
            _arrive(best, at, later, rows[1], states, prior, n_prior, before, n_before, here, width, unary, begin, to)
        if order == 2:
            prior, n_prior, before, n_before = before, n_before, here, width
        else:
            prior, n_prior = here, width


@njit(cache=True, nogil=True, error_model="numpy")
def _best_node(best, width):
    """The best node, of equals that with the lowest state, of these that with the lowest state before; -1 if none."""
    node, highest = -1, -np.inf
    for k in range(width):
        for at in range(k, len(best), width):
            if best[at] > highest:
                node, highest = at, best[at]
    return node


@njit(cache=True, nogil=True, error_model="numpy")
def _trace(
    order, first, n_tokens, node, offsets, states, dense, best, begins, second, later, weight,
    choices, seconds, laters,
):  # fmt: skip
    """Follow the best path back from a node of the last token; of equal origins the first."""
    nothing = len(states) - 1
    width = offsets[first + n_tokens] - offsets[first + n_tokens - 1]
    k, j = node % width, node // width
    for t in range(n_tokens - 1, -1, -1):
        choices[first + t] = k
        if t == 0:
            return
        here, before = offsets[first + t], offsets[first + t - 1]
        prior, n_prior, middle, n_before = before, here - before, nothing, 1
        if order == 2:
            middle, n_before = (0 if dense else before) + j, n_prior
            prior = offsets[first + t - 2] if t > 1 else nothing
            n_prior = before - prior if t > 1 else 1
        if dense and (order == 1 or t > 1):
            prior = 0
        m, target, left = states[middle], states[(0 if dense else here) + k], begins[t - 1] + j
        tensor, pairs = (second, seconds) if t == 1 else (later, laters)
        origin, top = 0, -np.inf
        for i in range(n_prior):
            score = best[left + i * n_before] + tensor[m, states[prior + i], target]
            if score > top:
                origin, top = i, score
        pairs[m, states[prior + origin], target] += weight
        k, j = (origin, 0) if order == 1 else (j, origin)


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(
    order, token_offsets, offsets, states, dense, unary, second, later, active, weights,
    values, choices, seconds, laters,
):  # fmt: skip
    """Best state sequence of every active instance; ``choices[t]`` indexes the token's own states, -1 if impossible.

    ``states`` are those of tokens, or all of them once where ``dense``, and a last 0. Arrays of transitions are
    [middle, from, to]; at order 1 those to second and to later tokens are the same.
    """
    n_nodes, _ = node_counts(order, token_offsets, np.arange(len(offsets) - 1), offsets)
    best, begins = np.empty(n_nodes + 2 * LANES), np.empty(longest_of(token_offsets) + 1, np.int64)
    rows = (_in_vectors(second), _in_vectors(later))
    for n in range(len(values)):
        if not active[n]:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        values[n] = 0.0
        if n_tokens == 0:
            continue
        _best_forward(order, first, n_tokens, offsets, states, dense, unary, second, later, rows, best, begins)
        last = best[begins[n_tokens - 1] : begins[n_tokens]]
        node = _best_node(last, offsets[first + n_tokens] - offsets[first + n_tokens - 1])
        values[n] = last[node] if node >= 0 else -np.inf
        if node >= 0:
            _trace(
                order, first, n_tokens, node, offsets, states, dense, best, begins, second, later, weights[n],
                choices, seconds, laters,
            )  # fmt: skip
        else:
            choices[first : first + n_tokens] = -1
