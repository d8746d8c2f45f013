"""M-step of a sparse table of multinomials with learned pseudo-counts."""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def normalise_lexical(
    backward, counts, row_offsets, targets, row_sizes, stem_first, stem_place, stem_row, share, alike, extra,
    stem_strength, probability, totals,
):  # fmt: skip
    """Counts plus pseudo-counts from stems and look-alikes, row by row as probabilities; empty rows are uniform.

    Entries are those of the table (row_offsets, targets); rows are target words if ``backward``, else source words.
    Entry ``alike[a]`` gets ``extra[a]`` pseudo-counts. Fills ``totals`` with the counts and pseudo-counts of every row.
    """
    stem_counts = np.zeros(len(stem_row))
    for word in range(len(row_offsets) - 1):
        first = stem_first[word]
        for k in range(row_offsets[word], row_offsets[word + 1]):
            stem_counts[first + stem_place[k]] += counts[k]
    n_stems = 0
    for pair in range(len(stem_row)):
        n_stems = max(n_stems, stem_row[pair] + 1)
    stem_totals = np.zeros(n_stems)
    for pair in range(len(stem_row)):
        stem_totals[stem_row[pair]] += stem_counts[pair]
    for pair in range(len(stem_row)):
        total = stem_totals[stem_row[pair]]
        stem_counts[pair] = stem_strength * stem_counts[pair] / total if total > 0.0 else 0.0
    totals[:] = 0.0
    n_alike = 0
    following = alike[0] if len(alike) > 0 else -1
    for word in range(len(row_offsets) - 1):
        first = stem_first[word]
        for k in range(row_offsets[word], row_offsets[word + 1]):
            row, produced = (targets[k], word) if backward else (word, targets[k])
            smoothed = counts[k] + stem_counts[first + stem_place[k]] * share[produced]
            if k == following:
                smoothed += extra[n_alike]
                n_alike += 1
                following = alike[n_alike] if n_alike < len(alike) else -1
            probability[k] = smoothed
            totals[row] += smoothed
    scales = np.zeros(len(row_sizes))
    for row in range(len(row_sizes)):
        if totals[row] > 0.0:
            scales[row] = 1.0 / totals[row]
    for word in range(len(row_offsets) - 1):
        for k in range(row_offsets[word], row_offsets[word + 1]):
            row = targets[k] if backward else word
            scale = scales[row]
            probability[k] = probability[k] * scale if scale > 0.0 else 1.0 / row_sizes[row]
