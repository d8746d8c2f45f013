import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import Links, symmetrize
from spectrem.exceptions import InvalidInputError

NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def slow_symmetrize(forward: set, backward: set, method: str) -> set:
    """The published pseudo-code over sets and the whole grid."""
    union = forward | backward
    if method == "union":
        return union
    links = forward & backward
    if method == "intersection":
        return links
    n_source = 1 + max((i for i, _ in union), default=-1)
    n_target = 1 + max((j for _, j in union), default=-1)

    def source_free(i):
        return all(link[0] != i for link in links)

    def target_free(j):
        return all(link[1] != j for link in links)

    added = True
    while added:
        added = False
        for i in range(n_source):
            for j in range(n_target):
                if (i, j) in links:
                    for a, b in NEIGHBOURS:
                        new = i + a, j + b
                        if new in union - links and (source_free(new[0]) or target_free(new[1])):
                            links.add(new)
                            added = True
    for direction in (forward, backward):
        for i, j in sorted(direction):
            if (method == "grow-diag-final" and (source_free(i) or target_free(j))) or (
                method == "grow-diag-final-and" and source_free(i) and target_free(j)
            ):
                links.add((i, j))
    return links


METHODS = ["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
PAIRS = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14)


@pytest.mark.parametrize("method", METHODS)
@given(st.lists(st.tuples(PAIRS, PAIRS), max_size=4))
def test_equals_the_published_pseudo_code(method, sentences):
    merged = symmetrize(
        Links.from_pairs([f for f, _ in sentences]), Links.from_pairs([b for _, b in sentences]), method
    )
    assert merged.n_sentences == len(sentences)
    for n, (forward, backward) in enumerate(sentences):
        assert set(merged.pairs(n)) == slow_symmetrize(forward, backward, method)


@pytest.mark.parametrize("method", METHODS)
def test_equals_the_published_pseudo_code_on_functions(method):
    """Each direction a function of one side, as Viterbi alignments are; longer sentences, some of them empty."""
    rng = np.random.default_rng(3)
    forward, backward = [], []
    for _ in range(60):
        n_source, n_target = rng.integers(0, 25, size=2)
        walk = np.arange(n_target) * n_source // max(n_target, 1) + rng.integers(-2, 3, size=n_target)
        forward.append({(int(i), j) for j, i in enumerate(walk) if 0 <= i < n_source})
        walk = np.arange(n_source) * n_target // max(n_source, 1) + rng.integers(-2, 3, size=n_source)
        backward.append({(i, int(j)) for i, j in enumerate(walk) if 0 <= j < n_target})
    merged = symmetrize(Links.from_pairs(forward), Links.from_pairs(backward), method)
    assert merged.sure.all()
    for n in range(60):
        assert set(merged.pairs(n)) == slow_symmetrize(forward[n], backward[n], method)


def test_order_of_visiting_decides():
    # (0, 0) and (0, 2) both touch (1, 1) and want source 0, their targets being taken: the first in order gets it
    both = [(1, 1), (5, 0), (7, 2)]
    forward, backward = Links.from_pairs([both]), Links.from_pairs([[*both, (0, 0), (0, 2)]])
    assert symmetrize(forward, backward, "grow-diag").pairs(0) == [(0, 0), *both]


def test_final_takes_forward_links_first():
    start = [(0, 0)]
    forward, backward = Links.from_pairs([[*start, (5, 9)]]), Links.from_pairs([[*start, (5, 7)]])
    assert symmetrize(forward, backward, "grow-diag-final-and").pairs(0) == [(0, 0), (5, 9)]
    assert symmetrize(backward, forward, "grow-diag-final-and").pairs(0) == [(0, 0), (5, 7)]


def test_errors():
    one, two = Links.from_pairs([[]]), Links.from_pairs([[], []])
    message = "forward and backward must align the same sentences, but have 1 and 2; give both directions of one bitext"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        symmetrize(one, two)
    message = (
        "method must be one of intersection, union, grow-diag, grow-diag-final, grow-diag-final-and, but is 'grow'"
    )
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        symmetrize(one, one, "grow")
