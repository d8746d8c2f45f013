"""Forward-backward of second-order chains in log space, for what the scaled pass of `chain2` loses.

Tables, rows and nodes are those of `chain2`. Forward scores are normalised token by token as there, so that they do not
grow with the length of a sentence, which would cost digits. All stay in nats, so that no division by gamma overflows:
only differences from a largest term, which are at most zero, are divided. Backwards, every node divides its probability
among those before it, so that what comes out are probabilities whatever was rounded.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out
from spectrem.kernels.chains.chain2 import sizes_of, states_of


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(first, n_tokens, rows, table, alpha_space, begins, terms):
    """Log-probabilities of nodes, each token's normalised; returns the value."""
    value = 0.0
    prior, before = table.states[:0], table.states[:0]
    begins[0] = 0
    for t in range(n_tokens):
        row = rows[first + t]
        here, scores = states_of(row, table), table.scores[table.offsets[row] : table.offsets[row + 1]]
        width = len(here)
        begins[t + 1] = begins[t] + width * (len(before) if t > 0 else 1)
        alpha, previous = alpha_space[begins[t] : begins[t + 1]], alpha_space[begins[max(t - 1, 0)] : begins[t]]
        for k in range(width):
            if t == 0:
                alpha[k] = table.initial_scores[here[k]] + scores[k]
            for j in range(len(before)):
                if t == 1:
                    arriving = previous[j] + table.second_scores[before[j], here[k]]
                else:
                    for i in range(len(prior)):
                        leaving = table.transition_scores[prior[i], before[j], here[k]]
                        terms[i] = previous[i * len(before) + j] + leaving
                    arriving = log_sum(terms[: len(prior)], table.gamma)
                alpha[j * width + k] = arriving + scores[k]
        scale = log_sum(alpha, table.gamma)
        if scale == -np.inf:
            return -np.inf
        value += scale
        for k in range(len(alpha)):
            alpha[k] -= scale
        prior, before = before, here
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(first, n_tokens, rows, table, weight, row_weight, alpha, begins, present, earlier, terms, expected):
    """Divide the probabilities of nodes; matrices of them, ``present`` and ``earlier``, are [before, here]."""
    n_nodes = begins[n_tokens] - begins[n_tokens - 1]
    present[:n_nodes] = alpha[begins[n_tokens - 1] : begins[n_tokens]]
    share_out(present[:n_nodes], table.gamma)
    for t in range(n_tokens - 1, -1, -1):
        row = rows[first + t]
        start, here = table.offsets[row], states_of(row, table)
        before = states_of(rows[first + t - 1], table) if t > 0 else here[:0]
        prior = states_of(rows[first + t - 2], table) if t > 1 else here[:0]
        previous = alpha[begins[max(t - 1, 0)] : begins[t]]
        earlier[: len(previous)] = 0.0
        for node in range(begins[t + 1] - begins[t]):
            j, k, mass = node // len(here), node % len(here), present[node]
            expected.rows[start + k] += row_weight * mass
            if t == 0:
                expected.initial[here[k]] += weight * mass
            elif t == 1:
                expected.second[before[j], here[k]] += weight * mass
                earlier[j] += mass
            elif mass > 0.0:
                for i in range(len(prior)):
                    terms[i] = previous[i * len(before) + j] + table.transition_scores[prior[i], before[j], here[k]]
                share_out(terms[: len(prior)], table.gamma)
                for i in range(len(prior)):
                    expected.transition[prior[i], before[j], here[k]] += weight * mass * terms[i]
                    earlier[i * len(before) + j] += mass * terms[i]
        present, earlier = earlier, present


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, rows, table, weights, row_weights, values, expected, status):
    """The same as ``chain2.sum_pass``, many times slower, for the instances of ``status`` 1."""
    longest, n_nodes, n_pairs = sizes_of(token_offsets, rows, table.offsets)
    alpha, begins = np.empty(n_nodes), np.empty(longest + 1, np.int64)
    present, earlier, terms = np.empty(n_pairs), np.empty(n_pairs), np.empty(len(table.initial))
    for n in range(len(status)):
        if status[n] != 1:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        values[n] = _forward(first, n_tokens, rows, table, alpha, begins, terms)
        if values[n] > -np.inf and n_tokens > 0:
            own = (weights[n], row_weights[n], alpha, begins, present, earlier, terms)
            _backward(first, n_tokens, rows, table, *own, expected)
