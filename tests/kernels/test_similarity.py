"""Words that look alike, against a longest common subsequence by recursion."""

from functools import lru_cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spectrem.kernels.alignments.cooccurrence import look_alike

WORDS = st.lists(st.text("ab", max_size=7), min_size=1, max_size=6)


def longest_common_subsequence(a, b):
    @lru_cache(None)
    def length(x, y):
        if x == 0 or y == 0:
            return 0
        if a[x - 1] == b[y - 1]:
            return length(x - 1, y - 1) + 1
        return max(length(x - 1, y), length(x, y - 1))

    return length(len(a), len(b))


def alike(a, b, ratio, shortest):
    """The rule, literally, in per cent."""
    if a == b:
        return 100
    if min(len(a), len(b)) < shortest:
        return 0
    common, longer = longest_common_subsequence(a, b), max(len(a), len(b))
    return 100 * common // longer if common >= ratio * longer else 0


def letters(words):
    offsets = np.concatenate([[0], np.cumsum([len(w) for w in words], dtype=np.int64)])
    return np.frombuffer("".join(words).encode("utf-32-le"), np.uint32), offsets


@given(WORDS, WORDS, st.sampled_from([0.0, 0.5, 0.7, 1.0]), st.integers(0, 5))
def test_look_alike_is_the_rule(sources, targets, ratio, shortest):
    pairs = [(i, j) for i in range(len(sources)) for j in range(len(targets))]
    i, j = np.array(pairs, np.int32).T.copy()
    marked = np.zeros(len(pairs), np.uint8)
    look_alike(i, j, *letters(sources), *letters(targets), ratio, shortest, marked)
    expected = [alike(sources[a], targets[b], ratio, shortest) for a, b in pairs]
    assert marked.tolist() == expected


def test_real_words():
    cases = [("government", "gouvernement", 83), ("house", "maison", 0), ("mr", "m", 0), ("the", "the", 100)]
    for source, target, expected in cases:
        marked = np.zeros(1, np.uint8)
        zero = np.zeros(1, np.int32)
        look_alike(zero, zero, *letters([source]), *letters([target]), 0.7, 4, marked)
        assert marked[0] == expected, (source, target)
