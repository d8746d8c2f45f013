import re
import tempfile
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import Bitext, Vocabulary, encode_bitext
from spectrem.exceptions import InvalidInputError

WORDS = st.lists(st.sampled_from(["a", "b", "C", "é", "ß"]), max_size=4)
PAIRS = st.lists(st.tuples(WORDS, WORDS), max_size=6)


def decoded(bitext):
    """Sentence pairs as lists of words, None for unknown ones."""

    def side(tokens, offsets, vocabulary):
        words = [None if token < 0 else vocabulary.words[token] for token in tokens]
        return [words[a:b] for a, b in pairwise(offsets)]

    return list(
        zip(
            side(bitext.source_tokens, bitext.source_offsets, bitext.source_vocabulary),
            side(bitext.target_tokens, bitext.target_offsets, bitext.target_vocabulary),
            strict=True,
        )
    )


def encoded(pairs, **options):
    return encode_bitext([" ".join(s) for s, _ in pairs], [" ".join(t) for _, t in pairs], **options)


@given(PAIRS)
def test_encoding_keeps_every_word(pairs):
    bitext = encoded(pairs)
    assert decoded(bitext) == pairs
    assert bitext.n_pairs == len(pairs)
    assert bitext.source_lengths.tolist() == [len(source) for source, _ in pairs]
    assert bitext.target_lengths.tolist() == [len(target) for _, target in pairs]
    assert bitext.source_tokens.dtype == bitext.target_tokens.dtype == np.int32
    assert bitext.source_vocabulary.words == tuple(dict.fromkeys(word for source, _ in pairs for word in source))


@given(PAIRS)
def test_known_vocabularies_make_other_words_unknown(pairs):
    known = Vocabulary(("é", "a")), Vocabulary(("b",))
    expected = [
        ([w if w in known[0].words else None for w in s], [w if w in known[1].words else None for w in t])
        for s, t in pairs
    ]
    bitext = encoded(pairs, vocabularies=known)
    assert decoded(bitext) == expected
    assert bitext.source_vocabulary is known[0]
    assert bitext.target_vocabulary is known[1]


def test_lowercase_merges_words():
    bitext = encode_bitext(["The the ÉTÉ"], ["été Été"], lowercase=True)
    assert bitext.source_tokens.tolist() == [0, 0, 1]
    assert bitext.source_vocabulary.words == ("the", "été")
    assert bitext.target_vocabulary.words == ("été",)
    assert encode_bitext(["ÉTÉ"], ["x"], lowercase=True, vocabularies=(Vocabulary(("été",)),) * 2).source_tokens == [0]


@given(PAIRS, st.data())
def test_take_picks_pairs_in_order(pairs, data):
    bitext = encoded(pairs)
    index = st.integers(0, max(len(pairs) - 1, 0))
    indices = data.draw(st.lists(index, max_size=5 if pairs else 0))
    taken = bitext.take(indices)
    assert decoded(taken) == [pairs[k] for k in indices]
    assert taken.source_vocabulary is bitext.source_vocabulary
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs))), dtype=bool)
    assert decoded(bitext.take(mask)) == [pair for pair, keep in zip(pairs, mask, strict=True) if keep]


@given(PAIRS, PAIRS)
def test_concat_appends_pairs_and_keeps_numbers(first, second):
    one, two = encoded(first), encoded(second)
    both = one.concat(two)
    assert decoded(both) == first + second
    assert both.source_vocabulary.words[: len(one.source_vocabulary)] == one.source_vocabulary.words
    assert both.target_vocabulary.words[: len(one.target_vocabulary)] == one.target_vocabulary.words


@given(PAIRS, PAIRS)
def test_concat_in_a_folder_is_concat_in_memory(first, second):
    one, two = encoded(first), encoded(second)
    with tempfile.TemporaryDirectory() as folder:
        both, mapped = one.concat(two), one.concat(two, folder=folder)
        for name in ("source_tokens", "source_offsets", "target_tokens", "target_offsets"):
            numbers = getattr(mapped, name)
            assert np.array_equal(numbers, getattr(both, name))
            assert numbers.dtype == getattr(both, name).dtype
            assert isinstance(numbers.base, np.memmap) or not numbers.size
    assert (mapped.source_vocabulary, mapped.target_vocabulary) == (both.source_vocabulary, both.target_vocabulary)


def test_concat_in_a_folder_that_is_missing():
    bitext = encoded([(["x", "a"], ["b"])])
    with pytest.raises(InvalidInputError, match="none: the text cannot be kept there: No such file or directory; make"):
        bitext.concat(bitext, folder="none")


def test_concat_keeps_unknown_words_unknown():
    known = Vocabulary(("a",)), Vocabulary(("b",))
    both = encoded([(["x", "a"], ["b"])], vocabularies=known).concat(encoded([(["y", "a"], ["z"])], vocabularies=known))
    assert both.source_tokens.tolist() == [-1, 0, -1, 0]
    assert both.target_tokens.tolist() == [0, -1]


VOCABULARY = Vocabulary(("a",))


def bitext_of_arrays(tokens, offsets, target_offsets=(0, 1)):
    return Bitext(
        np.array(tokens, dtype=np.int32),
        np.array(offsets, dtype=np.int64),
        np.zeros(1, dtype=np.int32),
        np.array(target_offsets, dtype=np.int64),
        VOCABULARY,
        VOCABULARY,
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: encode_bitext(["a", "b"], ["c"]),
            "source_lines and target_lines must pair up, but have 2 and 1 lines; check which line was lost",
        ),
        (
            lambda: encode_bitext(["a", "b\nc"], ["c", "d"]),
            "source_lines[1] must be one line, but holds a line end: 'b\\nc'; split or strip it",
        ),
        (
            lambda: encode_bitext(["a", "b"], ["c\n", "d"]),
            "target_lines[0] must be one line, but holds a line end: 'c\\n'; split or strip it",
        ),
        (
            lambda: encode_bitext("ab", ["c", "d"]),
            "source_lines must be a sequence of lines, but is one string; split it at its line ends",
        ),
        (
            lambda: encode_bitext(["a", "\udcff"], ["c", "d"]),
            "source_lines[1] cannot be written as UTF-8: '\\udcff' holds an unpaired surrogate; "
            "decode the text with its own encoding",
        ),
        (
            lambda: bitext_of_arrays([0, 0], [0, 1]),
            "source_offsets must rise from 0 to the number of source tokens, 2, but are [0 1]; "
            "cumulate the sentence lengths",
        ),
        (
            lambda: bitext_of_arrays([-2, 0], [0, 2]),
            "source_tokens must lie between -1 and 0, the last number of source_vocabulary, but reach from -2 to 0; "
            "encode them with this vocabulary",
        ),
        (
            lambda: bitext_of_arrays([0], [0, 1], [0, 1, 1]),
            "source and target must have as many sentences as each other, but have 1 and 2; check the offsets",
        ),
        (
            lambda: bitext_of_arrays([0], [0, 1]).take([0, 1]),
            "indices must lie between 0 and 0, but 1 was given; count pairs from 0",
        ),
        (
            lambda: bitext_of_arrays([0], [0, 1]).take([0.5]),
            "indices must be one row of integers, but are float64 of shape (1,); give the numbers of the pairs",
        ),
        (
            lambda: bitext_of_arrays([0], [0, 1]).take([True, False]),
            "a mask of pairs must have shape (1,), but has (2,); give one value per pair",
        ),
    ],
)
def test_error_messages(make, message):
    with pytest.raises(InvalidInputError, match=f"^{re.escape(message)}$"):
        make()
