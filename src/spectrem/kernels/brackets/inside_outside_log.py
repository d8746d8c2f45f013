"""Inside-outside over binary trees in log space, for what under- or overflows in probabilities.

Every term of a sum is less its largest, so that no exponential overflows; all is in nats, so that no division by gamma
does.
"""

import math

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _log_sum(terms, gamma):
    """gamma * log(sum(exp(terms / gamma)))."""
    top = -np.inf
    for k in range(len(terms)):
        top = max(top, terms[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(len(terms)):
        total += math.exp((terms[k] - top) / gamma)
    return top + gamma * math.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(lengths, offsets, gains, gamma, totals, shares, status):
    """The smoothed max over trees of sums of gains, and the share of the trees with each span, where ``status`` is 1.

    A sentence where no tree is possible gets the total -inf.
    """
    most = 0
    for n in range(len(lengths)):
        if status[n] == 1:
            most = max(most, lengths[n])
    inside, outside = np.empty((most + 1, most + 1)), np.empty((most + 1, most + 1))
    terms = np.empty(2 * most)
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
                inside[start, end] = own[row + end] + _log_sum(terms[: end - start - 1], gamma)
        totals[n] = inside[0, size]
        if totals[n] == -np.inf:
            continue
        # The sum over all that is outside of a span, with the gain of the span itself.
        for start in range(size):
            row = start * size - start * (start - 1) // 2 - start - 1
            for end in range(size, start + 1, -1):
                if end - start == size:
                    around = 0.0
                else:
                    count = 0
                    for after in range(end + 1, size + 1):
                        terms[count] = outside[start, after] + inside[end, after]
                        count += 1
                    for before in range(start):
                        terms[count] = outside[before, end] + inside[before, start]
                        count += 1
                    around = _log_sum(terms[:count], gamma)
                outside[start, end] = around + own[row + end]
                place = offsets[n] + row + end
                shares[place] = math.exp((around + inside[start, end] - totals[n]) / gamma)
