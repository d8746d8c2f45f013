"""Covariances of the parts of chains with a sum over the parts that a sequence takes, from the marginals of pairs.

Token t of the batch has ``widths[t]`` states and the parts ``offsets[t]:offsets[t + 1]``, as in ``edge_chain``. Given
the state of a token, what comes before it and what comes after it are independent: one pass forward and one backward
find the expected sums on both sides. All numbers on the way are means of sums, which neither over- nor underflow.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem.kernels.chains.edge_chain import sizes_of


@njit(cache=True, nogil=True, error_model="numpy")
def covary(token_offsets, widths, offsets, marginals, values, out):
    """out = cov(whether a part is taken, sum of ``values`` of the parts taken), instance by instance."""
    longest, widest = sizes_of(token_offsets, widths)
    behind, mass = np.zeros((longest, widest)), np.zeros(widest)
    ahead, further = np.zeros(widest), np.zeros(widest)
    for n in range(len(token_offsets) - 1):
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        if n_tokens == 0:
            continue
        # the expected sum up to every token, given its state
        width = 0
        for t in range(n_tokens):
            before = width if t > 0 else 1
            start, width = offsets[first + t], widths[first + t]
            behind[t, :width] = 0.0
            mass[:width] = 0.0
            for i in range(before):
                row, come = start + i * width, behind[t - 1, i] if t > 0 else 0.0
                for k in range(width):
                    mass[k] += marginals[row + k]
                    behind[t, k] += marginals[row + k] * (come + values[row + k])
            for k in range(width):
                behind[t, k] = behind[t, k] / mass[k] if mass[k] > 0.0 else 0.0
        mean = 0.0
        for k in range(width):
            mean += mass[k] * behind[n_tokens - 1, k]
        # and after it
        ahead[:width] = 0.0
        for t in range(n_tokens - 1, -1, -1):
            before = widths[first + t - 1] if t > 0 else 1
            start, width = offsets[first + t], widths[first + t]
            for i in range(before):
                row, come = start + i * width, behind[t - 1, i] if t > 0 else 0.0
                share, total = 0.0, 0.0
                for k in range(width):
                    onwards = values[row + k] + ahead[k]
                    out[row + k] = marginals[row + k] * (come + onwards - mean)
                    share += marginals[row + k]
                    total += marginals[row + k] * onwards
                further[i] = total / share if share > 0.0 else 0.0
            ahead[:before] = further[:before]
