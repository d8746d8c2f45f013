"""How values travel between the machines of a cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from threading import RLock
from typing import Any

from spectrem.corpus.blas import ONE_BLAS_THREAD
from spectrem.corpus.changes import size_of

# Arrays of at least this many bytes travel apart from the pickle.
_LARGE = 1 << 16
# Threads of a worker that import the same modules for two values at once may deadlock.
_LOADING = RLock()


class Sealed:
    """A pickled value on its way through the scheduler, which does not open it: it may need a script or a notebook.

    Arrays stay aligned: those that Dask packs into one message do not, and Numba would compile functions again for
    unaligned ones. So only large arrays, which Dask sends in messages of their own, leave the pickle; they are not
    copied on their way.
    """

    def __init__(self, data: bytes, large: Sequence[Any] = ()) -> None:
        self.data, self.large = data, large

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # Dask packs the first buffer with the pickle: it is an empty one.
        first = [bytearray(1)] if self.large else []
        return _resealed, (self.data, *map(pickle.PickleBuffer, [*first, *self.large]))

    def open(self) -> Any:
        """The value."""
        with _LOADING:
            return pickle.loads(self.data, buffers=self.large)


def _resealed(data: bytes, *buffers: Any) -> Sealed:
    return Sealed(data, buffers[1:])


def seal(value: Any, protocol: int = 5) -> Sealed:
    """The value, sealed; its large arrays are not copied, and before protocol 5 none leaves the pickle."""
    import cloudpickle

    large: list[pickle.PickleBuffer] = []

    def stays(array: pickle.PickleBuffer) -> bool:
        apart = protocol >= 5 and array.raw().nbytes >= _LARGE
        if apart:
            large.append(array)
        return not apart

    return Sealed(cloudpickle.dumps(value, protocol=5, buffer_callback=stays), large)


class Box:
    """A value on a worker, which tells Dask its size, so that work moves to shards and not shards to work."""

    def __init__(self, value: Any, size: int | None = None) -> None:
        self.value, self.size = value, size

    def __sizeof__(self) -> int:
        if self.size is None:
            self.size = size_of(self.value)
        return self.size

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return boxed, (seal(self.value, protocol), self.size)


def boxed(sealed: Sealed, size: int | None = None) -> Box:
    """The box of a sealed value."""
    return Box(sealed.open(), size)


@dataclass(frozen=True)
class Call:
    """A function and its broadcast arguments.

    Attributes
    ----------
    f : callable
    broadcast : tuple
    limited : bool
        Whether linear algebra runs on one thread, as it does where shards are worked on in parallel.
    """

    f: Callable[..., Any]
    broadcast: tuple[Any, ...]
    limited: bool

    def __call__(self, shard: Any, own: tuple[Any, ...] = ()) -> Any:
        with ONE_BLAS_THREAD if self.limited else nullcontext():
            return self.f(shard, *own, *self.broadcast)
