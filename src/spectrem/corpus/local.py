"""Shards in the memory of this process."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any

from spectrem.corpus.corpus import ONE_BLAS_THREAD, arguments_of, check_numbers, fold, limit_this_thread
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
        return replace(self, shards=list(self._map(f, broadcast, arguments_of(each, len(self)))))

    def part(self, numbers: Sequence[int]) -> Local:
        """As `Corpus.part`."""
        return replace(self, shards=[self.shards[k] for k in check_numbers(numbers, len(self))])

    def sum(self, f: Callable[..., Any], *broadcast: Any) -> Any:
        """As `Corpus.sum`."""
        return fold(self.collect(f, *broadcast))

    def collect(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> Iterator[Any]:
        """As `Corpus.collect`."""
        return self._map(f, broadcast, arguments_of(each, len(self)))

    def advance(self, f: Callable[..., Any], *broadcast: Any) -> tuple[Any, Local]:
        """As `Corpus.advance`."""
        shards = []

        def values() -> Iterator[Any]:
            for value, shard in self.collect(f, *broadcast):
                shards.append(shard)
                yield value

        return fold(values()), replace(self, shards=shards)

    def _map(
        self, f: Callable[..., Any], broadcast: tuple[Any, ...], own: Callable[[int], tuple[Any, ...]]
    ) -> Iterator[Any]:
        n_shards = len(self)
        n_threads = min(self.n_threads or os.cpu_count() or 1, n_shards)

        def task(k: int) -> Any:
            return f(self.shards[k], *own(k), *broadcast)

        with ONE_BLAS_THREAD if n_shards > 1 else nullcontext():
            numbers = range(n_shards)
            yield from _on_threads(task, numbers, n_threads) if n_threads > 1 else map(task, numbers)


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

    Examples
    --------
    >>> list(stream(pow, iter([2, 3]), 2, n_threads=1))
    [4, 9]
    """
    n_threads = Local((), n_threads).n_threads or os.cpu_count() or 1

    def task(shard: Any) -> Any:
        return f(shard, *broadcast)

    with ONE_BLAS_THREAD:
        yield from _on_threads(task, shards, n_threads) if n_threads > 1 else map(task, shards)


def _on_threads(task: Callable[[Any], Any], items: Iterable[Any], n_threads: int) -> Iterator[Any]:
    """Yield results in order; at most two items more than there are threads are taken ahead of the result yielded."""
    with ThreadPoolExecutor(n_threads, initializer=limit_this_thread) as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(copy_context().run, task, item))  # names in errors are those of the caller
                if len(waiting) > n_threads + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
