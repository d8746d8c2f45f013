"""Lines to words and tags, one function per format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spectrem.data.reading import Lines
from spectrem.exceptions import quoted, shorten

MISSING = "_"


class Tagged(NamedTuple):
    """Words and tags of sentences, and the line, from 1, where each sentence starts."""

    words: list[list[str]]
    tags: list[list[str | None]]
    starts: list[int]


def parse_text(lines: Lines) -> Tagged:
    """A sentence per line; equal words are one object."""
    known: dict[str, str] = {}
    words = [
        [known.setdefault(word, word) for word in line.replace("\t", " ").split(" ") if word] for line in lines.lines
    ]
    return Tagged(words, [], list(range(1, len(words) + 1)))


def parse_slashes(lines: Lines) -> Tagged:
    """A sentence per line of ``word/TAG``, perhaps with a name and a tab before it."""
    known: dict[str, tuple[str, str | None]] = {}
    words: list[list[str]] = []
    tags: list[list[str | None]] = []
    for number, line in enumerate(lines.lines):
        name, _, rest = line.rpartition("\t")
        if "\t" in name:
            lines.refuse(number, "has several tabs; write words with spaces between, at most one tab after a name")
        found = []
        for token in rest.split(" "):
            if token:
                pair = known.get(token)
                if pair is None:
                    pair = known[token] = _split(lines, number, token)
                found.append(pair)
        words.append([word for word, _ in found])
        tags.append([tag for _, tag in found])
    return Tagged(words, tags, list(range(1, len(words) + 1)))


def parse_columns(lines: Lines, columns: tuple[int, int]) -> Tagged:
    """A word per line, blank lines between sentences."""
    words: list[list[str]] = []
    tags: list[list[str | None]] = []
    starts: list[int] = []
    known: dict[str, str] = {}
    first: tuple[int, int] | None = None  # line and number of columns
    tabs = False
    for run in lines.sentences():
        words.append([])
        tags.append([])
        starts.append(run[0][0] + 1)
        for number, line in run:
            if first is None:
                tabs = "\t" in line
            fields = line.split("\t") if tabs else [field for field in line.split(" ") if field]
            if first is None:
                first = number, len(fields)
                _check_columns(lines, first, columns)
            if len(fields) != first[1]:
                lines.refuse(
                    number,
                    f"has {len(fields)} columns, but line {first[0] + 1} has {first[1]}; columns are separated by "
                    f"{'tabs' if tabs else 'spaces'} here; repair the line or name the format of the file",
                )
            word, tag = (fields[column] for column in columns)
            if not (word and tag):
                lines.refuse(number, f"has no {'tag' if word else 'word'} in {quoted(line)}; write _ for a missing tag")
            words[-1].append(known.setdefault(word, word))
            tags[-1].append(None if tag == MISSING else known.setdefault(tag, tag))
    return Tagged(words, tags, starts)


def parse_conllu(lines: Lines, field: str | None) -> Tagged:
    """CoNLL-U: the form and one tag of every word; without a field, forms alone."""
    words: list[list[str]] = []
    tags: list[list[str | None]] = []
    starts: list[int] = []
    known: dict[str, str] = {}
    for rows in conllu_words(lines):
        sentence: list[str] = []
        its_tags: list[str | None] = []
        for number, cells in rows:
            form, tag = cells["form"], cells.get(field, "") if field else MISSING
            if not form or cells["id"] == MISSING or not tag:
                lines.refuse(
                    number,
                    f"must have a number, a form and {field or 'a tag'}, but is {quoted(lines.lines[number])}; "
                    "add columns",
                )
            sentence.append(known.setdefault(form, form))
            its_tags.append(None if tag == MISSING else known.setdefault(tag, tag))
        words.append(sentence)
        tags.append(its_tags)
        starts.append(rows[0][0] + 1)
    return Tagged(words, tags, starts)


def conllu_words(lines: Lines) -> Iterator[list[tuple[int, dict[str, str]]]]:
    """The words of every sentence of CoNLL-U: of each the number of its line, from 0, and its cells by column.

    Comments, multiword ranges and empty nodes are left out, and so are sentences without words. Columns are the ten of
    the format, or those that a line ``# global.columns`` (CoNLL-U Plus) declares from there on, in lower case.

    Raises
    ------
    InvalidInputError
        Naming a line with more or fewer columns, or without a number.
    """
    from conllu.exceptions import ParseException
    from conllu.parser import DEFAULT_FIELDS, parse_id_value

    columns: tuple[str, ...] = DEFAULT_FIELDS
    for run in lines.sentences():
        words: list[tuple[int, dict[str, str]]] = []
        for number, line in run:
            if line.startswith("#"):
                columns = _declared_columns(lines, number) or columns
                continue
            cells = line.split("\t")
            if len(cells) != len(columns):
                lines.refuse(
                    number,
                    f"must have the {len(columns)} columns {' '.join(columns).upper()} with tabs between, but has "
                    f"{len(cells)}; write _ where there is nothing, or declare columns by a first line "
                    "`# global.columns = ...`",
                )
            word = dict(zip(columns, cells, strict=True))
            try:
                is_word = not isinstance(parse_id_value(word["id"]), tuple)
            except (ParseException, ValueError) as error:  # the latter of a number of thousands of digits
                lines.refuse(
                    number, f"is not a line of CoNLL-U: {shorten(str(error))}; number the words of a sentence from 1"
                )
            if is_word:
                words.append((number, word))
        if words:
            yield words


def _declared_columns(lines: Lines, number: int) -> tuple[str, ...] | None:
    """The columns that a comment declares, in lower case, if it does."""
    from conllu.parser import parse_pair_value

    key, value = parse_pair_value(lines.lines[number][1:])
    if key != "global.columns":
        return None
    columns = tuple((value or "").lower().split())
    if not {"id", "form"} <= set(columns) or len(set(columns)) < len(columns):
        lines.refuse(number, f"must declare columns, ID and FORM among them, each once, but declares {quoted(value)}")
    return columns


def _split(lines: Lines, number: int, token: str) -> tuple[str, str | None]:
    word, slash, tag = token.rpartition("/")
    if not slash:
        lines.refuse(number, f"{quoted(token)} has no tag; write word/TAG, or word/_ if it is missing")
    if not (word and tag):
        lines.refuse(
            number,
            f"{quoted(token)} has no {'tag' if word else 'word'}; write word/TAG, or word/_ without a tag",
        )
    return word, None if tag == MISSING else tag


def _check_columns(lines: Lines, first: tuple[int, int], columns: tuple[int, int]) -> None:
    number, n_columns = first
    for column in columns:
        if not -n_columns <= column < n_columns:
            lines.refuse(
                number,
                f"has {n_columns} column{'s' * (n_columns != 1)}, but column {column} was asked for; columns count "
                "from 0 and end at tabs, or at spaces where the first line has no tab",
            )
