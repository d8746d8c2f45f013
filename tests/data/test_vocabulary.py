import re

import pytest

from spectrem.data import Vocabulary
from spectrem.exceptions import InvalidInputError


def test_numbers_words_in_order_of_first_appearance():
    vocabulary = Vocabulary.from_words(["b", "a", "b", "c"])
    assert vocabulary.words == ("b", "a", "c")
    assert vocabulary.index == {"b": 0, "a": 1, "c": 2}
    assert len(vocabulary) == 3


def test_unknown_words_are_minus_one():
    numbers = Vocabulary(("b", "a")).lookup(["a", "", "A", "b"])
    assert numbers.tolist() == [1, -1, -1, 0]
    assert numbers.dtype == "int32"


def test_extend_keeps_numbers():
    assert Vocabulary(("b", "a")).extend(["c", "a", "d"]).words == ("b", "a", "c", "d")


def test_equality_is_by_words():
    assert Vocabulary(("a", "b")) == Vocabulary.from_words(["a", "b", "a"])
    assert Vocabulary(("a", "b")) != Vocabulary(("b", "a"))


def test_repeated_word_is_named():
    message = "words must be distinct, but 'a' occurs at 0 and 2; use Vocabulary.from_words to drop repetitions"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        Vocabulary(("a", "b", "a"))
