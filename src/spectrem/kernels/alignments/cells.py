"""Between the cells of sentence pairs (source-major) and the unary parts of one direction's alignments.

A direction runs over ``steps`` (the words produced) that choose among ``states`` (the words of the other side); the
cell of step s and state i of pair n is ``cell_offsets[n] + s + i * J`` forward and ``+ s * J + i`` backward.
"""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def anchor(s, steps, states):
    """The state that lies as far along as step ``s``: where a Model 2 jump starts."""
    return (2 * s + 1) * states // (2 * steps)


@njit(cache=True, nogil=True, error_model="numpy")
def score_links(
    backward, placed, step_offsets, state_offsets, cell_offsets, cells, links, null, jump, departures, unary
):  # fmt: skip
    """Fill unary scores: translation by cell, NULL by token, and the place terms of Models 1 and 2 if ``placed``."""
    width = (len(jump) - 1) // 2
    at = 0
    for n in range(len(step_offsets) - 1):
        steps = step_offsets[n + 1] - step_offsets[n]
        states = state_offsets[n + 1] - state_offsets[n]
        step_stride = states if backward else 1
        state_stride = 1 if backward else steps
        for s in range(steps):
            p = anchor(s, steps, states)
            for i in range(states):
                score = links[cells[cell_offsets[n] + s * step_stride + i * state_stride]]
                if placed:
                    score += jump[min(max(i - p, -width), width) + width] + departures[states, p + 1]
                unary[at + i] = score
            unary[at + states] = null[step_offsets[n] + s]
            at += states + 1


@njit(cache=True, nogil=True, error_model="numpy")
def count_links(
    backward, placed, step_offsets, state_offsets, cell_offsets, cells, weights, marginals,
    links, null, jumps, departures,
):  # fmt: skip
    """Add the mass of unary parts to counts by cell value, by token, and (if ``placed``) of jumps and departures."""
    width = (len(jumps) - 1) // 2
    at = 0
    for n in range(len(step_offsets) - 1):
        steps = step_offsets[n + 1] - step_offsets[n]
        states = state_offsets[n + 1] - state_offsets[n]
        step_stride = states if backward else 1
        state_stride = 1 if backward else steps
        for s in range(steps):
            p = anchor(s, steps, states)
            linked = 0.0
            for i in range(states):
                mass = weights[n] * marginals[at + i]
                links[cells[cell_offsets[n] + s * step_stride + i * state_stride]] += mass
                linked += mass
                if placed:
                    jumps[min(max(i - p, -width), width) + width] += mass
            if placed and states > 0:
                departures[states, p + 1] += linked
            null[step_offsets[n] + s] += weights[n] * marginals[at + states]
            at += states + 1


@njit(cache=True, nogil=True, error_model="numpy")
def cell_masses(backward, step_offsets, state_offsets, cell_offsets, marginals, masses):
    """Write the mass of every link to its cell."""
    at = 0
    for n in range(len(step_offsets) - 1):
        steps = step_offsets[n + 1] - step_offsets[n]
        states = state_offsets[n + 1] - state_offsets[n]
        step_stride = states if backward else 1
        state_stride = 1 if backward else steps
        for s in range(steps):
            for i in range(states):
                masses[cell_offsets[n] + s * step_stride + i * state_stride] = marginals[at + i]
            at += states + 1


@njit(cache=True, nogil=True, error_model="numpy")
def discount_links(source_offsets, target_offsets, source_shares, target_shares, mass):
    """Multiply the mass of every cell by the smaller one of the shares of its two tokens."""
    cell = 0
    for n in range(len(source_offsets) - 1):
        for i in range(source_offsets[n], source_offsets[n + 1]):
            for j in range(target_offsets[n], target_offsets[n + 1]):
                mass[cell] *= min(source_shares[i], target_shares[j])
                cell += 1


@njit(cache=True, nogil=True, error_model="numpy")
def agree(rate, source_offsets, target_offsets, links, other_links, forward, backward, gaps):
    """One gradient step on the multipliers of agreement, moved into the unary scores of both directions.

    ``links`` and ``other_links`` are their marginals. ``gaps`` takes the largest difference of every pair.
    """
    first, other_first = 0, 0
    for n in range(len(source_offsets) - 1):
        n_source = source_offsets[n + 1] - source_offsets[n]
        n_target = target_offsets[n + 1] - target_offsets[n]
        for i in range(n_source):
            for j in range(n_target):
                at, other = first + j * (n_source + 1) + i, other_first + i * (n_target + 1) + j
                excess = links[at] - other_links[other]
                gaps[n] = max(gaps[n], abs(excess))
                forward[at] -= rate * excess
                backward[other] += rate * excess
        first += n_target * (n_source + 1)
        other_first += n_source * (n_target + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def limit_fertility(rate, most, step_offsets, state_offsets, marginals, unary, multipliers, gaps, prices):
    """One projected gradient step on the multipliers of ``sum over steps of link <= most``, of one direction.

    ``gaps`` takes the largest excess of every pair, ``prices`` what the multipliers (one per state) add to its dual.
    """
    first = 0
    for n in range(len(step_offsets) - 1):
        steps = step_offsets[n + 1] - step_offsets[n]
        begin, states = state_offsets[n], state_offsets[n + 1] - state_offsets[n]
        expected = np.zeros(states)
        for s in range(steps):
            for i in range(states):
                expected[i] += marginals[first + s * (states + 1) + i]
        for i in range(states):
            excess = expected[i] - most
            gaps[n] = max(gaps[n], excess)
            prices[n] += most * multipliers[begin + i]
            expected[i] = max(rate * excess, -multipliers[begin + i]) if rate > 0.0 else 0.0
            multipliers[begin + i] += expected[i]
        for s in range(steps):
            for i in range(states):
                unary[first + s * (states + 1) + i] -= expected[i]
        first += steps * (states + 1)
