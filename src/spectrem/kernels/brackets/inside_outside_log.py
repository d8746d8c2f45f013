"""Inside-outside over binary trees in log space, for what under- or overflows in probabilities.

Every term of a sum is less its largest, so that no exponential overflows; all is in nats, so that no division by gamma
does. From the whole sentence on, the probability of a span is shared out among the places to cut it: those of all spans
agree with each other however large the scores, whose sums lose digits then.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import log_sum, share_out


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(lengths, offsets, gains, gamma, totals, shares, status):
    """The smoothed max over trees of sums of gains, and the share of the trees with each span, where ``status`` is 1.

    A sentence where no tree is possible gets the total -inf.
    """
    most = 0
    for n in range(len(lengths)):
        if status[n] == 1:
            most = max(most, lengths[n])
    inside, present = np.empty((most + 1, most + 1)), np.empty((most + 1, most + 1))
    terms = np.empty(most)
    for n in range(len(lengths)):
        if status[n] != 1:
            continue
        size, own = lengths[n], gains[offsets[n] : offsets[n + 1]]
        for start in range(size - 1, -1, -1):
            row = start * size - start * (start - 1) // 2 - start - 1
            inside[start, start + 1] = 0.0
            for end in range(start + 2, size + 1):
                for cut in range(start + 1, end):
                    terms[cut - start - 1] = inside[start, cut] + inside[cut, end]
                inside[start, end] = own[row + end] + log_sum(terms[: end - start - 1], gamma)
        totals[n] = inside[0, size]
        if totals[n] == -np.inf:
            continue
        present[:size, : size + 1] = 0.0
        present[0, size] = 1.0
        for length in range(size, 1, -1):
            for start in range(size - length + 1):
                end, mass = start + length, present[start, start + length]
                shares[offsets[n] + start * size - start * (start - 1) // 2 + length - 1] = mass
                if mass > 0.0:
                    for cut in range(start + 1, end):
                        terms[cut - start - 1] = inside[start, cut] + inside[cut, end]
                    share_out(terms[: length - 1], gamma)
                    for cut in range(start + 1, end):
                        present[start, cut] += mass * terms[cut - start - 1]
                        present[cut, end] += mass * terms[cut - start - 1]
