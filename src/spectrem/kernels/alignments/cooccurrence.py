"""The distinct word pairs that occur together in a sentence pair, and the word pair of every cell."""

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
def count_partners(offsets, sentences, target_tokens, target_offsets, n_target_words):
    """Number of distinct target words that each source word meets."""
    counts = np.zeros(len(offsets) - 1, np.int64)
    met = np.full(n_target_words, -1, np.int32)
    for word in range(len(offsets) - 1):
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            for k in range(target_offsets[n], target_offsets[n + 1]):
                if met[target_tokens[k]] != word:
                    met[target_tokens[k]] = word
                    counts[word] += 1
    return counts


@njit(cache=True, nogil=True, error_model="numpy")
def list_partners(offsets, sentences, target_tokens, target_offsets, row_offsets, n_target_words, partners):
    """Fill ``partners``: the target words that each source word meets, in the order of their first meeting."""
    met = np.full(n_target_words, -1, np.int32)
    for word in range(len(offsets) - 1):
        following = row_offsets[word]
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            for k in range(target_offsets[n], target_offsets[n + 1]):
                target = target_tokens[k]
                if met[target] != word:
                    met[target] = word
                    partners[following] = target
                    following += 1


@njit(cache=True, nogil=True, error_model="numpy")
def index_cells(
    offsets, sentences, places, target_tokens, target_offsets, cell_offsets, row_offsets, partners, n_target_words,
    cells, found,
):  # fmt: skip
    """Entries of the table (row_offsets, partners) that some sentence pairs need, and which of them every cell is.

    Lists the entries in rising order in ``found``, last of all the length of the table if a cell has no entry, and
    fills ``cells`` with places in this list. Returns its length. Postings are those of the sentence pairs; unknown
    source words have none, unknown target words are -1.
    """
    # 2 * word: met in a sentence pair; 2 * word + 1: and has the entry found[place]
    met = np.full(n_target_words, -1, np.int32)
    place = np.empty(n_target_words, np.int32)
    n_found = 0
    cells[:] = -1
    for word in range(len(row_offsets) - 1):
        n_met = 0
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            for k in range(target_offsets[n], target_offsets[n + 1]):
                target = target_tokens[k]
                if target >= 0 and met[target] != 2 * word:
                    met[target] = 2 * word
                    n_met += 1
        entry = row_offsets[word]
        while n_met > 0 and entry < row_offsets[word + 1]:
            target = partners[entry]
            if met[target] == 2 * word:
                met[target] = 2 * word + 1
                place[target] = n_found
                found[n_found] = entry
                n_found += 1
                n_met -= 1
            entry += 1
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            begin = target_offsets[n]
            length = target_offsets[n + 1] - begin
            cell = cell_offsets[n] + places[at] * length
            for j in range(length):
                target = target_tokens[begin + j]
                if target >= 0 and met[target] == 2 * word + 1:
                    cells[cell + j] = place[target]
    complete = True
    for k in range(len(cells)):
        if cells[k] < 0:
            cells[k] = n_found
            complete = False
    if not complete:
        found[n_found] = len(partners)
        n_found += 1
    return n_found


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
        own = words[class_offsets[group] : class_offsets[group + 1]]
        for word in own:
            for entry in range(row_offsets[word], row_offsets[word + 1]):
                other = target_class[partners[entry]]
                if met[other] != group:
                    met[other] = group
                    target[n_pairs] = other
                    n_pairs += 1
        target[first:n_pairs].sort()
        for pair in range(first, n_pairs):
            at[target[pair]] = pair - first
        for word in own:
            for entry in range(row_offsets[word], row_offsets[word + 1]):
                place[entry] = at[target_class[partners[entry]]]
        pair_offsets[group + 1] = n_pairs
    return pair_offsets
