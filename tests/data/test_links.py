import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import MAX_LENGTH, Links
from spectrem.data.links import MAX_SENTENCES
from spectrem.exceptions import InvalidInputError

PAIRS = st.lists(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6), max_size=5)


@given(PAIRS, st.data())
def test_sets_come_back_sorted_and_sure_wins(sure, data):
    pair = st.tuples(st.integers(0, 9), st.integers(0, 9))
    possible = [data.draw(st.lists(pair, max_size=4)) for _ in sure]
    links = Links.from_pairs(sure, possible)
    assert links.n_sentences == len(sure)
    for n, (s, p) in enumerate(zip(sure, possible, strict=True)):
        assert links.pairs(n) == sorted(s | set(p))
    assert [set(links.where(links.sure).pairs(n)) for n in range(len(sure))] == sure
    assert links.sentence.tolist() == [n for n in range(len(sure)) for _ in links.pairs(n)]
    assert np.all(np.diff(links.keys) > 0)


@given(PAIRS)
def test_transposed_swaps_the_sides(sure):
    transposed = Links.from_pairs(sure).transposed()
    assert [transposed.pairs(n) for n in range(len(sure))] == [sorted((j, i) for i, j in pairs) for pairs in sure]


def test_equality():
    links = Links.from_pairs([[(0, 0), (1, 1)], []])
    assert links == Links.from_pairs([[(1, 1), (0, 0)], []])
    assert links != Links.from_pairs([[(0, 0)], [(1, 1)]])
    assert links != Links.from_pairs([[(0, 0), (1, 1)]])
    assert links != Links(links.offsets, links.source, links.target, ~links.sure)
    assert links != "0-0 1-1"


def test_dtypes():
    links = Links.from_arrays([0], [MAX_LENGTH - 1], [0], n_sentences=1)
    assert (links.offsets.dtype, links.source.dtype, links.target.dtype, links.sure.dtype) == (
        np.int64,
        np.int32,
        np.int32,
        np.bool_,
    )
    assert links.pairs(0) == [(MAX_LENGTH - 1, 0)]


def raw(offsets, source, target, sure):
    return Links(np.array(offsets), np.array(source, np.int32), np.array(target, np.int32), np.array(sure, bool))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: raw([0, 2], [1, 0], [0, 0], [1, 1]),
            "links must be in increasing order of (source, target) in every sentence and none twice; "
            "use Links.from_arrays, which sorts them",
        ),
        (
            lambda: raw([0, 2], [0, 0], [0, 0], [1, 1]),
            "links must be in increasing order of (source, target) in every sentence and none twice; "
            "use Links.from_arrays, which sorts them",
        ),
        (
            lambda: raw([0, 1], [0, 1], [0, 0], [1, 1]),
            "offsets must rise from 0 to the number of links, 2, but are [0 1]; use Links.from_arrays",
        ),
        (
            lambda: raw([0, 2], [0, 1], [0], [1, 1]),
            "source, target and sure must be one value per link, but have shapes (2,), (1,) and (2,); "
            "use Links.from_arrays",
        ),
        (
            lambda: Links.from_arrays([0, 0], [0, -1], [0, 0], n_sentences=1),
            "source positions must lie between 0 and 262143, but -1 was given; "
            "leave out links to NULL and count positions from 0",
        ),
        (
            lambda: Links.from_arrays([0], [0], [MAX_LENGTH], n_sentences=1),
            "target positions must lie between 0 and 262143, but 262144 was given; "
            "leave out links to NULL and count positions from 0",
        ),
        (
            lambda: Links.from_arrays([1], [0], [0], n_sentences=1),
            "sentence must lie between 0 and n_sentences - 1 = 0, but 1 was given; count sentences from 0",
        ),
        (
            lambda: Links.from_arrays([0], [0, 1], [0], n_sentences=1),
            "sentence, source, target and sure must be one value per link, but have shapes (1,), (2,), (1,) and (1,)",
        ),
        (
            lambda: Links.from_pairs([[], []], possible=[[]]),
            "sure and possible must cover as many sentences as each other, but have 2 and 1; "
            "give an empty list where a sentence has none",
        ),
    ],
)
def test_error_messages(make, message):
    with pytest.raises(InvalidInputError, match=f"^{re.escape(message)}$"):
        make()


def test_a_hundred_million_sentences_have_numbers_for_their_links():
    links = Links.from_arrays([10_000_000], [MAX_LENGTH - 1], [0], n_sentences=10_000_001)
    assert links.keys.tolist() == [(10_000_000 * MAX_LENGTH + MAX_LENGTH - 1) * MAX_LENGTH]
    assert (MAX_SENTENCES - 1) * MAX_LENGTH**2 + MAX_LENGTH**2 - 1 < 2**63
    assert MAX_SENTENCES > 100_000_000
