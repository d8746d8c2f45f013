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


class Box:
    """A value on a worker.

    It tells Dask its size, so that work moves to shards and not shards to work. Its arrays stay aligned when it is
    sent: arrays that Dask packs into one message do not, and Numba would compile functions again for unaligned ones.
    So only large arrays, which Dask sends in messages of their own, leave the pickle; they are not copied on their way.
    """

    def __init__(self, value: Any, size: int | None = None) -> None:
        self.value, self.size = value, size

    def __sizeof__(self) -> int:
        if self.size is None:
            self.size = size_of(self.value)
        return self.size

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        large: list[pickle.PickleBuffer] = []

        def stays(array: pickle.PickleBuffer) -> bool:
            apart = protocol >= 5 and array.raw().nbytes >= _LARGE
            if apart:
                large.append(array)
            return not apart

        data = pickled(self.value, stays)
        # Dask packs the first buffer with the pickle: it is an empty one.
        return boxed, (data, self.size, [pickle.PickleBuffer(bytearray(1)), *large] if large else [])


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


def pickled(value: Any, stays: Callable[[pickle.PickleBuffer], bool] | None = None) -> bytes:
    """The pickle of a value, which the scheduler does not open; it contains functions of scripts and notebooks."""
    import cloudpickle

    data: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=stays)
    return data


def boxed(data: bytes, size: int | None = None, large: Sequence[Any] = ()) -> Box:
    """The box of a pickled value, whose large arrays come beside the pickle."""
    with _LOADING:
        return Box(pickle.loads(data, buffers=large[1:]), size)
