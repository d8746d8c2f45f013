"""Sentence pairs from files of any kind, encoded while they are read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from spectrem._validate import as_bool
from spectrem.data.bitext import Bitext, join_lines
from spectrem.data.pieces.columns import refuse_separators, refuse_unseparated
from spectrem.data.pieces.mapping import NumberedSide, new_folder
from spectrem.data.pieces.reading import STANDARD_INPUT, display_name, read_pieces
from spectrem.data.raw.columns import DEFAULT_COLUMNS, JSON_LINES, iter_columns
from spectrem.data.raw.json_lines import text_lines
from spectrem.data.raw.segmented import SegmentedText, Segmenter, encode_segmented
from spectrem.data.readers import check_counts, read_bitext
from spectrem.data.text import tokenise
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
    memory: TranslationMemory | None = None
    if kind == "tmx":
        from spectrem.data.raw.tmx import TranslationMemory

        memory = TranslationMemory(source, languages)
        pairs = iter(memory)
    elif kind == "table":
        pairs = iter_columns(source, columns or DEFAULT_COLUMNS)
    else:
        pairs = _text_pairs(source, target)
    blocks = _blocks(pairs)
    name, segmented = display_name(source), None
    with nullcontext() if folder is None else new_folder(folder) as own:
        paths = [None if own is None else own / side for side in ("source", "target")]
        if tokenize:
            segmenters = [Segmenter(path) for path in paths]
            for block in blocks:
                for segmenter, lines in zip(segmenters, block, strict=True):
                    segmenter.add(lines, name)
            segmented = (segmenters[0].finish(), segmenters[1].finish())
            bitext = encode_segmented(*segmented, lowercase=lowercase, folder=own)
        else:
            bitext = _numbered(blocks, [NumberedSide(path, None, lowercase) for path in paths], name)
    return EncodedPairs(bitext, segmented, 0 if memory is None else memory.n_skipped)


def _blocks(pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Source lines and target lines, some thousand at a time."""
    while block := list(islice(pairs, _LINES_AT_ONCE)):
        source, target = zip(*block, strict=True)
        yield source, target


def _numbered(
    blocks: Iterator[tuple[tuple[str, ...], tuple[str, ...]]],
    sides: Sequence[NumberedSide],
    name: str,
) -> Bitext:
    """Lines split at spaces and tabs."""
    for block in blocks:
        for k, lines in enumerate(block):
            sides[k].append(tokenise(join_lines(lines, name), name))
    (tokens, offsets, words), (others, other_offsets, other_words) = (side.finish() for side in sides)
    return Bitext(tokens, offsets, others, other_offsets, words, other_words)


def _kind(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None,
    columns: Sequence[str] | None,
    languages: Sequence[str] | None,
) -> str:
    """What a file holds, by its name: "tmx", "table" or "text"."""
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


def _text_pairs(source: str | os.PathLike[str], target: str | os.PathLike[str] | None) -> Iterator[tuple[str, str]]:
    """Lines of two files, or of one that holds both sides."""
    if target is None:
        yield from _split_pairs(text_lines(read_pieces(source), display_name(source)), display_name(source))
        return
    names = display_name(source), display_name(target)
    counts = [0, 0]
    sides = [text_lines(read_pieces(path), name) for path, name in zip((source, target), names, strict=True)]
    for source_line, target_line in zip_longest(*sides):
        counts[0] += source_line is not None
        counts[1] += target_line is not None
        if source_line is not None and target_line is not None:
            yield source_line, target_line
    check_counts(source, target, counts)


def _split_pairs(lines: Iterator[str], name: str) -> Iterator[tuple[str, str]]:
    """Both sides of every line, without the spaces around each; the first that is not blank shows what separates."""
    separator: str | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip(" \t"):
            yield "", ""
            continue
        if separator is None:
            separator = next((mark for mark, between in _SEPARATORS.items() if between.search(line)), None)
        if separator is None:
            refuse_unseparated(name, number)
        parts = _SEPARATORS[separator].split(line)
        if len(parts) != 2:
            refuse_separators(name, number, separator, len(parts) - 1)
        yield parts[0].strip(" \t"), parts[1].strip(" \t")
