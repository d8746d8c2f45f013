import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import tokenise
from spectrem.exceptions import InvalidInputError


def slow_tokenise(text: str, *, split_tabs: bool = True):
    """The plain reading of the rules."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    numbers: dict[str, int] = {}
    tokenised = []
    for line in lines:
        line = line.removesuffix("\r")
        tokens = re.split("[ \t]+" if split_tabs else " +", line)
        tokenised.append([numbers.setdefault(token, len(numbers)) for token in tokens if token])
    return tokenised, tuple(numbers)


def unflattened(text):
    return [text.tokens[a:b].tolist() for a, b in zip(text.offsets, text.offsets[1:], strict=False)]


# few letters, so that words recur; all kinds of separators, of which only three separate
ALPHABET = st.sampled_from([*"ab \t\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\xa0", "\u2028", "é", "\0", "𝄞"])


@given(st.lists(ALPHABET).map("".join), st.booleans())
def test_equals_the_plain_reading(string, split_tabs):
    lines, words = slow_tokenise(string, split_tabs=split_tabs)
    stray = next((k for k, line in enumerate(string.split("\n"), 1) if "\r" in line.removesuffix("\r")), None)
    if stray is not None:
        with pytest.raises(InvalidInputError, match=f"x, line {stray}: holds a carriage return that ends no line; if"):
            tokenise(string.encode(), "x", split_tabs=split_tabs)
        return
    text = tokenise(string.encode(), "x", split_tabs=split_tabs)
    assert unflattened(text) == lines
    assert text.words == words


def test_many_words_make_the_table_grow():
    words = [f"w{number % 20_011}" for number in np.random.default_rng(0).integers(0, 10**9, 100_000)]
    string = "\n".join(" ".join(words[k : k + 13]) for k in range(0, len(words), 13))
    text = tokenise(string.encode(), "x")
    lines, distinct = slow_tokenise(string)
    assert len(distinct) > 1 << 14
    assert text.words == distinct
    assert unflattened(text) == lines


def test_words_of_equal_hash_stay_apart():
    """Two pairs of words whose 64-bit FNV-1a hashes collide."""
    words = ["8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ", "gMPflVXtwGDXbIhP73TX", "LtHf1prlU1bCeYZEdqWf"]
    text = tokenise(" ".join(words + words[::-1]).encode(), "x")
    assert text.words == tuple(words)
    assert text.tokens.tolist() == [0, 1, 2, 3, 3, 2, 1, 0]


def test_only_line_feeds_end_lines_and_only_blanks_and_tabs_split():
    text = tokenise("10\xa0000 a\u2028b\r\n\r\nc\x0cd\tc".encode(), "x")
    assert text.words == ("10\xa0000", "a\u2028b", "c\x0cd", "c")
    assert text.offsets.tolist() == [0, 2, 2, 4]


def test_last_line_may_lack_its_end():
    assert tokenise(b"a\nb", "x").n_lines == tokenise(b"a\nb\n", "x").n_lines == 2
    assert tokenise(b"a\n\n", "x").n_lines == 2
    assert tokenise(b"", "x").n_lines == 0


@pytest.mark.parametrize(
    ("data", "line", "byte", "value"),
    [
        (b"caf\xe9\n", 1, 4, "0xe9"),
        (b"\xc3\xa9 ok\r\n\r\nabc d\xff\n", 3, 6, "0xff"),
        ("hi".encode("utf-16-le") + b"\xff", 1, 5, "0xff"),
        (b"a\nend \xc3", 2, 5, "0xc3"),
        (b"a \xc3 \xa9", 1, 3, "0xc3"),
        (b"\xed\xa0\x80", 1, 1, "0xed"),
    ],
)
def test_undecodable_byte_is_located(data, line, byte, value):
    message = (
        f"some.txt, line {line}: byte {byte} of the line ({value}) is not UTF-8; "
        "convert the text, for example with `iconv -f latin1 -t utf-8`"
    )
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        tokenise(data, "some.txt")


def test_line_of():
    text = tokenise(b"\na b\n\nc\n", "x")
    assert [text.line_of(position) for position in range(3)] == [2, 2, 4]
