"""The lines of a file as pieces of some tens of megabytes."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, cast

from spectrem.data.decoding import HEAD, check_text
from spectrem.exceptions import InvalidInputError

STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PIECE = 1 << 25
"""Bytes of a piece, about."""


def read_pieces(path: str | os.PathLike[str], size: int = PIECE) -> Iterator[bytes]:
    r"""The bytes of `spectrem.data.readers.read_text`, some lines at a time.

    Parameters
    ----------
    path : path or "-"
    size : int
        Bytes that are read at a time; what its last line needs beyond is added to the next piece.

    Yields
    ------
    bytes
        Whole lines; all pieces end with ``\n``, but for the last one of a text that does not.

    Raises
    ------
    InvalidInputError
        As `read_text`.

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
    name = display_name(path)
    rest, is_empty = b"", True
    with opened(path) as stream:
        head = stream.read(max(size, HEAD))
        check_text(head, name)
        head = head.removeprefix(BYTE_ORDER_MARK)
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
        raise InvalidInputError(f"{name} is empty; give a file of at least one line")


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The bytes of a file or of standard input, unzipped if gzipped.

    Raises
    ------
    InvalidInputError
        Also while it is read, naming the file: there is none, it cannot be read, or its gzip data are damaged.
    """
    name = display_name(path)
    with _readable(name), ExitStack() as stack:
        if os.fspath(path) == STANDARD_INPUT:
            stream: io.BufferedReader[Any] = io.BufferedReader(standard_input())
            stack.callback(stream.detach)  # it stays open
        else:
            stream = stack.enter_context(open(path, "rb"))
        if is_gzipped(stream.peek(2), name):
            yield cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=stream)))
        else:
            yield stream


def is_gzipped(head: bytes, name: str) -> bool:
    """Whether the first bytes of a file are those of gzip, which begin no UTF-8 text.

    Raises
    ------
    InvalidInputError
        If there are others, though the name ends in ``.gz``.
    """
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


def standard_input() -> BinaryIO:
    """Standard input as bytes.

    Raises
    ------
    InvalidInputError
        If it is closed.
    """
    if sys.stdin is None:
        raise InvalidInputError("standard input is closed; give a file, or pipe text into the command")
    return sys.stdin.buffer


def display_name(path: str | os.PathLike[str]) -> str:
    """The name of an input in error messages."""
    return "standard input" if os.fspath(path) == STANDARD_INPUT else os.fspath(path)
