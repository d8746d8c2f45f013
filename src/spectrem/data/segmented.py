"""Running text split into tokens by ICU, mended where aligners need other boundaries; tokens know where they stood."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Ints
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_bool
from spectrem.data.bitext import Bitext, GrowingNumbers, Side, join_lines
from spectrem.data.links import Links
from spectrem.data.text import Text, Vocabulary
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
_UNCUT = re.compile(
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


def token_bounds(text: str) -> tuple[Ints, Ints]:
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
    for begin, end in _uncut(text):
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


def _icu_boundaries(text: str) -> Bools:
    """Whether a boundary stands before every character, and at the end."""
    places = np.array([0, *(end for _, end in import_icu().WordBreaker(text, "en").segments())], np.int64)
    if _BEYOND_BMP.search(text):  # ICU counts such a character twice
        wide = np.frombuffer(text.encode("utf-32-le"), np.uint32) > 0xFFFF
        places = np.searchsorted(np.arange(len(text) + 1) + np.append(0, np.cumsum(wide)), places)
    is_cut = np.zeros(len(text) + 1, np.bool_)
    is_cut[places] = True
    return is_cut


def _uncut(text: str) -> Iterator[tuple[int, int]]:
    """Spans of single tokens that have boundaries inside, in order and without overlap."""
    spans, at = [match.span() for match in _UNCUT.finditer(text)], 0
    while anchor := _ANCHOR.search(text, at):
        begin = text.rfind("\n", 0, anchor.start()) + 1
        at = text.find("\n", anchor.end())
        at = len(text) if at < 0 else at
        spans += [match.span() for match in _ADDRESS.finditer(text, begin, at)]
    last = 0
    for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if begin >= last:
            yield begin, end
            last = end


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
    categories = ("Cc", "Cf", "Zs", "Zl", "Zp")
    return np.array(
        [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in categories], dtype=np.uint32
    )


def _visible_parts(text: str, cuts: Ints) -> tuple[Ints, Ints]:
    """Segments between boundaries, without blanks at both ends; those of blanks alone are left out."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    visible = np.flatnonzero(~np.isin(codes, _blank_characters()))
    places = np.searchsorted(visible, cuts)
    kept = np.flatnonzero(places[1:] > places[:-1])
    return visible[places[kept]], visible[places[kept + 1] - 1] + 1


_LINES_AT_ONCE = 2000
_TOKENS_AT_ONCE = 1 << 22


@brief_dataclass(frozen=True)
class SegmentedText:
    """Tokens of running text, and where in their lines they stand.

    Attributes
    ----------
    text : Text
        The tokens as they are written there.
    starts, stops : ndarray of shape (n_tokens,), int32
        Of every token, its first character and the one after its last, counted from 0 in its line, as Python counts
        (code points).
    places : ndarray of shape (n_tokens,), int32
        The word that the token is part of, counted from 0 in its line, where only spaces and tabs separate words.

    Examples
    --------
    >>> segmented = segment_lines(["L'eau (froide)."])
    >>> segmented.tokens(0), segmented.spans(0), segmented.places.tolist()
    (["L'", 'eau', '(', 'froide', ')', '.'], [(0, 2), (2, 5), (6, 7), (7, 13), (13, 14), (14, 15)], [0, 0, 1, 1, 1, 1])
    """

    text: Text
    starts: NDArray[np.int32]
    stops: NDArray[np.int32]
    places: NDArray[np.int32]

    def tokens(self, line: int) -> list[str]:
        """The tokens of a line, counted from 0.

        Parameters
        ----------
        line : int
            From 0.

        Returns
        -------
        list of str
        """
        tokens = self.text.tokens[self.text.offsets[line] : self.text.offsets[line + 1]]
        return [self.text.words[word] for word in tokens.tolist()]

    def line(self, line: int) -> str:
        """The text of a line, counted from 0, with a space between tokens that do not touch.

        Parameters
        ----------
        line : int
            From 0.

        Returns
        -------
        str
        """
        spans, end, parts = self.spans(line), 0, list[str]()
        for token, (start, stop) in zip(self.tokens(line), spans, strict=True):
            parts += [" ", token] if start > end and parts else [token]
            end = stop
        return "".join(parts)

    def spans(self, line: int) -> list[tuple[int, int]]:
        """First character, and the one after the last, of every token of a line.

        Parameters
        ----------
        line : int
            From 0.

        Returns
        -------
        list of (int, int)
            Characters of the line as it was read, from 0.
        """
        span = slice(self.text.offsets[line], self.text.offsets[line + 1])
        return list(zip(self.starts[span].tolist(), self.stops[span].tolist(), strict=True))


class Segmenter:
    """Splits lines, given block by block, into one `SegmentedText`; equal tokens are kept once.

    Parameters
    ----------
    path : path, optional
        What the names of new files begin with that hold all numbers, for a text that does not fit into memory; they are
        mapped into it.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._index: dict[str, int] = {}
        self._n_tokens = 0
        dtypes = {"offsets": np.int64, "tokens": np.int32, "starts": np.int32, "stops": np.int32, "places": np.int32}
        self._columns = [GrowingNumbers(path, kind, dtype) for kind, dtype in dtypes.items()]
        self._columns[0].append(np.zeros(1, np.int64))

    def add(self, lines: Sequence[str], name: str) -> None:
        """Split further lines; ``name`` is how errors call them.

        Raises
        ------
        InvalidInputError
            If ICU is not installed, or a line holds a line feed or an unpaired surrogate.
        """

        block = join_lines(lines, name).decode().removesuffix("\n")
        starts, stops = token_bounds(block)
        index = self._index
        pairs = zip(starts.tolist(), stops.tolist(), strict=True)
        numbers = [index.setdefault(block[start:stop], len(index)) for start, stop in pairs]
        codes = np.frombuffer(block.encode("utf-32-le"), np.uint32)
        begins = np.append(0, np.flatnonzero(codes == 10) + 1)[: len(lines)]
        line = np.searchsorted(begins, starts, side="right") - 1
        is_blank = np.isin(codes, np.array([9, 10, 32], np.uint32))
        is_first = ~is_blank & np.append(True, is_blank[:-1])[: len(codes)]
        words = np.append(0, np.cumsum(is_first))
        columns = (
            self._n_tokens + np.cumsum(np.bincount(line, minlength=len(lines))),
            np.array(numbers, np.int32),
            starts - begins[line],
            stops - begins[line],
            words[starts + 1] - 1 - words[begins][line],
        )
        self._n_tokens += len(numbers)
        for column, values in zip(self._columns, columns, strict=True):
            column.append(values)

    def finish(self) -> SegmentedText:
        """All that was added."""
        offsets, tokens, starts, stops, places = (column.finish() for column in self._columns)
        return SegmentedText(Text(tokens, offsets, tuple(self._index)), starts, stops, places)


def segment_lines(lines: Iterable[str]) -> SegmentedText:
    """Split running text into tokens by ICU; ``spectrem.data.segmented.token_bounds`` says where.

    Parameters
    ----------
    lines : iterable of str
        Without their line ends.

    Returns
    -------
    SegmentedText
        The tokens, and their places in the lines.

    Raises
    ------
    InvalidInputError
        If ICU is not installed (``pip install 'spectrem[text]'``), or a line holds a line end or an unpaired surrogate.

    Examples
    --------
    >>> segment_lines(["It's 3.5 €!"]).tokens(0)
    ['It', "'s", '3.5', '€', '!']
    """
    if isinstance(lines, str):
        raise InvalidInputError("lines must be a sequence of lines, but is one string; split it at its line ends")
    segmenter, rest = Segmenter(), iter(lines)
    while block := list(islice(rest, _LINES_AT_ONCE)):
        segmenter.add(block, "lines")
    return segmenter.finish()


def encode_segmented(
    source: SegmentedText, target: SegmentedText, *, lowercase: bool = False, folder: Path | None = None
) -> Bitext:
    """Number the words of two split texts; line ``n`` of one translates line ``n`` of the other.

    Spellings that only look different are one word: characters are composed (Unicode's form NFC), soft hyphens are left
    out, and every apostrophe is ``'``. Lower-cased they are if ``lowercase``. With a ``folder`` the numbers are written
    to new files in it and mapped into memory.

    Raises
    ------
    InvalidInputError
        If the numbers of lines differ.

    Examples
    --------
    >>> bitext = encode_segmented(segment_lines(["l’eau l'eau"]), segment_lines(["water"]))
    >>> bitext.source_tokens.tolist(), bitext.source_vocabulary.words
    ([0, 1, 0, 1], ("l'", 'eau'))
    """
    as_bool(lowercase, "lowercase")
    if source.text.n_lines != target.text.n_lines:
        raise InvalidInputError(
            f"source and target must have as many lines as each other, but have {source.text.n_lines} and "
            f"{target.text.n_lines}; check which line was lost"
        )
    sides = []
    for name, text in (("source", source.text), ("target", target.text)):
        words = [_normal(word, lowercase) for word in text.words]
        vocabulary = Vocabulary.from_words(words)
        numbers = vocabulary.lookup(words)
        column = GrowingNumbers(None if folder is None else folder / name, "words", np.int32)
        for begin in range(0, len(text.tokens), _TOKENS_AT_ONCE):
            column.append(numbers[text.tokens[begin : begin + _TOKENS_AT_ONCE]])
        sides.append(Side(column.finish(), text.offsets, vocabulary))
    return Bitext.of_sides(*sides)


def links_of_words(links: Links, source: SegmentedText, target: SegmentedText) -> Links:
    """Links between words as spaces and tabs separate them: those of which any tokens are linked.

    Parameters
    ----------
    links : Links
        Between tokens of all lines.
    source, target : SegmentedText
        The split lines.

    Returns
    -------
    Links
        Of the same sentences; a link is sure if that of any of its tokens is.

    Raises
    ------
    InvalidInputError
        If the links are of another number of sentences.

    Examples
    --------
    >>> source, target = segment_lines(["the water."]), segment_lines(["l'eau."])
    >>> links_of_words(Links.from_pairs([[(0, 0), (1, 1), (2, 2)]]), source, target).pairs(0)
    [(0, 0), (1, 0)]
    """
    if not links.n_sentences == source.text.n_lines == target.text.n_lines:
        raise InvalidInputError(
            f"links must be of {source.text.n_lines} sentences, as the lines of source, and target must have as many, "
            f"got {links.n_sentences} and {target.text.n_lines}; give texts and links of the same pairs"
        )
    sentence = links.sentence
    return Links.from_arrays(
        sentence,
        source.places[source.text.offsets[sentence] + links.source],
        target.places[target.text.offsets[sentence] + links.target],
        n_sentences=links.n_sentences,
        sure=links.sure,
    )


def take_lines(segmented: SegmentedText, begin: int, end: int) -> SegmentedText:
    """Some lines in a row, with the words of all."""
    text = segmented.text
    span = slice(text.offsets[begin], text.offsets[end])
    offsets = text.offsets[begin : end + 1] - text.offsets[begin]
    return SegmentedText(
        Text(text.tokens[span], offsets, text.words),
        segmented.starts[span],
        segmented.stops[span],
        segmented.places[span],
    )


def _normal(word: str, lowercase: bool) -> str:
    word = unicodedata.normalize("NFC", word.replace("\u00ad", "").replace("\u2019", "'"))
    return word.lower() if lowercase else word
