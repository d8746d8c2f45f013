"""The table of the word pairs that occur together in a sentence pair.

Its entries and those of every cell, sums over them, words that look alike, and the M-steps of its rows as multinomials.
"""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def postings(tokens, token_offsets, n_words):
    """Sentence and place of every occurrence of every word, word by word: offsets, sentences, places."""
    offsets = np.zeros(n_words + 1, np.int64)
    for word in tokens:
        offsets[word + 1] += 1
    for word in range(n_words):
        offsets[word + 1] += offsets[word]
    following = offsets[:-1].copy()
    sentences = np.empty(len(tokens), np.int32)
    places = np.empty(len(tokens), np.int32)
    for n in range(len(token_offsets) - 1):
        for k in range(token_offsets[n], token_offsets[n + 1]):
            at = following[tokens[k]]
            following[tokens[k]] += 1
            sentences[at] = n
            places[at] = k - token_offsets[n]
    return offsets, sentences, places


@njit(cache=True, nogil=True, error_model="numpy")
def list_partners(
    offsets, sentences, source_tokens, source_offsets, source_counts, target_counts, most, following, partners
):  # fmt: skip
    """The distinct target words that each source word meets, in increasing order; postings are those of target words.

    They are written to ``partners`` from ``following`` on, which ends behind the last of every source word; without
    room for any in ``partners`` they are only counted. Pairs that meet in one sentence pair only are left out where the
    product of the counts of both words is above ``most``; inf leaves out none. Target words are taken one after
    another, so that nothing has to be sorted.
    """
    met = np.full(len(following), -1, np.int32)
    first = np.empty(len(following), np.int32)
    for word in range(len(offsets) - 1):
        limit = most / max(target_counts[word], 1)
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            if at > offsets[word] and sentences[at - 1] == n:
                continue  # the word occurs there once more
            for k in range(source_offsets[n], source_offsets[n + 1]):
                source = source_tokens[k]
                new = met[source] != word
                if new:
                    met[source] = word
                    first[source] = -1 if source_counts[source] <= limit else n
                    new = first[source] < 0
                elif first[source] >= 0 and first[source] != n:
                    first[source] = -1
                    new = True
                if new:
                    if len(partners) > 0:
                        partners[following[source]] = word
                    following[source] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _sift(numbers, first, size, k):
    """Let number k of the heap from ``first`` on sink below those that are larger."""
    number = numbers[first + k]
    while 2 * k + 1 < size:
        below = 2 * k + 1
        if below + 1 < size and numbers[first + below] < numbers[first + below + 1]:
            below += 1
        if numbers[first + below] <= number:
            break
        numbers[first + k] = numbers[first + below]
        k = below
    numbers[first + k] = number


@njit(cache=True, nogil=True, error_model="numpy")
def sort(numbers, first, last):
    """Put ``numbers[first:last]`` in increasing order by their heap; NumPy's sort takes seconds to compile."""
    size = last - first
    for k in range(size // 2 - 1, -1, -1):
        _sift(numbers, first, size, k)
    for end in range(size - 1, 0, -1):
        numbers[first], numbers[first + end] = numbers[first + end], numbers[first]
        _sift(numbers, first, end, np.int64(0))


@njit(cache=True, nogil=True, error_model="numpy")
def list_entries(offsets, sentences, target_tokens, target_offsets, row_offsets, partners, n_target_words, listed):
    """Entries of the table (row_offsets, partners) that some sentence pairs need, in increasing order.

    Fills ``listed``, which has room for the cells of the sentence pairs, and returns the number of entries. Postings
    are of source words; unknown source words have none, unknown target words are -1.
    """
    met = np.full(n_target_words + 1, -1, np.int32)
    n_listed = np.int64(0)
    for word in range(len(row_offsets) - 1):
        if offsets[word] == offsets[word + 1]:
            continue
        # The target words that the word meets here are listed where its entries will stand.
        met[-1] = word
        last = n_listed
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            for k in range(target_offsets[n], target_offsets[n + 1]):
                target = target_tokens[k]
                listed[last] = target
                last += met[target] != word
                met[target] = word
        entry, end = row_offsets[word], row_offsets[word + 1]
        if end - entry < 16 * (last - n_listed):
            for k in range(entry, end):
                listed[n_listed] = k
                n_listed += met[partners[k]] == word
            continue
        # Few of many entries: each is searched in the rest of the row.
        sort(listed, n_listed, last)
        for target in listed[n_listed:last]:
            above = end
            while entry < above:
                middle = (entry + above) // 2
                if partners[middle] < target:
                    entry = middle + 1
                else:
                    above = middle
            if entry < end and partners[entry] == target:
                listed[n_listed] = entry
                n_listed += 1
                entry += 1
    return n_listed


@njit(cache=True, nogil=True, error_model="numpy")
def pack(entries, packed):
    """Write the gaps between increasing entries in groups of seven bits, lowest first; returns the number of bytes.

    The highest bit of a byte says that another one follows.
    """
    last, size = 0, 0
    for entry in entries:
        gap = entry - last
        last = entry
        while gap > 127:
            packed[size] = gap & 127 | 128
            gap >>= 7
            size += 1
        packed[size] = gap
        size += 1
    return size


@njit(cache=True, nogil=True, error_model="numpy")
def unpack(packed, entries):
    """Read the entries that `pack` wrote."""
    last, gap, shift, k = np.int64(0), np.int64(0), 0, 0
    for byte in packed:
        gap |= (np.int64(byte) & 127) << shift
        if byte < 128:
            last += gap
            entries[k] = last
            gap, shift = np.int64(0), 0
            k += 1
        else:
            shift += 7


@njit(cache=True, nogil=True, error_model="numpy")
def place_cells(
    offsets, sentences, places, target_tokens, target_offsets, cell_offsets, row_offsets, partners, n_target_words,
    entries, cells,
):  # fmt: skip
    """Fill ``cells`` with the place of the entry of every cell among ``entries``, see `list_entries`.

    A cell that has no entry gets the number of entries; returns whether there are such cells.
    """
    missing = np.int32(len(entries))
    # The place of the last entry of every target word: those of earlier source words lie before the first of this one.
    latest = np.full(n_target_words + 1, -1, np.int32)
    at_entry, incomplete = 0, False
    for word in range(len(offsets) - 1):
        first = np.int32(at_entry)
        end = row_offsets[min(word + 1, len(row_offsets) - 1)]
        while at_entry < len(entries) and entries[at_entry] < end:
            latest[partners[entries[at_entry]]] = at_entry
            at_entry += 1
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            begin = target_offsets[n]
            length = target_offsets[n + 1] - begin
            cell = cell_offsets[n] + places[at] * length
            row, targets = cells[cell : cell + length], target_tokens[begin : begin + length]
            for j in range(length):
                place = latest[targets[j]]
                row[j] = place if place >= first else missing
                incomplete |= place < first
    return incomplete


@njit(cache=True, nogil=True, error_model="numpy")
def list_class_pairs(words, class_offsets, row_offsets, partners, target_class, n_target_classes, place, target):
    """List the pairs of a source class and a target class that meet, by source, then by target class.

    ``words`` lists the words of each source class, ``class_offsets`` where they begin. Fills ``target`` for every pair
    of classes, and ``place`` for every entry of the table (row_offsets, partners): which it is of those of its source
    class. Returns where those of every source class begin.
    """
    met = np.full(n_target_classes, -1, np.int32)
    at = np.empty(n_target_classes, np.int32)
    pair_offsets = np.zeros(len(class_offsets), np.int32)
    n_pairs = np.int64(0)
    for group in range(len(class_offsets) - 1):
        first = n_pairs
        members = words[class_offsets[group] : class_offsets[group + 1]]
        for word in members:
            for entry in range(row_offsets[word], row_offsets[word + 1]):
                other = target_class[partners[entry]]
                if met[other] != group:
                    met[other] = group
                    target[n_pairs] = other
                    n_pairs += 1
        sort(target, first, n_pairs)
        for pair in range(first, n_pairs):
            at[target[pair]] = pair - first
        for word in members:
            for entry in range(row_offsets[word], row_offsets[word + 1]):
                place[entry] = at[target_class[partners[entry]]]
        pair_offsets[group + 1] = n_pairs
    return pair_offsets


@njit(cache=True, nogil=True, error_model="numpy")
def find_entries(row_offsets, partners, n_target_words, sources, targets, entries):
    """Fill ``entries`` with the entry of every pair (sources[k], targets[k]) in the table (row_offsets, partners).

    -1 stands for pairs that the table does not have. A row is read once for all pairs of its word that follow each
    other.
    """
    entry_of = np.full(n_target_words, -1, np.int64)
    for k in range(len(sources)):
        begin, end = row_offsets[sources[k]], row_offsets[sources[k] + 1]
        if k == 0 or sources[k] != sources[k - 1]:
            for entry in range(begin, end):
                entry_of[partners[entry]] = entry
        entry = entry_of[targets[k]]
        entries[k] = entry if begin <= entry < end else -1


@njit(cache=True, nogil=True, error_model="numpy")
def sum_links(
    words, class_offsets, row_offsets, partners, target_class, forward, backward, source_counts, target_counts,
    n_classes, sources, targets, links, other_links, totals,
):  # fmt: skip
    """Expected links between the words of classes ``sources[k]`` and ``targets[k]``, which rise together.

    ``words`` lists the words of each source class, ``class_offsets`` where they begin. A probability counts as often as
    its conditioning word occurs. Fills ``totals`` with the links of ``sources[k]`` to all classes, too.
    """
    wanted = np.full(n_classes, -1, np.int64)
    begin = 0
    while begin < len(sources):
        source_class = sources[begin]
        end = begin
        while end < len(sources) and sources[end] == source_class:
            wanted[targets[end]] = end
            end += 1
        total = 0.0
        for at in range(class_offsets[source_class], class_offsets[source_class + 1]):
            word = words[at]
            count = source_counts[word]
            for entry in range(row_offsets[word], row_offsets[word + 1]):
                partner = partners[entry]
                expected = forward[entry] * count
                total += expected
                k = wanted[target_class[partner]]
                if k >= begin:  # else it was wanted beside another class
                    links[k] += expected
                    other_links[k] += backward[entry] * target_counts[partner]
        for k in range(begin, end):
            totals[k] = total
        begin = end


@njit(cache=True, nogil=True, error_model="numpy")
def mark_expected(row_offsets, targets, forward, backward, source_totals, target_totals, least, kept, sizes):
    """Mark in ``kept`` the entries that have at least ``least`` expected links in either direction.

    These are an entry's probability times the total of the word it is given: the source word (forward), or the target
    word (backward). Fills ``sizes``, the number of such entries of every row. Returns the links of the other entries
    and those of all, forward, then backward.
    """
    sizes[:] = 0
    lost_forward, all_forward, lost_backward, all_backward = 0.0, 0.0, 0.0, 0.0
    for word in range(len(row_offsets) - 1):
        for k in range(row_offsets[word], row_offsets[word + 1]):
            one = forward[k] * source_totals[word]
            other = backward[k] * target_totals[targets[k]]
            all_forward += one
            all_backward += other
            kept[k] = max(one, other) >= least
            if kept[k]:
                sizes[word] += 1
            else:
                lost_forward += one
                lost_backward += other
    return lost_forward, all_forward, lost_backward, all_backward


@njit(cache=True, nogil=True, error_model="numpy")
def splice_tables(
    old_offsets, old_targets, old_forward, old_backward, source_scale, target_scale, new_offsets, new_targets,
    new_forward, new_backward, row_offsets, targets, forward, backward,
):  # fmt: skip
    """Fill the table (row_offsets, targets) with the entries of an old one and those of a new one, row by row merged.

    All number words alike and list target words in increasing order. Old probabilities are scaled by conditioning
    word; where both tables have a pair, the new ones are taken.
    """
    at = 0
    for word in range(len(row_offsets) - 1):
        row_offsets[word] = at
        old, old_end = old_offsets[word], old_offsets[word + 1]
        new, new_end = new_offsets[word], new_offsets[word + 1]
        while old < old_end or new < new_end:
            if new < new_end and (old == old_end or new_targets[new] <= old_targets[old]):
                targets[at], forward[at], backward[at] = new_targets[new], new_forward[new], new_backward[new]
                old += old < old_end and old_targets[old] == new_targets[new]
                new += 1
            else:
                targets[at] = old_targets[old]
                forward[at] = old_forward[old] * source_scale[word]
                backward[at] = old_backward[old] * target_scale[old_targets[old]]
                old += 1
            at += 1
    row_offsets[-1] = at


@njit(cache=True, nogil=True, error_model="numpy")
def look_alike(
    sources, targets, source_letters, source_offsets, target_letters, target_offsets, ratio, shortest, alike
):
    """Per cent of the longer word that the longest common subsequence covers, rounded down; 0 below ``ratio``.

    Words of fewer than ``shortest`` letters have 100 when equal, else 0; ``alike`` holds zeros before.
    """
    longest = 0
    for word in range(len(target_offsets) - 1):
        longest = max(longest, target_offsets[word + 1] - target_offsets[word])
    row = np.zeros(longest + 1, np.int64)
    for k in range(len(sources)):
        a, b = source_offsets[sources[k]], target_offsets[targets[k]]
        n, m = source_offsets[sources[k] + 1] - a, target_offsets[targets[k] + 1] - b
        short, long = min(n, m), max(n, m)
        needed = ratio * long
        if short < needed or (short < shortest and n != m):
            continue
        equal = n == m
        for x in range(n if equal else 0):
            if source_letters[a + x] != target_letters[b + x]:
                equal = False
                break
        if equal or short < shortest:
            alike[k] = 100 if equal else 0
            continue
        row[: m + 1] = 0
        for x in range(n):
            diagonal = 0
            for y in range(m):
                above = row[y + 1]
                if source_letters[a + x] == target_letters[b + y]:
                    row[y + 1] = diagonal + 1
                elif row[y] > above:
                    row[y + 1] = row[y]
                diagonal = above
            if row[m] + (n - 1 - x) < needed:
                break
        if row[m] >= needed:
            alike[k] = 100 * row[m] // long


@njit(cache=True, nogil=True, error_model="numpy")
def _count(numbers):
    """How many numbers there are from 0 up to the largest."""
    largest = np.int64(-1)
    for k in range(len(numbers)):
        if numbers[k] > largest:
            largest = np.int64(numbers[k])
    return largest + 1


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
        total = 0.0
        for k in range(bands.shape[1]):
            total += bands[band, k]
        if total > 0.0:
            for k in range(bands.shape[1]):
                bands[band, k] *= band_strength / total
    for row in range(len(totals)):
        totals[row] = band_strength
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
    for row in range(len(rest)):
        totals[row] = rest[row]
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
