"""Minima of smooth functions of many variables, with or without a sum of sizes: L-BFGS and OWL-QN."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np
import scipy.linalg

from spectrem._arrays import Floats

# A step must gain this share of what the slope promises, and leave at most that share of the slope.
_GAIN, _SLOPE = 1e-4, 0.9
_TRIALS = 40
# Differences of the function below this, relative to its size, are rounding.
_ROUNDING = 4e-16


class Ending(Enum):
    """How a minimisation ended."""

    CONVERGED = "converged"
    STEPS = "ran out of steps"
    STALLED = "no step lowers the function any more"


class Minimum(NamedTuple):
    """Where a minimisation ended.

    Attributes
    ----------
    point : ndarray of shape (n,)
    value : float
        Of the function, with the sum of sizes.
    norm : float
        Euclidean norm of the gradient there (with sizes: of the subgradient of smallest norm).
    n_steps, n_evaluations : int
    ending : Ending
    """

    point: Floats
    value: float
    norm: float
    n_steps: int
    n_evaluations: int
    ending: Ending


def minimise(
    evaluate: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    *,
    done: Callable[[float, float], bool],
    sizes: Floats | None = None,
    max_steps: int | None = None,
    memory: int = 10,
) -> Minimum:
    """Minimise ``f(x) + sizes . |x|`` by L-BFGS [LiuNocedal1989], with sizes by OWL-QN [AndrewGao2007].

    No step raises the function, whenever it ends.

    Parameters
    ----------
    evaluate : callable
        From x to f and a fresh array of its gradient.
    start : ndarray of shape (n,)
    done : callable
        From the value and the norm of the gradient to whether to stop.
    sizes : ndarray of shape (n,), optional
        At least 0.
    max_steps : int, optional
        By default until ``done``, or until rounding ends progress.
    memory : int
        Steps that are remembered, two arrays each.

    Examples
    --------
    >>> def bowl(x):
    ...     return float((x - 1) @ (x - 1)), 2 * (x - 1)
    >>> minimise(bowl, np.zeros(2), done=lambda value, norm: norm < 1e-9).point
    array([1., 1.])
    >>> minimise(bowl, np.zeros(2), done=lambda value, norm: norm < 1e-9, sizes=np.array([1.0, 3.0])).point
    array([0.5, 0. ])
    """
    x, history = start, _History(len(start), memory)
    value, gradient = evaluate(x)
    n_evaluations, n_steps, refreshed = 1, 0, False
    if sizes is not None:
        value += float(sizes @ np.abs(x))
    while True:
        slope = gradient if sizes is None else _subgradient(x, gradient, sizes)
        norm = float(np.sqrt(slope @ slope))
        if norm == 0.0 or done(value, norm):
            return Minimum(x, value, norm, n_steps, n_evaluations, Ending.CONVERGED)
        if max_steps is not None and n_steps >= max_steps:
            return Minimum(x, value, norm, n_steps, n_evaluations, Ending.STEPS)
        direction = history.direction(slope)
        if sizes is not None:
            direction[direction * slope >= 0] = 0.0
        found = _search(evaluate, x, value, slope, direction, sizes, 1.0 if history.size else 1.0 / norm)
        n_evaluations += found.n_evaluations
        if found.point is None:
            if history.size and not refreshed:
                history, refreshed = _History(len(start), memory), True
                continue
            return Minimum(x, value, norm, n_steps, n_evaluations, Ending.STALLED)
        refreshed = False
        history.add(found.point - x, found.gradient - gradient)
        x, value, gradient = found.point, found.value, found.gradient
        n_steps += 1


class _Trial(NamedTuple):
    """The end of a search along a direction; ``point`` is None if nothing lower was found."""

    point: Floats | None
    value: float
    gradient: Floats
    n_evaluations: int


def _search(
    evaluate: Callable[[Floats], tuple[float, Floats]],
    x: Floats,
    value: float,
    slope: Floats,
    direction: Floats,
    sizes: Floats | None,
    length: float,
) -> _Trial:
    """A step that lowers the function and, without sizes, flattens its slope: the weak conditions of Wolfe."""
    falling = float(slope @ direction)
    low, high = 0.0, np.inf
    best = _Trial(None, value, slope, 0)
    rounding = _ROUNDING * abs(value)
    for k in range(1, _TRIALS + 1):
        point = x + length * direction
        if sizes is not None:
            orthant = np.where(x != 0, x, -slope)
            point[point * orthant < 0] = 0.0
            falling = float(slope @ (point - x)) / length
        reached, gradient = evaluate(point)
        if sizes is not None:
            reached += float(sizes @ np.abs(point))
        if not reached <= value + _GAIN * length * falling + rounding:
            high = length
            # the minimum of a parabola through both values and the slope
            bend = 2.0 * (reached - value - length * falling)
            inner = -falling * length**2 / bend if np.isfinite(bend) and bend > 0 else 0.0
            length = low + min(max(inner - low, 0.1 * (high - low)), 0.5 * (high - low))
        elif reached <= value:
            best = _Trial(point, reached, gradient, k)
            if sizes is not None or float(gradient @ direction) >= _SLOPE * falling:
                return best
            low = length
            length = 2.0 * length if high == np.inf else 0.5 * (low + high)
        else:
            high, length = length, 0.5 * (low + length)
        if high - low <= 1e-12 * high:
            break
    return best._replace(n_evaluations=k)


def _subgradient(x: Floats, gradient: Floats, sizes: Floats) -> Floats:
    """The subgradient of smallest norm of ``f(x) + sizes . |x|``."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - sizes, 0.0)
    return np.where(x != 0, gradient + sizes * np.sign(x), at_zero)


class _History:
    """The last steps and what they changed of the gradient: an approximation of the inverse Hessian.

    In its compact form [ByrdNocedalSchnabel1994] a direction reads both arrays twice, and writes none.
    """

    def __init__(self, n: int, memory: int) -> None:
        self.steps, self.changes = np.empty((memory, n)), np.empty((memory, n))
        self.size, self._next = 0, 0
        self._cross, self._square = np.zeros((memory, memory)), np.zeros((memory, memory))

    def add(self, step: Floats, change: Floats) -> None:
        """Remember a step, unless the function does not curve upwards along it."""
        along = float(step @ change)
        if not along > 1e-16 * float(change @ change):
            return
        k = self._next
        self.steps[k], self.changes[k] = step, change
        self.size = max(self.size, k + 1)
        self._next = (k + 1) % len(self.steps)
        n = self.size
        self._cross[:n, k], self._cross[k, :n] = self.steps[:n] @ change, self.changes[:n] @ step
        self._square[:n, k] = self._square[k, :n] = self.changes[:n] @ change

    def direction(self, slope: Floats) -> Floats:
        """Minus the inverse Hessian times a gradient."""
        n = self.size
        if n == 0:
            return -slope
        order = np.arange(n) if n < len(self.steps) else (np.arange(n) + self._next) % n
        cross, square = self._cross[np.ix_(order, order)], self._square[np.ix_(order, order)]
        upper = np.triu(cross)
        along = np.diag(cross)
        scale = along[-1] / square[-1, -1]
        of_steps, of_changes = (self.steps[:n] @ slope)[order], (self.changes[:n] @ slope)[order]
        inner = scipy.linalg.solve_triangular(upper, of_steps)
        outer = along * inner + scale * (square @ inner - of_changes)
        for_steps, for_changes = np.empty(n), np.empty(n)
        for_steps[order] = scipy.linalg.solve_triangular(upper, outer, trans="T")
        for_changes[order] = -scale * inner
        return -(scale * slope + for_steps @ self.steps[:n] + for_changes @ self.changes[:n])
