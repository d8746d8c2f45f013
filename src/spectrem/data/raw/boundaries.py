"""Where the tokens of running text begin and end: word boundaries of ICU, mended where aligners need other ones."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError

# What holds one of these may hold an address, which is looked for in that line alone.
_ANCHOR = re.compile(r"@|://|www\.", re.IGNORECASE)
_ADDRESS = re.compile(
    r"""(?:\b(?:https?|ftp)://|\bwww\.) [^\s<>"«»]* [^\s<>"«».,;:!?'\u2019)\]}]   # of a page
    | \b\w[\w.+-]* @ \w[\w-]* (?:\.\w[\w-]*)+                                # of a letter box
    | (?<![\w@]) @\w+                                                        # of a user""",
    re.VERBOSE | re.IGNORECASE,
)
# Of Latin, Greek and Cyrillic.
_CAPITALS = r"A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f"
_WHOLE = re.compile(
    r"""([^\w\s])\1+                                     # ... --
    | (?<![\w.]) (?:[^\W\d_]\.){2,} (?!\w)               # U.S.A. e.g.
    | (?<![\w.,]) \d{1,3} (?:[\u00a0\u202f]\d{3})+ (?!\w)  # 10 000 with a no-break space
    | (?<![\w#]) \#\w+                                   # #topic
    | (?<!\w) (?i:mrs?|ms|dr|prof|st|sra?|jr|vs|fig|nr|bzw)\.(?=[ \t]+\w)  # a title or the like, not at the end
    | (?<![\w.]) [{0}]\.(?=[ \u00a0]?[{0}])              # J. Smith
    | (?<=\d) ['\u2019]s\b                                # 1990's""".replace("{0}", _CAPITALS),
    re.VERBOSE,
)
_APOSTROPHE = re.compile(r"(?<![\w'\u2019])(\w++)['\u2019](?=(\w++))")
# Words of French, Italian and Catalan that lose their vowel before another word, which is then a token of its own.
_ELIDED = frozenset({
    "l", "d", "j", "m", "t", "s", "n", "c", "ç", "qu", "jusqu", "lorsqu", "puisqu", "quoiqu", "presqu", "un",
    "dell", "nell", "all", "dall", "sull", "coll", "quell", "quest", "bell", "sant", "tutt", "com", "dov",
    "cos", "anch", "senz", "gl", "degl", "v",
})  # fmt: skip
# Words of English that lose theirs behind another word.
_LEANING = frozenset(["s", "re", "ve", "ll", "d", "m"])
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")


def token_bounds(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the tokens of a text start and stop, in characters.

    Boundaries are those of ICU ([UAX29], with dictionaries for Chinese, Japanese, Thai, Lao, Khmer and Burmese).
    Addresses of pages, letter boxes and users, topics (#topic), repeated punctuation, titles (Mr.) and initials,
    abbreviations with several full stops, and numbers with no-break spaces stay whole; an apostrophe separates the
    words of "l'eau", "it's" and "don't" (do, n't). White space, control characters and invisible ones at either end
    belong to no token.

    Raises
    ------
    InvalidInputError
        If ICU is not installed.
    """
    is_cut = _icu_boundaries(text)
    is_cut[list(_clitic_cuts(text))] = True
    for begin, end in _whole(text):
        is_cut[begin : end + 1] = False
        is_cut[[begin, end]] = True
    return _visible_parts(text, np.flatnonzero(is_cut))


def import_icu() -> Any:
    """The module of ICU's boundaries.

    Raises
    ------
    InvalidInputError
        If it is not installed.
    """
    try:
        from icu4py import breakers
    except ImportError:
        raise InvalidInputError(
            "text is split into words by ICU (icu4py), which is not installed; pip install 'spectrem[text]', or give "
            "text whose words are separated by spaces, without tokenising"
        ) from None
    return breakers


def _icu_boundaries(text: str) -> NDArray[np.bool_]:
    """Whether a boundary stands before every character, and at the end."""
    places = np.array([0, *(end for _, end in import_icu().WordBreaker(text, "en").segments())], np.int64)
    if _BEYOND_BMP.search(text):  # ICU counts such a character twice
        wide = np.frombuffer(text.encode("utf-32-le"), np.uint32) > 0xFFFF
        places = np.searchsorted(np.arange(len(text) + 1) + np.append(0, np.cumsum(wide)), places)
    is_cut = np.zeros(len(text) + 1, np.bool_)
    is_cut[places] = True
    return is_cut


def _whole(text: str) -> Iterator[tuple[int, int]]:
    """Spans of single tokens that have boundaries inside, in order and without overlap."""
    addresses = [span for line in _lines_with_anchor(text) for span in line]
    others = [match.span() for match in _WHOLE.finditer(text)]
    last = 0
    for begin, end in sorted(addresses + others, key=lambda span: (span[0], -span[1])):
        if begin >= last:
            yield begin, end
            last = end


def _lines_with_anchor(text: str) -> Iterator[list[tuple[int, int]]]:
    at = 0
    while found := _ANCHOR.search(text, at):
        begin = text.rfind("\n", 0, found.start()) + 1
        at = text.find("\n", found.end())
        at = len(text) if at < 0 else at
        yield [match.span() for match in _ADDRESS.finditer(text, begin, at)]


def _clitic_cuts(text: str) -> Iterator[int]:
    for match in _APOSTROPHE.finditer(text):
        before, after = match[1].lower(), match[2].lower()
        if before in _ELIDED:
            yield match.end()
        elif after in _LEANING:
            yield match.end() - 1
        elif after == "t" and before.endswith("n") and len(before) > 1:
            yield match.end() - 2


@cache
def _blank_characters() -> NDArray[np.uint32]:
    """White space, control characters and those that only change how others look."""
    kinds = ("Cc", "Cf", "Zs", "Zl", "Zp")
    return np.array(
        [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in kinds], dtype=np.uint32
    )


def _visible_parts(text: str, cuts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Segments between boundaries, without blanks at both ends; those of blanks alone are left out."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    visible = np.flatnonzero(~np.isin(codes, _blank_characters()))
    places = np.searchsorted(visible, cuts)
    kept = np.flatnonzero(places[1:] > places[:-1])
    return visible[places[kept]], visible[places[kept + 1] - 1] + 1
