"""The standard streams, the progress bar, and how a run of the command line ends."""

from __future__ import annotations

import codecs
import io
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, NoReturn

from spectrem import _progress
from spectrem._outputs import OutputStream, remove_temporary, sent_directly
from spectrem._progress import Advance, compilation_watched
from spectrem.cli import signals
from spectrem.exceptions import printable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


FAILED = 2
STANDARD_OUTPUT = "standard output"
_NO_READER = signals.BY_SIGNAL + 13  # SIGPIPE, which Windows lacks
_TEXT = "spectrem"  # the name under which codecs knows `_undecoded`
_before_the_end: list[Callable[[], str | None]] = []


COMMAND: ContextVar[Sequence[str]] = ContextVar("command", default=())
"""The words of the command line."""


def command_line() -> str:
    """The command line as a shell takes it: words that hold single quotes stand between double ones."""
    return " ".join(["spectrem", *map(_quoted, COMMAND.get())])


def _quoted(word: str) -> str:
    return f'"{word}"' if "'" in word and not set('"$`\\!') & set(word) else shlex.quote(word)


def say(*lines: str) -> None:
    """Write lines to standard error, without the control characters that names of files may hold."""
    for line in lines:
        sys.stderr.write(f"{printable(line)}\n")


@contextmanager
def before_the_end(clean: Callable[[], str | None]) -> Iterator[None]:
    """Call something if a signal ends the run while the block is at work; what it returns is said then."""
    _before_the_end.append(clean)
    try:
        yield
    finally:
        _before_the_end.remove(clean)


def _clean() -> str:
    """Remove unfinished files, and return a sentence about what became of the outputs."""
    remove_temporary()
    notes: list[str | None] = []
    for clean in reversed(_before_the_end):
        with suppress(OSError):
            notes.append(clean())
    sent = sent_directly()
    written = "no output was written"
    if sent:
        written = f"no file was written, and what {' and '.join(sent)} received is incomplete"
    return printable("; ".join([written, *filter(None, notes)]))


signals.last_act = _clean


def leave(status: object) -> NoReturn:
    """End with what ``sys.exit`` would take, once standard output is written; nothing can come between.

    The interpreter is not taken down, which takes longer than most commands, and signals would find it defenceless.
    """
    code = status if isinstance(status, int) else 0 if status is None else 1
    if isinstance(status, str):
        say(status)
    try:
        sys.stdout.flush()
    except OSError as error:
        if code == 0:  # else it may be what has been said already
            say(f"spectrem: error: {error.filename or STANDARD_OUTPUT}: {error.strerror}")
            code = FAILED
    signals.ignore_signals()
    sys.stderr.flush()
    _clean()
    os._exit(code)


def open_streams() -> None:
    """Let standard output and error be UTF-8 whatever the locale, and errors of the former name it.

    Descriptors that were closed are open again, so that no file takes their place: reading from the first and writing
    to the second fails, and what is written to the third is lost.
    """
    codecs.register_error(_TEXT, _undecoded)
    for descriptor, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # gets the lowest number that is free, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 -- for the whole run
    if not _is_console(1):
        sys.stdout = _text(_StandardOutput(1, STANDARD_OUTPUT, direct=True, closefd=False), lines=os.isatty(1))
    if not _is_console(2):
        sys.stderr = _text(_StandardError(2, "wb", closefd=False), lines=True)


def _is_console(descriptor: int) -> bool:
    """Whether it is a window of Windows, which takes all of Unicode, but not as UTF-8."""
    return os.name == "nt" and os.isatty(descriptor)


class _StandardOutput(OutputStream):
    """Ends the run where the reader has gone, as SIGPIPE would; the reader wanted no more, so nothing is said."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno is None:
                _clean()
                os._exit(_NO_READER)
            raise


class _StandardError(io.FileIO):
    """Standard error that drops what cannot be written: messages never stop a run."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _text(raw: io.FileIO, *, lines: bool) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=_TEXT, line_buffering=lines)


def _undecoded(error: UnicodeError) -> tuple[bytes, int]:
    r"""Bytes of names that were not UTF-8, as they were; other lone surrogates as ``\ud800``."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = map(ord, error.object[error.start : error.end])
    written = (bytes([k - 0xDC00]) if 0xDC80 <= k <= 0xDCFF else f"\\u{k:04x}".encode() for k in letters)
    return b"".join(written), error.end


_UNDRAWN = b"\r\x1b[2K\x1b[?25h"  # the line erased, the cursor shown


@contextmanager
def progress_bar(total: float, *, shown: bool) -> Iterator[Advance]:
    """The bar of `spectrem._progress`, which is gone when a signal ends the run, too."""

    def undraw() -> None:
        if shown and sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown"):
            os.write(2, _UNDRAWN)

    with before_the_end(undraw), _progress.progress_bar(total, shown=shown) as bar:
        yield bar


@contextmanager
def compilation_announced(*, shown: bool) -> Iterator[None]:
    """Say on a terminal, before the first kernel of this block is compiled, what takes so long."""
    if not (shown and sys.stderr.isatty()):
        yield
        return

    def announce(n_kernels: int, n_open: int) -> None:
        if n_kernels == n_open == 1:
            say("note: compiling kernels, once; later runs start at once")

    with compilation_watched(announce):
        yield
