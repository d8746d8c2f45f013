"""Forward-backward of first-order chains in log space, for what the scaled passes lose.

Forward scores are normalised token by token, so that they do not grow with the length of a sentence, which would cost
digits. Every term of a sum is less its largest, so that no exponential overflows. Backwards, every state divides its
probability among those before it, so that what comes out are probabilities whatever was rounded.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out
from spectrem.kernels.chains.chain import longest_of


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, rows, table, row_weights, weights, values, expected, status):
    """The same as ``chain.sum_pass``, many times slower, for the instances of ``status`` 1."""
    gamma, transition, n_states = table.gamma, table.transition, len(table.start)
    alpha = np.empty((longest_of(token_offsets), n_states))
    terms, earlier, posterior = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    for n in range(len(status)):
        if status[n] != 1:
            continue
        status[n] = 0
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        before, value = table.states[:0], 0.0
        for t in range(n_tokens):
            begin, end = table.offsets[rows[first + t]], table.offsets[rows[first + t] + 1]
            here = table.states if table.dense else table.states[begin:end]
            for k in range(len(here)):
                if t == 0:
                    arriving = table.start_scores[here[k]]
                else:
                    for i in range(len(before)):
                        terms[i] = alpha[t - 1, i] + transition[before[i], here[k]]
                    arriving = log_sum(terms[: len(before)], gamma)
                alpha[t, k] = arriving + table.scores[begin + k]
            scale = log_sum(alpha[t, : len(here)], gamma)
            value += scale
            if value == -np.inf:
                break
            for k in range(len(here)):
                alpha[t, k] -= scale
            before = here
        values[n] = value
        if value == -np.inf or n_tokens == 0:
            continue
        posterior[: len(before)] = alpha[n_tokens - 1, : len(before)]
        share_out(posterior[: len(before)], gamma)
        for t in range(n_tokens - 1, -1, -1):
            begin, here = table.offsets[rows[first + t]], before
            if t > 0:
                last, stop = table.offsets[rows[first + t - 1]], table.offsets[rows[first + t - 1] + 1]
                before = table.states if table.dense else table.states[last:stop]
            earlier[:] = 0.0
            for k in range(len(here)):
                expected.rows[begin + k] += row_weights[n] * posterior[k]
                if t == 0:
                    expected.initial[here[k]] += row_weights[n] * posterior[k]
                elif posterior[k] > 0.0:
                    for i in range(len(before)):
                        terms[i] = alpha[t - 1, i] + transition[before[i], here[k]]
                    share_out(terms[: len(before)], gamma)
                    for i in range(len(before)):
                        pair = posterior[k] * terms[i]
                        expected.transition[before[i], here[k]] += weights[n] * pair
                        earlier[i] += pair
            posterior[:] = earlier
