"""How much the two sides of every sentence pair say about each other."""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def explained_shares(
    source_offsets,
    target_offsets,
    cell_offsets,
    cells,
    log_forward,
    log_backward,
    mass,
    source_nats,
    target_nats,
    shares,
):
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
