"""The distinct word pairs of a bitext, without those that meet in a single sentence pair as words do by chance."""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def count_partners_beyond_chance(
    offsets, sentences, source_tokens, source_offsets, source_counts, target_counts, most
):  # fmt: skip
    """Number of distinct target words that each source word meets; postings are those of target words.

    Pairs that meet in one sentence pair only are not counted where the product of the counts of both words is above
    ``most``.
    """
    n_source_words = len(source_counts)
    partners = np.zeros(n_source_words, np.int64)
    met = np.full(n_source_words, -1, np.int32)
    first = np.empty(n_source_words, np.int32)
    for word in range(len(offsets) - 1):
        limit = most / max(target_counts[word], 1)
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
            for k in range(source_offsets[n], source_offsets[n + 1]):
                source = source_tokens[k]
                if met[source] != word:
                    met[source] = word
                    if source_counts[source] <= limit:
                        partners[source] += 1
                        first[source] = -1
                    else:
                        first[source] = n
                elif first[source] >= 0 and first[source] != n:
                    partners[source] += 1
                    first[source] = -1
    return partners


@njit(cache=True, nogil=True, error_model="numpy")
def list_partners_beyond_chance(
    offsets, sentences, source_tokens, source_offsets, source_counts, target_counts, most, row_offsets, partners
):  # fmt: skip
    """Fill ``partners``: the target words that each source word meets, in increasing order, without the same pairs."""
    n_source_words = len(source_counts)
    following = row_offsets[:n_source_words].copy()
    met = np.full(n_source_words, -1, np.int32)
    first = np.empty(n_source_words, np.int32)
    for word in range(len(offsets) - 1):
        limit = most / max(target_counts[word], 1)
        for at in range(offsets[word], offsets[word + 1]):
            n = sentences[at]
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
                    partners[following[source]] = word
                    following[source] += 1
