"""Tables of word pairs that go on from those of earlier text."""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def count_meetings(offsets, sentences, target_tokens, target_offsets, weights, row_offsets, targets, meetings):
    """Fill ``meetings`` with how often the words of every pair meet, by weight of sentence pairs; see `postings`."""
    place = np.empty(targets.max() + 1 if len(targets) > 0 else 0, np.int64)
    meetings[:] = 0.0
    for word in range(len(row_offsets) - 1):
        for k in range(row_offsets[word], row_offsets[word + 1]):
            place[targets[k]] = k
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            for j in range(target_offsets[n], target_offsets[n + 1]):
                meetings[place[target_tokens[j]]] += weights[n]


@njit(cache=True, nogil=True, error_model="numpy")
def normalise_continued(
    backward, counts, shares, row_offsets, targets, new, given, rest, least, stem_first, stem_place, stem_row,
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
    stem_totals = stem_rest.copy()
    for pair in range(len(stem_row)):
        stem_totals[stem_row[pair]] += stem_counts[pair]
    for pair in range(len(stem_row)):
        total = stem_totals[stem_row[pair]]
        stem_counts[pair] = stem_strength * stem_counts[pair] / total if total > 0.0 else 0.0
    totals[:] = rest
    sums = np.zeros(len(rest))
    for word in range(len(row_offsets) - 1):
        first = stem_first[word]
        for k in range(row_offsets[word], row_offsets[word + 1]):
            row, produced = (targets[k], word) if backward else (word, targets[k])
            pseudo = given[k]
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
    new_forward, new_backward, found, source_number, target_number, row_offsets, targets, forward, backward,
):  # fmt: skip
    """Fill the table (row_offsets, targets) with the entries of an old one and those of a new one.

    Words keep their old numbers; those of the new table are renumbered. Old probabilities are scaled by conditioning
    word, and replaced by the new ones where ``found`` says which old entry a new one is; entries that are new (-1)
    follow those of their row.
    """
    for word in range(len(old_offsets) - 1):
        shift = row_offsets[word] - old_offsets[word]
        for k in range(old_offsets[word], old_offsets[word + 1]):
            targets[k + shift] = old_targets[k]
            forward[k + shift] = old_forward[k] * source_scale[word]
            backward[k + shift] = old_backward[k] * target_scale[old_targets[k]]
    for own in range(len(new_offsets) - 1):
        word = source_number[own]
        following = row_offsets[word]
        shift = following
        if word < len(old_offsets) - 1:
            following += old_offsets[word + 1] - old_offsets[word]
            shift -= old_offsets[word]
        for k in range(new_offsets[own], new_offsets[own + 1]):
            at = found[k] + shift
            if found[k] < 0:
                at = following
                following += 1
                targets[at] = target_number[new_targets[k]]
            forward[at] = new_forward[k]
            backward[at] = new_backward[k]
