"""Forward-backward of chains of first and second order in log space, for what the scaled passes of `chain` lose.

Tables, rows and nodes are those of `chain`. Forward scores are normalised token by token as there, so that they do not
grow with the length of a sentence, which would cost digits. All stay in nats, so that no division by gamma overflows:
only differences from a largest term, which are at most zero, are divided. Backwards, every node divides its probability
among those before it, so that what comes out are probabilities whatever was rounded.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out
from spectrem.kernels.chains.chain import longest_of, node_counts


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def _states_of(token, rows, offsets, dense, last):
    """Where the states of a token begin and how many they are; with -1, those of the ``last``, which no token has."""
    if token < 0 or dense:
        return (last, 1) if token < 0 else (0, last)
    return offsets[rows[token]], offsets[rows[token] + 1] - offsets[rows[token]]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def _sides(order, t, rows, offsets, dense, last):
    """The states ``from`` and in the ``middle`` of the nodes that token t arrives from."""
    source, middle = (max(t - 2, -1), t - 1) if order == 2 else (t - 1, -1)
    return *_states_of(source, rows, offsets, dense, last), *_states_of(middle, rows, offsets, dense, last)


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(rows, table, alpha, begins, terms):
    """Log-probabilities of nodes, each token's normalised; returns the value."""
    order, offsets, states, dense, gamma = table.order, table.offsets, table.states, table.dense, table.gamma
    unary, initial, second, later = table.scores, table.first_scores, table.second_scores, table.later_scores
    value, last = 0.0, len(states) - 1
    begins[0] = 0
    for t in range(len(rows)):
        tensor, start, at, left = second if t == 1 else later, offsets[rows[t]], begins[t], begins[max(t - 1, 0)]
        prior, n_prior, before, n_before = _sides(order, t, rows, offsets, dense, last)
        here, width = _states_of(t, rows, offsets, dense, last)
        begins[t + 1] = at + width * n_before
        for j in range(n_before):
            for k in range(width):
                arriving, middle, target = initial[states[here + k]], states[before + j], states[here + k]
                if t > 0:
                    for i in range(n_prior):
                        terms[i] = alpha[left + i * n_before + j] + tensor[middle, states[prior + i], target]
                    arriving = log_sum(terms[:n_prior], gamma)
                alpha[at + j * width + k] = arriving + unary[start + k]
        scale = log_sum(alpha[at : begins[t + 1]], gamma)
        if scale == -np.inf:
            return -np.inf
        value += scale
        for k in range(at, begins[t + 1]):
            alpha[k] -= scale
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(rows, table, weight, row_weight, alpha, begins, present, earlier, terms, expected):
    """Divide the probabilities of nodes; matrices of them, ``present`` and ``earlier``, are [middle, here]."""
    order, offsets, states, dense, gamma = table.order, table.offsets, table.states, table.dense, table.gamma
    second, later, seconds, laters = table.second_scores, table.later_scores, expected.second, expected.later
    counts, starts, n_tokens, last = expected.rows, expected.first, len(rows), len(states) - 1
    n_nodes = begins[n_tokens] - begins[n_tokens - 1]
    for k in range(n_nodes):
        present[k] = alpha[begins[n_tokens - 1] + k]
    share_out(present[:n_nodes], gamma)
    for t in range(n_tokens - 1, -1, -1):
        prior, n_prior, before, n_before = _sides(order, t, rows, offsets, dense, last)
        start, left, (here, width) = offsets[rows[t]], begins[max(t - 1, 0)], _states_of(t, rows, offsets, dense, last)
        tensor, pairs = (second, seconds) if t == 1 else (later, laters)
        for k in range(n_prior * n_before):
            earlier[k] = 0.0
        for j in range(n_before):
            for k in range(width):
                mass, middle, target = present[j * width + k], states[before + j], states[here + k]
                counts[start + k] += row_weight * mass
                if t == 0:
                    starts[target] += weight * mass
                elif mass > 0.0:
                    for i in range(n_prior):
                        terms[i] = alpha[left + i * n_before + j] + tensor[middle, states[prior + i], target]
                    share_out(terms[:n_prior], gamma)
                    for i in range(n_prior):
                        pairs[middle, states[prior + i], target] += weight * mass * terms[i]
                        earlier[i * n_before + j] += mass * terms[i]
        present, earlier = earlier, present


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, rows, table, row_weights, weights, values, expected, status):
    """The same as ``chain.sum_pass``, many times slower, for the instances of ``status`` 1."""
    n_nodes, most = node_counts(table.order, token_offsets, rows, table.offsets)
    alpha, begins = np.empty(n_nodes), np.empty(longest_of(token_offsets) + 1, np.int64)
    present, earlier, terms = np.empty(most), np.empty(most), np.empty(max(len(table.first), 1))
    for n in range(len(status)):
        if status[n] != 1:
            continue
        status[n] = 0
        sentence = rows[token_offsets[n] : token_offsets[n + 1]]
        values[n] = _forward(sentence, table, alpha, begins, terms)
        if values[n] > -np.inf and len(sentence) > 0:
            spaces = (alpha, begins, present, earlier, terms)
            _backward(sentence, table, weights[n], row_weights[n], *spaces, expected)
