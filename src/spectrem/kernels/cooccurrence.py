"""Which words meet in some sentence pair, and which such meeting every cell of every pair is."""

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
def index_cells(
    offsets, sentences, places, target_tokens, target_offsets, cell_offsets, row_offsets, n_target_words,
    partners, cells,
):  # fmt: skip
    """Fill ``partners`` (target word of every meeting, by source word) and ``cells`` (the meeting of every cell)."""
    met = np.full(n_target_words, -1, np.int32)
    meeting = np.empty(n_target_words, np.int32)
    for word in range(len(offsets) - 1):
        following = row_offsets[word]
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            begin = target_offsets[n]
            length = target_offsets[n + 1] - begin
            cell = cell_offsets[n] + places[at] * length
            for j in range(length):
                target = target_tokens[begin + j]
                if met[target] != word:
                    met[target] = word
                    meeting[target] = following
                    partners[following] = target
                    following += 1
                cells[cell + j] = meeting[target]


@njit(cache=True, nogil=True, error_model="numpy")
def localise(cells, seen, numbers, found):
    """Replace the values of ``cells`` by their ranks among those that occur; list these in ``found``, return how many.

    ``seen`` and ``numbers`` are work space over all values; ``seen`` is false everywhere before and after.
    """
    for k in range(len(cells)):
        seen[cells[k]] = True
    n_found = 0
    for value in range(len(seen)):
        if seen[value]:
            seen[value] = False
            numbers[value] = n_found
            found[n_found] = value
            n_found += 1
    for k in range(len(cells)):
        cells[k] = numbers[cells[k]]
    return n_found


@njit(cache=True, nogil=True, error_model="numpy")
def look_up_cells(
    offsets, sentences, places, target_tokens, target_offsets, cell_offsets, row_offsets, partners,
    n_target_words, cells,
):  # fmt: skip
    """Fill ``cells`` with the entry of a known table where the word pair has one; others keep their value."""
    met = np.full(n_target_words, -1, np.int32)
    meeting = np.empty(n_target_words, np.int32)
    for word in range(len(row_offsets) - 1):
        if offsets[word] == offsets[word + 1]:
            continue
        for entry in range(row_offsets[word], row_offsets[word + 1]):
            met[partners[entry]] = word
            meeting[partners[entry]] = entry
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            begin = target_offsets[n]
            length = target_offsets[n + 1] - begin
            cell = cell_offsets[n] + places[at] * length
            for j in range(length):
                target = target_tokens[begin + j]
                if target >= 0 and met[target] == word:
                    cells[cell + j] = meeting[target]
