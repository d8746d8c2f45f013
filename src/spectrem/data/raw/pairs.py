"""Sentence pairs from files of any kind, encoded while they are read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spectrem.data.bitext import Bitext, bitext_of
from spectrem.data.raw.columns import DEFAULT_COLUMNS, JSON_LINES, iter_columns
from spectrem.data.raw.json_lines import text_lines
from spectrem.data.raw.segmented import SegmentedText, Segmenter, encode_segmented
from spectrem.data.raw.tmx import TranslationMemory
from spectrem.data.readers import STANDARD_INPUT, check_counts, count_lines, display_name, read_bitext, read_text
from spectrem.data.text import Text, tokenise
from spectrem.exceptions import InvalidInputError

_LINES_AT_ONCE = 2000
_BAR = re.compile(r"(?:(?<=[ \t])|^)\|\|\|(?=[ \t]|$)")
_TAB = re.compile(r"\t")
_TABLES = (".parquet", ".csv", ".tsv", ".tab", *JSON_LINES)


@dataclass(frozen=True)
class EncodedPairs:
    """Sentence pairs of a file.

    Attributes
    ----------
    bitext : Bitext
    segmented : (SegmentedText, SegmentedText) or None
        Where the tokens of source and target stand, if the text was split into tokens here.
    n_skipped : int
        Translation units of a TMX file without a text in both languages, which are not in the bitext.
    """

    bitext: Bitext
    segmented: tuple[SegmentedText, SegmentedText] | None = None
    n_skipped: int = 0


def read_pairs(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    tokenize: bool = False,
    lowercase: bool = False,
) -> EncodedPairs:
    """Read sentence pairs from text, a table or a translation memory, and split them into tokens if asked to.

    Parameters
    ----------
    source : path or "-"
        Without ``target``, of both sides: TMX (``.tmx``, also gzipped); Parquet, or JSON Lines (``.jsonl`` or
        ``.ndjson``); CSV or TSV if ``columns`` are given; else text as of `read_bitext`.
    target : path or "-", optional
        Text, line by line with ``source``.
    columns : (source, target), optional
        Names of the columns of a table; "source" and "target" if left out. "translation.en" is field "en" of column
        "translation".
    languages : (source, target), optional
        Of a TMX file; needed if it has more than two.
    tokenize : bool
        Whether to split running text by `segment_lines`; else words are what spaces and tabs separate.
    lowercase : bool
        Lower-case every word.

    Raises
    ------
    InvalidInputError
        Naming the file, the line or column and what to try.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/trees.jsonl", ['{"en": "a tree", "fr": "un arbre"}'])
    ...     read_pairs(f"{folder}/trees.jsonl", columns=["en", "fr"]).bitext.target_vocabulary.words
    ('un', 'arbre')
    """
    kind = _kind(source, target, columns, languages)
    if kind == "text" and not tokenize:
        return EncodedPairs(read_bitext(source, target, lowercase=lowercase))
    memory = TranslationMemory(source, languages) if kind == "tmx" else None
    if memory is not None:
        pairs = iter(memory)
    elif kind == "table":
        pairs = iter_columns(source, columns or DEFAULT_COLUMNS)
    else:
        pairs = _text_pairs(source, target)
    sides = (Segmenter(), Segmenter()) if tokenize else (_Splitter(), _Splitter())
    name = display_name(source)
    while block := list(islice(pairs, _LINES_AT_ONCE)):
        for side, lines in zip(sides, zip(*block, strict=True), strict=True):
            side.add(lines, name)
    done = tuple(side.finish() for side in sides)
    n_skipped = 0 if memory is None else memory.n_skipped
    if isinstance(done[0], SegmentedText) and isinstance(done[1], SegmentedText):
        segmented = (done[0], done[1])
        return EncodedPairs(encode_segmented(*segmented, lowercase=lowercase), segmented, n_skipped)
    return EncodedPairs(bitext_of(*done, lowercase=lowercase), None, n_skipped)  # type: ignore[arg-type]


class _Splitter:
    """Splits lines at spaces and tabs, block by block, into one `Text`."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._tokens: list[NDArray[np.int32]] = []
        self._lengths: list[NDArray[np.int64]] = []

    def add(self, lines: Sequence[str], name: str) -> None:
        text = tokenise(("\n".join(lines) + "\n").encode(), name)
        index = self._index
        numbers = np.array([index.setdefault(word, len(index)) for word in text.words], np.int32)
        self._tokens.append(numbers[text.tokens])
        self._lengths.append(np.diff(text.offsets))

    def finish(self) -> Text:
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        return Text(np.concatenate([np.zeros(0, np.int32), *self._tokens]), np.cumsum(lengths), tuple(self._index))


def _kind(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None,
    columns: Sequence[str] | None,
    languages: Sequence[str] | None,
) -> str:
    """What a file holds, by its name: "tmx", "table" or "text"."""
    kinds = [_kind_of_name(path, columns is not None) for path in (source, target) if path is not None]
    for path, kind in zip((source, target), kinds, strict=False):
        if kind != "text" and target is not None:
            raise InvalidInputError(
                f"{display_name(path)}: this is taken for a {'translation memory' if kind == 'tmx' else 'table'} by its "
                "name, which holds both sides; give it alone, without a second file"
            )
    if columns is not None and kinds[0] != "table":
        raise InvalidInputError(
            f"--columns {','.join(columns)}: {display_name(source)} has no columns with names; name the file .parquet, "
            ".jsonl, .csv or .tsv if it is a table, or drop --columns"
        )
    if languages is not None and kinds[0] != "tmx":
        raise InvalidInputError(
            f"--languages {','.join(languages)}: {display_name(source)} is not a translation memory; name the file .tmx "
            "if it is one, or drop --languages"
        )
    return kinds[0]


def _kind_of_name(path: str | os.PathLike[str], has_columns: bool) -> str:
    if os.fspath(path) == STANDARD_INPUT:
        return "text"
    place = Path(path)
    suffix = (Path(place.stem) if place.suffix == ".gz" else place).suffix.lower()
    if suffix == ".tmx":
        return "tmx"
    # text between commas or tabs without names above it is read as lines of both sides
    is_table = suffix in _TABLES and (has_columns or suffix == ".parquet" or suffix in JSON_LINES)
    return "table" if is_table else "text"


def _text_pairs(
    source: str | os.PathLike[str], target: str | os.PathLike[str] | None
) -> Iterator[tuple[str, str]]:
    """Lines of two files, or of one that holds both sides."""
    if target is None:
        yield from _split_pairs(text_lines(read_text(source), display_name(source)), display_name(source))
        return
    both = [read_text(source), read_text(target)]
    check_counts(source, target, [count_lines(data) for data in both])
    yield from zip(
        text_lines(both[0], display_name(source)), text_lines(both[1], display_name(target)), strict=True
    )


def _split_pairs(lines: Iterator[str], name: str) -> Iterator[tuple[str, str]]:
    """Both sides of every line, without the spaces around each; the first that is not blank shows what separates."""
    separator: re.Pattern[str] | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip(" \t"):
            yield "", ""
            continue
        if separator is None:
            separator = next((one for one in (_BAR, _TAB) if one.search(line)), None)
        if separator is None:
            raise InvalidInputError(
                f"{name}, line {number}: has neither ` ||| ` nor a tab between source and target; give two files, or "
                "lines of `source ||| target`"
            )
        parts = separator.split(line)
        if len(parts) != 2:
            what = "a tab" if separator is _TAB else "` ||| `"
            raise InvalidInputError(
                f"{name}, line {number}: must have {what} once between source and target, but has it "
                f"{len(parts) - 1} times; repair or remove the line"
            )
        yield parts[0].strip(" \t"), parts[1].strip(" \t")
