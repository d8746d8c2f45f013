"""Minima of smooth functions of many variables, with or without a sum of sizes: L-BFGS and OWL-QN."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs

from spectrem._arrays import Floats
from spectrem.kernels.loglinear import history as kernel

# A step must gain this share of what the slope promises, and leave at most that share of the slope.
_GAIN, _SLOPE = 1e-4, 0.9
_TRIALS = 40
# Differences of the function below this, relative to its size, are rounding.
_ROUNDING = 4e-16
# Least cosine of a step that is remembered and what it changed of the gradient: below, single precision tells nothing.
_CURVED = 1e-8
# So many steps in a row that gain no more than rounding end a minimisation.
_PATIENCE = 2


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
    slope : ndarray of shape (n,)
        The gradient there (with sizes: the subgradient of smallest norm).
    n_steps, n_evaluations : int
    ending : Ending
    """

    point: Floats
    value: float
    slope: Floats
    n_steps: int
    n_evaluations: int
    ending: Ending


class Memory(NamedTuple):
    """The last steps and what they changed of the gradient.

    Attributes
    ----------
    rows : ndarray of shape (2 * n_steps, n), float32
        Step, change, step, change ...
    cross, square : ndarray of shape (memory, memory)
        Products of steps and changes, and of changes.
    size, place : int
        How many there are, and where the next one goes.
    """

    rows: NDArray[np.float32]
    cross: Floats
    square: Floats
    size: int
    place: int


class State(NamedTuple):
    """A minimisation after a step, from which it goes on with the same bits.

    Attributes
    ----------
    point : ndarray of shape (n,)
    value : float
    gradient : ndarray of shape (n,)
    direction : ndarray of shape (n,)
        Of the next step.
    n_steps, n_evaluations, stalled : int
    memory : Memory
    """

    point: Floats
    value: float
    gradient: Floats
    direction: Floats
    n_steps: int
    n_evaluations: int
    stalled: int
    memory: Memory

    @classmethod
    def blank(cls) -> State:
        """One without content, of the types that every other has."""
        nothing = np.zeros(0)
        table = np.zeros((0, 0))
        return cls(nothing, 0.0, nothing, nothing, 0, 0, 0, Memory(table.astype(np.float32), table, table, 0, 0))


def minimise(
    evaluate: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    *,
    done: Callable[[Floats, float, Floats], bool],
    sizes: Floats | None = None,
    max_steps: int = 1000,
    memory: int = 20,
    state: State | None = None,
    on_state: Callable[[State], None] | None = None,
) -> Minimum:
    """Minimise ``f(x) + sizes . |x|`` by L-BFGS [LiuNocedal1989], with sizes much as by OWL-QN [AndrewGao2007].

    No step raises the function, whenever it ends, and there are never more than twice as many evaluations as steps
    are allowed, and some.

    Parameters
    ----------
    evaluate : callable
        From x to f and a fresh array of its gradient.
    start : ndarray of shape (n,)
    done : callable
        From the point, the value and the gradient (with sizes: the subgradient of smallest norm), at the start and
        after every step, to whether to stop.
    sizes : ndarray of shape (n,), optional
        At least 0.
    max_steps : int
    memory : int
        Steps that are remembered, at least 1: two arrays of single precision each.
    state : State, optional
        Where an earlier minimisation of the same function was, to go on from there in place of ``start``.
    on_state : callable, optional
        Called with the state after every step, whose arrays change with the next one.

    Examples
    --------
    >>> def bowl(x):
    ...     return float((x - 1) @ (x - 1)), 2 * (x - 1)
    >>> def flat(point, value, slope):
    ...     return bool((abs(slope) < 1e-9).all())
    >>> minimise(bowl, np.zeros(2), done=flat).point
    array([1., 1.])
    >>> minimise(bowl, np.zeros(2), done=flat, sizes=np.array([1.0, 3.0])).point
    array([0.5, 0. ])
    """
    history = _History(len(start), memory)
    direction: Floats | None
    if state is None:
        x, (value, gradient), direction = start, evaluate(start), None
        if sizes is not None:
            value += float(sizes @ np.abs(x))
        n_steps, n_evaluations, stalled = 0, 1, 0
    else:
        x, value, gradient, direction, n_steps, n_evaluations, stalled, remembered = state
        history.restore(remembered)
    slope = gradient if sizes is None else _subgradient(x, gradient, sizes)
    while True:
        if done(x, value, slope) or not slope.any():
            return Minimum(x, value, slope, n_steps, n_evaluations, Ending.CONVERGED)
        if stalled > _PATIENCE:
            return Minimum(x, value, slope, n_steps, n_evaluations, Ending.STALLED)
        if n_steps >= max_steps or n_evaluations >= 2 * max_steps + _TRIALS:
            return Minimum(x, value, slope, n_steps, n_evaluations, Ending.STEPS)
        if sizes is not None and direction is not None:
            # What is 0 moves against its slope alone, and what would cross 0 ends there. To hold back all that moves
            # against its slope, as in OWL-QN, takes several times as many steps where variables are correlated.
            direction[(sizes > 0) & (x == 0) & (direction * slope >= 0)] = 0.0
            np.copyto(direction, -x, where=(sizes > 0) & (x * (x + direction) < 0))
        if direction is None or not float(direction @ slope) < 0:
            direction = history.first(slope)
        found = _search(evaluate, x, value, slope, direction, sizes)
        n_evaluations += found.n_evaluations
        if found.point is None:
            if not history.size:
                return Minimum(x, value, slope, n_steps, n_evaluations, Ending.STALLED)
            direction = None
            continue
        n_steps += 1
        stalled = stalled + 1 if value - found.value <= _ROUNDING * abs(value) else 0
        step, change = found.point - x, found.gradient - gradient
        x, value, gradient = found.point, found.value, found.gradient
        slope = gradient if sizes is None else _subgradient(x, gradient, sizes)
        direction = history.direction(step, change, slope)
        if on_state is not None:
            on_state(State(x, value, gradient, direction, n_steps, n_evaluations, stalled, history.content()))


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
) -> _Trial:
    """A step that lowers the function and, without sizes, flattens its slope: the weak conditions of Wolfe."""
    falling = float(slope @ direction)
    low, high, length = 0.0, np.inf, 1.0
    best = _Trial(None, value, slope, 0)
    rounding = _ROUNDING * abs(value)
    for k in range(1, _TRIALS + 1):
        point = x + length * direction
        if sizes is not None:
            orthant = np.where(x != 0, x, -slope)
            point[(sizes > 0) & (point * orthant < 0)] = 0.0
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
        if high - low <= 1e-12 * high or -length * falling <= rounding:
            break
    return best._replace(n_evaluations=k)


def _subgradient(x: Floats, gradient: Floats, sizes: Floats) -> Floats:
    """The subgradient of smallest norm of ``f(x) + sizes . |x|``."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - sizes, 0.0)
    return np.where(x != 0, gradient + sizes * np.sign(x), at_zero)


class _History:
    """The last steps and what they changed of the gradient: an approximation of the inverse Hessian.

    They are kept in single precision: any steps along which the function curves make a direction that falls. In the
    compact form of [ByrdNocedalSchnabel1994] both are read twice per step.
    """

    def __init__(self, n: int, memory: int) -> None:
        self.memory, self.size = memory, 0
        self._rows = np.empty((2 * memory, n), np.float32)  # step, change, step, change, ...
        self._next = 0
        self._cross, self._square = np.zeros((memory, memory)), np.zeros((memory, memory))

    def content(self) -> Memory:
        """What is remembered."""
        return Memory(self._rows[: 2 * self.size], self._cross, self._square, self.size, self._next)

    def restore(self, content: Memory) -> None:
        """Remember what another history did."""
        self._rows[: len(content.rows)] = content.rows
        self._cross, self._square, self.size, self._next = *map(np.copy, content[1:3]), content.size, content.place

    def first(self, slope: Floats) -> Floats:
        """A step to try where nothing is known of the curvature."""
        self.size = self._next = 0
        return -slope / float(np.sqrt(slope @ slope))

    def direction(self, step: Floats, change: Floats, slope: Floats) -> Floats:
        """Remember a step and what it changed of the gradient; minus the inverse Hessian times the new ``slope``."""
        k = self._next
        self._rows[2 * k], self._rows[2 * k + 1] = step, change
        n = max(self.size, k + 1)
        found = np.empty((2 * n, 2))
        kernel.products(self._rows[: 2 * n], change, slope, found)
        if found[2 * k, 0] > _CURVED * np.sqrt((step @ step) * found[2 * k + 1, 0]):
            self._cross[:n, k], self._square[:n, k], self._square[k, :n] = found[::2, 0], found[1::2, 0], found[1::2, 0]
            self.size, self._next = n, (k + 1) % self.memory
        elif self.size == self.memory:  # what was overwritten is lost, and all before it with it
            return self.first(slope)
        n = self.size
        if n == 0:
            return self.first(slope)
        order = np.arange(n) if n < self.memory else (np.arange(n) + self._next) % n
        cross, square = self._cross[np.ix_(order, order)], self._square[np.ix_(order, order)]
        along, scale = np.diag(cross), cross[-1, -1] / square[-1, -1]
        of_steps, of_changes = found[::2, 1][:n][order], found[1::2, 1][:n][order]
        # LAPACK itself: the checks of scipy.linalg would take longer than the solution. Only the upper half is read.
        inner, _ = dtrtrs(cross, of_steps)
        outer, _ = dtrtrs(cross, along * inner + scale * (square @ inner - of_changes), trans=1)
        shares = np.empty(2 * n)
        shares[2 * order], shares[2 * order + 1] = -outer, scale * inner
        direction = -scale * slope
        kernel.combine(self._rows[: 2 * n], shares, direction)
        return direction
