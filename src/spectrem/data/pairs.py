"""Sentence pairs from files of any kind, encoded while they are read: lines of text, tables, translation memories."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from spectrem._reprs import brief_dataclass
from spectrem._validate import as_bool
from spectrem.data.bitext import Bitext, NumberedSide, join_lines, new_folder
from spectrem.data.files import (
    STANDARD_INPUT,
    decode,
    describe,
    display_name,
    iter_lines,
    read_objects,
    read_pieces,
)
from spectrem.data.segmented import SegmentedText, Segmenter, encode_segmented
from spectrem.data.table_file import TableFile, batches, read_table
from spectrem.data.text import Vocabulary, tokenise
from spectrem.data.tmx import TranslationMemory
from spectrem.exceptions import InvalidInputError, no_such, quoted

JSON_LINES = (".jsonl", ".ndjson")
_TAB_SEPARATED = (".tsv", ".tab")
DEFAULT_COLUMNS = ("source", "target")


def iter_columns(path: str | os.PathLike[str], columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Two columns of text, row by row; line ends in cells are spaces, missing cells of tables are empty.

    In a table whose columns are separated by tabs no cell may hold both a tab and a line end: a quotation mark before a
    sentence would silently join it with the lines up to the next mark.

    Parameters
    ----------
    path : path
        ``.jsonl`` or ``.ndjson``, one JSON object a line, or a table that `read_table` knows.
    columns : (source, target)
        Their names. ``translation.en`` is field ``en`` of column ``translation`` where there is no column of that name.

    Raises
    ------
    InvalidInputError
        Naming file, line and column: no such file or column, something else than text in it (null in JSON, too), rows
        joined by quotation marks, no rows.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/trees.csv", ["id,en,fr", '1,"a tree, tall",un grand arbre', "2,wood,"])
    ...     list(iter_columns(f"{folder}/trees.csv", ["en", "fr"]))
    [('a tree, tall', 'un grand arbre'), ('wood', '')]
    """
    suffix = Path(Path(path).stem if os.fspath(path).endswith(".gz") else path).suffix.lower()
    if suffix in JSON_LINES:
        pairs = _of_objects(path, columns)
    else:
        table = read_table(path)
        pairs = _of_table(table, columns)
        if suffix in _TAB_SEPARATED:
            pairs = _unjoined(pairs, table, columns)
    for source, target in pairs:
        yield _one_line(source), _one_line(target)


def _one_line(text: str | None) -> str:
    return "" if text is None else text.replace("\n", " ").replace("\r", " ")


def _of_table(table: TableFile, columns: Sequence[str]) -> Iterator[tuple[str | None, ...]]:
    import polars

    expressions = [_expression(table, name) for name in columns]
    for rows in batches(table.data.select(e.cast(polars.String).alias(str(k)) for k, e in enumerate(expressions))):
        yield from rows.iter_rows()


def _unjoined(
    pairs: Iterator[tuple[str | None, ...]], table: TableFile, columns: Sequence[str]
) -> Iterator[tuple[str | None, ...]]:
    """The same pairs; raises an error where a cell holds parts of several rows."""
    for row, pair in enumerate(pairs):
        for column, cell in zip(columns, pair, strict=True):
            if cell is not None and "\t" in cell and "\n" in cell:
                raise InvalidInputError(
                    f"{table.name}, {table.place(row)}: column {column!r} must not hold tabs and line ends together, "
                    f'got {quoted(cell)}, since the " before it quotes all up to the next "; double every " and put '
                    'the cell between ", or give lines of text in two files'
                )
        yield pair


def _expression(table: TableFile, name: str) -> Any:
    """A column of text, or a field of one."""
    import polars

    column, kind = polars.col(name), table.schema.get(name)
    outer, _, inner = name.partition(".")
    if kind is None and isinstance(table.schema.get(outer), polars.Struct):
        fields = {field.name: field.dtype for field in table.schema[outer].fields}
        if inner not in fields:
            raise InvalidInputError(f"--columns: column {outer!r} of {table.name}: {no_such('field', inner, fields)}")
        column, kind = polars.col(outer).struct.field(inner), fields[inner]
    if kind is None:
        table.check([name], "--columns")
    if isinstance(kind, polars.Struct):
        raise InvalidInputError(
            f"{table.name}, column {name!r}: holds fields, not text; name one of them: "
            f"{', '.join(repr(f'{name}.{field.name}') for field in kind.fields)}"
        )
    if kind not in (polars.String, polars.Categorical, polars.Enum):
        raise InvalidInputError(
            f"{table.name}, column {name!r}: holds {kind}, and text is needed; choose others by --columns "
            f"SOURCE,TARGET among {', '.join(map(repr, table.names))}"
        )
    return column


def _of_objects(path: str | os.PathLike[str], columns: Sequence[str]) -> Iterator[tuple[str | None, ...]]:
    name = display_name(path)
    for number, row in read_objects(path):
        pair = []
        for column in columns:
            outer, _, inner = column.partition(".")
            try:
                value = row[column] if column in row else row[outer][inner]
            except (KeyError, TypeError):
                raise InvalidInputError(
                    f"--columns: {name}, line {number}: {no_such('key', column, row)}; every line needs both, which "
                    "--columns SOURCE,TARGET names (in Python: columns=)"
                ) from None
            if not isinstance(value, str):
                raise InvalidInputError(
                    f"{name}, line {number}: {column!r} is {describe(value)}, and text is needed, got {quoted(value)}; "
                    'correct it, write "" for an empty sentence, or choose others by --columns SOURCE,TARGET'
                )
            pair.append(value)
        yield tuple(pair)


_LINES_AT_ONCE = 2000
# What separates source and target of a line, how it mostly stands there, and all ways in which it may.
_SEPARATORS = {
    b"|||": (b" ||| ", re.compile(rb"(?:(?<=[ \t])|^)\|\|\|(?=[ \t]|$)")),
    b"\t": (b"\t", re.compile(rb"\t")),
}
_TABLES = (".parquet", ".csv", ".tsv", ".tab", *JSON_LINES)


@brief_dataclass(frozen=True)
class EncodedPairs:
    """Sentence pairs of a file.

    Attributes
    ----------
    bitext : Bitext
    segmented : (SegmentedText, SegmentedText) or None
        Where the tokens of source and target stand, if the text was split into tokens here.
    n_skipped : int
        Translation units of a TMX file without a text in both languages, which are not in the bitext.
    original : Bitext or None
        The same words as they are written in the file, if they are lower-cased in the bitext.

    Examples
    --------
    >>> from spectrem.data import encode_bitext
    >>> EncodedPairs(encode_bitext(["the house"], ["das haus"])).tokens(0)
    (['the', 'house'], ['das', 'haus'])
    """

    bitext: Bitext
    segmented: tuple[SegmentedText, SegmentedText] | None = None
    n_skipped: int = 0
    original: Bitext | None = None

    def tokens(self, pair: int) -> tuple[list[str], list[str]]:
        """The source and the target tokens of a pair, counted from 0, as they are written in the file.

        Parameters
        ----------
        pair : int
            From 0.

        Returns
        -------
        source, target : list of str
        """
        if self.segmented is not None:
            return self.segmented[0].tokens(pair), self.segmented[1].tokens(pair)
        source, target = (
            [side.vocabulary.words[word] for word in side.tokens[side.offsets[pair] : side.offsets[pair + 1]].tolist()]
            for side in (self.original or self.bitext).sides
        )
        return source, target

    def lines(self, pair: int) -> tuple[str, str]:
        """The source and the target text of a pair, with a space wherever words are apart.

        Parameters
        ----------
        pair : int
            From 0.

        Returns
        -------
        source, target : str
        """
        if self.segmented is not None:
            return self.segmented[0].line(pair), self.segmented[1].line(pair)
        source, target = self.tokens(pair)
        return " ".join(source), " ".join(target)


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

    Returns
    -------
    Bitext
        The pairs in the order of the file.

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

    Returns
    -------
    EncodedPairs
        The pairs as ``bitext`` and, if they were split, ``segmented``: the two split texts.

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
        memory = TranslationMemory(source, languages)
        pairs = iter(memory)
    elif kind == "table":
        pairs = iter_columns(source, columns or DEFAULT_COLUMNS)
    elif target is None:
        pairs = _split_text(source)
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
        if data := piece if limit is None else b"".join(islice(io.BytesIO(piece), max(limit - n_lines, 0))):
            side.append(tokenise(data, display_name(path), first_line=n_lines + 1))
        n_lines += piece.count(b"\n") + (not piece.endswith(b"\n"))
    return n_lines


def _number_columns(path: str | os.PathLike[str], sides: Sequence[NumberedSide], limit: int | None) -> None:
    """Append both sides of the first lines of a file."""
    name = display_name(path)
    for first_line, piece, columns in _read_columns(path, limit):
        try:
            for side, lines in zip(sides, columns, strict=True):
                side.append(tokenise(b"\n".join(lines) + b"\n", name, first_line=first_line))
        except InvalidInputError:
            decode(piece, name, first_line)  # says where in the whole line
            raise


def _read_columns(
    path: str | os.PathLike[str], limit: int | None = None
) -> Iterator[tuple[int, bytes, tuple[list[bytes], list[bytes]]]]:
    """The first lines of a file of both sides, piece by piece: number of the first, all bytes, sources and targets."""
    name, n_lines, separator = display_name(path), 0, b""
    for piece in read_pieces(path):
        whole = piece.replace(b"\r\n", b"\n").removesuffix(b"\r") if b"\r" in piece else piece
        lines = whole.removesuffix(b"\n").split(b"\n")[: None if limit is None else limit - n_lines]
        if not lines:
            return
        try:
            sources, targets, separator = _split_lines(lines, name, n_lines + 1, separator)
        except InvalidInputError:
            decode(piece, name, n_lines + 1)  # what is not UTF-8 is said first
            raise
        yield n_lines + 1, piece, (sources, targets)
        n_lines += len(lines)


def _split_lines(
    lines: list[bytes], name: str, first_line: int, separator: bytes
) -> tuple[list[bytes], list[bytes], bytes]:
    """The sources and targets of lines, and what separates them, as the first line of the file shows that is filled."""
    sources, targets = list[bytes](), list[bytes]()
    for number, line in enumerate(lines, start=first_line):
        if not line.strip(b" \t"):
            sources.append(b"")
            targets.append(b"")
            continue
        separator = separator or _find_separator(line, name, number)
        mostly, every = _SEPARATORS[separator]
        source, between, target = line.partition(mostly)
        if not between or line.count(separator) > 1:
            parts = every.split(line)
            if len(parts) != 2:
                what = "a tab" if separator == b"\t" else f"` {separator.decode()} `"
                raise InvalidInputError(
                    f"{name}, line {number}: must have {what} once between source and target, but has it "
                    f"{len(parts) - 1} times; repair or remove the line"
                )
            source, target = parts
        sources.append(source)
        targets.append(target)
    return sources, targets, separator


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
        for path, path_kind in ((source, kind), (target, _kind_of_name(target, columns is not None))):
            if path_kind != "text":
                what = "a translation memory" if path_kind == "tmx" else "a table"
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


def _split_text(path: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """Both sides of every line of a file, without the spaces around each."""
    for first_line, piece, columns in _read_columns(path):
        decode(piece, display_name(path), first_line)
        for source, target in zip(*columns, strict=True):
            yield source.decode().strip(" \t"), target.decode().strip(" \t")


def _text_pairs(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """The lines of two files."""
    counts = [0, 0]
    for source_line, target_line in zip_longest(iter_lines(source), iter_lines(target)):
        counts[0] += source_line is not None
        counts[1] += target_line is not None
        if source_line is not None and target_line is not None:
            yield source_line, target_line
    _check_counts(source, target, counts)


def _find_separator(line: bytes, name: str, number: int) -> bytes:
    """The separator of a line that is not blank."""
    for separator, (_, every) in _SEPARATORS.items():
        if every.search(line):
            return separator
    raise InvalidInputError(
        f"{name}, line {number}: has neither ` ||| ` nor a tab between source and target; give two files, lines of "
        "`source ||| target`, or, if it is a table, --columns"
    )
