"""The only place that coerces: dtype, order, shape, finiteness; messages say what to try next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.exceptions import InvalidInputError, quoted


def as_bool(value: object, name: str, hint: str = "") -> bool:
    """True or False, as Python or NumPy write them: text such as "no" would be true, and numbers say something else."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} must be True or False; got {quoted(value)}{hint}")
    return bool(value)


def as_count(value: object, name: str, *, minimum: int) -> int:
    """An integer of at least ``minimum``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < minimum:
        raise InvalidInputError(
            f"{name} must be an integer >= {minimum}; got {value!r}; pass {name}={minimum} or larger"
        )
    return int(value)


def as_array(values: Any, name: str) -> NDArray[Any]:
    """An array of whatever kind and shape, but not one of rows of several lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidInputError(f"{name} must be an array, got {quoted(values)}; give rows of one length") from None


def as_texts(values: Any, name: str, hint: str, *, unknown: bool = False) -> tuple[Any, ...]:
    """Texts as a tuple, in which None may stand for those that are not known."""
    listed = [values] if isinstance(values, str) or not hasattr(values, "__iter__") else list(values)
    for value in listed:
        if value is values or not (isinstance(value, str) or (unknown and value is None)):
            raise InvalidInputError(f"{name} must be a sequence of texts, got {quoted(value)}; {hint}")
    return tuple(listed)


def as_generator(random_state: Any, name: str = "random_state") -> np.random.Generator:
    """The generator of random numbers that `numpy.random.default_rng` makes of a user's value."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{name} must be None, a whole number of at least 0 or a numpy.random.Generator, got "
            f"{quoted(random_state)}; a number gives the same results each time"
        ) from None


def as_integers(values: ArrayLike, name: str) -> Ints:
    """A flat contiguous int64 array; floats are refused even when whole."""
    array = as_array(values, name)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must be one-dimensional; got shape {array.shape}; try np.ravel({name})")
    if array.size and array.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must hold integers; got dtype {array.dtype}; try {name}.astype(np.int64)")
    return _plain(array, np.int64)


def as_lengths(values: ArrayLike, name: str) -> Ints:
    """Lengths of the rows of a ragged batch, shape (n_instances,), each >= 0."""
    array = as_integers(values, name)
    if (array < 0).any():
        at = int(np.argmax(array < 0))
        raise InvalidInputError(
            f"{name} must not be negative; got {array[at]} at index {at}; give an empty instance length 0"
        )
    return array


def as_offsets(values: ArrayLike, name: str, n_rows: int) -> Ints:
    """Row boundaries of a ragged array: shape (n_rows + 1,), from 0, never falling."""
    array = as_integers(values, name)
    if len(array) != n_rows + 1:
        raise InvalidInputError(
            f"{name} must have {n_rows + 1} entries (one more than rows); got {len(array)}; "
            f"build it as np.concatenate([[0], np.cumsum(sizes)])"
        )
    if array[0] != 0 or (np.diff(array) < 0).any():
        raise InvalidInputError(
            f"{name} must start at 0 and never fall; got {array[:5].tolist()}...; "
            f"build it as np.concatenate([[0], np.cumsum(sizes)])"
        )
    return array


def as_scores(values: ArrayLike, name: str, shape: tuple[int, ...]) -> Floats:
    """A contiguous float64 array of ``shape`` without NaN or ``+inf``; ``-inf`` means impossible."""
    array = _plain(values, np.float64)
    if array.shape != shape:
        raise InvalidInputError(
            f"{name} must have shape {shape}, one score per part of the structure; got {array.shape}; "
            f"build scores and structure from the same lengths"
        )
    top = array.max(initial=-np.inf)
    if math.isnan(top) or top == math.inf:
        bad = "NaN" if math.isnan(top) else "+inf"
        at = np.unravel_index(int(np.argmax(~(array < np.inf))), shape)
        raise InvalidInputError(
            f"{name} must hold finite scores in nats, or -inf for impossible parts; got {bad} at index "
            f"{tuple(int(i) for i in at)}; look for 0/0 or log of a negative number where the scores are made"
        )
    return array


def as_gamma(gamma: float) -> float:
    """The entropy weight of a smoothed max: finite and >= 0."""
    value = float(gamma)
    if math.isnan(value) or value == math.inf:
        raise InvalidInputError(f"gamma must be finite and >= 0; got {gamma!r}; pass 1 for the exact posterior")
    if value == -math.inf:
        raise InvalidInputError(
            "gamma must be >= 0 here; got -inf, which is an integer program; solve it by project_batch(..., gamma=-inf)"
        )
    if value < 0:
        raise InvalidInputError(
            f"gamma must be >= 0; got {gamma!r}: between 0 and minus infinity the E-step is not convex; without "
            "constraints every gamma <= 0 equals hard EM, so pass gamma=0; with constraints use gamma=0 or the "
            "integer program project_batch(..., gamma=-inf)"
        )
    return value


def as_active(active: ArrayLike | None, n_instances: int) -> Bools:
    """A mask of instances, shape (n_instances,); None means all."""
    if active is None:
        return np.ones(n_instances, dtype=np.bool_)
    array = _plain(active, None)
    if array.shape != (n_instances,) or array.dtype != np.bool_:
        raise InvalidInputError(
            f"active must be a boolean mask of shape ({n_instances},); got dtype {array.dtype}, shape {array.shape}; "
            "turn indices into a mask first"
        )
    return array


def as_weights(weights: ArrayLike | None, n_instances: int, least: float = 0.0) -> Floats:
    """Instance weights, shape (n_instances,), finite and >= ``least``; None means ones."""
    if weights is None:
        return np.ones(n_instances)
    array = _plain(weights, np.float64)
    if array.shape != (n_instances,):
        raise InvalidInputError(
            f"weights must have shape ({n_instances},), one per instance; got {array.shape}; "
            "repeat or sum them to instances first"
        )
    bad = ~((array >= least) & (np.abs(array) < np.inf))
    if bad.any():
        at = int(np.argmax(bad))
        rule = "finite" if least == -np.inf else f"finite and >= {least:g}"
        raise InvalidInputError(
            f"weights must be {rule}; got {array[at]} at index {at}; use 0 to leave an instance out"
        )
    return array


def as_sample_weight(weights: ArrayLike | None, n_rows: int, unit: str) -> Floats | None:
    """A user's weights, shape (n_rows,), one per ``unit`` ("row of X"), finite, >= 0 and not all 0; None stays None."""
    if weights is None:
        return None
    one = unit.partition(" of ")[0]
    try:
        array = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"sample_weight must hold numbers, one per {unit}; leave it out for ones") from None
    if array.shape != (n_rows,):
        raise InvalidInputError(
            f"sample_weight must have shape ({n_rows},), one per {unit}, got {array.shape}; leave it out for ones"
        )
    bad = ~((array >= 0) & (array < np.inf))
    if bad.any():
        at, article = int(np.argmax(bad)), "an" if one == "item" else "a"
        raise InvalidInputError(
            f"sample_weight must be finite and at least 0, got {array[at]} in {one} {at}; 0 leaves {article} {one} out"
        )
    if n_rows and not array.any():
        raise InvalidInputError(f"sample_weight must be positive for some {one}, got zeros only; leave it out for ones")
    return array


def check_same_index(**given: Any) -> None:
    """Refuse pandas objects of one length whose indices differ, since arrays made of them are paired by position.

    Arguments are named as the user knows them; those without an index, and others of a mapping, may be anything.

    Raises
    ------
    InvalidInputError
        Naming two of them and the first place where they differ.
    """
    members = {
        f"{name}[{key!r}]" if isinstance(value, Mapping) else name: member
        for name, value in given.items()
        for key, member in (value.items() if isinstance(value, Mapping) else [(None, value)])
    }
    first: dict[int, tuple[str, Any]] = {}
    for name, member in members.items():
        index: Any = getattr(member, "index", None)
        if not hasattr(index, "equals"):
            continue
        other, known = first.setdefault(len(index), (name, index))
        if not index.equals(known):
            pairs = list(zip(known, index, strict=True))
            at = next((n for n, (one, two) in enumerate(pairs) if one != two), 0)
            raise InvalidInputError(
                f"{name} must have the index of {other}, got {pairs[at][1]!r} where that has {pairs[at][0]!r} "
                f"(row {at}); to pair rows by index give {name} as .loc[index of {other}], to pair them by position "
                ".to_numpy()"
            )


def _plain(values: ArrayLike, dtype: type[np.generic] | None) -> NDArray[Any]:
    """Contiguous and writeable: kernels never write to it, but would be compiled anew for read-only arrays."""
    return np.require(values, dtype=dtype, requirements=["C", "W"])
