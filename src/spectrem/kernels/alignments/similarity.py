"""Spelling similarity of word pairs."""

import numpy as np

from spectrem._compiled import njit


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
