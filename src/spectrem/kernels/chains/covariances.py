"""Means of a sum over the states and transitions of first-order chains, and covariances of all of these with it.

States and transitions add numbers, the *direction*, to a sum S. Given the state of a token, what comes before it and
what comes after it are independent, so that the mean of S given the state is that of what is added up to the token and
that of what is added after it. One pass forward and one backward find both, as sums and not as means: beside every mass
is a *tangent*, the mass times the mean that goes with it. Masses move by the potentials, and tangents by the potentials
with what the direction adds on the way. Without divisions there is nothing to guard, and an error is small beside the
mass times the largest number that was added. With the mean taken off before it is multiplied, covariances are

* of a state: mass forward * tangent backward + (tangent forward - mean * mass forward) * mass backward,
* of a transition: the same of the states at both ends, times its potential; and what it adds itself.

Sentences, tables and the pass for masses are those of `chain`; where its masses lose too much, a sentence is left out.
Rows of arrays of a sentence stand by token, and are padded with zeros to whole vectors.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import LANES, load, load_one, spread, store
from spectrem.kernels.chains.chain import LOSS, forward, longest_of, node_counts
from spectrem.kernels.chains.potentials import FLOOR


@njit(cache=True, nogil=True, error_model="numpy")
def _in_vectors(matrix, factor, stride):
    """matrix * factor, flat, with rows padded with zeros to ``stride`` numbers."""
    padded = np.zeros(len(matrix) * stride)
    for i in range(len(matrix)):
        for k in range(len(matrix)):
            padded[i * stride + k] = matrix[i, k] * factor[i, k]
    return padded


@njit(cache=True, nogil=True, error_model="numpy")
def _cut(matrix, stride, states, left, n_left, right, n_right, out):
    """The rows of the states from ``left`` on, and the columns of those from ``right`` on."""
    padded = (n_right + LANES - 1) // LANES * LANES
    for i in range(n_left):
        row = states[left + i] * stride
        for k in range(n_right):
            out[i * stride + k] = matrix[row + states[right + k]]
        for k in range(n_right, padded):
            out[i * stride + k] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _move(n_left, n_right, stride, masses, tangents, at, moves, turns, out):
    """Masses and tangents of ``n_left`` states from ``at`` on move to ``n_right`` states; ``out`` holds both.

    Two vectors are moved at a time, which need not wait for each other; the last one may be moved twice.
    """
    padded = (n_right + LANES - 1) // LANES * LANES
    for k in range(0, n_right, 2 * LANES):
        other = min(k + LANES, padded - LANES)
        mass, mass_of_other, moved, moved_of_other = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        turned, turned_of_other = spread(0.0), spread(0.0)
        for i in range(n_left):
            one, tangent, row = load_one(masses, at + i), load_one(tangents, at + i), i * stride
            move, move_of_other = load(moves, row + k), load(moves, row + other)
            mass, mass_of_other = mass + one * move, mass_of_other + one * move_of_other
            moved, moved_of_other = moved + tangent * move, moved_of_other + tangent * move_of_other
            turned = turned + one * load(turns, row + k)
            turned_of_other = turned_of_other + one * load(turns, row + other)
        store(out, k, mass)
        store(out, other, mass_of_other)
        store(out, stride + k, moved + turned)
        store(out, stride + other, moved_of_other + turned_of_other)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_products(n_states, stride, first, last, weight, masses, tangents, futures, further, products, pairs):
    """Transitions into the tokens ``first`` to ``last - 1``, over their potentials; all states everywhere.

    products += weight * sum_t outer(tangents[t - 1], futures[t]) + outer(masses[t - 1], further[t]), and
    pairs += weight * sum_t outer(masses[t - 1], futures[t]).
    """
    factor = spread(weight)
    for i in range(n_states):
        for k in range(0, stride, LANES):
            left, right, both = spread(0.0), spread(0.0), spread(0.0)
            for t in range(first, last):
                mass, tangent = load_one(masses, (t - 1) * stride + i), load_one(tangents, (t - 1) * stride + i)
                future = load(futures, t * stride + k)
                left, right = left + tangent * future, right + mass * load(further, t * stride + k)
                both = both + mass * future
            at = i * stride + k
            store(products, at, load(products, at) + factor * (left + right))
            store(pairs, at, load(pairs, at) + factor * both)


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(first, n_tokens, table, along, stride, moves, turns, cuts, alpha, begins, spaces, moved):
    """Forward masses and tangents of a sentence, which fill ``spaces``, with what `_backward` needs.

    Masses are those of ``alpha``, or found here where it is empty. Returns the mean, -inf where the sentence is
    impossible, and whether something that is found here lies below FLOOR.
    """
    masses, tangents, emissions, added = spaces
    n_states, mean, floored, is_low = len(table.first), 0.0, table.factor_floored[2], False
    for t in range(n_tokens):
        begin, at = table.offsets[first + t], t * stride
        width = table.offsets[first + t + 1] - begin
        here = 0 if table.dense else begin
        if len(alpha) == 0 and (table.floored[first + t] or (floored and t > 0)):
            return mean, True
        if t == 0:
            for k in range(width):
                moved[k] = table.first[table.states[here + k]]
            moved[stride:] = 0.0
        else:
            before = table.offsets[first + t - 1]
            n_before = begin - before
            if width < n_states or n_before < n_states:
                prior = 0 if table.dense else before
                _cut(moves, stride, table.states, prior, n_before, here, width, cuts[0])
                _cut(turns, stride, table.states, prior, n_before, here, width, cuts[1])
                _move(n_before, width, stride, masses, tangents, at - stride, cuts[0], cuts[1], moved)
            else:
                _move(n_before, width, stride, masses, tangents, at - stride, moves, turns, moved)
        total = 0.0
        for k in range(width):
            total += moved[k] * table.potentials[begin + k]
        if total == 0.0:
            return -np.inf, False
        scale = 1.0 / total
        for k in range(width):
            emission = table.potentials[begin + k] * scale
            mass = alpha[begins[t] + k] if len(alpha) > 0 else moved[k] * emission
            is_low |= 0.0 < mass < FLOOR
            # Where nothing arrives the future is unbounded and must not be carried on.
            masses[at + k], emissions[at + k] = mass, emission if mass > 0.0 else 0.0
            added[at + k] = along[begin + k]
        for k in range(width, (width + LANES - 1) // LANES * LANES):
            masses[at + k] = added[at + k] = emissions[at + k] = 0.0
        for k in range(0, width, LANES):
            arriving = load(moved, stride + k) * load(emissions, at + k)
            store(tangents, at + k, arriving + load(masses, at + k) * load(added, at + k))
        if is_low:
            return mean, True
    for k in range(width):
        mean += tangents[at + k]
    return mean, False


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(first, n_tokens, table, mean, stride, moves, turns, cuts, spaces, moved, products):
    """Covariances of states.

    Takes the mean off tangents, and puts future masses and their tangents in place of emissions and of what states add.
    """
    masses, tangents, emissions, added = spaces
    n_states, average = len(table.first), spread(mean)
    moved[:stride], moved[stride:] = 1.0, 0.0
    for t in range(n_tokens - 1, -1, -1):
        begin, at = table.offsets[first + t], t * stride
        width = table.offsets[first + t + 1] - begin
        for k in range(0, width, LANES):
            mass, future, further = load(masses, at + k), load(moved, k), load(moved, stride + k)
            emission, centred = load(emissions, at + k), load(tangents, at + k) - average * mass
            store(moved, k, centred * future + mass * further)
            store(tangents, at + k, centred)
            store(emissions, at + k, emission * future)
            store(added, at + k, emission * (future * load(added, at + k) + further))
        for k in range(width):
            products[begin + k] = moved[k]
        if t == 0:
            break
        before = table.offsets[first + t - 1]
        n_before = begin - before
        if width < n_states or n_before < n_states:
            prior, here = 0 if table.dense else before, 0 if table.dense else begin
            _cut(moves, stride, table.states, here, width, prior, n_before, cuts[0])
            _cut(turns, stride, table.states, here, width, prior, n_before, cuts[1])
            _move(width, n_before, stride, emissions, added, at, cuts[0], cuts[1], moved)
        else:
            _move(width, n_before, stride, emissions, added, at, moves, turns, moved)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_transitions(first, n_tokens, table, weight, stride, spaces, products, pairs):
    """Those of a sentence, over their potentials; runs of tokens that have all states at once."""
    masses, tangents, futures, further = spaces
    n_states, states, t = len(table.first), table.states, 1
    while t < n_tokens:
        start = t
        while t < n_tokens and table.offsets[first + t + 1] - table.offsets[first + t - 1] == 2 * n_states:
            t += 1
        if t > start:
            _add_products(n_states, stride, start, t, weight, masses, tangents, futures, further, products, pairs)
            continue
        before, begin, end = table.offsets[first + t - 1], table.offsets[first + t], table.offsets[first + t + 1]
        for i in range(begin - before):
            left, row = (t - 1) * stride + i, states[before + i] * stride
            mass, tangent = weight * masses[left], weight * tangents[left]
            for k in range(end - begin):
                right, cell = t * stride + k, row + states[begin + k]
                products[cell] += tangent * futures[right] + mass * further[right]
                pairs[cell] += mass * futures[right]
        t += 1


@njit(cache=True, nogil=True, error_model="numpy")
def covary(token_offsets, rows, table, along, transitions, weights, means, of_states, of_transitions, status):
    """Fill means and covariances of every instance of ``status`` 1; it becomes 0 where scaled masses lose little.

    ``along`` and ``transitions`` are the direction; token t of the batch has row t, so that ``rows`` count from 0.
    Covariances of transitions are added to ``of_transitions``, times the weight of their instance.
    """
    n_states, longest = len(table.first), longest_of(token_offsets)
    n_nodes, most = node_counts(1, token_offsets, rows, table.offsets)
    alpha, lost = np.empty(n_nodes), np.empty(2 * most)
    scale, begins = np.empty(longest), np.empty(longest + 1, np.int64)
    stride = (n_states + LANES - 1) // LANES * LANES
    nothing, ones = np.empty(0), np.ones((n_states, n_states))
    moves, turns = _in_vectors(table.later[0], ones, stride), _in_vectors(table.later[0], transitions, stride)
    moves_back = _in_vectors(table.later_back[0], ones, stride)
    turns_back = _in_vectors(table.later_back[0], transitions.T, stride)
    cuts = (np.empty(n_states * stride), np.empty(n_states * stride))
    spaces = (
        np.empty(longest * stride), np.empty(longest * stride), np.empty(longest * stride), np.empty(longest * stride),
    )  # fmt: skip
    moved, products, pairs = np.empty(2 * stride), np.zeros(n_states * stride), np.zeros(n_states * stride)
    for n in range(len(status)):
        if status[n] != 1:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        if n_tokens == 0:
            status[n] = 0
            continue
        sentence = (first, n_tokens, table, along, stride, moves, turns, cuts)
        mean, is_low = _forward(*sentence, nothing, begins, spaces, moved)
        if is_low:
            value, share = forward(first, n_tokens, rows, table, alpha, lost, begins, scale)
            if not (share <= LOSS):
                continue
            mean = _forward(*sentence, alpha, begins, spaces, moved)[0] if value > -np.inf else value
        status[n] = 0
        if mean == -np.inf:
            continue
        means[n] = mean
        _backward(first, n_tokens, table, means[n], stride, moves_back, turns_back, cuts, spaces, moved, of_states)
        if weights[n] != 0.0:
            _add_transitions(first, n_tokens, table, weights[n], stride, spaces, products, pairs)
    for i in range(n_states):
        for k in range(n_states):
            at = i * stride + k
            of_transitions[i, k] += moves[at] * products[at] + turns[at] * pairs[at]
