"""M-steps of a sparse table of multinomials with learned pseudo-counts, and tables that go on from earlier ones."""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _count(numbers):
    """How many numbers there are from 0 up to the largest."""
    return np.int64(numbers.max()) + 1 if len(numbers) > 0 else 0


@njit(cache=True, nogil=True, error_model="numpy")
def _share_out(strength, counts, row, totals):
    """Turn counts into ``strength`` times their shares of the sums of their rows, which ``totals`` begins with."""
    for k in range(len(row)):
        totals[row[k]] += counts[k]
    for k in range(len(row)):
        total = totals[row[k]]
        counts[k] = strength * counts[k] / total if total > 0.0 else 0.0


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
    _share_out(stem_strength, stem_counts, stem_row, np.zeros(_count(stem_row)))
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
    stem_counts, bands = np.zeros(len(stem_row)), np.zeros((_count(row_band), _count(produced_band)))
    sums = np.zeros(n_rows)
    for word in range(len(row_offsets) - 1):
        first = stem_first[word]
        for k in range(row_offsets[word], row_offsets[word + 1]):
            row, produced = (targets[k], word) if backward else (word, targets[k])
            stem_counts[first + stem_place[k]] += counts[k]
            bands[row_band[row], produced_band[produced]] += counts[k]
            sums[row] += counts[k]
    stem_totals = np.zeros(_count(stem_row))
    for pair in range(len(stem_row)):
        stem_totals[stem_row[pair]] += stem_counts[pair]
    for band in range(len(bands)):
        total = bands[band].sum()
        if total > 0.0:
            bands[band] *= band_strength / total
    totals[:] = band_strength
    n_alike, n_certain = 0, 0
    for word in range(len(row_offsets) - 1):
        first = stem_first[word]
        for k in range(row_offsets[word], row_offsets[word + 1]):
            row, produced = (targets[k], word) if backward else (word, targets[k])
            at, count, pseudo = first + stem_place[k], counts[k], 0.0
            whole = stem_totals[stem_row[at]]
            others = whole - sums[row]  # links of the other words of the stem
            if others > _ROUNDING * whole:
                pseudo = stem_strength * min(max(stem_counts[at] - count, 0.0) / others, 1.0) * share[produced]
            if n_alike < len(alike) and k == alike[n_alike]:
                pseudo += extra[n_alike]
                n_alike += 1
            doubtful = count
            if n_certain < len(certain) and k == certain[n_certain]:
                doubtful = max(count - certain_counts[n_certain], 0.0)
                n_certain += 1
            totals[row] += pseudo
            left = count - discount * min(doubtful, most)
            probability[k] = left + pseudo + bands[row_band[row], produced_band[produced]] * band_share[produced]
    for row in range(n_rows):
        totals[row] += sums[row]
    for word in range(len(row_offsets) - 1):
        for k in range(row_offsets[word], row_offsets[word + 1]):
            probability[k] /= totals[targets[k] if backward else word]


@njit(cache=True, nogil=True, error_model="numpy")
def count_meetings(
    offsets, sentences, target_tokens, target_offsets, weights, row_offsets, targets, n_target_words, meetings
):
    """Fill ``meetings`` with how often the words of every pair meet, by weight of sentence pairs; see `postings`.

    Postings are those of source words.
    """
    place = np.full(n_target_words, -1, np.int64)
    meetings[:] = 0.0
    for word in range(len(row_offsets) - 1):
        for k in range(row_offsets[word], row_offsets[word + 1]):
            place[targets[k]] = k
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            for j in range(target_offsets[n], target_offsets[n + 1]):
                k = place[target_tokens[j]]
                if k >= row_offsets[word]:  # else the pair is not in the table
                    meetings[k] += weights[n]


@njit(cache=True, nogil=True, error_model="numpy")
def normalise_continued(
    backward, counts, shares, row_offsets, targets, new, earlier, rest, least, stem_first, stem_place, stem_row,
    stem_given, stem_rest, share, stem_strength, probability, totals,
):  # fmt: skip
    """Shares of counts plus those given, row by row as probabilities; the rest of a row belongs to pairs not listed.

    New entries get pseudo-counts from stems besides. Rows are target words if ``backward``, else source words. The
    pseudo-counts of a row are at least ``least``. Fills ``totals`` with the sums of the rows.
    """
    stem_counts = stem_given.copy()
    for word in range(len(row_offsets) - 1):
        first = stem_first[word]
        for k in range(row_offsets[word], row_offsets[word + 1]):
            stem_counts[first + stem_place[k]] += counts[k] * shares[k]
    _share_out(stem_strength, stem_counts, stem_row, stem_rest.copy())
    totals[:] = rest
    sums = np.zeros(len(rest))
    for word in range(len(row_offsets) - 1):
        first = stem_first[word]
        for k in range(row_offsets[word], row_offsets[word + 1]):
            row, produced = (targets[k], word) if backward else (word, targets[k])
            pseudo = earlier[k]
            if new[k]:
                pseudo += stem_counts[first + stem_place[k]] * share[produced]
            sums[row] += counts[k]
            totals[row] += pseudo
            probability[k] = counts[k] * shares[k] + pseudo
    scales = np.zeros(len(rest))
    for row in range(len(rest)):
        totals[row] = max(totals[row], least[row]) + sums[row]
        if totals[row] > 0.0:
            scales[row] = 1.0 / totals[row]
    for word in range(len(row_offsets) - 1):
        for k in range(row_offsets[word], row_offsets[word + 1]):
            probability[k] *= scales[targets[k] if backward else word]


@njit(cache=True, nogil=True, error_model="numpy")
def splice_tables(
    old_offsets, old_targets, old_forward, old_backward, source_scale, target_scale, new_offsets, new_targets,
    new_forward, new_backward, new_row, row_offsets, targets, forward, backward,
):  # fmt: skip
    """Fill the table (row_offsets, targets) with the entries of an old one and those of a new one, row by row merged.

    Source words have the numbers of the result; ``new_row`` says which row of the new table is theirs, -1 for none.
    Target words increase in the rows of both tables. Old probabilities are scaled by conditioning word; where both
    tables have a pair the new ones are taken.
    """
    for word in range(len(row_offsets) - 1):
        old, old_end = 0, 0
        if word < len(old_offsets) - 1:
            old, old_end = old_offsets[word], old_offsets[word + 1]
        new, new_end = 0, 0
        if new_row[word] >= 0:
            new, new_end = new_offsets[new_row[word]], new_offsets[new_row[word] + 1]
        for at in range(row_offsets[word], row_offsets[word + 1]):
            if new < new_end and (old == old_end or new_targets[new] <= old_targets[old]):
                targets[at], forward[at], backward[at] = new_targets[new], new_forward[new], new_backward[new]
                old += old < old_end and old_targets[old] == new_targets[new]
                new += 1
            else:
                targets[at] = old_targets[old]
                forward[at] = old_forward[old] * source_scale[word]
                backward[at] = old_backward[old] * target_scale[old_targets[old]]
                old += 1
