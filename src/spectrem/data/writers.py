"""Writing whole files or none."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from spectrem._outputs import open_bytes

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


def write_lines(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write lines, given without their ends, through `open_output`.

    Examples
    --------
    >>> write_lines("-", ["0-0 1-1", ""])
    0-0 1-1
    <BLANKLINE>
    """
    with open_output(path) as output:
        output.writelines(f"{line}\n" for line in lines)
