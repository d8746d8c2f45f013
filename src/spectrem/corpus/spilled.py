"""Shards in files whose arrays are mapped into memory, in a folder that disappears."""

from __future__ import annotations

import itertools
import mmap
import os
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from spectrem._outputs import make_folder, remove
from spectrem.corpus.corpus import fold
from spectrem.corpus.local import Local
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
    """A file that is removed when nothing refers to it any more; without its folder it is that of another process."""

    def __init__(self, name: str, folder: Folder | None = None) -> None:
        self.name = name
        self._folder = folder  # which lives as long as a file in it is wanted
        if folder is not None:
            weakref.finalize(self, _remove, name, os.getpid()).atexit = False  # then the folder goes as a whole

    def __reduce__(self) -> tuple[Any, ...]:
        return _File, (os.path.abspath(self.name),)  # other processes work in other folders

    def map(self) -> mmap.mmap:
        """The bytes of the file, mapped into memory; changes of them are not written to the file."""
        try:
            with open(self.name, "rb") as stream:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        except FileNotFoundError:
            raise InvalidInputError(
                f"{os.path.dirname(self.name)}: the files of this corpus are gone, as it was closed or its folder was "
                "removed, or cannot be seen from here; make the corpus again, in a folder that every machine sees"
            ) from None


@dataclass(frozen=True, eq=False)
class Stored:
    """A value in files: file, offset and length in bytes of its pickle and of the buffer of each of its arrays."""

    places: tuple[tuple[_File, int, int], ...]

    def load(self) -> tuple[Any, dict[_File, mmap.mmap]]:
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


def store(value: Any, folder: Folder, loaded: Iterable[tuple[_File, mmap.mmap]] = ()) -> Stored:
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
    places: list[tuple[_File | None, int, int]] = []
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
        remove(name)
        if isinstance(error, OSError):
            raise OSError(
                error.errno,
                f"{error.strerror}: the shards do not fit or cannot be written; make room, or choose another folder",
                folder.path,
            ) from None
        raise
    new = _File(name, folder)
    return Stored(tuple((file or new, start, length) for file, start, length in places))


def forget(maps: Iterable[mmap.mmap]) -> None:
    """Let the system drop what was read from memory; it is read again where it is accessed."""
    for mapping in maps:
        if hasattr(mapping, "madvise"):
            mapping.madvise(mmap.MADV_DONTNEED)


def _address(buffer: memoryview) -> int:
    return np.frombuffer(buffer, np.uint8).ctypes.data


# Partial sums of at least this many shards are written to disk until they are needed: a few per pass over a corpus.
# Smaller ones stay in memory, where arrays can still be enlarged.
_MANY = 16


class Spilled:
    """A `Corpus` in a temporary folder, for what does not fit into memory.

    Arrays are mapped into memory: what ``f`` does not touch is not read. A new shard that shares arrays with the old
    one shares its file; only what is new is written. As a context it is closed at the end.

    Parameters
    ----------
    shards : iterable
        Taken one at a time, so that the whole need never be in memory.
    folder : path, optional
        An existing folder with room for the corpus and for what is derived of it. The shards lie in a new folder in
        it, which disappears when no corpus refers to it, with `close`, or when the interpreter ends. The default is
        the system's place for temporary files, which on some systems is itself in memory.
    n_threads : int or None
        At least 1; None is one per processor. At most ``n_threads + 2`` shards are in memory at a time.

    Raises
    ------
    InvalidInputError
        If ``n_threads`` is below 1 or there is no such folder.
    OSError
        If the disk is full; nothing is left in the folder.

    Examples
    --------
    >>> import numpy as np
    >>> with Spilled(np.arange(k, k + 3) for k in range(4)) as corpus:
    ...     int(corpus.sum(np.sum)), [int(top) for top in corpus.derive(np.square).collect(np.max)]
    (30, [4, 9, 16, 25])
    """

    def __init__(
        self, shards: Iterable[Any], folder: str | os.PathLike[str] | None = None, n_threads: int | None = 1
    ) -> None:
        Local((), n_threads)  # checks n_threads
        self._folder = Folder(folder)
        self._aside: list[mmap.mmap] = []
        try:
            # map drops a shard before it asks for the next one
            self._files = Local(list(map(partial(store, folder=self._folder), shards)), n_threads)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._files)

    def __enter__(self) -> Spilled:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder now; this corpus and those derived of it can no longer be used."""
        self._folder.remove()

    def aside(self, value: Any) -> Any:
        """The value with its arrays in a file, which take no memory while shards are worked on; none may be changed.

        Use for values of the size of a shard or more that are read between sums. The value outlives the corpus.

        Parameters
        ----------
        value
            Arrays, or what pickles and holds arrays.

        Returns
        -------
        object
            An equal value.
        """
        value, maps = store(value, self._folder).load()
        self._aside.extend(maps.values())
        return value

    def derive(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> Spilled:
        """As `Corpus.derive`; the files are removed when nothing refers to the new corpus."""
        return self._of(self._files.derive(partial(_derive, f, self._folder), *broadcast, each=each))

    def part(self, numbers: Sequence[int]) -> Spilled:
        """As `Corpus.part`."""
        return self._of(self._files.part(numbers))

    def sum(self, f: Callable[..., Any], *broadcast: Any) -> Any:
        """As `Corpus.sum`; sums of many shards wait for others on disk."""
        return fold(self.collect(f, *broadcast), wait=self._wait)

    def collect(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> Iterator[Any]:
        """As `Corpus.collect`."""
        forget(self._aside)
        return self._files.collect(partial(_value, f), *broadcast, each=each)

    def advance(self, f: Callable[..., Any], *broadcast: Any) -> tuple[Any, Spilled]:
        """As `Corpus.advance`."""
        total, files = self._files.advance(partial(_advance, f, self._folder), *broadcast)
        return total, self._of(files)

    def _wait(self, total: Any, size: int) -> Callable[[], Any]:
        if size < _MANY:
            return lambda: total
        return store(total, self._folder).read

    def _of(self, files: Local) -> Spilled:
        other = copy(self)
        other._files = files
        return other


def _value(f: Callable[..., Any], stored: Stored, *arguments: Any) -> Any:
    shard, maps = stored.load()
    value = f(shard, *arguments)
    forget(maps.values())  # the value may share arrays with the shard; no page need stay in memory while it waits
    return value


def _derive(f: Callable[..., Any], folder: Folder, stored: Stored, *arguments: Any) -> Stored:
    shard, maps = stored.load()
    return store(f(shard, *arguments), folder, maps.items())


def _advance(f: Callable[..., Any], folder: Folder, stored: Stored, *arguments: Any) -> tuple[Any, Stored]:
    shard, maps = stored.load()
    value, following = f(shard, *arguments)
    return value, store(following, folder, maps.items())
