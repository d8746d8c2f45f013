"""Offsets and positions of ragged rows, and the checks that every family shares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._validate import as_active, as_scores, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure

# Passes carry slopes along directions whose largest number is at most this, and at least its inverse.
_LONG = 1e20


class Inputs(NamedTuple):
    """Checked arguments of one call of ``smoothed_max``."""

    unary: Floats
    factors: tuple[Floats, ...]
    active: Bools
    weights: Floats


def offsets_of(lengths: NDArray[np.integer] | Bools) -> Ints:
    """Row boundaries, shape (n_rows + 1,), starting at 0."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def positions_of(lengths: NDArray[np.integer]) -> Ints:
    """0, 1, ... within each row, flat over rows."""
    offsets = offsets_of(lengths)
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)


def rows_of(lengths: NDArray[np.integer]) -> Ints:
    """The row of every entry, flat over rows."""
    return np.repeat(np.arange(len(lengths)), lengths)


def ranges_of(starts: Ints, lengths: NDArray[np.integer]) -> Ints:
    """``starts[k], starts[k] + 1, ...``, so many as ``lengths[k]``, flat over rows."""
    return np.repeat(starts, lengths) + positions_of(lengths)


def check_scores(structure: Structure, scores: Parts, name: str = "scores") -> Parts:
    """``scores`` coerced to float64; raises InvalidInputError where shapes or values do not fit ``structure``."""
    shapes = structure.factor_shapes
    if len(scores.factors) != len(shapes):
        raise InvalidInputError(
            f"{name}.factors must have {len(shapes)} arrays of shapes {list(shapes)}; got {len(scores.factors)}; "
            f"pass Parts(unary, factors) with one array per shared factor"
        )
    return Parts(
        as_scores(scores.unary, f"{name}.unary", (structure.n_unary,)),
        tuple(as_scores(f, f"{name}.factors[{k}]", shapes[k]) for k, f in enumerate(scores.factors)),
    )


def check_inputs(
    structure: Structure, scores: Parts, active: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Inputs:
    """Everything ``smoothed_max`` takes, coerced."""
    checked = check_scores(structure, scores)
    return Inputs(
        checked.unary,
        checked.factors,
        as_active(active, structure.n_instances),
        as_weights(weights, structure.n_instances),
    )


def check_direction(structure: Structure, along: Parts, weights: ArrayLike | None) -> tuple[Parts, Floats]:
    """A direction in the parts and weights of any sign, as ``covariances`` takes them, coerced."""
    for array in (along.unary, *along.factors):
        for end in (np.min(array, initial=0.0), np.max(array, initial=0.0)):
            if not np.isfinite(end):
                raise InvalidInputError(f"along must be finite; got {end}; use 0 where a part is not to count")
    return check_scores(structure, along, "along"), as_weights(weights, structure.n_instances, -np.inf)


def check_instance(structure: Structure, instance: int) -> int:
    """An index of one instance, counted from 0."""
    if not 0 <= instance < structure.n_instances:
        raise InvalidInputError(
            f"instance must be in 0..{structure.n_instances - 1}; got {instance}; count instances from 0"
        )
    return int(instance)


def no_parts(structure: Structure) -> Parts:
    """Zero on every part."""
    return Parts(np.zeros(structure.n_unary), tuple(np.zeros(shape) for shape in structure.factor_shapes))


def covariances_of_choices(marginals: Floats, along: Floats, offsets: Ints) -> tuple[Floats, Floats]:
    """Means of numbers of the parts, one of which every choice takes, and covariances of the parts with them."""
    means = reduced(np.add, marginals * along, offsets)
    return means, marginals * (along - np.repeat(means, np.diff(offsets)))


def reduced(by: np.ufunc, numbers: Floats, offsets: Ints) -> Floats:
    """The numbers between boundaries that follow each other, reduced by a function such as ``np.add``; 0 of none."""
    some, runs = np.diff(offsets) > 0, np.zeros(len(offsets) - 1)
    if some.any():
        runs[some] = by.reduceat(numbers, offsets[:-1][some])
    return runs


def moderate(along: Floats, bounds: Ints) -> tuple[Floats, Ints | None]:
    """A direction whose products with potentials stay in the range of numbers.

    Where the numbers of a sentence are very large or all very small, they are divided by powers of two. The exponents
    of these, one per part, are the second result; None where that is nowhere the case.
    """
    longest = reduced(np.maximum, np.abs(along), bounds)
    extreme = (longest > _LONG) | ((longest < 1.0 / _LONG) & (longest > 0.0))
    if not extreme.any():
        return along, None
    powers = np.repeat(np.where(extreme, np.frexp(longest)[1], 0), np.diff(bounds))
    return np.ldexp(along, -powers), powers


def indicators(choices: Ints, offsets: Ints) -> Floats:
    """1 at the chosen entry of every row of a ragged array, nothing where the choice is negative."""
    chosen = np.zeros(int(offsets[-1]))
    made = choices >= 0
    chosen[offsets[:-1][made] + choices[made]] = 1.0
    return chosen


def runs_of(instances: Ints, work: Ints, most: int) -> list[Ints]:
    """Runs of instances of about so much work each, as equal as whole instances allow."""
    if not len(instances):
        return []
    ends = np.cumsum(work)
    n_runs = max(round(int(ends[-1]) / most), 1)
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_runs) / n_runs) + 1
    return [run for run in np.split(instances, np.unique(cuts)) if len(run)]


def runs_at_once(starts: Ints, most: int) -> list[slice]:
    """Runs of instances that follow each other, of about ``most`` entries each.

    Parameters
    ----------
    starts : ndarray of shape (n_instances + 1,)
        Entries before every instance, and of all.
    most : int

    Examples
    --------
    >>> runs_at_once(np.array([0, 3, 5, 12, 13]), 4)
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    _, first = np.unique(starts[:-1] // most, return_index=True)
    return list(map(slice, first.tolist(), [*first[1:].tolist(), len(starts) - 1]))
