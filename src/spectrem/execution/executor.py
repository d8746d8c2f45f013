"""What runs the E-step of all shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Shard = TypeVar("Shard")
Result = TypeVar("Result")


class Executor(Protocol):
    """Map a pure task over shards and yield its results in the order of the shards."""

    def map(self, task: Callable[[Shard], Result], shards: Sequence[Shard]) -> Iterator[Result]: ...
