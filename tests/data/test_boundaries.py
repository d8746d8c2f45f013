"""Tokens of running text: what becomes one token, and where it stands."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.exceptions import InvalidInputError

pytest.importorskip("icu4py", reason="text is split by icu4py, which is not installed")

from spectrem.data.segmented import token_bounds

# Pieces of which odd texts are made: letters of several scripts, marks, joiners, blanks, what patterns look for.
PIECES = [
    *(
        "a",
        "B",
        "é",
        "e\u0301",
        "\u0308",
        "1",
        "23",
        ".",
        ",",
        "'",
        "\u2019",
        "-",
        "--",
        "@",
        "#",
        "://",
        "www.",
        "http",
    ),
    *(" ", "  ", "\t", "\n", "\u00a0", "\u202f", "\u200b", "\u200d", "\u200f", "\u00ad", "\r", "\u2028", "\x00"),
    *(
        "我",
        "们",
        "ひ",
        "カ",
        "ฉัน",
        "រ",
        "ש",
        "م",
        "한",
        "😀",
        "👩",
        "🇫",
        "🏽",
        "𠮷",
        "\U0001d49c",
        "½",
        "€",
        "U.S.A.",
        "Mr.",
    ),
]
texts = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def tokens(text):
    starts, stops = token_bounds(text)
    return [text[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He didn't (really) go.", "He|did|n't|(|really|)|go|."),
        ("It's Jane's; I'd say we're late, can't I?", "It|'s|Jane|'s|;|I|'d|say|we|'re|late|,|ca|n't|I|?"),
        ("L\u2019homme qu'il aime, aujourd'hui", "L\u2019|homme|qu'|il|aime|,|aujourd'hui"),
        ("Dell'acqua, un'idea", "Dell'|acqua|,|un'|idea"),
        ("rock'n'roll at 5 o'clock, 1990's", "rock'n'roll|at|5|o'clock|,|1990|'s"),
        ("the dogs' 'food'", "the|dogs|'|'|food|'"),
        ("п'ять \u0421\u0428\u0410", "п'ять|\u0421\u0428\u0410"),
        ("c'est-à-dire state-of-the-art", "c'|est|-|à|-|dire|state|-|of|-|the|-|art"),
        ("3.14 1,234.56 $5.00 50% 12:30 -3", "3.14|1,234.56|$|5.00|50|%|12|:|30|-|3"),
        ("10\u00a0000 € 1\u202f234\u202f567 10 000", "10\u00a0000|€|1\u202f234\u202f567|10|000"),
        (
            "See https://www.example.com/a?b=c&d=1#x, (www.x.org). Mail jane.doe@mail.example.org!",
            "See|https://www.example.com/a?b=c&d=1#x|,|(|www.x.org|)|.|Mail|jane.doe@mail.example.org|!",
        ),
        ("@user_1 likes #topic, a@b", "@user_1|likes|#topic|,|a|@|b"),
        ("Mr. Smith, e.g. of the U.S.A., met J. R. Doe.", "Mr.|Smith|,|e.g.|of|the|U.S.A.|,|met|J.|R.|Doe|."),
        ("Wait... what?! -- yes!!", "Wait|...|what|?|!|--|yes|!!"),
        ("我们在北京大学学习。价格3.5元", "我们|在|北京|大学|学习|。|价格|3.5|元"),
        ("東京大学で勉強しています。", "東京|大学|で|勉強|し|てい|ます|。"),
        ("ฉันรักภาษาไทย", "ฉัน|รัก|ภาษา|ไทย"),
        ("한국어를 공부합니다", "한국어를|공부합니다"),
        (
            '\u05e9\u05dc, \u05e6\u05d4"\u05dc \u200f\u0645\u0631\u200f!',
            '\u05e9\u05dc|,|\u05e6\u05d4"\u05dc|\u0645\u0631|!',
        ),
        ("cafe\u0301 nai\u0308ve a\u0327b", "cafe\u0301|nai\u0308ve|a\u0327b"),
        ("😀👩\u200d👧\u200d👦🇫🇷 👍🏽 𠮷野家x", "😀|👩\u200d👧\u200d👦|🇫🇷|👍🏽|𠮷|野家|x"),
        ("a\tb\u00a0c\u200bd\u2028e\ufeff", "a|b|c|d|e"),
        ("", ""),
        (" \u00a0\u200b\t", ""),
    ],
)
def test_what_people_write(text, expected):
    assert tokens(text) == (expected.split("|") if expected else [])


@given(texts)
def test_tokens_are_in_order_and_cover_all_that_is_visible(text):
    starts, stops = token_bounds(text)
    assert (starts < stops).all()
    assert (stops[:-1] <= starts[1:]).all()
    left, at = [], 0
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        assert not text[start].isspace()
        assert not text[stop - 1].isspace()
        assert not set(text[start:stop]) & set(" \t\n\r")
        left.append(text[at:start])
        at = stop
    rest = "".join([*left, text[at:]])
    assert all(one.isspace() or one in "\u200b\u200d\u200f\u00ad\x00" for one in rest)


@given(st.lists(texts.map(lambda text: text.replace("\n", "")), max_size=5))
def test_lines_are_split_alike_alone_and_together(lines):
    assert tokens("\n".join(lines)) == [token for line in lines for token in tokens(line)]


def test_without_icu_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "icu4py", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'spectrem\[text\]'"):
        token_bounds("a b")
