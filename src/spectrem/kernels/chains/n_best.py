"""The n best state sequences of first-order chains: Viterbi with a list of n predecessors per state."""

import numpy as np

from spectrem._compiled import njit
from spectrem.kernels.chains.chain import longest_of


@njit(cache=True, nogil=True, error_model="numpy")
def n_best(token_offsets, unary, transition, edges, values, states):
    """Fill ``values`` of shape (n_instances, n), decreasing, -inf where there are fewer sequences, and ``states``.

    ``unary`` has the shape (n_tokens, n_states), ``edges`` (n_tokens, n_states, n_states), or it is empty, ``states``
    (n, n_tokens); -1 where there is no sequence. Among equals those with the lower last state come first, then those
    with the lower state before it.
    """
    n, n_states, longest = states.shape[0], len(transition), longest_of(token_offsets)
    best = np.empty((2, n_states, n))
    state_before = np.empty((longest, n_states, n), np.int32)
    rank_before = np.empty((longest, n_states, n), np.int32)
    last_state, last_rank, last_value = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n)
    for s in range(len(token_offsets) - 1):
        first, n_tokens = token_offsets[s], token_offsets[s + 1] - token_offsets[s]
        values[s, :] = -np.inf
        if n_tokens == 0:
            values[s, 0] = 0.0
            continue
        for t in range(n_tokens):
            here, left = best[t % 2], best[1 - t % 2]
            for k in range(n_states):
                here[k, :] = -np.inf
                own = unary[first + t, k]
                if own == -np.inf:
                    continue
                if t == 0:
                    here[k, 0] = own
                    continue
                for i in range(n_states):
                    move = transition[i, k]
                    if len(edges):
                        move += edges[first + t, i, k]
                    for r in range(n):
                        value = left[i, r] + move
                        if not value > here[k, n - 1]:
                            break
                        place = n - 1
                        while place > 0 and value > here[k, place - 1]:
                            here[k, place] = here[k, place - 1]
                            state_before[t, k, place] = state_before[t, k, place - 1]
                            rank_before[t, k, place] = rank_before[t, k, place - 1]
                            place -= 1
                        here[k, place] = value
                        state_before[t, k, place], rank_before[t, k, place] = i, r
                for r in range(n):
                    here[k, r] += own
        last_value[:] = -np.inf
        ends = best[(n_tokens - 1) % 2]
        for k in range(n_states):
            for r in range(n):
                value = ends[k, r]
                if not value > last_value[n - 1]:
                    break
                place = n - 1
                while place > 0 and value > last_value[place - 1]:
                    last_value[place] = last_value[place - 1]
                    last_state[place], last_rank[place] = last_state[place - 1], last_rank[place - 1]
                    place -= 1
                last_value[place], last_state[place], last_rank[place] = value, k, r
        for m in range(n):
            values[s, m] = last_value[m]
            if last_value[m] == -np.inf:
                continue
            state, rank = last_state[m], last_rank[m]
            for t in range(n_tokens - 1, -1, -1):
                states[m, first + t] = state
                if t > 0:
                    state, rank = state_before[t, state, rank], rank_before[t, state, rank]
