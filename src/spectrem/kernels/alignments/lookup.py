"""Entries of a table of word pairs by their words."""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def find_entries(row_offsets, partners, n_target_words, sources, targets, found):
    """Fill ``found`` with the entry of every pair (sources[k], targets[k]) in the table (row_offsets, partners).

    Pairs are sorted by source word and none is given twice; -1 stands for pairs that the table does not have.
    """
    wanted = np.full(n_target_words, -1, np.int64)
    found[:] = -1
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
                found[k] = entry
        begin = end
