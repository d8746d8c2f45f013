"""Forward-backward in log space of chains with scores of their own for every pair, for what the scaled pass leaves.

It keeps digits, and makes posteriors of what is large, as `chain_log` does.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, widths, offsets, scores, gamma, values, marginals, status):
    """The same as ``edge_chain.sum_pass`` from scores, many times slower, for the instances of ``status`` 1."""
    longest, widest = 0, 0
    for n in range(len(status)):
        longest = max(longest, token_offsets[n + 1] - token_offsets[n])
    for t in range(len(widths)):
        widest = max(widest, widths[t])
    alpha, scale = np.empty((longest, widest)), np.empty(longest)
    present, later, terms = np.empty(widest), np.empty(widest), np.empty(widest)
    for n in range(len(status)):
        if status[n] != 1:
            continue
        status[n] = 0
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        value = 0.0
        for t in range(n_tokens):
            start, width = offsets[first + t], widths[first + t]
            before = widths[first + t - 1] if t > 0 else 0
            for k in range(width):
                if t == 0:
                    alpha[t, k] = scores[start + k]
                else:
                    for i in range(before):
                        terms[i] = alpha[t - 1, i] + scores[start + i * width + k]
                    alpha[t, k] = log_sum(terms[:before], gamma)
            scale[t] = log_sum(alpha[t, :width], gamma)
            value += scale[t]
            if value == -np.inf:
                break
            for k in range(width):
                alpha[t, k] -= scale[t]
        values[n] = value
        if value == -np.inf or n_tokens == 0:
            continue
        present[:width] = alpha[n_tokens - 1, :width]
        share_out(present[:width], gamma)
        for t in range(n_tokens - 1, 0, -1):
            start, width, before = offsets[first + t], widths[first + t], widths[first + t - 1]
            present, later = later, present
            present[:before] = 0.0
            for k in range(width):
                if later[k] > 0.0:
                    for i in range(before):
                        terms[i] = alpha[t - 1, i] + scores[start + i * width + k]
                    share_out(terms[:before], gamma)
                    for i in range(before):
                        marginals[start + i * width + k] = later[k] * terms[i]
                        present[i] += later[k] * terms[i]
        for k in range(widths[first]):
            marginals[offsets[first] + k] = present[k]
