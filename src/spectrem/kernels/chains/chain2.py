"""Scaled forward-backward pass of second-order chains; `chain2_log` has what does not fit in scaled probabilities.

A chain of pairs: the node of token t >= 1 is the pair of the state before and its own state, the node of token 0 its
state alone. The pass reads scores by row: token t of the batch takes those of row ``rows[t]`` of a `Table`. Instance n
owns the tokens ``token_offsets[n]:token_offsets[n + 1]``. Probabilities of nodes lie in flat working space, the matrix
[state before, state] of token t from ``begins[t]`` on.

The potentials of transitions come as two tensors, [one back, two back, to] and [one back, to, two back]: for every
state one back both directions multiply by a matrix, and the innermost loop always runs along memory. Where a token
has all states it adds four rows of that matrix at once, which saves most of the loads and stores of the sums.

Every potential and every normalised forward probability below FLOOR is replaced by zero, so that no product can
underflow: a probability of at least FLOOR times two potentials of at least FLOOR is 1e-300 or more.

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
LOSS gets ``status`` 1 and belongs in the log-space pass. The backward pass removes nothing and needs no bound: a node
that is reached has at least FLOOR, so that its future is at most 1 / FLOOR.
"""

import math
from typing import NamedTuple

import numpy as np

from spectrem._compiled import njit

FLOOR = 1e-100
LOSS = 1e-12
# More than what the products of one node's bound, which have no floor, can lose by underflow.
UNDERFLOW = 1e-300


class Table(NamedTuple):
    """Scores in nats, and their potentials exp((score - top) / gamma), 0 below FLOOR.

    The parts of a row are ``offsets[row]:offsets[row + 1]``, of increasing ``states``; where ``dense``, each row has
    all states, listed once. ``tops`` and ``floored`` (a possible part was replaced by zero) are by row;
    ``factor_tops`` and ``factor_floored`` are those of first states, first pairs and transitions.
    """

    offsets: np.ndarray
    states: np.ndarray
    dense: bool
    scores: np.ndarray
    initial_scores: np.ndarray
    second_scores: np.ndarray
    transition_scores: np.ndarray
    gamma: float
    potentials: np.ndarray
    tops: np.ndarray
    floored: np.ndarray
    initial: np.ndarray
    second: np.ndarray
    into: np.ndarray
    out_of: np.ndarray
    factor_tops: np.ndarray
    factor_floored: np.ndarray


class Expected(NamedTuple):
    """What a pass adds to: counts of parts of rows, first states, first pairs [first, second] and transitions.

    Transitions are [two back, one back, to], as in the scores.
    """

    rows: np.ndarray
    initial: np.ndarray
    second: np.ndarray
    transition: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def states_of(row, table):
    return table.states if table.dense else table.states[table.offsets[row] : table.offsets[row + 1]]


@njit(cache=True, nogil=True, error_model="numpy")
def sizes_of(token_offsets, rows, offsets):
    """Tokens and nodes of the instances that have most, and the most nodes of a token."""
    n_tokens, n_nodes, n_pairs = 0, 0, 0
    for n in range(len(token_offsets) - 1):
        nodes, before = 0, 1
        for t in range(token_offsets[n], token_offsets[n + 1]):
            width = offsets[rows[t] + 1] - offsets[rows[t]]
            nodes += before * width
            n_pairs = max(n_pairs, before * width)
            before = width
        n_tokens = max(n_tokens, token_offsets[n + 1] - token_offsets[n])
        n_nodes = max(n_nodes, nodes)
    return n_tokens, n_nodes, n_pairs


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _sum(values):
    total = 0.0
    for k in range(len(values)):
        total += values[k]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _multiply(masses, tensor, middle, rows, columns, out):
    """out[j] = masses[j] @ tensor[middle[j]][rows][:, columns] for every j."""
    width = len(columns)
    fours = len(rows) // 4 * 4 if width == len(tensor) else 0
    for j in range(len(middle)):
        m = middle[j]
        for k in range(width):
            out[j, k] = 0.0
        for i in range(0, fours, 4):
            mass0, mass1, mass2, mass3 = masses[j, i], masses[j, i + 1], masses[j, i + 2], masses[j, i + 3]
            row0, row1, row2, row3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
            for k in range(width):
                total = out[j, k] + mass0 * tensor[m, row0, k]
                total += mass1 * tensor[m, row1, k]
                total += mass2 * tensor[m, row2, k]
                total += mass3 * tensor[m, row3, k]
                out[j, k] = total
        for i in range(fours, len(rows)):
            mass, row = masses[j, i], rows[i]
            if mass == 0.0:
                continue
            if width == len(tensor):
                for k in range(width):
                    out[j, k] += mass * tensor[m, row, k]
            else:
                for k in range(width):
                    out[j, k] += mass * tensor[m, row, columns[k]]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_outer(weight, masses, future, middle, rows, columns, counts):
    """counts[middle[j]][rows][:, columns] += weight * outer(masses[j], future[j]) for every j."""
    for j in range(len(middle)):
        m = middle[j]
        for i in range(len(rows)):
            mass, row = weight * masses[j, i], rows[i]
            if mass == 0.0:
                continue
            if len(columns) == len(counts):
                for k in range(len(counts)):
                    counts[m, row, k] += mass * future[j, k]
            else:
                for k in range(len(columns)):
                    counts[m, row, columns[k]] += mass * future[j, k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_outer_of_tokens(weight, masses, futures, counts):
    """counts[j] += weight * sum_t outer(masses[t, :, j], futures[t, j]), four tokens at once; all states everywhere."""
    n_states = len(counts)
    fours = len(masses) // 4 * 4
    for t in range(0, fours, 4):
        for j in range(n_states):
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
        for j in range(n_states):
            for i in range(n_states):
                mass = weight * masses[t, i, j]
                for k in range(n_states):
                    counts[j, i, k] += mass * futures[t, j, k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _extend(t, masses, initial, second, transition, prior, before, here, emission, out):
    """Masses of the nodes of token t, from those of token t - 1."""
    width = len(here)
    if t == 0:
        for k in range(width):
            out[k] = initial[here[k]] * emission[k]
        return
    if t == 1:
        for j in range(len(before)):
            for k in range(width):
                out[j * width + k] = masses[j] * second[before[j], here[k]] * emission[k]
        return
    arriving = out.reshape(len(before), width)
    _multiply(masses.reshape(len(prior), len(before)).T, transition, before, prior, here, arriving)
    for j in range(len(before)):
        for k in range(width):
            arriving[j, k] *= emission[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _normalise(alpha, scale, lost, leaking):
    """alpha *= scale, floored; adds what the floor removes to ``lost``. Returns the share that may be missing."""
    n_small = 0
    # Without branches, so that the loop becomes vector instructions; the second one is needed where a floor took mass.
    for k in range(len(alpha)):
        alpha[k] *= scale
        n_small += 1 if 0.0 < alpha[k] < FLOOR else 0
    if n_small == 0 and not leaking:
        return 0.0
    for k in range(len(alpha)):
        removed = alpha[k] if alpha[k] < FLOOR else 0.0
        alpha[k] -= removed
        lost[k] = (lost[k] * scale if leaking else 0.0) + removed
    return _sum(lost)


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(first, n_tokens, rows, table, alpha_space, lost_space, begins, scale):
    """Scaled forward pass of one instance. Returns its value and the share of the total that may be missing."""
    value, share, leaking = 0.0, 0.0, False
    initial, second, into = table.initial, table.second, table.into
    prior, before = table.states[:0], table.states[:0]
    begins[0] = 0
    for t in range(n_tokens):
        row, factor = rows[first + t], min(t, 2)
        here = states_of(row, table)
        emission = table.potentials[table.offsets[row] : table.offsets[row + 1]]
        n_nodes = len(here) * (len(before) if t > 0 else 1)
        begins[t + 1] = begins[t] + n_nodes
        alpha, lost = alpha_space[begins[t] : begins[t + 1]], lost_space[t % 2, :n_nodes]
        previous = alpha_space[begins[max(t - 1, 0)] : begins[t]]
        _extend(t, previous, initial, second, into, prior, before, here, emission, alpha)
        # What a floored emission and a floored transition take from one node, at most.
        fresh = (FLOOR if table.floored[row] else 0.0) + (FLOOR if table.factor_floored[factor] else 0.0)
        if leaking:
            previous_lost = lost_space[1 - t % 2, : len(previous)]
            _extend(t, previous_lost, initial, second, into, prior, before, here, emission, lost)
            # What the floors take from this step is at most their share of all mass, the missing mass included.
            fresh = fresh * (1.0 + share) + UNDERFLOW
            for k in range(n_nodes):
                lost[k] += fresh
        elif fresh > 0.0:
            leaking = True
            for k in range(n_nodes):
                lost[k] = fresh
        total = _sum(alpha)
        if total == 0.0:
            # Without any removal a total of zero is exact: no structure is possible.
            return -np.inf, 1.0 if leaking else 0.0
        scale[t] = 1.0 / total
        share = _normalise(alpha, scale[t], lost, leaking)
        leaking = leaking or share > 0.0
        value += table.tops[row] + table.factor_tops[factor] + table.gamma * math.log(total)
        prior, before = before, here
    return value, share


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _leave(alpha, beta, emission, scale, weight, future, counts):
    """Counts of a token's states; future = emission * beta * scale, [before, here] like alpha; beta is transposed."""
    width = len(emission)
    n_before = len(alpha) // width
    for k in range(width):
        present, factor = 0.0, emission[k] * scale
        towards = beta[k * n_before : (k + 1) * n_before]
        for i in range(n_before):
            mass = alpha[i * width + k]
            present += mass * towards[i]
            # Where nothing arrives the future is unbounded and must not be carried on.
            future[i * width + k] = factor * towards[i] if mass > 0.0 else 0.0
        counts[k] += weight * present


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(
    first, n_tokens, rows, table, weight, row_weight, alpha_space, begins, scale, beta_space, future_space,
    expected, seconds, triples,
):  # fmt: skip
    """Scaled backward pass: counts of rows and first states; others over their potentials, triples laid out as into."""
    n_states = len(table.initial)
    unrestricted = n_tokens > 2 and begins[n_tokens] == n_states + (n_tokens - 1) * n_states**2
    beta_space[: begins[n_tokens] - begins[n_tokens - 1]] = 1.0
    for t in range(n_tokens - 1, -1, -1):
        row = rows[first + t]
        start, stop = table.offsets[row], table.offsets[row + 1]
        here, emission = states_of(row, table), table.potentials[start:stop]
        alpha, future = alpha_space[begins[t] : begins[t + 1]], future_space[begins[t] : begins[t + 1]]
        beta = beta_space[: len(alpha)]
        _leave(alpha, beta, emission, scale[t], row_weight, future, expected.rows[start:stop])
        if t == 0:
            for k in range(len(here)):
                expected.initial[here[k]] += weight * alpha[k] * beta[k]
            break
        before, previous = states_of(rows[first + t - 1], table), alpha_space[begins[t - 1] : begins[t]]
        leaving = future.reshape(len(before), len(here))
        if t == 1:
            for j in range(len(before)):
                beta_space[j] = 0.0
                for k in range(len(here)):
                    beta_space[j] += table.second[before[j], here[k]] * leaving[j, k]
                    seconds[before[j], here[k]] += weight * previous[j] * leaving[j, k]
            continue
        prior = states_of(rows[first + t - 2], table)
        if not unrestricted:
            _add_outer(weight, previous.reshape(len(prior), len(before)).T, leaving, before, prior, here, triples)
        beta = beta_space[: len(previous)]
        _multiply(leaving, table.out_of, before, here, prior, beta.reshape(len(before), len(prior)))
    if unrestricted:
        masses = alpha_space[begins[1] : begins[n_tokens - 1]].reshape(n_tokens - 2, n_states, n_states)
        futures = future_space[begins[2] : begins[n_tokens]].reshape(n_tokens - 2, n_states, n_states)
        _add_outer_of_tokens(weight, masses, futures, triples)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, rows, table, active, weights, row_weights, values, expected, status):
    """Smoothed max of every active instance in scaled probabilities; ``status`` 1 where the floor removed too much.

    ``row_weights`` multiply the counts of rows, ``weights`` all others.
    """
    n_states = len(table.initial)
    longest, n_nodes, n_pairs = sizes_of(token_offsets, rows, table.offsets)
    alpha, scale, begins = np.empty(n_nodes), np.empty(longest), np.empty(longest + 1, np.int64)
    lost, beta, future = np.empty((2, n_pairs)), np.empty(n_pairs), np.empty(n_nodes)
    seconds, triples = np.zeros((n_states, n_states)), np.zeros((n_states, n_states, n_states))
    for n in range(len(values)):
        if not active[n]:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        value, share = _forward(first, n_tokens, rows, table, alpha, lost, begins, scale)
        if not (share <= LOSS):
            status[n] = 1
            continue
        values[n] = value
        if value > -np.inf and n_tokens > 0:
            _backward(
                first, n_tokens, rows, table, weights[n], row_weights[n], alpha, begins, scale, beta, future,
                expected, seconds, triples,
            )  # fmt: skip
    for a in range(n_states):
        for b in range(n_states):
            expected.second[a, b] += seconds[a, b] * table.second[a, b]
            for c in range(n_states):
                expected.transition[a, b, c] += triples[b, a, c] * table.into[b, a, c]
