"""Columns of series: checks of their values and of settings for them, their scales, and counts of distinct values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.exceptions import InvalidInputError, quoted

_BLEND = 0.02  # of every row, that all states get in equal parts before training


def check_training(emission: Any, x: Floats, names: Sequence[str], blocks: Sequence[str]) -> None:
    """Check rows to learn from, and that ``fixed`` of the emission names ``blocks`` of its parameters.

    Raises
    ------
    InvalidInputError
        If not; also if a column has no value at all.
    """
    unknown = [name for name in emission.fixed if name not in blocks]
    if isinstance(emission.fixed, str) or unknown:
        raise InvalidInputError(
            f"fixed must list some of {', '.join(map(repr, blocks))}, got {quoted(emission.fixed)}; leave it out to "
            "learn all parameters"
        )
    emission.check(x, names)
    empty = np.isnan(x).all(axis=0)
    if empty.any():
        raise InvalidInputError(
            f"column {names[int(np.argmax(empty))]} must hold a value in some row to learn from, got none in "
            f"{len(x)} rows; leave the column out"
        )


def at_least(least: float, value: ArrayLike, name: str) -> Floats:
    """Numbers of a prior, each finite and at least ``least``."""
    array = np.asarray(value, np.float64)
    if not ((array >= least) & (array < np.inf)).all():
        raise InvalidInputError(f"{name} must be finite and at least {least:g}, got {quoted(value)}; try {least:g}")
    return array


def as_parameter(
    arrays: Mapping[str, Floats], name: str, shape: Sequence[int | None], least: float = -np.inf
) -> Floats:
    """The array of this name, with finite values of at least ``least``; None stands for any number, 0 excepted.

    Raises
    ------
    InvalidInputError
        If it has another shape or other values.
    """
    array = np.asarray(arrays[name], np.float64)
    if array.ndim != len(shape) or any(
        n != want and (want or not n) for n, want in zip(array.shape, shape, strict=True)
    ):
        wanted = ", ".join("any" if want is None else str(want) for want in shape)
        raise InvalidInputError(f"{name} must have shape ({wanted}), got {array.shape}; give every state its row")
    if not ((array >= least) & np.isfinite(array)).all():
        wrong = array[~((array >= least) & np.isfinite(array))][0]
        rule = f"finite and at least {least:g}" if least > -np.inf else "finite"
        raise InvalidInputError(f"{name} must be {rule}, got {wrong}; correct it or learn it from rows")
    return array


def finite_or_missing(x: Floats, names: Sequence[str]) -> None:
    """Raise `InvalidInputError`, naming the column, if a cell is infinite."""
    rule, advice = "finite numbers", "correct it, or make it NaN"
    _refuse(np.isinf(x), x, names, rule, advice)


def whole_or_missing(x: Floats, names: Sequence[str]) -> None:
    """Raise `InvalidInputError`, naming the column, if a cell is not a whole number of at least 0."""
    wrong = ~(np.isnan(x) | ((x >= 0) & (x == np.floor(x)) & np.isfinite(x)))
    rule, advice = "whole numbers of at least 0", "choose emissions of real numbers for it, such as 'gaussian'"
    _refuse(wrong, x, names, rule, advice)


def _refuse(wrong: Bools, x: Floats, names: Sequence[str], rule: str, advice: str) -> None:
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        error = InvalidInputError(
            f"column {names[column]} must hold {rule}, or NaN where they are missing, got {x[row, column]} in row "
            f"{row}; {advice}"
        )
        error.keys = {"row": row}
        raise error


def observed(x: Floats) -> tuple[Floats, Floats]:
    """1 for cells with a value and 0 for others, and the values, 0 where there is none; shapes as that of ``x``."""
    there = ~np.isnan(x)
    return there.astype(np.float64), np.where(there, x, 0.0)


def mean_of(x: Floats) -> Floats:
    """The mean of every column over the rows that have it, shape (n_columns,); 0 for columns without any value."""
    there, values = observed(x)
    return values.sum(axis=0) / np.maximum(there.sum(axis=0), 1)


def spread_of(x: Floats) -> Floats:
    """The standard deviation of every column, shape (n_columns,); 1 for those whose values are all equal."""
    there, values = observed(x)
    apart = there * (values - mean_of(x))
    scale = np.abs(apart).max(axis=0, initial=0.0)  # squares of it alone stay within the range of floating point
    unit = np.where(scale > 0, scale, 1.0)
    spread = unit * np.sqrt(((apart / unit) ** 2).sum(axis=0) / np.maximum(there.sum(axis=0), 1))
    return np.where(spread > 1e-12 * np.abs(values).max(axis=0, initial=0.0), spread, 1.0)


def blended(shares: Floats) -> Floats:
    """Shares of rows to start from, a little of each in every state, so that no state is empty or excludes a value."""
    return (1 - _BLEND) * shares + _BLEND * shares.mean(axis=1, keepdims=True)


def groups_of(tied: Sequence[Sequence[int]], n_states: int) -> Floats:
    """1 for the states of each group, and for every state that is in none of them, shape (n_groups, n_states).

    Raises
    ------
    InvalidInputError
        If a state is in two groups, or there is no such state.
    """
    groups = [list(group) for group in tied]
    named = [state for group in groups for state in group]
    if len(set(named)) < len(named) or any(state not in range(n_states) for state in named):
        raise InvalidInputError(
            f"tied must list states of 0..{n_states - 1}, each at most once, got {quoted(tied)}; correct the groups"
        )
    groups += [[state] for state in range(n_states) if state not in named]
    return np.array([np.isin(np.arange(n_states), group) for group in groups], np.float64)


def fill_with_means(means: Floats, x: Floats, posteriors: Floats) -> Floats:
    """Rows whose missing cells hold the mean of their column, by posteriors of states."""
    return np.where(np.isnan(x), posteriors @ means, x)


def distinct(x: Floats) -> tuple[Floats, Ints]:
    """Different whole numbers in ascending order, all of ``x`` among them, and the place of each of ``x``, flat."""
    top = x.max(initial=0.0)
    if top < x.size:
        return np.arange(top + 1), x.astype(np.int64)
    return np.unique(x, return_inverse=True)


def count_values(places: Ints, shares: Floats, n_values: int) -> Floats:
    """Sums of the shares of the rows that have each value, shape (n_values, n_states)."""
    n = len(places)
    counts = sp.csc_array((np.ones(n), places, np.arange(n + 1)), shape=(n_values, n)) @ shares
    return np.asarray(counts, np.float64)


def sums_of_logs(x: Floats, table: Floats) -> Floats:
    """Sums over columns of ``x log(table)``, shape (n_rows, n_states); 0 log 0 is 0.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_columns)
        At least 0.
    table : ndarray of shape (n_states, n_columns)
        At least 0.
    """
    zero = table == 0
    sums = x @ np.log(np.where(zero, 1.0, table)).T
    if zero.any():
        sums[(x > 0).astype(np.float64) @ zero.T.astype(np.float64) > 0] = -np.inf
    return np.asarray(sums, np.float64)


def falling_root(slope: Callable[[Floats, Ints], Floats], low: Floats, high: Floats) -> Floats:
    """Points in [low, high], shape (n,), where n falling functions are 0; the nearer end for those that nowhere are.

    ``slope(points, numbers)`` are the values of the functions of these numbers. Secants keep the root between two
    points; where one of these stays, its value is halved, so that it moves next time (the Illinois method).
    """
    numbers = np.arange(len(low))
    above, below = slope(low, numbers), slope(high, numbers)
    points = np.where(above > 0, high, low)
    inside = np.flatnonzero((above > 0) & (below < 0))
    left, right, above, below = low[inside], high[inside], above[inside], below[inside]
    rose = np.zeros(len(inside), np.int64)
    for _ in range(100):
        middle = (above * right - below * left) / (above - below)
        value = slope(middle, inside)
        rises = np.sign(value).astype(np.int64)
        above = np.where(rises > 0, value, np.where((rises < 0) & (rose < 0), above / 2, above))
        below = np.where(rises < 0, value, np.where((rises > 0) & (rose > 0), below / 2, below))
        left, right, rose = np.where(rises >= 0, middle, left), np.where(rises <= 0, middle, right), rises
        points[inside] = middle
        if (right - left <= 1e-12 * np.abs(middle)).all():
            break
    return points
