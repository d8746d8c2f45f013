"""Shards in files, of which a few at a time are in memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any

from spectrem.corpus.corpus import fold
from spectrem.corpus.files import Folder, Stored, forget, store
from spectrem.corpus.local import Local

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
