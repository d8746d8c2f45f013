"""Lines to words and tags, one function per format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from spectrem.data.decoding import decode
from spectrem.exceptions import InvalidInputError, quoted, shorten

MISSING = "_"
_FIELDS = ("id", "form", "lemma", "upos", "xpos")
_Tagged = tuple[list[list[str]], list[list[str | None]]]


class Lines(NamedTuple):
    """The lines of a text without their ends, and how error messages call it."""

    name: str
    lines: list[str]

    def refuse(self, number: int, problem: str) -> NoReturn:
        """Raise for a line, counted from 0."""
        raise InvalidInputError(f"{self.name}, line {number + 1}: {problem}")

    def sentences(self) -> Iterator[list[tuple[int, str]]]:
        """Runs of numbered lines between blank ones."""
        run: list[tuple[int, str]] = []
        for number, line in enumerate(self.lines):
            if line.strip(" \t"):
                run.append((number, line))
            elif run:
                yield run
                run = []
        if run:
            yield run


def decoded_lines(data: bytes, name: str) -> Lines:
    r"""UTF-8 lines that end with ``\n`` or ``\r\n`` and nothing else."""
    text = decode(data, name)
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    return Lines(name, text.removesuffix("\n").split("\n"))


def sentence_starts(format: str, lines: Lines) -> list[int]:
    """The line, from 1, where each sentence starts that the parser of a format finds."""
    if format == "slash":
        return list(range(1, len(lines.lines) + 1))
    words = (
        [number + 1 for number, line in run if format == "columns" or line[:1].isdigit()] for run in lines.sentences()
    )
    return [numbers[0] for numbers in words if numbers]


def parse_text(lines: Lines) -> list[list[str]]:
    """A sentence per line; equal words are one object."""
    known: dict[str, str] = {}
    return [
        [known.setdefault(word, word) for word in line.replace("\t", " ").split(" ") if word] for line in lines.lines
    ]


def parse_slashes(lines: Lines) -> _Tagged:
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
    return words, tags


def parse_columns(lines: Lines, columns: tuple[int, int]) -> _Tagged:
    """A word per line, blank lines between sentences."""
    words: list[list[str]] = []
    tags: list[list[str | None]] = []
    known: dict[str, str] = {}
    first: tuple[int, int] | None = None  # line and number of columns
    tabs = False
    for run in lines.sentences():
        words.append([])
        tags.append([])
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
    return words, tags


def parse_conllu(lines: Lines, field: str | None) -> _Tagged:
    """CoNLL-U: the form and one tag of every word; without a field, forms alone."""
    words: list[list[str]] = []
    tags: list[list[str | None]] = []
    known: dict[str, str] = {}
    for rows in conllu_words(lines, _FIELDS):
        sentence: list[str] = []
        its_tags: list[str | None] = []
        for number, token in rows:
            form, tag = token.get("form"), token.get(field, "") if field else None
            if token.get("id") is None or not form or tag == "":
                lines.refuse(
                    number,
                    f"must have a number, a form and {field or 'a tag'}, but is {quoted(lines.lines[number])}; "
                    "add columns",
                )
            sentence.append(known.setdefault(form, form))
            its_tags.append(None if tag is None or tag == MISSING else known.setdefault(tag, tag))
        words.append(sentence)
        tags.append(its_tags)
    return words, tags


def conllu_words(lines: Lines, fields: tuple[str, ...]) -> Iterator[list[tuple[int, Mapping[str, Any]]]]:
    """The words of every sentence of CoNLL-U: of each the number of its line, from 0, and its columns by name.

    Comments, multiword ranges and empty nodes are left out, and so are sentences without words.

    Parameters
    ----------
    lines : Lines
    fields : tuple of str
        Names of the first columns; a line ``# global.columns`` (CoNLL-U Plus) takes their place.
    """
    from conllu.exceptions import ParseException
    from conllu.parser import DEFAULT_FIELD_PARSERS, parse_line

    parsers = {name: DEFAULT_FIELD_PARSERS[name] for name in ("id", "xpos", "head")}
    for run in lines.sentences():
        sentence: list[tuple[int, Mapping[str, Any]]] = []
        for number, line in run:
            if line.startswith("#"):
                if line.startswith("# global.columns ="):
                    fields = tuple(line.split("=")[1].lower().split())
                continue
            try:
                token = parse_line(line, fields, parsers)
            except ParseException as error:
                lines.refuse(number, f"is not a line of CoNLL-U: {shorten(str(error))}")
            if not isinstance(token.get("id"), tuple):  # neither a multiword range nor an empty node
                sentence.append((number, token))
        if sentence:
            yield sentence


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
