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
    best, no_moves = np.empty((2, n_states, n)), np.zeros((n_states, 1))
    # behind the last token comes one more step, to a state without scores
    state_before = np.empty((longest + 1, n_states, n), np.int32)
    rank_before = np.empty((longest + 1, n_states, n), np.int32)
    for s in range(len(token_offsets) - 1):
        first, n_tokens = token_offsets[s], token_offsets[s + 1] - token_offsets[s]
        values[s, :] = -np.inf
        if n_tokens == 0:
            values[s, 0] = 0.0
            continue
        for t in range(n_tokens + 1):
            here, left, moves = best[t % 2], best[1 - t % 2], transition if t < n_tokens else no_moves
            with_edges = len(edges) > 0 and t < n_tokens
            for k in range(n_states if t < n_tokens else 1):
                here[k, :] = -np.inf
                score = unary[first + t, k] if t < n_tokens else 0.0
                if score == -np.inf:
                    continue
                if t == 0:
                    here[k, 0] = score
                    continue
                for i in range(n_states):
                    move = moves[i, k]
                    if with_edges:
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
                    here[k, r] += score
        for m in range(n):
            values[s, m] = best[n_tokens % 2, 0, m]
            if values[s, m] == -np.inf:
                continue
            state, rank = 0, m
            for t in range(n_tokens, 0, -1):
                state, rank = state_before[t, state, rank], rank_before[t, state, rank]
                states[m, first + t - 1] = state
