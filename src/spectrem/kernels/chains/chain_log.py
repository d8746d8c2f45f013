"""Forward-backward of first-order chains in log space, for what the scaled passes lose.

Forward scores are normalised token by token, so that they do not grow with the length of a sentence, which would cost
digits. Every term of a sum is less its largest, so that no exponential overflows. From the last token on, what is known
of a token is shared out among the states before it: posteriors are probabilities, and agree with each other, however
large the scores, whose sums lose digits then.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, rows, table, row_weights, weights, values, expected, status):
    """The same as ``chain.sum_pass``, many times slower, for the instances of ``status`` 1."""
    gamma, transition, n_states, longest = table.gamma, table.transition, len(table.start), 0
    for n in range(len(status)):
        if status[n] == 1:
            longest = max(longest, token_offsets[n + 1] - token_offsets[n])
    alpha, scale = np.empty((longest, n_states)), np.empty(longest)
    present, later, terms = np.empty(n_states), np.empty(n_states), np.empty(n_states)
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
            scale[t] = log_sum(alpha[t, : len(here)], gamma)
            value += scale[t]
            if value == -np.inf:
                break
            for k in range(len(here)):
                alpha[t, k] -= scale[t]
            before = here
        values[n] = value
        if value == -np.inf or n_tokens == 0:
            continue
        for t in range(n_tokens - 1, -1, -1):
            begin, end = table.offsets[rows[first + t]], table.offsets[rows[first + t] + 1]
            here = table.states if table.dense else table.states[begin:end]
            if t == n_tokens - 1:
                present[: len(here)] = alpha[t, : len(here)]
                share_out(present[: len(here)], gamma)
            else:
                present, later = later, present
                present[: len(here)] = 0.0
                for k in range(len(before)):
                    if later[k] > 0.0:
                        for i in range(len(here)):
                            terms[i] = alpha[t, i] + transition[here[i], before[k]]
                        share_out(terms[: len(here)], gamma)
                        for i in range(len(here)):
                            pair = later[k] * terms[i]
                            expected.transition[here[i], before[k]] += weights[n] * pair
                            present[i] += pair
            for k in range(len(here)):
                expected.rows[begin + k] += row_weights[n] * present[k]
                if t == 0:
                    expected.initial[here[k]] += row_weights[n] * present[k]
            before = here
