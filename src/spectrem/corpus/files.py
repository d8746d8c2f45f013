"""Values in files whose arrays are mapped into memory, in a folder that disappears."""

from __future__ import annotations

import itertools
import mmap
import os
import pickle
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectrem._outputs import make_folder, remove
from spectrem.exceptions import InvalidInputError

_ALIGNMENT = 64  # bytes, a line of the cache


class Folder:
    """A temporary folder. It is removed by ``remove()``, when nothing refers to it, or when the interpreter ends.

    Parameters
    ----------
    parent : path or None
        An existing folder in which it is made; None is the system's place for temporary files.

    Raises
    ------
    InvalidInputError
        If it cannot be made there.
    """

    def __init__(self, parent: str | os.PathLike[str] | None) -> None:
        parent = os.fspath(parent or tempfile.gettempdir())
        try:
            self.path = make_folder(parent)
        except OSError as error:
            raise InvalidInputError(
                f"{parent}: shards cannot be kept there: {error.strerror}; make the folder first, or choose another"
            ) from None
        self._numbers = itertools.count()
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())

    def name(self) -> str:
        """A path that no other file has."""
        return os.path.join(self.path, str(next(self._numbers)))


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked process leaves it to its parent
        remove(path)


class _File:
    """A file that is removed when nothing refers to it any more."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder  # which lives as long as a file in it is wanted
        self.name = name
        weakref.finalize(self, _unlink, name, os.getpid()).atexit = False  # then the folder goes as a whole

    def map(self) -> mmap.mmap:
        """The bytes of the file, mapped into memory; changes of them are not written to the file."""
        return _map(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _BorrowedFile, (os.path.abspath(self.name),)  # other processes work in other folders


@dataclass(frozen=True)
class _BorrowedFile:
    """A file of another process, which removes it when it is no longer needed."""

    name: str

    def map(self) -> mmap.mmap:
        """As `_File.map`."""
        return _map(self.name)


def _map(name: str) -> mmap.mmap:
    try:
        with open(name, "rb") as stream:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        raise InvalidInputError(
            f"{os.path.dirname(name)}: the files of this corpus are gone, as it was closed or its folder was removed, "
            "or cannot be seen from here; make the corpus again, in a folder that every machine sees"
        ) from None


def _unlink(name: str, owner: int) -> None:
    if os.getpid() == owner:
        with suppress(OSError):
            os.unlink(name)


@dataclass(frozen=True, eq=False)
class Stored:
    """A value in files: file, offset and length in bytes of its pickle and of the buffer of each of its arrays."""

    places: tuple[tuple[_File | _BorrowedFile, int, int], ...]

    def load(self) -> tuple[Any, dict[_File | _BorrowedFile, mmap.mmap]]:
        """The value, whose arrays are read when they are touched, and the files that they lie in."""
        maps = {file: file.map() for file in dict.fromkeys(place[0] for place in self.places)}
        head, *buffers = (memoryview(maps[file])[start : start + length] for file, start, length in self.places)
        return pickle.loads(head, buffers=buffers), maps

    def read(self) -> Any:
        """The value in memory, every array in memory of its own, which is freed when nothing refers to the array."""
        buffers = []
        for file, start, length in self.places:
            buffer = bytearray(length)
            with open(file.name, "rb") as stream:
                stream.seek(start)
                stream.readinto(buffer)
            buffers.append(buffer)
        return pickle.loads(buffers[0], buffers=buffers[1:])


def store(value: Any, folder: Folder, loaded: Iterable[tuple[_File | _BorrowedFile, mmap.mmap]] = ()) -> Stored:
    """Write a value to a new file; its arrays can be changed after they are loaded if they can be now.

    Parameters
    ----------
    value : picklable
    folder : Folder
    loaded : iterable of (file, mapping)
        Files that arrays of the value may lie in, unchanged: such arrays are not written again.

    Raises
    ------
    OSError
        If it cannot be written, as on a full disk; nothing is left of it.
    """
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    buffers = [memoryview(head), *(array.raw() for array in arrays)]
    starts = [(file, _address(memoryview(mapping)), len(mapping)) for file, mapping in loaded]
    name = folder.name()
    places: list[tuple[_File | _BorrowedFile | None, int, int]] = []
    try:
        with open(name, "xb") as stream:
            for buffer in buffers:
                at = _address(buffer)
                for file, start, length in starts:
                    if start <= at < start + length and buffer.nbytes:
                        places.append((file, at - start, buffer.nbytes))
                        break
                else:
                    stream.write(bytes(-stream.tell() % _ALIGNMENT))
                    places.append((None, stream.tell(), buffer.nbytes))
                    stream.write(buffer)
    except BaseException as error:
        _unlink(name, os.getpid())
        if isinstance(error, OSError):
            raise OSError(
                error.errno,
                f"{error.strerror}: the shards do not fit or cannot be written; make room, or choose another folder",
                folder.path,
            ) from None
        raise
    own = _File(folder, name)
    return Stored(tuple((file or own, start, length) for file, start, length in places))


def forget(maps: Iterable[mmap.mmap]) -> None:
    """Let the system drop what was read from memory; it is read again where it is accessed."""
    for mapping in maps:
        if hasattr(mapping, "madvise"):
            mapping.madvise(mmap.MADV_DONTNEED)


def _address(buffer: memoryview) -> int:
    return np.frombuffer(buffer, np.uint8).ctypes.data
