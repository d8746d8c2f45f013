"""A digest of data, model and settings, the same in every process, which identifies a run."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Set
from types import CodeType, FunctionType
from typing import Any

import numpy as np

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...))


def fingerprint(value: Any) -> bytes:
    """A digest of a value's content. It does not depend on which objects are shared within the value.

    Of functions the code counts, of objects that cannot be pickled only the type.

    Examples
    --------
    >>> one, other = (fingerprint({"text": np.arange(k), "gamma": 0.5}) for k in (3, 4))
    >>> one == other, one == fingerprint({"gamma": 0.5, "text": np.array([0, 1, 2])})
    (False, True)
    """
    digest = hashlib.blake2b(digest_size=32)
    _add(digest, value, ())
    return digest.digest()


def _add(digest: hashlib.blake2b, value: Any, inside: tuple[int, ...]) -> None:
    """Add a value; ``inside`` holds the ids of those that it lies in, so that cycles end."""
    digest.update(f"<{type(value).__module__}.{type(value).__qualname__}>".encode())
    if id(value) in inside:
        return
    inside = (*inside, id(value))
    if isinstance(value, type):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
    elif isinstance(value, _PLAIN):
        digest.update(repr(value).encode())
    elif isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, tuple | list):
        digest.update(f"{len(value)}".encode())
        if all(type(part) in _PLAIN for part in value):
            digest.update(repr(list(value)).encode())
            return
        for part in value:
            _add(digest, part, inside)
    elif isinstance(value, Mapping | Set):
        items = value.items() if isinstance(value, Mapping) else value
        for own in sorted(map(fingerprint, items)):
            digest.update(own)
    else:
        for part in _parts(value):
            _add(digest, part, inside)


def _parts(value: Any) -> list[Any]:
    """The parts of an object that determine its content."""
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [value.__module__, value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__, cells]
    if isinstance(value, CodeType):
        return [value.co_code, value.co_consts, value.co_names]
    try:
        reduced = value.__reduce_ex__(4)
    except (TypeError, AttributeError):
        return []
    return [reduced] if isinstance(reduced, str) else [part for part in reduced[:3] if part is not None]
