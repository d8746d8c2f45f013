"""M-step of a sparse table of multinomials that leaves out what a single sentence pair may have counted."""

import numpy as np

from spectrem._compiled import njit

# Differences of sums smaller than this part of them are rounding.
_ROUNDING = 1e-9


@njit(cache=True, nogil=True, error_model="numpy")
def normalise_left_out(
    backward, counts, row_offsets, targets, n_rows, stem_first, stem_place, stem_row, share, stem_strength, alike,
    extra, certain, certain_counts, row_band, produced_band, band_share, band_strength, discount, most, probability,
    totals,
):  # fmt: skip
    """Counts less a part of them, plus pseudo-counts from other words; the rest of a row belongs to pairs not listed.

    Entries are those of the table (row_offsets, targets); rows are target words if ``backward``, else source words.
    Of the count of every entry ``discount`` times at most ``most`` is left out, but nothing of the
    ``certain_counts`` of the entries ``certain``. Entry ``alike[a]`` gets ``extra[a]`` pseudo-counts. Both lists of
    entries increase. Fills ``totals`` with the counts and pseudo-counts of every row. ``probability`` may be
    ``counts``.
    """
    n_stems, n_bands, n_produced = 0, 0, 0
    for pair in range(len(stem_row)):
        n_stems = max(n_stems, stem_row[pair] + 1)
    for word in range(len(row_band)):
        n_bands = max(n_bands, row_band[word] + 1)
    for word in range(len(produced_band)):
        n_produced = max(n_produced, produced_band[word] + 1)
    stem_counts, bands = np.zeros(len(stem_row)), np.zeros((n_bands, n_produced))
    sums = np.zeros(n_rows)
    for word in range(len(row_offsets) - 1):
        first = stem_first[word]
        for k in range(row_offsets[word], row_offsets[word + 1]):
            row, produced = (targets[k], word) if backward else (word, targets[k])
            stem_counts[first + stem_place[k]] += counts[k]
            bands[row_band[row], produced_band[produced]] += counts[k]
            sums[row] += counts[k]
    stem_totals = np.zeros(n_stems)
    for pair in range(len(stem_row)):
        stem_totals[stem_row[pair]] += stem_counts[pair]
    for band in range(n_bands):
        total = bands[band].sum()
        if total > 0.0:
            bands[band] *= band_strength / total
    totals[:] = band_strength
    n_alike, n_certain = 0, 0
    for word in range(len(row_offsets) - 1):
        first = stem_first[word]
        for k in range(row_offsets[word], row_offsets[word + 1]):
            row, produced = (targets[k], word) if backward else (word, targets[k])
            at, own, pseudo = first + stem_place[k], counts[k], 0.0
            whole = stem_totals[stem_row[at]]
            others = whole - sums[row]  # links of the other words of the stem
            if others > _ROUNDING * whole:
                pseudo = stem_strength * min(max(stem_counts[at] - own, 0.0) / others, 1.0) * share[produced]
            if n_alike < len(alike) and k == alike[n_alike]:
                pseudo += extra[n_alike]
                n_alike += 1
            doubtful = own
            if n_certain < len(certain) and k == certain[n_certain]:
                doubtful = max(own - certain_counts[n_certain], 0.0)
                n_certain += 1
            totals[row] += pseudo
            left = own - discount * min(doubtful, most)
            probability[k] = left + pseudo + bands[row_band[row], produced_band[produced]] * band_share[produced]
    for row in range(n_rows):
        totals[row] += sums[row]
    for word in range(len(row_offsets) - 1):
        for k in range(row_offsets[word], row_offsets[word + 1]):
            probability[k] /= totals[targets[k] if backward else word]
