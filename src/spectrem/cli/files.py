"""The files of a command: checked before any work, and written together."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spectrem._outputs import Place, find_place, make_folder, outputs_together, remove, writable
from spectrem.cli.signals import ignore_signals
from spectrem.exceptions import InvalidInputError

STANDARD = "-"
_ENDINGS = {"--plot": (".png", ".svg", ".pdf"), "--report": (".html", ".htm")}
# An output in bytes that no terminal shows, which is read again from a file only.
_MODEL = "--save"
# What an option names is made, what encloses it must be there. Such an option names what encloses files for a while.
_ENCLOSING = ("--spill",)


@contextmanager
def opened(*paths: str | None) -> Iterator[list[Any]]:
    """Streams to write texts into; None for those without a path.

    A command opens them before it reads: who reads a pipe sees its end if the work fails.
    """
    from spectrem.data import open_output

    with ExitStack() as stack:
        yield [None if path is None else stack.enter_context(open_output(path)) for path in paths]


@contextmanager
def command_files(
    inputs: Mapping[str, str | None], outputs: Mapping[str, str | None], folders: Mapping[str, str | None] | None = None
) -> Iterator[None]:
    """Do the work of a command in this block: all its outputs appear when it ends, or none.

    Parameters
    ----------
    inputs, outputs : mapping of str -> path, "-" or None
        Every file that the command reads or writes by the option or argument that names it. An output ``-`` is
        standard output, also of a command that can write nowhere else.
    folders : mapping of str -> path or None, optional
        Folders for what the command keeps meanwhile, likewise. That of ``--spill`` must be there.

    Raises
    ------
    InvalidInputError
        Before the block: if a name is blank, an output cannot be written, nor anything into a folder; if an output is
        an input or another output too, or several inputs are standard input. After it: if there was not enough memory,
        or a number too large or a file too deeply nested was met, naming the inputs.
    """
    for name, path in [*inputs.items(), *outputs.items(), *(folders or {}).items()]:
        if path is not None and not path.strip():  # of a variable of the shell that is not set
            raise InvalidInputError(f"{name} {path!r} names no file; give its path")
    read = {name: path for name, path in inputs.items() if path is not None}
    written = {name: path for name, path in outputs.items() if path is not None}
    for name in (_MODEL, *_ENDINGS):
        if written.get(name) == STANDARD:
            raise InvalidInputError(f"{name} -: this output is not text and cannot go to standard output; name a file")
    if STANDARD in written.values() and not writable(1):
        raise InvalidInputError("standard output is closed; open it, or name a file by --output where there is one")
    with outputs_together() as group:
        files = {name: path for name, path in written.items() if path != STANDARD}
        places = {name: _named(name, find_place, path) for name, path in files.items()}
        _check_collisions(read, written, places)
        _check_endings(written)
        for name, path in files.items():
            _named(name, group.stage, path)
        for name, folder in (folders or {}).items():
            if folder is not None:
                if name in _ENCLOSING and not os.path.lexists(folder):
                    raise InvalidInputError(f"{name} {folder}: there is no such folder; make it first")
                check_folder(name, folder)
        names = ("standard input" if path == STANDARD else path for path in read.values())
        with limits_named(", ".join(dict.fromkeys(names)) or "these options"), _options_named(read):
            yield
        finish()


@contextmanager
def _options_named(read: Mapping[str, str]) -> Iterator[None]:
    """Let errors of this block that begin with a file which an option names begin with the option.

    Files of arguments, and those that are read twice, are named alone.
    """
    try:
        yield
    except InvalidInputError as error:
        named = [name for name, path in read.items() if re.match(rf"{re.escape(path)}(?=[:,] | has | is )", str(error))]
        if len(named) != 1 or "--" not in named[0]:
            raise
        raise InvalidInputError(f"{named[0]} {error}") from error


def finish() -> None:
    """Everything is written: from here on files take their names, and nothing may come between."""
    sys.stdout.flush()
    ignore_signals()


def check_folder(name: str, path: str | os.PathLike[str]) -> None:
    """Refuse a folder that cannot be made, or in which nothing can be; what is made to try it is removed.

    Raises
    ------
    InvalidInputError
        Naming the option.
    """
    _named(name, find_place, os.fspath(path))
    folder = nearest = Path(path).absolute()
    missing = []
    while not os.path.lexists(nearest):
        missing.append(nearest)
        nearest = nearest.parent
    if not nearest.is_dir():
        raise InvalidInputError(f"{name} {path}: {nearest} is not a folder; name another place")
    if len(missing) > 1:
        raise InvalidInputError(f"{name} {path}: the folder {folder.parent} does not exist; make it first")
    try:
        folder.mkdir(exist_ok=True)
        remove(make_folder(folder))
    except OSError as error:
        reason = error.strerror
        raise InvalidInputError(f"{name} {path}: nothing can be written there: {reason}; name another place") from None
    finally:
        for each in missing:
            with suppress(OSError):
                each.rmdir()


def _check_endings(written: Mapping[str, str]) -> None:
    for name, endings in _ENDINGS.items():
        path = written.get(name)
        if path is not None and Path(path).suffix not in endings:
            raise InvalidInputError(f"{name} {path}: the name must end in {', '.join(endings)}")
    if "--plot" in written and find_spec("matplotlib") is None:
        raise InvalidInputError("--plot needs matplotlib, which is not installed; pip install 'spectrem[plot]'")


def _named(name: str, look_at: Callable[[str], Place], path: str) -> Place:
    try:
        return look_at(path)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name} {error}") from None


def _check_collisions(read: Mapping[str, str], written: Mapping[str, str], places: Mapping[str, Place]) -> None:
    seen: dict[object, str] = {}
    standard: list[str] = []
    for name, path in read.items():
        try:
            place = None if path == STANDARD else find_place(path)
        except InvalidInputError:  # the reader will say what is wrong
            continue
        if place is None or place.descriptor == 0:
            standard.append(name)
        for key in _keys(place, 0):
            seen.setdefault(key, name)
    if len(standard) > 1:
        raise InvalidInputError(
            f"{' and '.join(standard)} cannot {'both' if len(standard) == 2 else 'all'} be standard input; name files"
        )
    for name, path in written.items():
        for key in _keys(places.get(name), 1):
            other = seen.setdefault(key, name)
            if other in read:
                raise InvalidInputError(
                    f"{name} {path} would replace {read[other]}, which is read as {other}; name another file"
                )
            if other != name:
                raise InvalidInputError(f"{other} and {name} must be two files, got {path!r} for both")


def _keys(place: Place | None, standard: int) -> Iterator[object]:
    """Identities that an output may not share with another file; None is a standard stream, devices may be shared."""
    descriptor, status = (standard, os.fstat(standard)) if place is None else (place.descriptor, place.status)
    if descriptor is not None:
        yield "descriptor", descriptor
    if status is not None and (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
        yield status.st_dev, status.st_ino
    elif status is None and place is not None:
        yield place.real


@contextmanager
def limits_named(inputs: str) -> Iterator[None]:
    """Say in one line what memory, the stack, a number or a text was too small for.

    Raises
    ------
    InvalidInputError
        Naming the inputs.
    """
    try:
        yield
    except MemoryError as error:
        more = f" ({error})" if str(error) else ""
        raise InvalidInputError(
            f"{inputs}: more memory is needed than there is{more}; give less text or fewer rows at once"
        ) from error
    except RecursionError:
        raise InvalidInputError(f"{inputs}: something in it is nested too deeply; make it flatter") from None
    except OverflowError as error:
        raise InvalidInputError(f"{inputs}: a number is too large ({error}); correct it") from error
    except UnicodeEncodeError as error:
        characters = error.object[error.start : error.end][:5]
        raise InvalidInputError(f"{inputs}: holds {characters!r}, which no file of text can; correct it") from None
