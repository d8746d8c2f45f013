"""Sentences with a tag per word, read from and written to the field's formats."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TextIO, TypeAlias

from spectrem.data.reading import Lines, read_lines
from spectrem.data.tagging.tagged_lines import (
    Tagged,
    parse_columns,
    parse_conllu,
    parse_slashes,
    parse_text,
)
from spectrem.data.tagging.tagged_output import FORMATTERS
from spectrem.data.writers import open_output
from spectrem.exceptions import InvalidInputError

TaggedFormat: TypeAlias = Literal["slash", "columns", "conllu"]
ConlluField: TypeAlias = Literal["upos", "xpos"]

_TOKEN = re.compile(r".+/[^/]+")
_NEAR_TEN = (9, 10, 11)  # columns of a line that is CoNLL-U, or nearly
_FIRST_ID = re.compile(r"1(-[0-9]+)?|0\.[0-9]+")


class TaggedCorpus(NamedTuple):
    """Words and tags, sentence by sentence; a tag that nobody gave is None."""

    words: list[list[str]]
    tags: list[list[str | None]]

    def place(self, sentence: int) -> str:
        """Where a sentence (from 0) stands, for messages: its line where a file was read."""
        return f"sentence {sentence} (from 0)"

    def dictionary(self) -> dict[str, tuple[str, ...]]:
        """The tags seen with every word, most frequent first, of equals the one seen first; words without none.

        Examples
        --------
        >>> TaggedCorpus([["the", "run"], ["run", "ran"]], [["DT", "NN"], ["VB", None]]).dictionary()
        {'the': ('DT',), 'run': ('NN', 'VB')}
        """
        counts: dict[str, dict[str, int]] = {}
        for words, tags in zip(self.words, self.tags, strict=True):
            for word, tag in zip(words, tags, strict=True):
                if tag is not None:
                    seen = counts.setdefault(word, {})
                    seen[tag] = seen.get(tag, 0) + 1
        return {word: tuple(sorted(seen, key=lambda tag: -seen[tag])) for word, seen in counts.items()}


class _FileCorpus(TaggedCorpus):
    """A corpus that remembers the line, from 1, where each sentence starts."""

    starts: list[int]

    def place(self, sentence: int) -> str:
        return f"line {self.starts[sentence]}"


class FileSentences(list[list[str]]):
    """Sentences of a file, and the line, from 1, where each starts."""

    starts: list[int]

    def place(self, sentence: int) -> str:
        """Where a sentence (from 0) stands, for messages."""
        return f"line {self.starts[sentence]}"


def read_tagged(
    path: str | os.PathLike[str],
    format: Literal["auto", "slash", "columns", "conllu"] = "auto",
    *,
    columns: tuple[int, int] = (0, 1),
    field: ConlluField = "upos",
) -> TaggedCorpus:
    r"""Read sentences whose words are tagged; UTF-8, plain or gzipped. The tag ``_`` is None in every format.

    * ``slash``: one sentence per line of ``word/TAG`` separated by spaces, split at the last slash, so that words may
      contain slashes. A field that ends with a tab before the first word names the text and is left out. Blank
      lines are empty sentences.
    * ``columns``: one word per line, blank lines between sentences. Columns end at tabs if the first line has one,
      else at spaces; every line has as many.
    * ``conllu``: the CoNLL-U of Universal Dependencies (and CoNLL-U Plus); multiword ranges and empty nodes are left
      out, and so are comments.
    * ``auto``: CoNLL-U if the name ends in ``.conllu`` or the first line is one of its ten columns, slashes if half the
      words of the first line have them, else columns.

    Parameters
    ----------
    path : path or "-"
        ``-`` is standard input.
    format : {"auto", "slash", "columns", "conllu"}
    columns : (int, int)
        Where ``columns`` has word and tag, counted from 0; negative ones count from the end.
    field : {"upos", "xpos"}
        The tag of ``conllu`` to read.

    Raises
    ------
    InvalidInputError
        Naming file, line and what was found: a word without tag, an empty word or tag, a column that is missing.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/a.pos", ["text1\tThe/DT price/NN of/IN 1/2/CD", "It/PRP fell/_"])
    ...     corpus = read_tagged(f"{folder}/a.pos")
    >>> corpus.words[0], corpus.tags
    (['The', 'price', 'of', '1/2'], [['DT', 'NN', 'IN', 'CD'], ['PRP', None]])
    """
    _check_options(format, ("auto", "slash", "columns", "conllu"), field)
    lines = read_lines(path)
    chosen = _guess(path, lines, otherwise="columns") if format == "auto" else format
    words, tags, starts = _parse(chosen, lines, columns, field)
    corpus = _FileCorpus(words, tags)
    corpus.starts = starts
    return corpus


def read_sentences(
    path: str | os.PathLike[str],
    format: Literal["auto", "plain", "text", "slash", "columns", "conllu"] = "auto",
    *,
    column: int = 0,
) -> FileSentences:
    """Read the words of sentences, tagged or not; UTF-8, plain or gzipped.

    Parameters
    ----------
    path : path or "-"
    format : {"auto", "plain", "text", "slash", "columns", "conllu"}
        ``text``: one sentence per line, words separated by spaces or tabs; blank lines are empty sentences. The
        others are those of `read_tagged`, whose tags are dropped. ``auto`` takes a first line without tabs, whose
        words do not all have slashes, for text: columns separated by spaces must be asked for. ``plain`` is text, in
        which words may have slashes; a file that looks like CoNLL-U or columns between tabs is refused.
    column : int
        Where ``columns`` has the word.

    Raises
    ------
    InvalidInputError
        As `read_tagged`.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/a.txt", ["the price fell", "", "it fell"])
    ...     read_sentences(f"{folder}/a.txt")
    [['the', 'price', 'fell'], [], ['it', 'fell']]
    """
    _check_options(format, ("auto", "plain", "text", "slash", "columns", "conllu"), "upos")
    lines = read_lines(path)
    chosen = _guess(path, lines, otherwise="text") if format in ("auto", "plain") else format
    if format == "plain" and chosen in ("columns", "conllu"):
        number = next((n for n, line in enumerate(lines.lines) if line.strip(" \t")), 0)
        lines.refuse(
            number,
            f"looks like {chosen}, not like plain text; say format {chosen}, or text if every line is a sentence",
        )
    chosen = "text" if format == "plain" else chosen
    found = _parse(chosen, lines, (column, column), None)
    sentences = FileSentences(found.words)
    sentences.starts = found.starts
    return sentences


def write_tagged(
    output: str | os.PathLike[str] | TextIO,
    words: Iterable[Sequence[str]],
    tags: Iterable[Sequence[str | None]],
    format: TaggedFormat = "slash",
    *,
    field: ConlluField = "upos",
) -> None:
    """Write tagged sentences so that `read_tagged` gives them back; None is written as ``_``.

    Parameters
    ----------
    output : path, "-" or text stream
        A file appears under its name only when complete, and is gzipped if the name ends in ``.gz``
        (see `open_output`); a stream is written directly and left open.
    words, tags : iterable of sequence of str
        Sentence by sentence, of equal lengths.
    format : {"slash", "columns", "conllu"}
        ``columns`` are word and tag with a tab between.
    field : {"upos", "xpos"}
        The column of ``conllu`` that gets the tags; all others but number and form are ``_``.

    Raises
    ------
    InvalidInputError
        If lengths differ, words and tags cannot be separated in the format, or a sentence is empty where only slashes
        can say so; names the sentence.

    Examples
    --------
    >>> write_tagged("-", [["and/or", "not"]], [["CC", None]])
    and/or/CC not/_
    """
    _check_options(format, tuple(FORMATTERS), field)
    sentences = FORMATTERS[format](_paired(words, tags), field)
    if isinstance(output, str | os.PathLike):
        with open_output(output) as stream:
            stream.writelines(sentences)
    else:
        output.writelines(sentences)


def _paired(
    words: Iterable[Sequence[str]], tags: Iterable[Sequence[str | None]]
) -> Iterable[tuple[int, Sequence[str], Sequence[str | None]]]:
    both = zip(words, tags, strict=True)
    number = 0
    while True:
        try:
            sentence, its_tags = next(both)
        except StopIteration:
            return
        except ValueError:
            raise InvalidInputError(
                f"words and tags must have as many sentences as each other, but one ends after {number}; "
                "give the tags of the same text"
            ) from None
        if len(sentence) != len(its_tags):
            raise InvalidInputError(
                f"sentence {number} must have a tag per word, but has {len(sentence)} words and {len(its_tags)} tags; "
                "write None for a missing tag"
            )
        yield number, sentence, its_tags
        number += 1


def _parse(format: str, lines: Lines, columns: tuple[int, int], field: ConlluField | None) -> Tagged:
    if format == "text":
        return parse_text(lines)
    if format == "slash":
        return parse_slashes(lines)
    if format == "columns":
        return parse_columns(lines, columns)
    return parse_conllu(lines, field)


def _guess(path: str | os.PathLike[str], lines: Lines, otherwise: str) -> str:
    """The format that the name, or the first line that is not blank, indicates."""
    if os.fspath(path).removesuffix(".gz").endswith((".conllu", ".conllup")):
        return "conllu"
    first = next((line for line in lines.lines if line.strip(" \t")), "")
    fields = (next((line for line in lines.lines if line.strip(" \t") and line[:1] != "#"), "")).split("\t")
    if first.replace(" ", "").startswith("#global.columns=") or (
        len(fields) in _NEAR_TEN and _FIRST_ID.fullmatch(fields[0])
    ):
        return "conllu"
    words = [word for word in first.rpartition("\t")[2].split(" ") if word]
    n_tagged = sum(_TOKEN.fullmatch(word) is not None for word in words)
    # one slash forgotten shall be an error, but what may be plain text needs them all
    enough = n_tagged == len(words) if otherwise == "text" else 2 * n_tagged >= len(words)
    if enough and first.count("\t") < 2:
        return "slash"
    return "columns" if "\t" in first else otherwise


def _check_options(format: str, formats: tuple[str, ...], field: str) -> None:
    if format not in formats:
        raise InvalidInputError(f"format must be one of {', '.join(formats)}, got {format!r}")
    if field not in ("upos", "xpos"):
        raise InvalidInputError(f"field must be upos or xpos, got {field!r}; these are the two tags of CoNLL-U")
