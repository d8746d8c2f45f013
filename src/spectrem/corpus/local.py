"""Shards in the memory of this process."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

from spectrem.corpus.corpus import ONE_BLAS_THREAD, check_each, check_numbers, fold, limit_this_thread
from spectrem.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Local:
    """A `Corpus` in memory, worked on serially or by a pool of threads.

    Use when the corpus fits into memory. Threads help where the work of a shard is spent in kernels, which release
    the interpreter's lock; functions need not be picklable here.

    Parameters
    ----------
    shards : sequence
    n_threads : int or None
        At least 1; None is one per processor.

    Raises
    ------
    InvalidInputError
        If ``n_threads`` is below 1.

    Examples
    --------
    >>> corpus = Local([[3, 1], [2], [5, 4]], n_threads=2)
    >>> corpus.sum(sum), list(corpus.derive(sorted).collect(max))
    (15, [3, 2, 5])
    >>> total, shorter = corpus.advance(lambda shard, k: (len(shard[:k]), shard[k:]), 1)
    >>> total, list(shorter.collect(list))
    (3, [[1], [], [4]])
    """

    shards: Sequence[Any] = field(repr=False)
    n_threads: int | None = 1

    def __post_init__(self) -> None:
        if self.n_threads is not None and self.n_threads < 1:
            raise InvalidInputError(f"n_threads must be at least 1, got {self.n_threads}; use 1 for a serial run")

    def __len__(self) -> int:
        return len(self.shards)

    def derive(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> Local:
        """As `Corpus.derive`."""
        return replace(self, shards=list(self.collect(f, *broadcast, each=each)))

    def part(self, numbers: Sequence[int]) -> Local:
        """As `Corpus.part`."""
        return replace(self, shards=[self.shards[k] for k in check_numbers(numbers, len(self))])

    def sum(self, f: Callable[..., Any], *broadcast: Any) -> Any:
        """As `Corpus.sum`."""
        return fold(self.collect(f, *broadcast))

    def collect(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> Iterator[Any]:
        """As `Corpus.collect`."""
        check_each(each, len(self))
        arguments = [self.shards, *([] if each is None else [each]), *map(repeat, broadcast)]
        return _collect(f, arguments, min(self.n_threads or os.cpu_count() or 1, len(self)), len(self) > 1)

    def advance(self, f: Callable[..., Any], *broadcast: Any) -> tuple[Any, Local]:
        """As `Corpus.advance`."""
        shards = []

        def keep_shard(pair: tuple[Any, Any]) -> Any:
            shards.append(pair[1])
            return pair[0]

        return fold(map(keep_shard, self.collect(f, *broadcast))), replace(self, shards=shards)


def stream(
    f: Callable[..., Any], shards: Iterable[Any], *broadcast: Any, n_threads: int | None = None
) -> Iterator[Any]:
    """Yield ``f(shard, *broadcast)`` in order for shards that are made one after another and not kept.

    Parameters
    ----------
    f : callable
        Pure, as for a `Corpus`.
    shards : iterable
        A few more than there are threads are taken ahead.
    *broadcast
        The same for every shard.
    n_threads : int or None
        At least 1; None is one per processor.

    Returns
    -------
    iterator
        The results, one per shard.

    Examples
    --------
    >>> list(stream(pow, iter([2, 3]), 2, n_threads=1))
    [4, 9]
    """
    Local((), n_threads)  # checks n_threads
    return _collect(f, [shards, *map(repeat, broadcast)], n_threads or os.cpu_count() or 1)


def _collect(
    f: Callable[..., Any], arguments: Sequence[Iterable[Any]], n_threads: int, one_blas_thread: bool = True
) -> Iterator[Any]:
    """Yield ``f(*values)`` for values of all arguments at a time, of which the first are shards."""
    with ONE_BLAS_THREAD if one_blas_thread else nullcontext():
        yield from _on_threads(f, arguments, n_threads) if n_threads > 1 else map(f, *arguments)


def _on_threads(f: Callable[..., Any], arguments: Sequence[Iterable[Any]], n_threads: int) -> Iterator[Any]:
    """Yield results in order; at most two calls more than there are threads are begun before the result yielded."""
    pool = _take_pool(n_threads)
    waiting: deque[Future[Any]] = deque()
    try:
        for values in zip(*arguments):  # noqa: B905 -- what is the same for all does not end
            waiting.append(pool.submit(copy_context().run, f, *values))  # names in errors are those of the caller
            if len(waiting) > n_threads + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        wait([future for future in waiting if not future.cancel()])
        _IDLE.setdefault(n_threads, []).append(pool)


# Pools of threads that are not at work, by their number of threads: to make one takes most of a millisecond, as long as
# a small corpus takes to be summed.
_IDLE: dict[int, list[ThreadPoolExecutor]] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # threads stay behind in the parent


def _take_pool(n_threads: int) -> ThreadPoolExecutor:
    """A pool that nobody else is using; a function that is worked on by one may itself need another."""
    try:
        return _IDLE[n_threads].pop()
    except (KeyError, IndexError):
        return ThreadPoolExecutor(n_threads, initializer=limit_this_thread)
