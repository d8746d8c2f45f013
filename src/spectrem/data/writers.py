"""Writing whole files or none."""

from __future__ import annotations

import gzip
import io
import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from spectrem.exceptions import InvalidInputError

STANDARD_OUTPUT = "-"


@contextmanager
def open_output(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    r"""Open a text file that appears under its name only when it is complete.

    Lines go to a temporary file in the same folder, which takes the name when the block ends and is
    removed when the block is left by any exception, an interrupt from the keyboard included. What stood there before
    stays until then. A path that is no regular file (a device, a pipe) is written directly.

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
    final = Path(os.path.realpath(path))
    if final.is_dir():
        raise InvalidInputError(f"{os.fspath(path)} is a folder; name a file in it")
    if not final.parent.is_dir():
        raise InvalidInputError(f"{os.fspath(path)}: the folder {final.parent} does not exist; make it first")
    direct = Path(path).exists() and not final.is_file()
    written = Path(path) if direct else final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
    try:
        stream = open(written, "wb")  # noqa: SIM115 -- closed below, whatever happens
    except OSError as error:
        raise InvalidInputError(
            f"{os.fspath(path)}: cannot be written: {error.strerror}; choose another place"
        ) from None
    try:
        with stream, _text(stream, gzipped=final.suffix == ".gz") as lines:
            yield lines
        if not direct:
            if final.exists():
                shutil.copymode(final, written)
            os.replace(written, final)
    except BaseException:
        if not direct:
            written.unlink(missing_ok=True)
        raise


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
