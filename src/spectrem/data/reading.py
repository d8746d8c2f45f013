"""Files of any kind as bytes, as pieces of whole lines, and as lines: plain or gzipped, or standard input."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

from spectrem.data.decoding import HEAD, check_text, decode
from spectrem.exceptions import InvalidInputError

STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PIECE = 1 << 25
"""Bytes of a piece, about."""
_DECODED_AT_ONCE = 1 << 22


class Lines(NamedTuple):
    """The lines of a text without their ends, and how error messages call it."""

    name: str
    lines: list[str]

    def refuse(self, number: int, problem: str) -> NoReturn:
        """Raise for a line, counted from 0."""
        raise InvalidInputError(f"{self.name}, line {number + 1}: {problem}")

    def filled(self) -> Iterator[tuple[int, str]]:
        """Lines that are not blank, numbered from 0."""
        return ((number, line) for number, line in enumerate(self.lines) if line.strip(" \t"))

    def sentences(self) -> Iterator[list[tuple[int, str]]]:
        """Runs of numbered lines between blank ones."""
        run: list[tuple[int, str]] = []
        for number, line in self.filled():
            if run and run[-1][0] + 1 < number:
                yield run
                run = []
            run.append((number, line))
        if run:
            yield run


def read_lines(path: str | os.PathLike[str]) -> Lines:
    """All lines of a file, decoded.

    Raises
    ------
    InvalidInputError
        As `read_pieces`, and naming the line that is not UTF-8.
    """
    return Lines(display_name(path), list(iter_lines(path)))


def iter_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of `read_lines`, one after another, for files that need not fit into memory."""
    return decoded_lines(read_pieces(path, _DECODED_AT_ONCE), display_name(path))


def decoded_lines(pieces: Iterable[bytes], name: str) -> Iterator[str]:
    r"""The lines of UTF-8 text, given in pieces of whole lines, without their ends, ``\n`` or ``\r\n``.

    Raises
    ------
    InvalidInputError
        Naming the line that is not UTF-8.

    Examples
    --------
    >>> list(decoded_lines([b"a b\r\n\n", b"c"], "example"))
    ['a b', '', 'c']
    """
    n_lines = 0
    for piece in pieces:
        text = decode(piece, name, n_lines + 1)
        if "\r" in text:
            text = text.replace("\r\n", "\n").removesuffix("\r")
        lines = text.removesuffix("\n").split("\n")
        n_lines += len(lines)
        yield from lines


def read_bytes(path: str | os.PathLike[str], *, may_be_empty: bool = False) -> bytes:
    """The whole of a file or of standard input (``-``), unzipped if gzipped, without a byte order mark.

    Raises
    ------
    InvalidInputError
        If there is no such file, it cannot be read, its gzip data are damaged, or it is empty.
    """
    with opened(path) as stream:
        data = stream.read().removeprefix(_BYTE_ORDER_MARK)
    if not data and not may_be_empty:
        raise InvalidInputError(f"{display_name(path)} is empty; give a file of at least one line")
    return data


def read_pieces(path: str | os.PathLike[str], size: int | None = None) -> Iterator[bytes]:
    r"""The bytes of a text without a byte order mark, some lines at a time.

    Parameters
    ----------
    path : path or "-"
    size : int, optional
        Bytes that are read at a time, `PIECE` if left out; what its last line needs beyond is added to the next piece.

    Yields
    ------
    bytes
        Whole lines; all pieces end with ``\n``, but for the last one of a text that does not.

    Raises
    ------
    InvalidInputError
        As `read_bytes`, and if the first bytes look like another encoding than UTF-8 or like a binary file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "text")
    ...     _ = path.write_bytes(b"a b\nc\n\nd")
    ...     list(read_pieces(path, size=5))
    [b'a b\n', b'c\n\n', b'd']
    """
    size = size or PIECE
    rest, is_empty = b"", True
    with opened(path) as stream:
        head = stream.read(max(size, HEAD))
        check_text(head, display_name(path))
        head = head.removeprefix(_BYTE_ORDER_MARK)
        first = (head[k : k + size] for k in range(0, len(head), size))
        for data in chain(first, iter(partial(stream.read, size), b"")):
            rest += data
            end = rest.rfind(b"\n") + 1
            if end:
                is_empty = False
                yield rest[:end]
                rest = rest[end:]
    if rest:
        yield rest
    elif is_empty:
        raise InvalidInputError(f"{display_name(path)} is empty; give a file of at least one line")


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
            return bool(head) and not _is_gzipped(head, os.fspath(path))
    except OSError:
        return False


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The bytes of a file or of standard input, unzipped if gzipped.

    Raises
    ------
    InvalidInputError
        Also while it is read, naming the file: there is none, it cannot be read, or its gzip data are damaged; or
        standard input is closed.
    """
    name = display_name(path)
    with _readable(name), ExitStack() as stack:
        if os.fspath(path) == STANDARD_INPUT:
            if sys.stdin is None:
                raise InvalidInputError("standard input is closed; give a file, or pipe text into the command")
            stream: io.BufferedReader[Any] = io.BufferedReader(sys.stdin.buffer)
            stack.callback(stream.detach)  # it stays open
        else:
            stream = stack.enter_context(open(path, "rb"))
        if _is_gzipped(stream.peek(2), name):
            yield cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=stream)))
        else:
            yield stream


def _is_gzipped(head: bytes, name: str) -> bool:
    """Whether the first bytes of a file are those of gzip; others are refused if the name ends in ``.gz``."""
    if head.startswith(_GZIP_MAGIC):
        return True
    if head and name.endswith(".gz"):
        raise InvalidInputError(f"{name}: is not gzipped, though its name ends in .gz; rename it, or fetch it again")
    return False


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn what reading a file raises into errors that name the file and what to do."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInputError(f"{name}: damaged gzip file: {error}; fetch or write it again") from None
    except MemoryError:
        raise InvalidInputError(f"{name}: does not fit into memory; split it") from None
    except FileNotFoundError:
        raise InvalidInputError(f"{name}: no such file; check the path") from None
    except OSError as error:
        raise InvalidInputError(f"{name}: cannot be read: {error.strerror}; give a readable file") from None


def display_name(path: str | os.PathLike[str]) -> str:
    """The name of an input in error messages."""
    return "standard input" if os.fspath(path) == STANDARD_INPUT else os.fspath(path)
