"""Viterbi pass of second-order chains.

Token t of the batch may take the states ``states[offsets[t]:offsets[t + 1]]``, or every state when ``dense`` is true;
``offsets`` also delimits its entries of ``unary``. Instance n owns the tokens
``token_offsets[n]:token_offsets[n + 1]``. A node is a pair [state before, state]; the first token's are its states.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem.kernels.chains.chain2 import sizes_of


@njit(cache=True, nogil=True, error_model="numpy")
def _states_of(token, offsets, states, dense):
    return states if dense else states[offsets[token] : offsets[token + 1]]


@njit(cache=True, nogil=True, error_model="numpy")
def _arrive(best, transition, prior, before, here, following, came_from):
    """For all nodes here, the best score that arrives and the first place among the states two back it comes from."""
    following[:], came_from[:] = -np.inf, 0
    for i in range(len(prior)):
        for j in range(len(before)):
            so_far, a, b = best[i, j], prior[i], before[j]
            if so_far == -np.inf:
                continue
            if len(here) == len(transition):
                for k in range(len(transition)):
                    better = so_far + transition[a, b, k] > following[j, k]
                    following[j, k] = so_far + transition[a, b, k] if better else following[j, k]
                    came_from[j, k] = i if better else came_from[j, k]
            else:
                for k in range(len(here)):
                    if so_far + transition[a, b, here[k]] > following[j, k]:
                        following[j, k], came_from[j, k] = so_far + transition[a, b, here[k]], i


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(first, n_tokens, offsets, states, dense, unary, second, transition, best_spaces, origins, begins):
    """Origins of all nodes; the best scores of the last token's nodes end up in ``best_spaces[(n_tokens - 1) % 2]``."""
    prior, before = states[:0], states[:0]
    begins[0] = 0
    for t in range(n_tokens):
        here = _states_of(first + t, offsets, states, dense)
        n_before = len(before) if t > 0 else 1
        begins[t + 1] = begins[t] + n_before * len(here)
        following = best_spaces[t % 2, : n_before * len(here)].reshape(n_before, len(here))
        if t == 0:
            following[:] = 0.0
        elif t == 1:
            for j in range(n_before):
                for k in range(len(here)):
                    following[j, k] = best_spaces[0, j] + second[before[j], here[k]]
        else:
            best = best_spaces[1 - t % 2, : len(prior) * n_before].reshape(len(prior), n_before)
            came_from = origins[begins[t] : begins[t + 1]].reshape(n_before, len(here))
            _arrive(best, transition, prior, before, here, following, came_from)
        for j in range(n_before):
            for k in range(len(here)):
                following[j, k] += unary[offsets[first + t] + k]
        prior, before = before, here


@njit(cache=True, nogil=True, error_model="numpy")
def _best_node(best, width):
    """The best node, of equals that with the lowest state, of these that with the lowest state before; -1 if none."""
    node, highest = -1, -np.inf
    for k in range(width):
        for at in range(k, len(best), width):
            if best[at] > highest:
                node, highest = at, best[at]
    return node


@njit(cache=True, nogil=True, error_model="numpy")
def _trace(first, n_tokens, node, offsets, states, dense, origins, begins, weight, choices, seconds, transitions):
    """Follow the origins back from a node of the last token."""
    for t in range(n_tokens - 1, -1, -1):
        here = _states_of(first + t, offsets, states, dense)
        at, at_before = node % len(here), node // len(here)
        choices[first + t] = at
        if t == 0:
            return
        before = _states_of(first + t - 1, offsets, states, dense)
        if t == 1:
            seconds[before[at_before], here[at]] += weight
            node = at_before
        else:
            prior = _states_of(first + t - 2, offsets, states, dense)
            origin = origins[begins[t] + node]
            transitions[prior[origin], before[at_before], here[at]] += weight
            node = origin * len(before) + at_before


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(
    token_offsets, offsets, states, dense, unary, second, transition, active, weights,
    values, choices, seconds, transitions,
):  # fmt: skip
    """Best state sequence of every active instance; ``choices[t]`` indexes the token's own states, -1 if impossible."""
    longest, n_nodes, n_pairs = sizes_of(token_offsets, np.arange(len(offsets) - 1), offsets)
    best_spaces, origins = np.empty((2, n_pairs)), np.empty(n_nodes, np.int64)
    begins = np.empty(longest + 1, np.int64)
    for n in range(len(values)):
        if not active[n]:
            continue
        first, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        values[n] = 0.0
        if n_tokens == 0:
            continue
        _forward(first, n_tokens, offsets, states, dense, unary, second, transition, best_spaces, origins, begins)
        best = best_spaces[(n_tokens - 1) % 2, : begins[n_tokens] - begins[n_tokens - 1]]
        last = first + n_tokens - 1
        node = _best_node(best, len(_states_of(last, offsets, states, dense)))
        values[n] = best[node] if node >= 0 else -np.inf
        if node >= 0:
            _trace(
                first, n_tokens, node, offsets, states, dense, origins, begins, weights[n],
                choices, seconds, transitions,
            )  # fmt: skip
        else:
            choices[first : first + n_tokens] = -1
