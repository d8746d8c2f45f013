"""Files as bytes, pieces of whole lines, lines and JSON objects, plain or gzipped; text written whole or not at all."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, NamedTuple, NoReturn, TextIO, cast

from spectrem._outputs import open_bytes
from spectrem.exceptions import InvalidInputError, quoted

_BYTE_ORDER_MARKS = (  # the longer ones first: that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SIGNATURES = (
    (b"PK\x03\x04", "a zip archive, as .zip, .npz and .xlsx files are", "unpack it, or export its contents as text"),
    (b"\x93NUMPY", "an array of NumPy", "write its contents as text"),
    (b"PAR1", "Parquet", "write its contents as text"),
    (b"\x1f\x8b", "gzip data inside gzip data", "unpack it once"),
    (b"BZh", "bzip2 data", "unpack it by bunzip2, or compress it by gzip"),
    (b"\xfd7zXZ\x00", "xz data", "unpack it by unxz, or compress it by gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "unpack it by unzstd, or compress it by gzip"),
    (b"\xd0\xcf\x11\xe0", "an office document", "export its contents as text"),
    (b"%PDF-", "PDF", "export its contents as text"),
)
HEAD = 4096
"""Bytes that show what a file is."""
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\v\f\r\x1b")


def decode(data: bytes, name: str, first_line: int = 1) -> str:
    """The text of UTF-8 bytes.

    Parameters
    ----------
    data : bytes
    name : str
        How error messages call the text.
    first_line : int
        The number of its first line.

    Raises
    ------
    InvalidInputError
        Naming the encoding or kind of file that the bytes look like, else line and byte where they stop being UTF-8.

    Examples
    --------
    >>> decode("naïve".encode(), "example")
    'naïve'
    >>> decode("naïve".encode("latin1"), "example")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    InvalidInputError: example, line 1: byte 3 of the line (0xef) is not UTF-8; convert the text, for example with ...
    """
    check_text(data, name)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        head = data[:HEAD]
        if sum(byte in _CONTROLS for byte in head) > max(3, len(head) // 10):
            raise InvalidInputError(
                f"{name}: this is binary, and UTF-8 text is needed; check which file it is"
            ) from None
        line = data.count(b"\n", 0, error.start) + first_line
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InvalidInputError(
            f"{name}, line {line}: byte {column} of the line (0x{data[error.start]:02x}) is not UTF-8; "
            "convert the text, for example with `iconv -f latin1 -t utf-8`"
        ) from None


def stray_return(name: str, line: int) -> InvalidInputError:
    """The error about a carriage return inside a line."""
    return InvalidInputError(
        f"{name}, line {line}: holds a carriage return that ends no line; if lines end by it alone, convert them "
        "with `tr '\\r' '\\n'`, otherwise write a space for it"
    )


def check_text(data: bytes, name: str) -> None:
    """Refuse what its first bytes show to be something else than UTF-8 text.

    Raises
    ------
    InvalidInputError
        Naming what the data look like and how to convert them.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            raise InvalidInputError(
                f"{name}, line 1: this is {encoding.upper()}, not UTF-8; convert the text with "
                f"`iconv -f {encoding} -t utf-8`"
            )
    for signature, kind, hint in _SIGNATURES:
        if data.startswith(signature) and (b"\x00" in data[:HEAD] or not _is_utf8(data)):
            raise InvalidInputError(f"{name}: this is {kind}, and UTF-8 text is needed; {hint}")
    head = data[:HEAD]
    if head.count(0) > max(3, len(head) // 20):
        raise InvalidInputError(
            f"{name}: holds many zero bytes, as UTF-16 text and binary files do, and UTF-8 text is needed; if it is "
            "text, convert it with `iconv -f utf-16 -t utf-8`"
        )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


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
        Naming the line that is not UTF-8, or holds a carriage return inside.

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
        if "\r" in text:
            raise stray_return(name, next(n for n, line in enumerate(lines, n_lines + 1) if "\r" in line))
        n_lines += len(lines)
        yield from lines


def read_bytes(path: str | os.PathLike[str], *, may_be_empty: bool = False) -> bytes:
    """The whole of a file or of standard input (``-``), unzipped if gzipped, without a byte order mark.

    Parameters
    ----------
    path : path or "-"
        ``-`` is standard input.
    may_be_empty : bool
        Whether nothing at all is a possible content.

    Returns
    -------
    bytes
        The contents.

    Raises
    ------
    InvalidInputError
        If there is no such file, it cannot be read, its gzip data are damaged, or it is empty.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/text", ["one", "two"])
    ...     read_bytes(f"{folder}/text")
    b'one\\ntwo\\n'
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


STANDARD_OUTPUT = "-"


@contextmanager
def open_output(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    r"""Open a text file that appears under its name only when it is complete.

    Lines go to a temporary file in the same folder, which takes the name when the block ends (or with the other
    outputs of the run) and is removed when the block is left by any exception, an interrupt from the keyboard included.
    What stood there before stays until then, and passes its mode on. Links are followed. A path that is not a regular
    file (a device, a pipe, an open descriptor as ``/dev/stdout``) is written directly.

    Parameters
    ----------
    path : path or "-"
        ``-`` is standard output; a name that ends in ``.gz`` is gzipped. UTF-8, lines end with ``\n``.

    Raises
    ------
    InvalidInputError
        If the folder does not exist or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder, "out.txt")
    ...     with open_output(out) as lines:
    ...         _ = lines.write("0-0 1-1\n")
    ...     out.read_text()
    '0-0 1-1\n'
    """
    if os.fspath(path) == STANDARD_OUTPUT:
        yield sys.stdout
        sys.stdout.flush()
        return
    with open_bytes(path) as stream, _text(stream, gzipped=os.path.realpath(path).endswith(".gz")) as lines:
        yield lines


@contextmanager
def _text(stream: BinaryIO, *, gzipped: bool) -> Iterator[TextIO]:
    if not gzipped:
        with io.TextIOWrapper(stream, encoding="utf-8", newline="\n") as lines:
            yield lines
        return
    # no time stamp: the same lines give the same file
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as unzipped,
        io.TextIOWrapper(unzipped, encoding="utf-8", newline="\n") as lines,
    ):
        yield lines


def write_texts(output: str | os.PathLike[str] | TextIO, texts: Iterable[str]) -> None:
    """Write texts one after another, through ``open_output`` or to a stream, which is left open."""
    if isinstance(output, str | os.PathLike):
        with open_output(output) as stream:
            stream.writelines(texts)
    else:
        output.writelines(texts)


def write_lines(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write lines, given without their ends, through ``open_output``.

    Parameters
    ----------
    path : path or "-"
        ``-`` is standard output.
    lines : iterable of str
        Written as they come.

    Examples
    --------
    >>> write_lines("-", ["0-0 1-1", ""])
    0-0 1-1
    <BLANKLINE>
    """
    write_texts(path, (f"{line}\n" for line in lines))


def read_objects(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, each with its line, counted from 1; blank lines are passed over.

    Parameters
    ----------
    path : path or "-"
        Plain or gzipped; ``-`` is standard input.

    Raises
    ------
    InvalidInputError
        Naming the file, if it holds none, and the line that is not a JSON object, or whose text cannot be written as
        UTF-8.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/trees.jsonl", ['{"en": "tree"}', "", '{"en": "wood"}'])
    ...     list(read_objects(f"{folder}/trees.jsonl"))
    [(1, {'en': 'tree'}), (3, {'en': 'wood'})]
    """
    return parse_objects(iter_lines(path), display_name(path))


def parse_objects(lines: Iterable[str], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """As `read_objects`, of the lines of a text that errors call ``name``."""
    holds_none = True
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, parse_object(line, f"{name}, line {number}", "write one JSON object on every line")
            holds_none = False
    if holds_none:
        raise InvalidInputError(f"{name}: holds no JSON object; give it one a line")


def parse_object(text: str, place: str, advice: str) -> dict[str, Any]:
    """The JSON object that a text is.

    Raises
    ------
    InvalidInputError
        Beginning with the ``place``, and mostly ending with the ``advice``: it is something else, or its text cannot be
        written as UTF-8.

    Examples
    --------
    >>> parse_object('{"en": "tree"}', "line 1", "write one")
    {'en': 'tree'}
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        reason = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else error
        raise InvalidInputError(f"{place}: is not JSON: {reason}; {advice}") from None
    except RecursionError:
        raise InvalidInputError(f"{place}: is nested too deeply; make it flatter") from None
    if "\\u" in text and not _is_unicode(value):
        raise InvalidInputError(
            f"{place}: holds an unpaired surrogate, which UTF-8 cannot write: {quoted(text)}; correct the escapes "
            "\\ud800 to \\udfff there"
        )
    if not isinstance(value, dict):
        raise InvalidInputError(f"{place}: holds {describe(value)}, not a JSON object; {advice}")
    return value


def _is_unicode(value: object) -> bool:
    """Whether all text in a value of JSON can be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def describe(value: object) -> str:
    """The type of a value of JSON in words, for messages.

    Examples
    --------
    >>> describe({}), describe([]), describe(None)
    ('an object', 'a list', 'null')
    """
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "a truth value",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "null")
