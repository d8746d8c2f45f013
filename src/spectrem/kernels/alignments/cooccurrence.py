"""The distinct word pairs that occur together in a sentence pair, the word pair of every cell, and sums over them."""

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
def list_entries(offsets, sentences, target_tokens, target_offsets, row_offsets, partners, n_target_words, listed):
    """Entries of the table (row_offsets, partners) that some sentence pairs need, in increasing order.

    Fills ``listed``, which has room for the cells of the sentence pairs, and returns the number of entries. Postings
    are of source words; unknown source words have none, unknown target words are -1.
    """
    met = np.full(n_target_words + 1, -1, np.int32)
    n_listed = 0
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
        wanted = listed[n_listed:last]
        wanted.sort()
        for target in wanted:
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
def count_packed(packed):
    """Number of entries that `pack` wrote."""
    n_entries = 0
    for byte in packed:
        n_entries += byte < 128
    return n_entries


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
    n_pairs = 0
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
        target[first:n_pairs].sort()
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

    Pairs are sorted by source word and none is given twice; -1 stands for pairs that the table does not have.
    """
    wanted = np.full(n_target_words, -1, np.int64)
    entries[:] = -1
    begin = 0
    while begin < len(sources):
        word = sources[begin]
        end = begin
        while end < len(sources) and sources[end] == word:
            wanted[targets[end]] = end
            end += 1
        for entry in range(row_offsets[word], row_offsets[word + 1]):
            k = wanted[partners[entry]]
            if k >= begin:  # else it was wanted beside another source word
                entries[k] = entry
        begin = end


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
        totals[begin:end] = total
        begin = end


@njit(cache=True, nogil=True, error_model="numpy")
def rows_increase(row_offsets, partners):
    """Whether every row of the table (row_offsets, partners) lists words in increasing order, none twice."""
    for word in range(len(row_offsets) - 1):
        for entry in range(row_offsets[word] + 1, row_offsets[word + 1]):
            if partners[entry] <= partners[entry - 1]:
                return False
    return True


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
