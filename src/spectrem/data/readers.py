"""Bitext from files: two files, one file of two columns, or standard input; plain or gzipped."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spectrem.data.bitext import Bitext, bitext_of
from spectrem.data.decoding import check_text
from spectrem.data.text import Text, tokenise
from spectrem.data.vocabulary import Vocabulary
from spectrem.exceptions import InvalidInputError

STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_bitext(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    lowercase: bool = False,
    limit: int | None = None,
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

    Raises
    ------
    InvalidInputError
        Naming file, line and value: a missing, empty or damaged file, bytes that are not UTF-8, line counts
        that differ, a line without separator or with two.

    Examples
    --------
    >>> from spectrem.data import write_lines
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/pairs.txt", ["the house ||| das haus", "", "a ||| ein"])
    ...     read_bitext(f"{folder}/pairs.txt").source_lengths
    array([2, 0, 1])
    """
    if limit is not None and limit < 1:
        raise InvalidInputError(f"limit must be at least 1, but is {limit}; leave it out to read every pair")
    both = _read_two_columns(source, limit) if target is None else _read_two_files(source, target, limit)
    return bitext_of(*both, vocabularies=vocabularies, lowercase=lowercase)


def read_bytes(path: str | os.PathLike[str], *, may_be_empty: bool = False) -> bytes:
    """The whole of a file or of standard input (``-``), unzipped if gzipped, without a byte order mark.

    Raises
    ------
    InvalidInputError
        If there is no such file, it cannot be read, its gzip data are damaged, or it is empty.
    """
    name = display_name(path)
    if os.fspath(path) == STANDARD_INPUT and sys.stdin is None:
        raise InvalidInputError("standard input is closed; give a file, or pipe text into the command")
    try:
        data = sys.stdin.buffer.read() if os.fspath(path) == STANDARD_INPUT else Path(path).read_bytes()
        if data.startswith(_GZIP_MAGIC):  # no UTF-8 text begins so
            data = gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInputError(f"{name}: damaged gzip file: {error}; fetch or write it again") from None
    except MemoryError:
        raise InvalidInputError(f"{name}: does not fit into memory; split it") from None
    except FileNotFoundError:
        raise InvalidInputError(f"{name}: no such file; check the path") from None
    except OSError as error:
        raise InvalidInputError(f"{name}: cannot be read: {error.strerror}; give a readable file") from None
    data = data.removeprefix(_BYTE_ORDER_MARK)
    if not data and not may_be_empty:
        raise InvalidInputError(f"{name} is empty; give a file of at least one line")
    return data


def is_plain_file(path: str | os.PathLike[str]) -> bool:
    """Whether it is a file, neither gzipped nor empty, that can be read piece by piece; `read_bytes` reads any."""
    if os.fspath(path) == STANDARD_INPUT or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(2) not in (b"", _GZIP_MAGIC)
    except OSError:
        return False


def read_text(path: str | os.PathLike[str]) -> bytes:
    """The bytes of `read_bytes`, unless they are plainly not UTF-8 text; `decode` and `tokenise` look at all of them.

    Raises
    ------
    InvalidInputError
        As `read_bytes`, and if the data look like another encoding or a binary file.
    """
    data = read_bytes(path)
    check_text(data, display_name(path))
    return data


def display_name(path: str | os.PathLike[str]) -> str:
    """The name of an input in error messages."""
    return "standard input" if os.fspath(path) == STANDARD_INPUT else os.fspath(path)


def _read_two_files(
    source: str | os.PathLike[str], target: str | os.PathLike[str], limit: int | None
) -> tuple[Text, Text]:
    if os.fspath(source) == os.fspath(target) == STANDARD_INPUT:
        raise InvalidInputError(
            "source and target cannot both be standard input; give one input of `source ||| target` lines instead"
        )
    texts = []
    counts = []
    for path in (source, target):
        data = read_text(path)
        counts.append(_count_lines(data))
        texts.append(tokenise(_head(data, limit), display_name(path)))
    if counts[0] != counts[1]:
        raise InvalidInputError(
            f"{display_name(source)} has {counts[0]} lines, but {display_name(target)} has {counts[1]}: line n of "
            "one must translate line n of the other; find the line that was lost or split"
        )
    return texts[0], texts[1]


def _read_two_columns(path: str | os.PathLike[str], limit: int | None) -> tuple[Text, Text]:
    name = display_name(path)
    data = _head(read_text(path), limit)
    text = tokenise(data, name)
    if "|||" in text.words and _first_line_holds(text, text.words.index("|||")):
        return _split_columns(text, "|||", name)
    if b"\t" in data:
        with_tabs = tokenise(data.replace(b"\t", b" \t "), name, split_tabs=False)
        if _first_line_holds(with_tabs, with_tabs.words.index("\t")):
            return _split_columns(with_tabs, "\t", name)
    position = text.offsets[1:][np.diff(text.offsets) > 0]
    if position.size == 0:
        return text, text
    raise InvalidInputError(
        f"{name}, line {text.line_of(int(position[0]) - 1)}: has neither ` ||| ` nor a tab between source and target; "
        "give two files, or lines of `source ||| target`"
    )


def _first_line_holds(text: Text, word: int) -> bool:
    """Whether a word occurs in the first line that is not blank."""
    position = int(np.argmax(text.tokens == word))
    start = text.offsets[np.searchsorted(text.offsets, position, side="right") - 1]
    return bool(text.tokens[position] == word and start == 0)


def _split_columns(text: Text, separator: str, name: str) -> tuple[Text, Text]:
    is_separator = text.tokens == text.words.index(separator)
    before = np.concatenate([[0], np.cumsum(is_separator)])
    per_line = np.diff(before[text.offsets])
    lengths = np.diff(text.offsets)
    wrong = np.flatnonzero((per_line != 1) & (lengths > 0))
    if wrong.size:
        what = "a tab" if separator == "\t" else f"` {separator} `"
        raise InvalidInputError(
            f"{name}, line {wrong[0] + 1}: must have {what} once between source and target, "
            f"but has it {per_line[wrong[0]]} times; repair or remove the line"
        )
    separators = text.offsets[:-1].copy()
    separators[lengths > 0] = np.flatnonzero(is_separator)
    on_source = before[:-1] == np.repeat(before[text.offsets[:-1]], lengths)
    source_lengths = separators - text.offsets[:-1]
    target_lengths = np.maximum(lengths - source_lengths - 1, 0)
    return (
        _part(text, on_source & ~is_separator, source_lengths),
        _part(text, ~on_source & ~is_separator, target_lengths),
    )


def _part(text: Text, keep: NDArray[np.bool_], lengths: NDArray[np.int64]) -> Text:
    """The kept tokens of a text, renumbered in the order of first appearance among them."""
    tokens = text.tokens[keep]
    first = np.full(len(text.words), tokens.size, dtype=np.int64)
    first[tokens[::-1]] = np.arange(tokens.size)[::-1]  # the last write, hence the first position, stays
    present = np.flatnonzero(first < tokens.size)
    present = present[np.argsort(first[present])]
    number = np.empty(len(text.words), dtype=np.int32)
    number[present] = np.arange(present.size)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Text(number[tokens], offsets, tuple([text.words[word] for word in present.tolist()]))


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n"))


def _head(data: bytes, limit: int | None) -> bytes:
    """The first lines of a text."""
    if limit is None:
        return data
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    return data if ends.size < limit else data[: ends[limit - 1] + 1]
