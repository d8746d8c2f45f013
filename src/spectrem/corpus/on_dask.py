"""Shards on the workers of a Dask cluster, and how values travel between its machines."""

from __future__ import annotations

import mmap
import operator
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from threading import RLock
from typing import TYPE_CHECKING, Any

from spectrem.corpus.corpus import ONE_BLAS_THREAD, check_each, check_numbers, fold
from spectrem.corpus.local import Local
from spectrem.corpus.spilled import Folder, Stored, forget, store
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from distributed import Client, Future


def connect(scheduler: str) -> Client:
    """A client of a running cluster.

    Parameters
    ----------
    scheduler : str
        Its address, such as ``tcp://10.0.0.1:8786``.

    Returns
    -------
    distributed.Client
        Connected; close it when the work is done.

    Raises
    ------
    InvalidInputError
        If Dask is not installed or no scheduler answers.
    """
    try:
        from distributed import Client
        from distributed.comm import resolve_address
    except ImportError:
        raise InvalidInputError(
            "a corpus on a cluster needs Dask, which is not installed; install the extra `dask`: "
            "pip install 'spectrem[dask]'"
        ) from None
    try:
        resolve_address(scheduler)  # for an invalid address Dask would leave an unfinished client behind
        return Client(scheduler)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{scheduler}: no Dask scheduler answers there ({error}); start one with `dask scheduler` and give the "
            "address that it prints"
        ) from None


def current_client() -> Client:
    """The client, of any cluster, that was made last.

    Raises
    ------
    InvalidInputError
        If no client was made, or Dask is not installed.
    """
    try:
        from distributed import Client

        return Client.current()
    except (ImportError, ValueError):
        raise InvalidInputError(
            "client must be given where none was made; make one by spectrem.corpus.connect(scheduler), or by "
            "distributed.Client(), which starts processes on this machine"
        ) from None


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


# One task adds _FAN_IN subtrees of the sum, a power of two; the last _HERE partial sums are added in the driver.
_FAN_IN, _HERE = 4, 2
# When a worker is lost at most this many steps are repeated; the scheduler keeps at most this many calls.
_STEPS = 16


class OnDask:
    """A `Corpus` whose shards live on the workers of a cluster; only sums and what is collected come here.

    All shards, and everything derived of them, are results of tasks that can run again: when a worker is lost, others
    do its work, and results keep their bits. Workers need the versions of Python and Spectrem that run here, and
    processors of one kind, as libraries compute differently on different ones.

    Parameters
    ----------
    shards : iterable
        The scheduler keeps what it needs to make each of them again. Of a large corpus give descriptions, such as
        paths that all workers can read, and derive the shards of them: ``OnDask(paths, client).derive(read)``.
    client : distributed.Client, optional
        See `connect`; by default the one that was made last. One that is made with ``direct_to_workers=True`` spends
        less time on what travels; it needs a way to the workers from here.
    folder : path, optional
        An existing folder, under one name on all machines, for shards that are large: each is written to a file in a
        new folder in it, as `Spilled` does, and mapped into memory where it is worked on. They are made one at a time,
        and only their names travel. The files disappear when nothing refers to the corpus.

    Raises
    ------
    InvalidInputError
        If no client is given and none was made, or there is no such folder.

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> with Client(n_workers=2) as client:  # doctest: +SKIP
    ...     OnDask([[3, 1], [2], [5, 4]], client).sum(sum)
    15
    """

    def __init__(
        self, shards: Iterable[Any], client: Client | None = None, folder: str | os.PathLike[str] | None = None
    ) -> None:
        client = client or current_client()
        self._folder, self._aside, self._kept = None, list[mmap.mmap](), list[Any]()
        if folder is not None:
            self._folder = Folder(folder)
            self._kept = list(map(partial(store, folder=self._folder), shards))  # their files live as long
        shards = list(shards) if folder is None else self._kept
        self._client, self._n_shards, self._size = client, len(shards), 1
        each = len(shards) / max(1, self._n_threads())
        while each >= 4 * self._size or each == 2 * self._size:  # several blocks per thread, or one where all are alike
            self._size *= 2  # a power of two, so that the sum over neighbours is a subtree
        blocks, workers = [seal(list(block)) for block in self._blocks(shards)], list(client.nthreads())
        places = [workers[k * len(workers) // len(blocks) :][:1] for k in range(len(blocks))]  # neighbours together
        tasks = zip(blocks, places, strict=True)
        sent = [self._task(boxed, block, workers=place, allow_other_workers=True) for block, place in tasks]
        self._start(_ended(sent))  # now arrays of the shards may be changed here

    def __len__(self) -> int:
        return self._n_shards

    @property
    def is_remote(self) -> bool:
        """True; see `Corpus`."""
        return True

    def aside(self, value: Any) -> Any:
        """The value with its arrays in a file of ``folder``, as `Spilled.aside`; without a folder as it is.

        Parameters
        ----------
        value
            Arrays, or what pickles and holds arrays.

        Returns
        -------
        object
            An equal value.
        """
        if self._folder is None:
            return value
        value, maps = store(value, self._folder).load()
        self._aside.extend(maps.values())
        return value

    def derive(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> OnDask:
        """As `Corpus.derive`; the scheduler keeps ``f``, ``broadcast`` and ``each`` as long as the new corpus lives."""
        check_each(each, len(self))
        own = [seal([() if each is None else (each[k],) for k in block]) for block in self._blocks(range(len(self)))]
        other = copy(self)
        other._start(_ended(self._many(_derive, self._futures, own, call=self._call(f, broadcast))))
        return other

    def part(self, numbers: Sequence[int]) -> OnDask:
        """As `Corpus.part`."""
        other, places = copy(self), [divmod(number, self._size) for number in check_numbers(numbers, len(self))]
        other._n_shards, other._size = len(places), 1
        blocks = [self._futures[block] for block, _ in places]
        other._start(self._many(_picked, blocks, [k for _, k in places]) if places else [])
        return other

    def sum(self, f: Callable[..., Any], *broadcast: Any) -> Any:
        """As `Corpus.sum`; all additions but the last are made on the cluster."""
        return self._total(self._many(_sum, self._futures, call=self._call(f, broadcast)), f, broadcast)

    def collect(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> Iterator[Any]:
        """As `Corpus.collect`; four results per thread of the cluster are under way at a time.

        What is a shard's own is part of its task, so that it is there when a worker is lost, and goes with it.
        """
        check_each(each, len(self))
        return self._collect(f, broadcast, each)

    def _collect(self, f: Callable[..., Any], broadcast: tuple[Any, ...], each: Sequence[Any] | None) -> Iterator[Any]:
        from distributed import Future

        forget(self._aside)
        call, at_once = self._call(f, broadcast), 2 * max(1, self._n_threads())
        ready: list[Future] = []
        for start in range(0, len(self) + at_once, at_once):
            numbers = range(len(self))[start:][:at_once]
            own = [() if each is None else (each[k],) for k in numbers]
            tasks = [(self._futures[k // self._size], k % self._size, seal(own[k - start])) for k in numbers]
            following = self._many(_one, *zip(*tasks, strict=True), call=call) if tasks else []
            del tasks
            try:
                results = self._client.gather(ready)
            except Exception:
                results = map(Future.result, ready)  # those before the first that failed
            yield from (box.value for box in results)
            ready = following

    def advance(self, f: Callable[..., Any], *broadcast: Any) -> tuple[Any, OnDask]:
        """As `Corpus.advance`; after every 16 steps what is new in the shards travels through the driver, once."""
        both = self._many(_advance, self._futures, call=self._call(f, broadcast))
        other = copy(self)
        other._futures, other._n_steps = self._many(operator.itemgetter(1), both, priority=1), self._n_steps + 1
        total = self._total(self._many(operator.itemgetter(0), both, priority=1), f, broadcast)
        del both
        if other._n_steps == _STEPS:
            other._shorten()
        _ended(other._futures)
        return total, other

    def _start(self, futures: list[Future]) -> None:
        """Begin a chain of steps."""
        self._futures, self._base, self._n_steps = futures, futures, 0

    def _shorten(self) -> None:
        """End a chain of steps: what it changed becomes part of tasks, block by block, and its calls are forgotten."""
        changes = (self._task(_difference, *pair).result() for pair in zip(self._futures, self._base, strict=True))
        self._futures = [self._task(_patched, *pair) for pair in zip(self._base, changes, strict=True)]
        self._n_steps = 0

    def _blocks(self, values: Sequence[Any]) -> Iterator[Sequence[Any]]:
        return (values[k : k + self._size] for k in range(0, len(values), self._size))

    def _n_threads(self) -> int:
        return sum(self._client.nthreads().values())

    def _call(self, f: Callable[..., Any], broadcast: tuple[Any, ...]) -> Future:
        """A call, as the result of a task: it is sent to the cluster once, and then from worker to worker."""
        return self._task(boxed, seal(Call(f, broadcast, len(self) > 1)), 0)  # no size: it moves to the shards

    def _task(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Future:
        return self._many(function, *([argument] for argument in arguments), **named)[0]

    def _many(self, function: Callable[..., Any], *arguments: Sequence[Any], **named: Any) -> list[Future]:
        import dask

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            futures: list[Future] = self._client.map(function, *arguments, pure=False, **named)
        return futures

    def _total(self, values: list[Future], f: Callable[..., Any], broadcast: tuple[Any, ...]) -> Any:
        from distributed import CancelledError, KilledWorker

        fold(range(len(self)))  # no shards, no sum
        while len(values) > _HERE:
            groups = [values[k : k + _FAN_IN] for k in range(0, len(values), _FAN_IN)]
            values = self._many(_add, groups, priority=1)  # before more values are made
        try:
            return fold(box.value for box in self._client.gather(values))
        except (CancelledError, KilledWorker):
            raise
        except Exception:
            deque(self.collect(f, *broadcast), maxlen=0)  # raises what the first shard that fails raises
            raise


def _ended(futures: list[Future]) -> list[Future]:
    from distributed import wait

    wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()
    return futures


def _loaded(shard: Any) -> Any:
    """The shard, mapped into memory if it lies in a file."""
    return shard.load()[0] if isinstance(shard, Stored) else shard


def _derive(block: Box, own: Sealed, call: Box) -> Box:
    return Box(list(map(call.value, map(_loaded, block.value), own.open())))


def _sum(block: Box, call: Box) -> Box:
    return Box(fold(map(call.value, map(_loaded, block.value))))


def _one(block: Box, k: int, own: Sealed, call: Box) -> Box:
    return Box(call.value(_loaded(block.value[k]), own.open()))


def _picked(block: Box, k: int) -> Box:
    return Box([block.value[k]])


def _advance(block: Box, call: Box) -> tuple[Box, Box]:
    total, following = Local(list(map(_loaded, block.value))).advance(call.value)
    return Box(total), Box(following.shards)


def _add(totals: list[Box]) -> Box:
    return Box(fold((total.value for total in totals), operator.add))  # results of tasks must not be changed


def _difference(block: Box, base: Box) -> bytes:
    return difference(block.value, base.value)


def _patched(base: Box, change: bytes) -> Box:
    return Box(patched(base.value, change))
