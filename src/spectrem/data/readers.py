"""Bitext from files: two files, one file of two columns, or standard input; plain or gzipped."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np

from spectrem._validate import as_bool
from spectrem.data.bitext import Bitext, bitext_of
from spectrem.data.decoding import check_text
from spectrem.data.pieces.columns import Columns
from spectrem.data.pieces.mapping import NumberedSide, new_folder
from spectrem.data.pieces.reading import (
    BYTE_ORDER_MARK,
    PIECE,
    STANDARD_INPUT,
    display_name,
    is_gzipped,
    opened,
    read_pieces,
)
from spectrem.data.text import Text, tokenise
from spectrem.data.vocabulary import Vocabulary
from spectrem.exceptions import InvalidInputError

_PIECE = PIECE


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
    if folder is not None:
        return _read_mapped(source, target, folder, vocabularies or (None, None), lowercase, limit)
    if target is None:
        both = Columns(display_name(source)).split(_head(read_text(source), limit))
    else:
        both = _read_two_files(source, target, limit)
    return bitext_of(*both, vocabularies=vocabularies, lowercase=lowercase)


def read_bytes(path: str | os.PathLike[str], *, may_be_empty: bool = False) -> bytes:
    """The whole of a file or of standard input (``-``), unzipped if gzipped, without a byte order mark.

    Raises
    ------
    InvalidInputError
        If there is no such file, it cannot be read, its gzip data are damaged, or it is empty.
    """
    name = display_name(path)
    with opened(path) as stream:
        data = stream.read().removeprefix(BYTE_ORDER_MARK)
    if not data and not may_be_empty:
        raise InvalidInputError(f"{name} is empty; give a file of at least one line")
    return data


def is_plain_file(path: str | os.PathLike[str]) -> bool:
    """Whether it is a file, neither gzipped nor empty, that can be read piece by piece; `read_bytes` reads any.

    Raises
    ------
    InvalidInputError
        If it is not gzipped, though its name ends in ``.gz``.
    """
    if os.fspath(path) == STANDARD_INPUT or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as stream:
            head = stream.read(2)
            return bool(head) and not is_gzipped(head, os.fspath(path))
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


def _read_two_files(
    source: str | os.PathLike[str], target: str | os.PathLike[str], limit: int | None
) -> tuple[Text, Text]:
    texts = []
    counts = []
    for path in (source, target):
        data = read_text(path)
        counts.append(_count_lines(data))
        texts.append(tokenise(_head(data, limit), display_name(path)))
    check_counts(source, target, counts)
    return texts[0], texts[1]


def _read_mapped(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None,
    folder: str | os.PathLike[str],
    vocabularies: tuple[Vocabulary | None, Vocabulary | None],
    lowercase: bool,
    limit: int | None,
) -> Bitext:
    """Read piece by piece into files."""
    with new_folder(folder) as own:
        sides = [
            NumberedSide(own / name, vocabulary, lowercase)
            for name, vocabulary in zip(("source", "target"), vocabularies, strict=True)
        ]
        if target is None:
            columns = Columns(display_name(source))
            for data, _ in _numbered_pieces(source, limit):
                for side, text in zip(sides, columns.split(data), strict=True):
                    side.append(text)
        else:
            counts = [0, 0]
            for k, path in enumerate((source, target)):
                for data, counts[k] in _numbered_pieces(path, limit, to_the_end=True):
                    if data:
                        sides[k].append(tokenise(data, display_name(path), first_line=sides[k].n_lines + 1))
            check_counts(source, target, counts)
        (tokens, offsets, words), (others, other_offsets, other_words) = (side.finish() for side in sides)
        return Bitext(tokens, offsets, others, other_offsets, words, other_words)


def _numbered_pieces(
    path: str | os.PathLike[str], limit: int | None, to_the_end: bool = False
) -> Iterator[tuple[bytes, int]]:
    """Pieces of a text without what comes after the first lines, and how many lines have been read so far."""
    n_lines = 0
    for data in read_pieces(path, _PIECE):
        wanted = None if limit is None else limit - n_lines
        n_lines += _count_lines(data)
        if wanted is None or wanted > 0:
            yield _head(data, wanted), n_lines
        elif to_the_end:
            yield b"", n_lines
        else:
            return


def check_counts(source: str | os.PathLike[str], target: str | os.PathLike[str], counts: Sequence[int]) -> None:
    """Refuse two files of different numbers of lines."""
    if counts[0] != counts[1]:
        raise InvalidInputError(
            f"{display_name(source)} has {counts[0]} lines, but {display_name(target)} has {counts[1]}: line n of "
            "one must translate line n of the other; find the line that was lost or split"
        )


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n"))


def _head(data: bytes, limit: int | None) -> bytes:
    """The first lines of a text."""
    if limit is None:
        return data
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    return data if ends.size < limit else data[: ends[limit - 1] + 1]
