"""Map a task over shards in the calling thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

Shard = TypeVar("Shard")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Serial:
    """Run the task shard by shard, in order.

    Use when there is one core, or when a debugger should see the work.

    Examples
    --------
    >>> list(Serial().map(lambda shard: shard * 10, [1, 2, 3]))
    [10, 20, 30]
    """

    def map(self, task: Callable[[Shard], Result], shards: Sequence[Shard]) -> Iterator[Result]:
        """Yield ``task(shard)`` for every shard, in order."""
        return map(task, shards)
