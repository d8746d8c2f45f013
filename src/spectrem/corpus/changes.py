"""A value as its difference from an older one that shares most arrays with it."""

from __future__ import annotations

import pickle
from hashlib import blake2b
from typing import Any


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
