"""Forward-backward and Viterbi passes of chains in which every pair of neighbours has scores of its own.

Token t of the batch has ``widths[t]`` states and the parts ``offsets[t]:offsets[t + 1]``: one per state where it is the
first of its sentence, else one per state of the token before and own state, in this order.

The sum pass is scaled and multiplies ``exp((score - top of the token) / gamma)``. It does without the log of every sum,
but leaves an instance to the log-space pass if one of its potentials or normalised forward probabilities is below FLOOR
and not zero; without any of these no product can underflow. It does not bound small losses, as `chain` does.

No function may change the order of its sums (fastmath "reassoc"): the last bits were then not the same at every call.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem.kernels.chains.potentials import FLOOR


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(first, n_tokens, widths, offsets, potentials, tops, floored, gamma, alpha, scale):
    """Normalised forward probabilities of one instance. Returns its value and whether something is below FLOOR."""
    value, before = 0.0, 0
    for t in range(n_tokens):
        start, width = offsets[first + t], widths[first + t]
        if floored[first + t]:
            return value, True
        value += tops[first + t]
        for k in range(width):
            alpha[t, k] = potentials[start + k] if t == 0 else 0.0
        for i in range(before if t > 0 else 0):
            mass, row = alpha[t - 1, i], start + i * width
            if mass != 0.0:
                for k in range(width):
                    alpha[t, k] += mass * potentials[row + k]
        total = 0.0
        for k in range(width):
            total += alpha[t, k]
        if total == 0.0:
            # Nothing was removed, so a total of zero is exact: no structure is possible.
            return -np.inf, False
        scale[t] = 1.0 / total
        for k in range(width):
            alpha[t, k] *= scale[t]
            if 0.0 < alpha[t, k] < FLOOR:
                return value, True
        value += gamma * math.log(total)
        before = width
    return value, False


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(first, n_tokens, widths, offsets, potentials, alpha, scale, beta, future, marginals):
    beta[:] = 1.0
    for t in range(n_tokens - 1, -1, -1):
        start, width = offsets[first + t], widths[first + t]
        for k in range(width):
            # Where nothing arrives the future is unbounded and must not be carried on.
            beta[k] = beta[k] if alpha[t, k] > 0.0 else 0.0
            future[k] = beta[k] * scale[t]
        if t == 0:
            for k in range(width):
                marginals[start + k] = alpha[t, k] * beta[k]
            break
        for i in range(widths[first + t - 1]):
            row, total = start + i * width, 0.0
            for k in range(width):
                share = potentials[row + k] * future[k]
                marginals[row + k] = alpha[t - 1, i] * share
                total += share
            beta[i] = total


@njit(cache=True, nogil=True, error_model="numpy")
def sizes_of(token_offsets, widths):
    """Tokens of the instance that has most, and the most states of a token."""
    longest, widest = 0, 0
    for n in range(len(token_offsets) - 1):
        longest = max(longest, token_offsets[n + 1] - token_offsets[n])
    for t in range(len(widths)):
        widest = max(widest, widths[t])
    return longest, widest


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, widths, offsets, potentials, tops, floored, gamma, values, marginals, status):
    """Smoothed max and marginals of every instance of ``status`` 1, which becomes 0 but where log space is needed."""
    longest, widest = sizes_of(token_offsets, widths)
    alpha, scale = np.empty((longest, widest)), np.empty(longest)
    beta, future = np.empty(widest), np.empty(widest)
    for n in range(len(status)):
        if status[n] != 1:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        value, low = _forward(first, n_tokens, widths, offsets, potentials, tops, floored, gamma, alpha, scale)
        if low:
            continue
        values[n], status[n] = value, 0
        if value > -np.inf and n_tokens > 0:
            _backward(first, n_tokens, widths, offsets, potentials, alpha, scale, beta, future, marginals)


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(token_offsets, widths, offsets, scores, active, values, choices):
    """Best sequence of every active instance; ``choices[t]`` is the part that token t takes, -1 if impossible."""
    longest, widest = sizes_of(token_offsets, widths)
    came_from = np.empty((longest, widest), np.int64)
    best, following = np.empty(widest), np.empty(widest)
    for n in range(len(active)):
        if not active[n]:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        values[n] = 0.0
        if n_tokens == 0:
            continue
        before = 0
        for t in range(n_tokens):
            start, width = offsets[first + t], widths[first + t]
            for k in range(width):
                following[k] = scores[start + k] if t == 0 else -np.inf
                came_from[t, k] = 0
            for i in range(before if t > 0 else 0):
                row = start + i * width
                for k in range(width):
                    if best[i] + scores[row + k] > following[k]:
                        following[k] = best[i] + scores[row + k]
                        came_from[t, k] = i
            for k in range(width):
                best[k] = following[k]
            before = width
        last = 0
        for k in range(1, before):
            if best[k] > best[last]:
                last = k
        possible = before > 0 and best[last] > -np.inf
        values[n] = best[last] if possible else -np.inf
        for t in range(n_tokens - 1, -1, -1):
            if possible:
                origin = came_from[t, last]
                choices[first + t] = offsets[first + t] + origin * widths[first + t] + last
                last = origin
            else:
                choices[first + t] = -1


@njit(cache=True, nogil=True, error_model="numpy")
def add_transitions(token_offsets, widths, offsets, states, dense, weights, marginals, counts):
    """Add the marginals of all pairs of neighbours, times the weight of their sentence, to ``counts[from, to]``.

    ``states`` holds the states of token after token, or, where ``dense``, all states once.
    """
    n_states, at = len(counts), 0
    flat = counts.ravel()
    for n in range(len(weights)):
        weight = weights[n]
        for t in range(token_offsets[n], token_offsets[n + 1]):
            own, start, stop = at, offsets[t], offsets[t + 1]
            at += widths[t]
            if t == token_offsets[n]:
                continue
            pairs = marginals[start:stop]
            if dense:
                for k in range(len(flat)):
                    flat[k] += weight * pairs[k]
            else:
                before, width = own - widths[t - 1], widths[t]
                for i in range(widths[t - 1]):
                    row = states[before + i] * n_states
                    for k in range(width):
                        flat[row + states[own + k]] += weight * pairs[i * width + k]


@njit(cache=True, nogil=True, error_model="numpy")
def covary(token_offsets, widths, offsets, marginals, along, means, out):
    """Fill the means of the sum of ``along`` over the parts taken, and its covariances with all parts, from marginals.

    Given the state of a token, what comes before it and what comes after it are independent: one pass forward and one
    backward find the expected sums on both sides. All numbers on the way are means of sums, which neither over- nor
    underflow.
    """
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
                    behind[t, k] += marginals[row + k] * (come + along[row + k])
            for k in range(width):
                behind[t, k] = behind[t, k] / mass[k] if mass[k] > 0.0 else 0.0
        mean = 0.0
        for k in range(width):
            mean += mass[k] * behind[n_tokens - 1, k]
        means[n] = mean
        # and after it
        ahead[:width] = 0.0
        for t in range(n_tokens - 1, -1, -1):
            before = widths[first + t - 1] if t > 0 else 1
            start, width = offsets[first + t], widths[first + t]
            for i in range(before):
                row, come = start + i * width, behind[t - 1, i] if t > 0 else 0.0
                share, total = 0.0, 0.0
                for k in range(width):
                    onwards = along[row + k] + ahead[k]
                    out[row + k] = marginals[row + k] * (come + onwards - mean)
                    share += marginals[row + k]
                    total += marginals[row + k] * onwards
                further[i] = total / share if share > 0.0 else 0.0
            for i in range(before):
                ahead[i] = further[i]
