"""Forward-backward in log space of chains with scores of their own for every pair, as in ``chain_log``."""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out
from spectrem.kernels.chains.edge_chain import sizes_of


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, widths, offsets, scores, gamma, values, marginals, status):
    """The same as ``edge_chain.sum_pass`` from scores, many times slower, for the instances of ``status`` 1."""
    longest, widest = sizes_of(token_offsets, widths)
    alpha = np.empty((longest, widest))
    terms, earlier, posterior = np.empty(widest), np.empty(widest), np.empty(widest)
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
            scale = log_sum(alpha[t, :width], gamma)
            value += scale
            if value == -np.inf:
                break
            for k in range(width):
                alpha[t, k] -= scale
        values[n] = value
        if value == -np.inf or n_tokens == 0:
            continue
        width = widths[first + n_tokens - 1]
        posterior[:width] = alpha[n_tokens - 1, :width]
        share_out(posterior[:width], gamma)
        for t in range(n_tokens - 1, 0, -1):
            start, width, before = offsets[first + t], widths[first + t], widths[first + t - 1]
            earlier[:before] = 0.0
            for k in range(width):
                if posterior[k] > 0.0:
                    for i in range(before):
                        terms[i] = alpha[t - 1, i] + scores[start + i * width + k]
                    share_out(terms[:before], gamma)
                    for i in range(before):
                        marginals[start + i * width + k] = posterior[k] * terms[i]
                        earlier[i] += posterior[k] * terms[i]
            posterior[:before] = earlier[:before]
        for k in range(widths[first]):
            marginals[offsets[first] + k] = posterior[k]
