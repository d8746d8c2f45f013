"""How values travel between the machines of a cluster."""

from __future__ import annotations

import pickle
from typing import Any

from spectrem.corpus.changes import arrays_of


class Box:
    """A value on a worker.

    It tells Dask its size, so that work moves to shards and not shards to work. Its arrays stay aligned where it
    travels, which those that Dask packs do not: compiled functions would be compiled again for them.
    """

    def __init__(self, value: Any, size: int | None = None) -> None:
        self.value, self.size = value, size

    def __sizeof__(self) -> int:
        if self.size is None:
            head, arrays = arrays_of(self.value)
            self.size = len(head) + sum(array.nbytes for array in arrays)
        return self.size

    def __reduce__(self) -> tuple[Any, ...]:
        return boxed, (pickled(self.value), self.size)


def pickled(value: Any) -> bytes:
    """Bytes, which neither Dask nor the scheduler looks into; functions of a script or a notebook are in them."""
    import cloudpickle

    data: bytes = cloudpickle.dumps(value, protocol=5)
    return data


def boxed(data: bytes, size: int | None = None) -> Box:
    return Box(pickle.loads(data), size)
