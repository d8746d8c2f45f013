"""How values travel between the machines of a cluster, also as their difference from older ones."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from threading import RLock
from typing import Any

from spectrem.corpus.blas import ONE_BLAS_THREAD


def arrays_of(value: Any) -> tuple[bytes, list[memoryview]]:
    """The pickle of a value without its arrays, and their bytes."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    return head, [array.raw() for array in arrays]


def size_of(value: Any) -> int:
    """The bytes that a value takes when it is sent."""
    head, arrays = arrays_of(value)
    return len(head) + sum(array.nbytes for array in arrays)


def difference(new: Any, old: Any) -> bytes:
    """The bytes that `patched` needs beside the old value to make the new one; arrays that both have are not in them.

    Examples
    --------
    >>> import numpy as np
    >>> old = {"text": np.zeros(10_000), "prices": np.zeros(3)}
    >>> change = difference({**old, "prices": np.ones(3)}, old)
    >>> len(change) < 1000, patched(old, change)["prices"].tolist()
    (True, [1.0, 1.0, 1.0])
    """
    known = {_name(array) for array in arrays_of(old)[1]}
    head, arrays = arrays_of(new)
    names = list(map(_name, arrays))
    added = [None if name in known else bytearray(array) for name, array in zip(names, arrays, strict=True)]
    return pickle.dumps((head, list(zip(names, added, strict=True))), protocol=5)


def patched(old: Any, change: bytes) -> Any:
    """The new value from the old one and their `difference`; it shares arrays with the old one."""
    known = {_name(array): array for array in arrays_of(old)[1]}
    head, named = pickle.loads(change)
    return pickle.loads(head, buffers=[known[name] if array is None else array for name, array in named])


def _name(array: memoryview) -> bytes:
    """A digest of the bytes of an array and of whether they may be changed."""
    return blake2b(array, digest_size=16, salt=b"fixed" if array.readonly else b"").digest()


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
