"""Sentence pairs from files of any kind, encoded while they are read: lines of text, tables, translation memories."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from spectrem._validate import as_bool
from spectrem.data.bitext import Bitext, NumberedSide, join_lines
from spectrem.data.decoding import decode
from spectrem.data.mapping import new_folder
from spectrem.data.raw.columns import DEFAULT_COLUMNS, JSON_LINES, iter_columns
from spectrem.data.raw.segmented import SegmentedText, Segmenter, encode_segmented
from spectrem.data.reading import STANDARD_INPUT, display_name, iter_lines, read_pieces
from spectrem.data.text import Text, tokenise
from spectrem.data.vocabulary import Vocabulary
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from spectrem.data.raw.tmx import TranslationMemory

_LINES_AT_ONCE = 2000
_SEPARATORS = {"|||": re.compile(r"(?:(?<=[ \t])|^)\|\|\|(?=[ \t]|$)"), "\t": re.compile(r"\t")}
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


def read_bitext(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    lowercase: bool = False,
    limit: int | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Bitext:
    """Read sentence pairs, one per line; blank lines stay, as empty sentences.

    Text is UTF-8, plain or gzipped (recognised by its first bytes), already tokenised; a byte order mark at the
    start is dropped and nothing else is normalised. Tokens are separated by spaces and tabs only; see
    `spectrem.data.tokenise`.

    Parameters
    ----------
    source : path or "-"
        File of source sentences; without ``target``, a file of both sides: ``source ||| target`` on each line, or two
        columns separated by a tab, whichever the first line that is not blank holds. ``-`` is standard input.
    target : path or "-", optional
        File of target sentences, line by line with ``source``.
    vocabularies, lowercase
        See `encode_bitext`.
    limit : int, optional
        Read the first ``limit`` pairs only (the line counts of two files must agree all the same).
    folder : path, optional
        An existing folder for a text that does not fit into memory: it is read in pieces of some tens of megabytes, and
        tokens and offsets are numbered into files in a new folder there (four bytes per token, sixteen per pair), which
        are mapped into memory. The bitext is the same. The files are yours to remove when it is no longer needed.

    Raises
    ------
    InvalidInputError
        Naming file, line and value: a missing, empty or damaged file, bytes that are not UTF-8, line counts
        that differ, a line without separator or with two, a folder that is missing or full.

    Examples
    --------
    >>> from spectrem.data import write_lines
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/pairs.txt", ["the house ||| das haus", "", "a ||| ein"])
    ...     read_bitext(f"{folder}/pairs.txt").source_lengths
    array([2, 0, 1])
    """
    as_bool(lowercase, "lowercase")
    if limit is not None and limit < 1:
        raise InvalidInputError(f"limit must be at least 1, but is {limit}; leave it out to read every pair")
    if target is not None and os.fspath(source) == os.fspath(target) == STANDARD_INPUT:
        raise InvalidInputError(
            "source and target cannot both be standard input; give one input of `source ||| target` lines instead"
        )
    with nullcontext() if folder is None else new_folder(folder) as place:
        sides = [
            NumberedSide(None if place is None else place / name, vocabulary, lowercase)
            for name, vocabulary in zip(("source", "target"), vocabularies or (None, None), strict=True)
        ]
        if target is None:
            _number_columns(source, sides, limit)
        else:
            counts = [_number_file(path, side, limit) for path, side in zip((source, target), sides, strict=True)]
            _check_counts(source, target, counts)
        return Bitext.of_sides(*(side.finish() for side in sides))


def read_pairs(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    tokenize: bool = False,
    lowercase: bool = False,
    folder: str | os.PathLike[str] | None = None,
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
    folder : path, optional
        As of `read_bitext`; where the tokens stand in a text that is split is kept there, too.

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
    as_bool(tokenize, "tokenize")
    as_bool(lowercase, "lowercase")
    kind = _kind(source, target, columns, languages)
    if kind == "text" and not tokenize:
        return EncodedPairs(read_bitext(source, target, lowercase=lowercase, folder=folder))
    name = display_name(source)
    memory: TranslationMemory | None = None
    if kind == "tmx":
        from spectrem.data.raw.tmx import TranslationMemory

        memory = TranslationMemory(source, languages)
        pairs = iter(memory)
    elif kind == "table":
        pairs = iter_columns(source, columns or DEFAULT_COLUMNS)
    elif target is None:
        pairs = _split_lines(iter_lines(source), name)
    else:
        pairs = _text_pairs(source, target)
    segmented = None
    with nullcontext() if folder is None else new_folder(folder) as place:
        paths = [None if place is None else place / side for side in ("source", "target")]
        if tokenize:
            segmenters = [Segmenter(path) for path in paths]
            for block in _blocks(pairs):
                for segmenter, lines in zip(segmenters, block, strict=True):
                    segmenter.add(lines, name)
            segmented = (segmenters[0].finish(), segmenters[1].finish())
            bitext = encode_segmented(*segmented, lowercase=lowercase, folder=place)
        else:
            sides = [NumberedSide(path, None, lowercase) for path in paths]
            for block in _blocks(pairs):
                for side, lines in zip(sides, block, strict=True):
                    side.append(tokenise(join_lines(lines, name), name))
            bitext = Bitext.of_sides(*(side.finish() for side in sides))
    return EncodedPairs(bitext, segmented, 0 if memory is None else memory.n_skipped)


def _blocks(pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Source lines and target lines, some thousand at a time."""
    while block := list(islice(pairs, _LINES_AT_ONCE)):
        source, target = zip(*block, strict=True)
        yield source, target


def _number_file(path: str | os.PathLike[str], side: NumberedSide, limit: int | None) -> int:
    """Append the first lines of a file to a side; the number of all of its lines."""
    n_lines = 0
    for piece in read_pieces(path):
        if data := _head(piece, limit, n_lines):
            side.append(tokenise(data, display_name(path), first_line=n_lines + 1))
        n_lines += piece.count(b"\n") + (not piece.endswith(b"\n"))
    return n_lines


def _number_columns(path: str | os.PathLike[str], sides: Sequence[NumberedSide], limit: int | None) -> None:
    """Append both sides of the first lines of a file, which the first line that is not blank shows how to separate."""
    name, n_lines, separator = display_name(path), 0, None
    for piece in read_pieces(path):
        data = _head(piece, limit, n_lines)
        if not data:
            return
        if separator is None:
            separator = _first_separator(decode(data, name, n_lines + 1), name, n_lines + 1)
        text = tokenise(
            data.replace(b"\t", b" \t ") if separator == "\t" else data,
            name,
            split_tabs=separator != "\t",
            first_line=n_lines + 1,
        )
        for side, part in zip(sides, _split_tokens(text, separator, name, n_lines + 1), strict=True):
            side.append(part)
        n_lines += text.n_lines


def _head(piece: bytes, limit: int | None, n_before: int) -> bytes:
    """The lines of a piece that are among the first of a file, of which some stand in earlier pieces."""
    return piece if limit is None else b"".join(islice(io.BytesIO(piece), max(limit - n_before, 0)))


def _split_tokens(text: Text, separator: str | None, name: str, first_line: int) -> tuple[Text, Text]:
    """The tokens before and behind the separator of every line; blank lines need none."""
    is_separator = text.tokens == (text.words.index(separator) if separator in text.words else -1)
    before = np.concatenate([[0], np.cumsum(is_separator)])
    per_line, lengths = np.diff(before[text.offsets]), np.diff(text.offsets)
    wrong = np.flatnonzero((per_line != 1) & (lengths > 0))
    if wrong.size:
        _refuse_separators(name, wrong[0] + first_line, separator, per_line[wrong[0]])
    separators = text.offsets[:-1].copy()
    separators[lengths > 0] = np.flatnonzero(is_separator)
    on_source = before[:-1] == np.repeat(before[text.offsets[:-1]], lengths)
    source_lengths = separators - text.offsets[:-1]
    target_lengths = np.maximum(lengths - source_lengths - 1, 0)
    return (
        _select(text, on_source & ~is_separator, source_lengths),
        _select(text, ~on_source & ~is_separator, target_lengths),
    )


def _select(text: Text, keep: NDArray[np.bool_], lengths: NDArray[np.int64]) -> Text:
    """The kept tokens of a text, renumbered in the order of first appearance among them."""
    tokens = text.tokens[keep]
    first = np.full(len(text.words), tokens.size, dtype=np.int64)
    first[tokens[::-1]] = np.arange(tokens.size)[::-1]  # the last write, hence the first position, stays
    present = np.argsort(first, kind="stable")[: np.count_nonzero(first < tokens.size)]
    number = np.empty(len(text.words), dtype=np.int32)
    number[present] = np.arange(present.size)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Text(number[tokens], offsets, tuple([text.words[word] for word in present.tolist()]))


def _check_counts(source: str | os.PathLike[str], target: str | os.PathLike[str], counts: Sequence[int]) -> None:
    """Refuse two files of different numbers of lines."""
    if counts[0] != counts[1]:
        raise InvalidInputError(
            f"{display_name(source)} has {counts[0]} lines, but {display_name(target)} has {counts[1]}: line n of "
            "one must translate line n of the other; find the line that was lost or split"
        )


def _kind(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None,
    columns: Sequence[str] | None,
    languages: Sequence[str] | None,
) -> str:
    """The kind of a file by its name: "tmx", "table" or "text"."""
    kind = _kind_of_name(source, columns is not None)
    if target is not None:
        for path, its in ((source, kind), (target, _kind_of_name(target, columns is not None))):
            if its != "text":
                what = "a translation memory" if its == "tmx" else "a table"
                raise InvalidInputError(
                    f"{display_name(path)}: by its name this is {what}, which holds both sides; give it alone, without "
                    "a second file"
                )
    if columns is not None and kind != "table":
        raise InvalidInputError(
            f"--columns {','.join(columns)}: {display_name(source)} has no columns with names; name the file .parquet, "
            ".jsonl, .csv or .tsv if it is a table, or drop --columns"
        )
    if languages is not None and kind != "tmx":
        raise InvalidInputError(
            f"--languages {','.join(languages)}: {display_name(source)} is not a translation memory; name the file "
            ".tmx if it is one, or drop --languages"
        )
    return kind


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


def _text_pairs(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """The lines of two files."""
    counts = [0, 0]
    for source_line, target_line in zip_longest(iter_lines(source), iter_lines(target)):
        counts[0] += source_line is not None
        counts[1] += target_line is not None
        if source_line is not None and target_line is not None:
            yield source_line, target_line
    _check_counts(source, target, counts)


def _split_lines(lines: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    """Both sides of every line, without the spaces around each; the first that is not blank shows what separates."""
    separator: str | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip(" \t"):
            yield "", ""
            continue
        separator = separator or _find_separator(line, name, number)
        parts = _SEPARATORS[separator].split(line)
        if len(parts) != 2:
            _refuse_separators(name, number, separator, len(parts) - 1)
        yield parts[0].strip(" \t"), parts[1].strip(" \t")


def _first_separator(text: str, name: str, first_line: int) -> str | None:
    """The separator of the first line that is not blank; None if all are."""
    filled = re.search(r"[^ \t\r\n]", text)
    if filled is None:
        return None
    start = text.rfind("\n", 0, filled.start()) + 1
    return _find_separator(text[start:].partition("\n")[0], name, first_line + text.count("\n", 0, start))


def _find_separator(line: str, name: str, number: int) -> str:
    """The separator of a line that is not blank."""
    for separator, between in _SEPARATORS.items():
        if between.search(line):
            return separator
    raise InvalidInputError(
        f"{name}, line {number}: has neither ` ||| ` nor a tab between source and target; give two files, lines of "
        "`source ||| target`, or, if it is a table, --columns"
    )


def _refuse_separators(name: str, line: int, separator: str | None, n_found: int) -> NoReturn:
    what = "a tab" if separator == "\t" else f"` {separator} `"
    raise InvalidInputError(
        f"{name}, line {line}: must have {what} once between source and target, but has it {n_found} times; repair or "
        "remove the line"
    )
