"""Passes over the cells of sentence pairs (source-major).

A direction runs over ``steps`` (the words produced) that choose among ``states`` (the words of the other side).

`diagonal_pass` computes posteriors of very long pairs whose positions depend on the distance from the diagonal alone.
It keeps nothing by cell: the multiplier of agreement at a cell follows from the totals of its row and its column at
every earlier step, so that each pass computes it anew.
"""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def anchor(s, steps, states):
    """The state that lies as far along as step ``s``, or as each of several: where a Model 2 jump starts."""
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
def place_parts(source_offsets, target_offsets, source, target, forward, backward):
    """Fill the words of every cell and its unary parts, see `spectrem.models.alignment.pairs.Layout`."""
    cell, first, other_first = 0, 0, 0
    for n in range(len(source_offsets) - 1):
        n_source = source_offsets[n + 1] - source_offsets[n]
        n_target = target_offsets[n + 1] - target_offsets[n]
        for i in range(n_source):
            for j in range(n_target):
                source[cell], target[cell] = source_offsets[n] + i, target_offsets[n] + j
                forward[cell] = first + j * (n_source + 1) + i
                backward[cell] = other_first + i * (n_target + 1) + j
                cell += 1
        first += n_target * (n_source + 1)
        other_first += n_source * (n_target + 1)


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
def diagonal_pass(
    rate, step, first, cells, links, other_links, place, scale, other_scale, totals, other_totals, forward, backward
):  # fmt: skip
    """One pass over the rows of ``cells`` (source words from ``first`` on; columns are target words).

    ``scale[j] * place[|i - anchor of j|] * links[cell]`` is the potential of a link before the multipliers of
    agreement. While ``forward`` has no rows, the pass adds the potentials after ``step`` gradient steps to
    ``totals[step, j]`` and ``other_totals[step, i]``; else it writes the posteriors to ``forward`` and ``backward``.
    """
    n_source, n_target = len(other_scale), len(scale)
    column = np.empty(n_target, np.int64)
    for j in range(n_target):
        column[j] = anchor(j, n_target, n_source)
    for k in range(len(cells)):
        i = first + k
        row = anchor(i, n_source, n_target)
        for j in range(n_target):
            link = links[cells[k, j]] * scale[j] * place[abs(i - column[j])]
            other = other_links[cells[k, j]] * other_scale[i] * place[abs(j - row)]
            for t in range(step):
                change = rate * (link / totals[t, j] - other / other_totals[t, i])
                # Below 1e-9 the first terms of the series are exact in a double.
                factor = np.exp(change) if abs(change) > 1e-9 else 1.0 + change
                link /= factor
                other *= factor
            if len(forward) == 0:
                totals[step, j] += link
                other_totals[step, i] += other
            else:
                forward[k, j] = link / totals[step, j]
                backward[k, j] = other / other_totals[step, i]


@njit(cache=True, nogil=True, error_model="numpy")
def explained_shares(
    source_offsets, target_offsets, cell_offsets, cells, log_forward, log_backward, mass, source_nats, target_nats,
    shares,
):  # fmt: skip
    """Fill the share of the information of every pair that its best links explain, times their mean probability.

    NaN where a side is empty. ``cells`` holds the entry of ``log_forward`` and ``log_backward`` (log-probabilities of
    translations) of every cell, ``mass`` its mean posterior, and ``source_nats`` and ``target_nats`` minus the log of
    every token's frequency.
    """
    for n in range(len(shares)):
        sources = source_nats[source_offsets[n] : source_offsets[n + 1]]
        targets = target_nats[target_offsets[n] : target_offsets[n + 1]]
        if len(sources) == 0 or len(targets) == 0:
            shares[n] = np.nan
            continue
        gains, surest = np.zeros(len(targets)), np.zeros(len(targets))
        source_gain, certainty = 0.0, 0.0
        cell = cell_offsets[n]
        for i in range(len(sources)):
            best_gain, best = 0.0, 0.0
            for j in range(len(targets)):
                p, entry = mass[cell], cells[cell]
                # a word explains another as far as it makes it likelier than its frequency
                gains[j] = max(gains[j], p * (log_forward[entry] + targets[j]))
                best_gain = max(best_gain, p * (log_backward[entry] + sources[i]))
                surest[j] = max(surest[j], p)
                best = max(best, p)
                cell += 1
            source_gain += best_gain
            certainty += best / len(sources)
        certainty = (certainty + surest.mean()) / 2
        shares[n] = certainty * min(source_gain / sources.sum(), gains.sum() / targets.sum())
