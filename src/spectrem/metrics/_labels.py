"""Labels as the measures take them: flat, one per token, of any hashable kind."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spectrem._validate import check_same_index
from spectrem.exceptions import InvalidInputError, quoted

Labels: TypeAlias = Sequence[Hashable] | NDArray[Any]


def flat_labels(labels: Labels, name: str) -> list[Any]:
    """The labels as plain Python values."""
    single = isinstance(labels, str) or not hasattr(labels, "__iter__")
    listed: list[Any] = [] if single else labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if single or any(isinstance(label, list | np.ndarray) for label in listed[:1]):
        got = "a string" if isinstance(labels, str) else quoted(labels) if single else f"{len(listed)} sequences"
        raise InvalidInputError(
            f"{name} must hold one tag per token, all sentences in one flat sequence; got {got}; "
            f"try list(itertools.chain.from_iterable({name}))"
        )
    return listed


def paired_labels(first: Labels, second: Labels, names: tuple[str, str]) -> tuple[list[Any], list[Any]]:
    """Two flat lists of labels of the same tokens."""
    check_same_index(**dict(zip(names, (first, second), strict=True)))
    left, right = flat_labels(first, names[0]), flat_labels(second, names[1])
    check_same_length(names[0], len(left), names[1], len(right))
    return left, right


def encode(labels: list[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct labels by first appearance, and the number of each token's."""
    numbers: dict[Any, int] = {}
    codes = np.fromiter((numbers.setdefault(label, len(numbers)) for label in labels), np.int64, len(labels))
    return list(numbers), codes


def as_mask(mask: object, n_tokens: int) -> NDArray[np.bool_]:
    """Which tokens count; None means all."""
    if mask is None:
        return np.ones(n_tokens, dtype=np.bool_)
    array = np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (n_tokens,):
        raise InvalidInputError(
            f"mask must be boolean of shape ({n_tokens},), one per token; got dtype {array.dtype}, shape "
            f"{array.shape}; turn indices into a mask first"
        )
    return array


def check_same_length(name: str, size: int, other: str, other_size: int) -> None:
    """Raise an error unless two inputs have the same number of tokens."""
    if size != other_size:
        raise InvalidInputError(
            f"{name} and {other} must be of the same tokens; got {size} and {other_size}; "
            "drop or keep the same sentences in both"
        )
