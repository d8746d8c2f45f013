"""M-step of a sparse table of multinomials with learned pseudo-counts."""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def normalise_lexical(
    counts, row, row_sizes, stem_pair, stem_row, produced, share, alike, stem_strength, cognate_strength, probability
):
    """Counts plus pseudo-counts from stems and look-alikes, row by row as probabilities; empty rows are uniform."""
    stem_counts = np.zeros(len(stem_row))
    for k in range(len(counts)):
        stem_counts[stem_pair[k]] += counts[k]
    stem_totals = np.zeros(len(stem_row))
    for pair in range(len(stem_row)):
        stem_totals[stem_row[pair]] += stem_counts[pair]
    for pair in range(len(stem_row)):
        total = stem_totals[stem_row[pair]]
        stem_counts[pair] = stem_strength * stem_counts[pair] / total if total > 0.0 else 0.0
    totals = np.zeros(len(row_sizes))
    for k in range(len(counts)):
        smoothed = counts[k] + stem_counts[stem_pair[k]] * share[produced[k]]
        if alike[k]:
            smoothed += cognate_strength
        probability[k] = smoothed
        totals[row[k]] += smoothed
    for entry in range(len(row_sizes)):
        totals[entry] = 1.0 / totals[entry] if totals[entry] > 0.0 else 0.0
    for k in range(len(counts)):
        scale = totals[row[k]]
        probability[k] = probability[k] * scale if scale > 0.0 else 1.0 / row_sizes[row[k]]
