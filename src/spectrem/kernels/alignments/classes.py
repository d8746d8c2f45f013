"""Sums over a table of word pairs by classes of words, and the check of such a table."""

import numpy as np

from spectrem._compiled import njit


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
        own = sources[begin]
        end = begin
        while end < len(sources) and sources[end] == own:
            wanted[targets[end]] = end
            end += 1
        total = 0.0
        for at in range(class_offsets[own], class_offsets[own + 1]):
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
