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


@njit(cache=True, nogil=True, error_model="numpy")
def _states_of(token, first, rows, table):
    """The states of a token; the one that no token has before the first."""
    if token < 0:
        return table.states[len(table.states) - 1 :]
    row = rows[first + token]
    return (
        table.states[: len(table.first)] if table.dense else table.states[table.offsets[row] : table.offsets[row + 1]]
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _sides(t, first, rows, table):
    """The states ``from`` and in the ``middle`` of the nodes that token t arrives from."""
    if table.order == 2:
        return _states_of(t - 2, first, rows, table), _states_of(t - 1, first, rows, table)
    return _states_of(t - 1, first, rows, table), _states_of(-1, first, rows, table)


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(first, n_tokens, rows, table, alpha_space, begins, terms):
    """Log-probabilities of nodes, each token's normalised; returns the value."""
    value = 0.0
    begins[0] = 0
    for t in range(n_tokens):
        row, tensor = rows[first + t], table.second_scores if t == 1 else table.later_scores
        prior, before = _sides(t, first, rows, table)
        here, scores = _states_of(t, first, rows, table), table.scores[table.offsets[row] : table.offsets[row + 1]]
        width, n_before = len(here), len(before)
        begins[t + 1] = begins[t] + width * n_before
        alpha, previous = alpha_space[begins[t] : begins[t + 1]], alpha_space[begins[max(t - 1, 0)] : begins[t]]
        for k in range(width):
            if t == 0:
                alpha[k] = table.first_scores[here[k]] + scores[k]
                continue
            for j in range(n_before):
                for i in range(len(prior)):
                    terms[i] = previous[i * n_before + j] + tensor[before[j], prior[i], here[k]]
                alpha[j * width + k] = log_sum(terms[: len(prior)], table.gamma) + scores[k]
        scale = log_sum(alpha, table.gamma)
        if scale == -np.inf:
            return -np.inf
        value += scale
        for k in range(len(alpha)):
            alpha[k] -= scale
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(first, n_tokens, rows, table, weight, row_weight, alpha, begins, present, earlier, terms, expected):
    """Divide the probabilities of nodes; matrices of them, ``present`` and ``earlier``, are [middle, here]."""
    n_nodes = begins[n_tokens] - begins[n_tokens - 1]
    present[:n_nodes] = alpha[begins[n_tokens - 1] : begins[n_tokens]]
    share_out(present[:n_nodes], table.gamma)
    for t in range(n_tokens - 1, -1, -1):
        start, here = table.offsets[rows[first + t]], _states_of(t, first, rows, table)
        prior, before = _sides(t, first, rows, table)
        tensor, pairs = table.later_scores, expected.later
        if t == 1:
            tensor, pairs = table.second_scores, expected.second
        previous = alpha[begins[max(t - 1, 0)] : begins[t]]
        earlier[: len(previous)] = 0.0
        for node in range(begins[t + 1] - begins[t]):
            j, k, mass = node // len(here), node % len(here), present[node]
            expected.rows[start + k] += row_weight * mass
            if t == 0:
                expected.first[here[k]] += weight * mass
            elif mass > 0.0:
                for i in range(len(prior)):
                    terms[i] = previous[i * len(before) + j] + tensor[before[j], prior[i], here[k]]
                share_out(terms[: len(prior)], table.gamma)
                for i in range(len(prior)):
                    pairs[before[j], prior[i], here[k]] += weight * mass * terms[i]
                    earlier[i * len(before) + j] += mass * terms[i]
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
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        values[n] = _forward(first, n_tokens, rows, table, alpha, begins, terms)
        if values[n] > -np.inf and n_tokens > 0:
            spaces = (alpha, begins, present, earlier, terms)
            _backward(first, n_tokens, rows, table, weights[n], row_weights[n], *spaces, expected)
