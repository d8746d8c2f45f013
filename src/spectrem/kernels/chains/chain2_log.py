"""Forward-backward of second-order chains in log space, for what the scaled pass of `chain2` loses.

Tables, rows and nodes are those of `chain2`. Forward scores are normalised token by token as there, so that they do not
grow with the length of a sentence, which would cost digits. All stay in nats, so that no division by gamma overflows:
only differences from a largest term, which are at most zero, are divided.
"""

import math

import numpy as np

from spectrem._compiled import njit
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
def _smoothed_max(terms, gamma):
    """gamma * log(sum(exp(terms / gamma))); the largest term is taken out, so that the sum is between 1 and n."""
    best = -np.inf
    for k in range(len(terms)):
        best = max(best, terms[k])
    if best == -np.inf:
        return best
    total = 0.0
    for k in range(len(terms)):
        total += math.exp((terms[k] - best) / gamma)
    return best + gamma * math.log(total)


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
                    arriving = _smoothed_max(terms[: len(prior)], table.gamma)
                alpha[j * width + k] = arriving + scores[k]
        scale[t] = _smoothed_max(alpha, table.gamma)
        if scale[t] == -np.inf:
            return -np.inf
        value += scale[t]
        for k in range(len(alpha)):
            alpha[k] -= scale[t]
        prior, before = before, here
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(
    first, n_tokens, rows, table, weight, row_weight, alpha_space, begins, scale, beta, future, terms, expected
):
    """Matrices of nodes are [before, here] throughout; ``future`` = beta + score - scale."""
    gamma = table.gamma
    beta[: begins[n_tokens] - begins[n_tokens - 1]] = 0.0
    for t in range(n_tokens - 1, -1, -1):
        row = rows[first + t]
        start, here = table.offsets[row], states_of(row, table)
        width = len(here)
        alpha = alpha_space[begins[t] : begins[t + 1]]
        for node in range(len(alpha)):
            k = node % width
            present = math.exp((alpha[node] + beta[node]) / gamma)
            expected.rows[start + k] += row_weight * present
            if t == 0:
                expected.initial[here[k]] += weight * present
            future[node] = beta[node] + table.scores[start + k] - scale[t]
        if t == 0:
            return
        before, previous = states_of(rows[first + t - 1], table), alpha_space[begins[t - 1] : begins[t]]
        if t == 1:
            for j in range(len(before)):
                for k in range(width):
                    terms[k] = table.second_scores[before[j], here[k]] + future[j * width + k]
                    pair = math.exp((previous[j] + terms[k]) / gamma)
                    expected.second[before[j], here[k]] += weight * pair
                beta[j] = _smoothed_max(terms[:width], gamma)
            continue
        prior = states_of(rows[first + t - 2], table)
        for i in range(len(prior)):
            for j in range(len(before)):
                node = i * len(before) + j
                for k in range(width):
                    terms[k] = table.transition_scores[prior[i], before[j], here[k]] + future[j * width + k]
                    triple = math.exp((previous[node] + terms[k]) / gamma)
                    expected.transition[prior[i], before[j], here[k]] += weight * triple
                beta[node] = _smoothed_max(terms[:width], gamma)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, rows, table, weights, row_weights, values, expected, status):
    """The same as ``chain2.sum_pass``, many times slower, for the instances of ``status`` 1."""
    longest, n_nodes, n_pairs = _longest(token_offsets, rows, table.offsets, status)
    alpha, scale, begins = np.empty(n_nodes), np.empty(longest), np.empty(longest + 1, np.int64)
    beta, future, terms = np.empty(n_pairs), np.empty(n_pairs), np.empty(len(table.initial))
    for n in range(len(status)):
        if status[n] != 1:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        values[n] = _forward(first, n_tokens, rows, table, alpha, begins, scale, terms)
        if values[n] > -np.inf and n_tokens > 0:
            _backward(
                first, n_tokens, rows, table, weights[n], row_weights[n], alpha, begins, scale, beta, future, terms,
                expected,
            )  # fmt: skip
