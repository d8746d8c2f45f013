"""Map a task over shards on a pool of threads; kernels release the interpreter lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from spectrem.exceptions import InvalidInputError
from spectrem.execution.executor import Executor
from spectrem.execution.serial import Serial

Shard = TypeVar("Shard")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Threads:
    """Run the task on ``n_threads`` threads; results come in the order of the shards.

    Use when the work of a shard is spent in kernels. Shards do not depend on the number of threads and results are
    consumed in order, so sums are equal bit for bit for every ``n_threads``.

    Parameters
    ----------
    n_threads : int
        At least 1.

    Raises
    ------
    InvalidInputError
        If ``n_threads`` is below 1.

    Examples
    --------
    >>> list(Threads(2).map(lambda shard: shard * 10, [1, 2, 3]))
    [10, 20, 30]
    """

    n_threads: int

    def __post_init__(self) -> None:
        if self.n_threads < 1:
            raise InvalidInputError(f"n_threads must be at least 1, got {self.n_threads}; use 1 for a serial run")

    def map(self, task: Callable[[Shard], Result], shards: Sequence[Shard]) -> Iterator[Result]:
        """Yield ``task(shard)`` for every shard, in order; only a few results wait at a time."""
        with ThreadPoolExecutor(self.n_threads) as pool:
            waiting: deque[Future[Result]] = deque()
            try:
                for shard in shards:
                    waiting.append(pool.submit(task, shard))
                    if len(waiting) > self.n_threads + 1:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


def executor_for(n_threads: int | None) -> Executor:
    """Threads, or a serial run where one is enough; None is one thread per processor."""
    n = n_threads or os.cpu_count() or 1
    return Threads(n) if n > 1 else Serial()
