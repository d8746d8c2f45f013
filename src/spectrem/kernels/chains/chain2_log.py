"""Forward-backward of second-order chains in log space, for what the scaled pass of `chain2` loses.

Tables, rows and nodes are those of `chain2`. It keeps digits, and makes posteriors of what is large, as `chain_log`
does. All stay in nats, so that no division by gamma overflows: only differences from a largest term, which are at most
zero, are divided.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out
from spectrem.kernels.chains.chain2 import states_of


@njit(cache=True, nogil=True, error_model="numpy")
def _longest(token_offsets, rows, offsets, status):
    """Tokens and nodes of the instances of ``status`` 1 that have most, and the most nodes of a token."""
    n_tokens, n_nodes, n_pairs = 0, 0, 0
    for n in range(len(status)):
        if status[n] == 1:
            nodes, before = 0, 1
            for t in range(token_offsets[n], token_offsets[n + 1]):
                width = offsets[rows[t] + 1] - offsets[rows[t]]
                nodes += before * width
                n_pairs = max(n_pairs, before * width)
                before = width
            n_tokens = max(n_tokens, token_offsets[n + 1] - token_offsets[n])
            n_nodes = max(n_nodes, nodes)
    return n_tokens, n_nodes, n_pairs


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(first, n_tokens, rows, table, alpha_space, begins, scale, terms):
    """Log-probabilities of nodes, each token's normalised by its ``scale``; returns the value."""
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
        scale[t] = log_sum(alpha, table.gamma)
        if scale[t] == -np.inf:
            return -np.inf
        value += scale[t]
        for k in range(len(alpha)):
            alpha[k] -= scale[t]
        prior, before = before, here
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(first, n_tokens, rows, table, weight, row_weight, alpha_space, begins, present, later, terms, expected):
    """Matrices of nodes are [before, here] throughout."""
    n_last = begins[n_tokens] - begins[n_tokens - 1]
    present[:n_last] = alpha_space[begins[n_tokens - 1] : begins[n_tokens]]
    share_out(present[:n_last], table.gamma)
    for t in range(n_tokens - 1, -1, -1):
        row = rows[first + t]
        start, here = table.offsets[row], states_of(row, table)
        width = len(here)
        for node in range(begins[t + 1] - begins[t]):
            expected.rows[start + node % width] += row_weight * present[node]
            if t == 0:
                expected.initial[here[node]] += weight * present[node]
        if t == 0:
            return
        before, previous = states_of(rows[first + t - 1], table), alpha_space[begins[t - 1] : begins[t]]
        present, later = later, present
        present[: len(previous)] = 0.0
        prior = states_of(rows[first + max(t - 2, 0)], table)
        for j in range(len(before)):
            for k in range(width):
                mass = later[j * width + k]
                if t == 1:
                    expected.second[before[j], here[k]] += weight * mass
                    present[j] += mass
                elif mass > 0.0:
                    for i in range(len(prior)):
                        leaving = table.transition_scores[prior[i], before[j], here[k]]
                        terms[i] = previous[i * len(before) + j] + leaving
                    share_out(terms[: len(prior)], table.gamma)
                    for i in range(len(prior)):
                        triple = mass * terms[i]
                        expected.transition[prior[i], before[j], here[k]] += weight * triple
                        present[i * len(before) + j] += triple


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, rows, table, weights, row_weights, values, expected, status):
    """The same as ``chain2.sum_pass``, many times slower, for the instances of ``status`` 1."""
    longest, n_nodes, n_pairs = _longest(token_offsets, rows, table.offsets, status)
    alpha, scale, begins = np.empty(n_nodes), np.empty(longest), np.empty(longest + 1, np.int64)
    present, later, terms = np.empty(n_pairs), np.empty(n_pairs), np.empty(len(table.initial))
    for n in range(len(status)):
        if status[n] != 1:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        values[n] = _forward(first, n_tokens, rows, table, alpha, begins, scale, terms)
        if values[n] > -np.inf and n_tokens > 0:
            _backward(
                first, n_tokens, rows, table, weights[n], row_weights[n], alpha, begins, present, later, terms, expected
            )  # fmt: skip
