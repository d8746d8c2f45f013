"""A ``repr`` in a line or few for data classes and named tuples, whatever the arrays and lists in them hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import islice
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")
WIDEST, LONGEST = 80, 600
"""Characters of a field and of a whole, about at most."""

_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


def brief(value: Any) -> str:
    """The ``repr`` of a value where that is short, else its kind, its size and its first items.

    Examples
    --------
    >>> import numpy as np
    >>> brief(np.zeros((50_000, 6))), brief(np.arange(3)), brief([1, 2])
    ('<float64 array of shape (50000, 6)>', 'array([0, 1, 2])', '[1, 2]')
    >>> itself = [1]
    >>> itself.append(itself)
    >>> brief(itself)
    '[1, [...]]'
    >>> brief({"tags": list(range(100_000)), "n": 1})
    "{'tags': [0, 1, 2, ... 100,000 in all], 'n': 1}"
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and hasattr(value, "dtype"):
        text = "" if hasattr(value, "nnz") or getattr(value, "size", 0) > 6 else " ".join(repr(value).split())
        kind = "sparse array" if hasattr(value, "nnz") else "array"
        return text if 0 < len(text) <= WIDEST else f"<{value.dtype} {kind} of shape {shape}>"
    if type(value) in _BRACKETS and (value or not isinstance(value, set | frozenset)):
        opening, closing = _BRACKETS[type(value)]
        return f"{opening}{_brief_items(value)}{closing}"
    if isinstance(value, str | bytes) and len(value) > WIDEST:
        return f"{value[: WIDEST // 2]!r}... ({len(value):,} in all)"
    text = repr(value.item() if shape == () and hasattr(value, "item") else value)  # numbers of NumPy as Python's
    if "\n" in text:
        text = " ".join(text.split())
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}..."


@recursive_repr("...")
def _brief_items(value: Any) -> str:
    """The items of a list, a tuple, a mapping or a set: all if they are short, else the first."""
    texts: list[str] = []
    pairs = isinstance(value, dict)
    for item in islice(value.items() if pairs else value, WIDEST // 3):
        texts.append(f"{brief(item[0])}: {brief(item[1])}" if pairs else brief(item))
        if sum(map(len, texts)) + 2 * len(texts) > WIDEST:
            break
    n = len(value)
    if n > len(texts) or len(", ".join(texts)) > WIDEST:
        shown = next((k for k in (3, 2, 1) if sum(map(len, texts[:k])) <= WIDEST // 2), 0)
        return ", ".join([*texts[:shown], f"... {n:,} in all"])
    return ", ".join(texts) + "," * (isinstance(value, tuple) and n == 1)


@recursive_repr("...")
def brief_repr(self: Any) -> str:
    """``Name(field=value, ...)`` with values as `brief` shows them, for data classes and named tuples."""
    fields = dataclasses.fields(self) if dataclasses.is_dataclass(self) else ()
    names = [field.name for field in fields if field.repr] if fields else self._fields
    texts: list[str] = []
    for name in names:
        if sum(map(len, texts)) > LONGEST - WIDEST:
            texts.append("...")
            break
        texts.append(f"{name}={brief(getattr(self, name))}")
    return f"{type(self).__qualname__}({', '.join(texts)})"


def briefly_shown(cls: type[T]) -> type[T]:
    """Give a named tuple `brief_repr`."""
    cls.__repr__ = brief_repr  # type: ignore[method-assign]
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass as brief_dataclass
else:

    def brief_dataclass(**options: Any) -> Callable[[type], type]:
        """A data class whose ``repr`` is `brief_repr`; options are those of `dataclasses.dataclass`."""

        def decorate(cls: type) -> type:
            if "__repr__" not in vars(cls):
                cls.__repr__ = brief_repr
            return dataclasses.dataclass(cls, repr=False, **options)

        return decorate
