"""Texts split into tokens that know where they stood, and links back to the words of the text."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import Links, encode_segmented, links_of_words, segment_lines, tokenise
from spectrem.data import segmented as module
from spectrem.data.segmented import take_lines
from spectrem.exceptions import InvalidInputError

pytest.importorskip("icu4py", reason="text is split by icu4py, which is not installed")

characters = st.sampled_from([*"abé.,'-1 \t\u00a0\u200b😀我们\u0308\u2019"])
lines_of_text = st.lists(st.text(characters, max_size=20), max_size=6)


def words_at(line):
    """Where the words between spaces and tabs stand."""
    return [match.span() for match in re.finditer(r"[^ \t]+", line)]


@given(lines_of_text)
def test_spans_give_the_tokens_and_lie_in_their_words(lines):
    split = segment_lines(lines)
    assert split.text.n_lines == len(lines)
    for n, line in enumerate(lines):
        spans = split.spans(n)
        assert [line[start:stop] for start, stop in spans] == split.tokens(n)
        places = split.places[split.text.offsets[n] : split.text.offsets[n + 1]].tolist()
        words = words_at(line)
        for (start, stop), place in zip(spans, places, strict=True):
            assert words[place][0] <= start < stop <= words[place][1]


@given(lines_of_text)
def test_blocks_make_no_difference(lines):
    whole, taken = segment_lines(lines), module.Segmenter()
    for line in lines:
        taken.add([line], "lines")
    piecewise = taken.finish()
    assert piecewise.text.words == whole.text.words
    for one, other in zip(vars(piecewise).values(), vars(whole).values(), strict=True):
        if isinstance(one, np.ndarray):
            assert np.array_equal(one, other)
    assert np.array_equal(piecewise.text.tokens, whole.text.tokens)
    assert np.array_equal(piecewise.text.offsets, whole.text.offsets)


@given(lines_of_text, st.randoms(use_true_random=False))
def test_links_of_words_are_those_of_any_of_their_tokens(lines, random):
    source, target = segment_lines(lines), segment_lines(lines[::-1])
    pairs = []
    for n in range(len(lines)):
        cells = [(i, j) for i in range(len(source.tokens(n))) for j in range(len(target.tokens(n)))]
        pairs.append(random.sample(cells, min(len(cells), 4)))
    found = links_of_words(Links.from_pairs(pairs), source, target)
    for n, own in enumerate(pairs):
        places = [side.places[side.text.offsets[n] : side.text.offsets[n + 1]] for side in (source, target)]
        assert set(found.pairs(n)) == {(int(places[0][i]), int(places[1][j])) for i, j in own}


def test_words_between_spaces_are_those_of_the_reader():
    lines = ["a  b\tc", "", " \u00a0 d.e\u00a0f "]
    split = segment_lines(lines)
    text = tokenise("\n".join(lines).encode(), "lines")
    last = [split.places[: split.text.offsets[n + 1]][split.text.offsets[n] :].max(initial=-1) for n in range(3)]
    assert last == [2, -1, 1]  # the first word of the last line is a no-break space, and has no token
    assert np.diff(text.offsets).tolist() == [3, 0, 2]


def test_spellings_that_look_alike_are_one_word():
    source = segment_lines(["caf\u00e9 cafe\u0301 co\u00adop coop l\u2019a l'a Coop"])
    assert encode_segmented(source, source).source_tokens.tolist() == [0, 0, 1, 1, 2, 3, 2, 3, 4]
    assert encode_segmented(source, source, lowercase=True).source_tokens.tolist() == [0, 0, 1, 1, 2, 3, 2, 3, 1]
    assert source.tokens(0)[1] == "cafe\u0301"


def test_some_lines_of_a_text():
    split = segment_lines(["a b", "c. d", "", "e"])
    part = take_lines(split, 1, 3)
    assert [part.tokens(n) for n in range(2)] == [["c", ".", "d"], []]
    assert part.spans(0) == split.spans(1)


def test_a_text_without_lines():
    split = segment_lines([])
    assert split.text.n_lines == 0
    assert encode_segmented(split, split).n_pairs == 0


def refuses(message, call, *arguments):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        call(*arguments)


def test_bad_input_is_named():
    refuses("lines must be a sequence of lines, but is one string; split it", segment_lines, "a b")
    refuses("lines[1] must be one line, but holds a line end: 'b\\nc'; split or strip it", segment_lines, ["a", "b\nc"])
    refuses("lines[0] cannot be written as UTF-8", segment_lines, ["\ud800"])
    one, two = segment_lines(["a"]), segment_lines(["a", "b"])
    refuses(
        "source and target must have as many lines as each other, but have 1 and 2; check", encode_segmented, one, two
    )
    refuses("links must be of 1 sentences", links_of_words, Links.from_pairs([[], []]), one, one)
