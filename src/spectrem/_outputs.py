"""Files that appear under their names complete and together, or not at all, and folders that disappear."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

try:
    import fcntl
except ImportError:  # Windows, where nobody can rename or remove what is open
    fcntl = None  # type: ignore[assignment]

_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
# Every temporary file and folder of the process, with a descriptor that keeps it locked.
_temporary: dict[str, int | None] = {}
# What was written to devices, pipes and open descriptors, which no failure can take back.
_sent: dict[str, None] = {}


class OutputStream(io.FileIO):
    """A file that is written once, and whose errors say how the user called it.

    Parameters
    ----------
    file : path or int
        To be opened for writing, or a descriptor that is.
    shown : str
        How messages call it.
    direct : bool
        Whether what is written is out at once: `sent_directly` lists such files.
    """

    def __init__(self, file: str | int, shown: str, *, direct: bool, closefd: bool = True) -> None:
        super().__init__(file, "wb", closefd=closefd)
        self.shown = shown
        self.direct = direct

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            count = super().write(data)
        except BrokenPipeError:
            raise OSError(f"{self.shown}: its reader stopped before the end") from None
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.shown) from None
        if self.direct and count and self.shown != os.devnull:
            _sent[self.shown] = None
        return count

    def close(self) -> None:
        try:
            super().close()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.shown) from None


@dataclass(frozen=True)
class Place:
    """Where an output goes.

    Attributes
    ----------
    shown : str
        The path as the user wrote it.
    real : str
        The path that links lead to.
    descriptor : int or None
        The descriptor of this process that the path names, as ``/dev/stdout`` does.
    status : os.stat_result or None
        The status of what exists there already.
    direct : bool
        Whether it is written at once, because nothing can take its place: a device, a pipe, a descriptor.
    """

    shown: str
    real: str
    descriptor: int | None
    status: os.stat_result | None
    direct: bool


def find_place(path: str | os.PathLike[str]) -> Place:
    """Where a path leads, links followed.

    Raises
    ------
    InvalidInputError
        If it names no file, or one that cannot be looked at.
    """
    shown = os.fsdecode(path)
    if not shown:
        raise InvalidInputError("'' names no file; give its path")
    try:
        descriptor, real = _descriptor(shown), os.path.realpath(shown)
    except FileNotFoundError:  # that of the working folder, to which paths are relative
        raise InvalidInputError(f"{shown}: the working folder does not exist any more; change to another one") from None
    try:
        status = os.stat(shown) if descriptor is None else os.fstat(descriptor)
    except FileNotFoundError:
        status = None
    except OSError as error:
        _refuse(shown, error)
    special = status is not None and not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode)
    return Place(shown, real, descriptor, status, special or descriptor is not None)


class Outputs:
    """Files that take their names by `commit`, one after another, once all of them are complete."""

    def __init__(self) -> None:
        self._temporary: dict[str, str] = {}  # of the real paths
        self._written: dict[str, str] = {}  # how the user called them

    def stage(self, path: str | os.PathLike[str]) -> Place:
        """Make sure that a file can be written, and make the temporary one beside it, which gets its mode.

        Raises
        ------
        InvalidInputError
            If it cannot.
        """
        place = find_place(path)
        shown, folder = place.shown, os.path.dirname(place.real)
        if place.direct:
            _check_direct(place)
            return place
        if place.status is not None and stat.S_ISDIR(place.status.st_mode):
            raise InvalidInputError(f"{shown} is a folder; name a file in it")
        if not os.path.isdir(folder):
            raise InvalidInputError(f"{shown}: the folder {folder} does not exist; make it first")
        if shown.endswith(os.sep):
            raise InvalidInputError(f"{shown} names a folder; name a file in it")
        if place.status is not None and not os.access(place.real, os.W_OK):
            _refuse(shown, OSError(errno.EACCES, os.strerror(errno.EACCES)))
        if place.real not in self._temporary:
            try:
                self._temporary[place.real] = _make(folder, ".{}.tmp", partial(_create, before=place.status))
            except OSError as error:
                _refuse(shown, error)
        return place

    @contextmanager
    def open(self, path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
        """A binary stream into a file, which will take its name by `commit` unless the block is left by an exception.

        Raises
        ------
        InvalidInputError
            As `stage`.
        """
        place = self.stage(path)
        name = place.shown if place.direct else self._temporary[place.real]
        descriptor = place.descriptor if place.direct else _temporary[name]  # some file systems want that of the lock
        try:
            raw = OutputStream(name if descriptor is None else os.dup(descriptor), place.shown, direct=place.direct)
        except OSError as error:
            _refuse(place.shown, error)
        try:
            if not place.direct:
                raw.seek(0)
                raw.truncate()
            with io.BufferedWriter(raw) as stream:
                yield stream
            if not place.direct:
                self._written[place.real] = place.shown
        except BaseException:
            self._drop(place.real)
            raise

    def commit(self) -> None:
        """Give all files that were written their names.

        Raises
        ------
        OSError
            If a file cannot take its name; the message says which files are in place already.
        """
        done: list[str] = []
        for real, shown in self._written.items():
            try:
                os.replace(self._temporary[real], real)
            except OSError as error:
                already = f"already in place: {', '.join(done)}" if done else "no output was written"
                raise OSError(f"{shown}: cannot be put in place: {error.strerror}; {already}") from None
            remove(self._temporary.pop(real))
            done.append(shown)
        self._written.clear()

    def discard(self) -> None:
        """Remove all files that did not take their names."""
        for real in list(self._temporary):
            self._drop(real)
        self._written.clear()

    def _drop(self, real: str) -> None:
        if real in self._temporary:
            remove(self._temporary.pop(real))


_together: ContextVar[Outputs | None] = ContextVar("_together", default=None)


@contextmanager
def outputs_together() -> Iterator[Outputs]:
    """Let files that `open_bytes` writes in this block appear when it ends, and none if it is left by an exception."""
    outputs = Outputs()
    token = _together.set(outputs)
    try:
        yield outputs
        outputs.commit()
    finally:
        _together.reset(token)
        outputs.discard()


@contextmanager
def open_bytes(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that appears under its name when the block ends, or with the others of `outputs_together`.

    Links are followed, and a file that was there before keeps its mode. Devices, pipes and open descriptors
    (``/dev/stdout``) are written at once.

    Raises
    ------
    InvalidInputError
        If the folder does not exist or the file cannot be written.

    Examples
    --------
    >>> with open_bytes(os.devnull) as stream:
    ...     stream.write(b"gone")
    4
    """
    outputs = _together.get()
    if outputs is not None:
        with outputs.open(path) as stream:
            yield stream
        return
    with outputs_together() as outputs, outputs.open(path) as stream:
        yield stream


@contextmanager
def temporary_folder(parent: str | os.PathLike[str]) -> Iterator[str]:
    """A folder made by `make_folder`, which is gone when the block ends."""
    path = make_folder(parent)
    try:
        yield path
    finally:
        remove(path)


def make_folder(parent: str | os.PathLike[str]) -> str:
    """A new folder in another one, for this user alone, until `remove`; what killed processes left there is removed.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    return _make(os.path.abspath(parent), "{}", partial(os.mkdir, mode=0o700))


def remove(path: str) -> None:
    """Remove a temporary file, or a folder with all that is in it, where it is still there."""
    gone = f"{path}.gone"
    with suppress(OSError):
        os.unlink(path)
    with suppress(OSError):
        os.rename(path, gone)  # threads that are still at work find no place to write to
    shutil.rmtree(gone, ignore_errors=True)
    descriptor = _temporary.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


def remove_temporary() -> None:
    """Remove all temporary files and folders of the process, which is to end at once."""
    for path in list(_temporary):
        remove(path)


def sent_directly() -> list[str]:
    """Devices, pipes and descriptors that something has been written to, as the user called them."""
    return list(_sent)


def _descriptor(path: str) -> int | None:
    """The number in ``/dev/fd/5``, or that of ``/dev/stdout``."""
    parent, name = os.path.split(path)
    if name.isdecimal() and os.path.realpath(parent) in ("/dev/fd", os.path.realpath("/proc/self/fd")):
        return int(name)
    return _STANDARD.get(path)


def writable(descriptor: int) -> bool:
    """Whether an open descriptor can be written to."""
    return fcntl is None or fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _check_direct(place: Place) -> None:
    if place.descriptor is None:
        if not os.access(place.shown, os.W_OK):
            _refuse(place.shown, OSError(errno.EACCES, os.strerror(errno.EACCES)))
        return
    if not writable(place.descriptor):
        raise InvalidInputError(f"{place.shown}: cannot be written: it is not open for writing; choose another place")


@cache
def _kernel() -> str:
    """The running kernel: locks say whether a process of it is gone, but machines may not see each other's locks."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        import platform

        return platform.node().partition(".")[0]


def _make(parent: str, name: str, make: Callable[[str], object]) -> str:
    """Make a temporary file or folder, which nobody sweeps while this process keeps it locked."""
    _sweep(parent)
    while True:
        path = os.path.join(parent, name.format(f"spectrem-{_kernel()}-{os.urandom(6).hex()}"))
        _temporary[path] = None  # before it exists, so that no signal finds it without an owner
        try:
            make(path)
            if fcntl is not None:
                _temporary[path] = lock = _open(path)
                with suppress(OSError):  # some file systems have no locks: then nobody can take one there
                    fcntl.flock(lock, fcntl.LOCK_EX)
        except BaseException:
            remove(path)
            raise
        if os.path.exists(path):
            return path
        remove(path)  # swept by another run before it was locked


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY if os.path.isdir(path) else os.O_WRONLY)


@cache
def _sweep(folder: str) -> None:
    """Remove what killed processes left in a folder: nobody keeps it locked any more."""
    if fcntl is None:
        return
    for path in map(str, Path(folder).glob(f"*spectrem-{_kernel()}-*")):
        with suppress(OSError):
            lock = _open(path)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)
            finally:
                os.close(lock)


def _create(path: str, before: os.stat_result | None) -> None:
    """An empty file with owner and mode of the one that was there before."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600))
    if before is not None:
        if hasattr(os, "chown"):
            with suppress(OSError):  # only root may give files away
                os.chown(path, before.st_uid, before.st_gid)
        os.chmod(path, stat.S_IMODE(before.st_mode))


def _refuse(shown: str, error: OSError) -> NoReturn:
    raise InvalidInputError(f"{shown}: cannot be written: {error.strerror}; choose another place") from None
