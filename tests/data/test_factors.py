import re

import numpy as np
import pytest

from spectrem.data import encode_bitext, split_factors
from spectrem.exceptions import InvalidInputError

SOURCE = ["the|the|DT saw|saw|NN", "I|I|PRP saw|see|VBD him|he|PRP saw|see|VBD", ""]
TARGET = ["la|le|D scie|scie|N", "vu|voir|V", "x|y|z"]


def words(tokens, vocabulary):
    return [vocabulary.words[k] for k in tokens]


def test_words_are_numbered_anew_and_classes_are_those_of_most_tokens():
    found = split_factors(encode_bitext(SOURCE, TARGET), "word|class|tag")
    bitext = found.bitext
    assert words(bitext.source_tokens, bitext.source_vocabulary) == ["the", "saw", "I", "saw", "him", "saw"]
    assert bitext.source_vocabulary.words == ("the", "saw", "I", "him")
    assert bitext.source_offsets.tolist() == [0, 2, 6, 6]
    assert found.source_classes == {"the": "the", "saw": "see", "I": "I", "him": "he"}
    assert found.target_classes == {"la": "le", "scie": "scie", "vu": "voir", "x": "y"}


def test_of_equally_many_classes_the_first_counts_and_without_one_there_are_none():
    found = split_factors(encode_bitext(["a|X a|Y a|Y a|X"], ["b|Z"]), "word|class")
    assert found.source_classes == {"a": "X"}
    found = split_factors(encode_bitext(SOURCE, TARGET), "form|word|tag")
    assert found.source_classes == found.target_classes == {}
    assert words(found.bitext.target_tokens, found.bitext.target_vocabulary) == ["le", "scie", "voir", "y"]


def test_unknown_words_stay_unknown():
    known = encode_bitext(SOURCE, TARGET)
    bitext = encode_bitext(
        ["new|new|X the|the|DT"], [""], vocabularies=(known.source_vocabulary, known.target_vocabulary)
    )
    found = split_factors(bitext, "word|class|tag")
    assert found.bitext.source_tokens.tolist() == [-1, 0]
    assert found.source_classes["the"] == "the"
    assert np.array_equal(split_factors(encode_bitext([], []), "word").bitext.source_tokens, [])


@pytest.mark.parametrize(
    ("source", "target", "factors", "message"),
    [
        (SOURCE, TARGET, "word|word|tag", "factors must name one word and at most one class, got 'word|word|tag'; "),
        (SOURCE, TARGET, "lemma", "factors must name one word and at most one class, got 'lemma'; write word|class|"),
        (SOURCE, TARGET, "word|class|class", "factors must name one word and at most one class, got"),
        (
            ["a|b", "a|b c|d|e c"], ["x|y", "x|y"], "word|class",
            "source sentence 2 (counted from 1): 'c|d|e' has 3 factors, and 'word|class' names 2; give every token as "
            "many",
        ),
        (
            ["a|b"] * 3, ["x|y", "", "z"], "word|class",
            "target sentence 3 (counted from 1): 'z' has 1 factors, and 'word|class' names 2",
        ),
        (
            ["a|b"] * 2, ["x|", "x|y |z"], "word|class",
            "target sentence 2 (counted from 1): '|z' has an empty word where 'word|class' names it; write one, and |",
        ),
    ],
)  # fmt: skip
def test_errors_name_sentence_and_token(source, target, factors, message):
    with pytest.raises(InvalidInputError, match=f"^{re.escape(message)}"):
        split_factors(encode_bitext(source, target), factors)
