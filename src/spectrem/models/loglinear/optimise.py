"""The M-step of log-linear models under a prior, and L-BFGS and OWL-QN that make it."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus
from spectrem.corpus.corpus import ONE_BLAS_THREAD
from spectrem.exceptions import InvalidInputError, warn_unconverged
from spectrem.kernels import loglinear as kernel
from spectrem.models.estep import Statistics
from spectrem.models.loglinear.features import Features, Support

# A step must gain this share of what the slope promises, and leave at most that share of the slope.
_GAIN, _SLOPE = 1e-4, 0.9
_TRIALS = 40
# Differences of the function below this, relative to its size, are rounding.
_LEAST_CHANGE = 4e-16
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


@dataclass(eq=False)
class Memory:
    """The last steps and what they changed of the gradient: an approximation of the inverse Hessian.

    They are kept in single precision: any steps along which the function curves make a direction that falls. In the
    compact form of [ByrdNocedalSchnabel1994] both are read twice per step.

    Attributes
    ----------
    rows : ndarray of shape (2 * n_steps, n), float32
        Step, change, step, change ...
    cross, square : ndarray of shape (n_steps, n_steps)
        Products of steps and changes, and of changes.
    size, place : int
        How many there are, and where the next one goes.
    """

    rows: NDArray[np.float32]
    cross: Floats
    square: Floats
    size: int = 0
    place: int = 0

    @classmethod
    def of(cls, n: int, n_steps: int) -> Memory:
        """One without content, for so many steps of n variables."""
        return cls(np.zeros((2 * n_steps, n), np.float32), np.zeros((n_steps, n_steps)), np.zeros((n_steps, n_steps)))

    def first(self, slope: Floats) -> Floats:
        """A step to try where nothing is known of the curvature."""
        self.size = self.place = 0
        return -slope / float(np.sqrt(slope @ slope))

    def direction(self, step: Floats, change: Floats, slope: Floats) -> Floats:
        """Remember a step and what it changed of the gradient; minus the inverse Hessian times the new ``slope``."""
        k = self.place
        self.rows[2 * k], self.rows[2 * k + 1] = step, change
        n = max(self.size, k + 1)
        products = np.empty((2 * n, 2))
        kernel.products(self.rows[: 2 * n], change, slope, products)
        if products[2 * k, 0] > _CURVED * np.sqrt((step @ step) * products[2 * k + 1, 0]):
            self.cross[:n, k], self.square[:n, k] = products[::2, 0], products[1::2, 0]
            self.square[k, :n] = products[1::2, 0]
            self.size, self.place = n, (k + 1) % len(self.cross)
        elif self.size == len(self.cross):  # what was overwritten is lost, and all before it with it
            return self.first(slope)
        n = self.size
        if n == 0:
            return self.first(slope)
        order = np.arange(n) if n < len(self.cross) else (np.arange(n) + self.place) % n
        cross, square = self.cross[np.ix_(order, order)], self.square[np.ix_(order, order)]
        along, scale = np.diag(cross), cross[-1, -1] / square[-1, -1]
        of_steps, of_changes = products[::2, 1][:n][order], products[1::2, 1][:n][order]
        from scipy.linalg.lapack import dtrtrs

        # LAPACK itself: the checks of scipy.linalg would take longer than the solution. Only the upper half is read.
        inner, _ = dtrtrs(cross, of_steps)
        outer, _ = dtrtrs(cross, along * inner + scale * (square @ inner - of_changes), trans=1)
        shares = np.empty(2 * n)
        shares[2 * order], shares[2 * order + 1] = -outer, scale * inner
        direction = -scale * slope
        kernel.combine(self.rows[: 2 * n], shares, direction)
        return direction


class State(NamedTuple):
    """A minimisation after a step, from which it is resumed exactly.

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
        return cls(nothing, 0.0, nothing, nothing, 0, 0, 0, Memory.of(0, 0))


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
    direction: Floats | None
    if state is None:
        history = Memory.of(len(start), memory)
        x, (value, gradient), direction = start, evaluate(start), None
        if sizes is not None:
            value += float(sizes @ np.abs(x))
        n_steps, n_evaluations, stalled = 0, 1, 0
    else:
        x, value, gradient, direction, n_steps, n_evaluations, stalled, history = deepcopy(state)
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
        trial = _search(evaluate, x, value, slope, direction, sizes)
        n_evaluations += trial.n_evaluations
        if trial.point is None:
            if not history.size:
                return Minimum(x, value, slope, n_steps, n_evaluations, Ending.STALLED)
            direction = None
            continue
        n_steps += 1
        stalled = stalled + 1 if value - trial.value <= _LEAST_CHANGE * abs(value) else 0
        step, change = trial.point - x, trial.gradient - gradient
        x, value, gradient = trial.point, trial.value, trial.gradient
        slope = gradient if sizes is None else _subgradient(x, gradient, sizes)
        direction = history.direction(step, change, slope)
        if on_state is not None:
            on_state(State(x, value, gradient, direction, n_steps, n_evaluations, stalled, history))


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
    rounding = _LEAST_CHANGE * abs(value)
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


_nothing = partial(np.zeros, 0)
# Squares of spreads below this share of the mean square are rounding.
_LEAST_SQUARE = 1e-24
# Sparse features have scales of their own where they curve the objective more than this share of all features together.
_SHARE = 1 / 16


@dataclass(frozen=True)
class Spread:
    """How many choices there are, and how the values of every feature spread over them; adds up over shards.

    Attributes
    ----------
    n_instances : int
        How many have a weight above 0.
    instance_weight, choice_weight : float
        The sums of the weights of instances, and of those of their choices.
    curvature : float
        The most that a weight of a feature which is 1 in every choice can curve the sum of log-normalisers, nats.
    present : ndarray of shape (n_features,), or (0,) where features are not looked at
        The weight of the choices that have the feature.
    mean : ndarray of the same shape
        The mean of the values in all choices, by weight.
    square : ndarray of the same shape
        The weighted sum of the squares of the distances from the mean.
    """

    n_instances: int = 0
    instance_weight: float = 0.0
    choice_weight: float = 0.0
    curvature: float = 0.0
    present: Floats = field(default_factory=_nothing)
    mean: Floats = field(default_factory=_nothing)
    square: Floats = field(default_factory=_nothing)

    @classmethod
    def of(cls, weights: Floats, sizes: Ints, n_labels: int, features: Features | None = None) -> Spread:
        """The spread over instances of these weights and numbers of choices, of features if they are given.

        Examples
        --------
        >>> Spread.of(np.ones(2), np.array([1, 2]), 2, Features.of([[1.0], [0.0], [5.0]]))
        Spread(n_instances=2, instance_weight=2.0, choice_weight=3.0, curvature=0.75, \
present=array([2.]), mean=array([2.]), square=array([14.]))
        """
        weight = float(weights @ sizes)
        curvature = weight * max(n_labels - 1, 1) / n_labels**2  # p (1 - p) where all labels are as probable
        sums = int((weights > 0).sum()), float(weights.sum()), weight, curvature
        if features is None or not weight:
            return cls(*sums)
        n, indices = features.n_features, features.indices
        each = np.repeat(np.repeat(weights, sizes), np.diff(features.indptr))
        values = np.ones(len(indices)) if features.values is None else features.values.astype(np.float64)
        present = np.bincount(indices, each, n).astype(np.float64)
        mean = np.bincount(indices, each * values, n) / weight
        # about the mean at once, since differences of sums of squares lose all digits far from 0
        about = np.bincount(indices, each * (values - mean[indices]) ** 2, n)
        return cls(*sums, present, mean, about + np.maximum(weight - present, 0.0) * mean**2)

    @property
    def whole(self) -> Floats:
        """The weighted sum of the squares of the values of every feature, shape (n_features,)."""
        return self.square + self.choice_weight * self.mean**2

    def __add__(self, other: Spread) -> Spread:
        if not (self.choice_weight and other.choice_weight):
            return other if other.choice_weight else self
        weight = self.choice_weight + other.choice_weight
        step, share = other.mean - self.mean, other.choice_weight / weight
        return Spread(
            self.n_instances + other.n_instances,
            self.instance_weight + other.instance_weight,
            weight,
            self.curvature + other.curvature,
            self.present + other.present,
            self.mean + share * step,
            self.square + other.square + step**2 * (share * self.choice_weight),
        )

    def scales(self, l2: float, *, centred: bool) -> tuple[Floats, float]:
        """The scales of features, about their means where a step moves the intercept along.

        The weight of a feature whose values have the mean square s, where they are present, curves the objective by at
        most ``c s + l2``, with c the ``curvature``; in units of ``1 / sqrt(s + l2 / c)`` all curve
        alike. Where most features are 0 in most choices, as words of a text are, frequent ones explain what rare ones
        would, and these bounds say little: with such scales, training takes several times as many steps. Then a
        share of the sum of all s, as far as these are like their median, takes the place of l2 / c: the features of a
        text keep about one scale, and some in other units, such as a year, still get their own.

        Parameters
        ----------
        l2 : float
            One over the variance of the prior.
        centred : bool

        Returns
        -------
        features : ndarray of shape (n_features,)
            How far a step of length 1 moves weights; it moves an intercept by 1.
        constant : float
            The same for the weight, with a prior, of a feature that is 1 in every choice.
        """
        total = np.maximum(self.square, _LEAST_SQUARE * self.whole) if centred else self.whole
        square = np.divide(total, self.present, out=np.zeros(len(total)), where=self.present > 0)
        positive = square[square > 0]
        typical = float(np.median(positive)) if len(positive) else 1.0
        sparse = self.present.sum() < 0.5 * self.choice_weight * len(self.present)
        least = _SHARE * len(positive) * typical if sparse else 0.0
        prior, unit = l2 / self.curvature, 1.0 + least / typical
        bound = square + max(prior, least)
        features = np.sqrt(np.divide(unit, bound, out=np.ones(len(bound)), where=bound > 0))
        return features, float(np.sqrt(unit / (1.0 + max(prior, least / typical))))


@dataclass(frozen=True)
class Coordinates:
    """Weights as a linear function of a point u: ``scale * u``, where intercepts lose what the means of features add.

    The intercept of a label then stands for ``b + mean . w``, the score in the middle of the data, which a step of the
    weights w leaves as it is, however far from 0 the features are.

    Attributes
    ----------
    scale : ndarray of shape (n_weights,)
    support : Support
        The pairs of features and labels whose weights come first.
    mean : ndarray of shape (n_features,) or None
        None where no intercepts come last.
    """

    scale: Floats
    support: Support
    mean: Floats | None

    def weights(self, point: Floats) -> Floats:
        """The weights at a point."""
        weights = self.scale * point
        if self.mean is not None:
            weights[-self.support.n_labels :] -= self._scores(weights)
        return weights

    def point(self, weights: Floats) -> Floats:
        """The point that has these weights."""
        shifted = weights.copy()
        if self.mean is not None:
            shifted[-self.support.n_labels :] += self._scores(weights)
        return shifted / self.scale

    def gradient(self, gradient: Floats) -> Floats:
        """The gradient with respect to the point, made in the array of that with respect to the weights."""
        if self.mean is not None:
            shares = -gradient[None, -self.support.n_labels :]
            self.support.add_counts(self._middle, shares, gradient[: self.support.n_weights])
        gradient *= self.scale
        return gradient

    @cached_property
    def _middle(self) -> Features:
        """One choice whose features have their means."""
        assert self.mean is not None
        n = len(self.mean)
        return Features(np.array([0, n]), np.arange(n, dtype=np.int32), self.mean, n)

    def _scores(self, weights: Floats) -> Floats:
        """The part that features have in the scores of the choice in the middle, shape (n_labels,)."""
        scores = np.zeros((1, self.support.n_labels))
        self.support.add_scores(self._middle, weights[: self.support.n_weights], scores)
        return scores[0]


# Shares of the most curvature that the data can have: the least that a variable is taken to have beside its prior, and
# without one, such as the intercept of a label in a thousand.
_WEAK, _FREE = 1e-6, 1e-3
_TINY = 1e-300
# The share of the objective that may be missing where that curvature is assumed, or where rounding hides it.
_HIDDEN = 1e-6

_MEMORY_BYTES = 1 << 26
MOST_STEPS = 1000
"""Steps of L-BFGS in an M-step for which no other number is given."""


@dataclass(frozen=True)
class Optimiser:
    """How far an M-step goes.

    Parameters
    ----------
    max_steps : int, optional
        Steps of L-BFGS at most; with few, every M-step gains a little. By default as many as ``tol`` needs, but not
        above `MOST_STEPS`: that these do not suffice is warned about.
    tol : float
        How far from its maximum an M-step may stop, relative to the objective or, where this is more, to one nat for an
        instance of average weight. The distance is bounded by the gradient, as the prior makes the objective strongly
        concave; along intercepts and wherever the prior is weak, a small share of the curvature that the data may have
        stands in for that of the prior.
    memory : int, optional
        Steps that L-BFGS remembers, of two arrays of the size of the parameters, in single precision, each. With None
        as many as fit into 64 MB, from 6 to 30: of a CRF, with 30 it takes two thirds of the steps that it takes with
        6, but of millions of weights, reading them takes as long as it saves.
    """

    max_steps: int | None = None
    tol: float = 1e-10
    memory: int | None = 20

    def remembered(self, n: int) -> int:
        """How many steps are remembered of n parameters."""
        return self.memory or int(np.clip(_MEMORY_BYTES // (8 * max(n, 1)), 6, 30))


def moments(shard: Any, model: Any, theta: Floats, known: bool) -> Statistics:
    """The log-normalisers of a shard and their gradient; 0 for one that is not known where only those count."""
    if known and not shard.known:
        return Statistics(value=0.0, gradient=np.zeros(model.n_weights))
    return model.moments(theta, shard)


def spread(shard: Any, model: Any, known: bool) -> Spread:
    """How values of features spread over a shard; nothing for one that is not known where only those count."""
    return Spread() if known and not shard.known else model.spread(shard)


def maximise(
    model: Any,
    theta: Floats,
    stats: Floats,
    corpus: Corpus,
    known: bool = False,
    optimiser: Optimiser | None = None,
    **course: Any,
) -> Minimum:
    """Maximise ``theta . stats`` less the log-normalisers plus the log-prior, from ``theta`` on.

    Parameters
    ----------
    model : LogLinearModel
    theta, stats : ndarray of shape (n_weights,)
    corpus : Corpus
    known : bool
        Whether only shards whose labels are known have a part in it.
    optimiser : Optimiser, optional
        By default that of the model.

    Returns
    -------
    Minimum
        Of minus the objective.
    """

    def evaluate(x: Floats) -> tuple[float, Floats]:
        total = corpus.sum(moments, model, x, known)
        gradient = total.gradient
        gradient -= stats
        return total.value - float(x @ stats), gradient

    return maximise_posterior(model, evaluate, theta, corpus.sum(spread, model, known), optimiser, **course)


def known_counts(shard: Any, model: Any) -> Floats:
    """Values of all features under the labels of a shard, if they are known, else 0, shape (n_weights,)."""
    theta = model.initial()
    if not shard.known:
        return theta
    structure = model.structure(shard)
    _, marginals = structure.smoothed_max(model.scores(theta, shard), 1.0, weights=shard.weights)
    return model.gather(theta, shard, marginals)


def fit_known(
    model: Any, corpus: Corpus, theta: Floats | None = None, optimiser: Optimiser | None = None, **course: Any
) -> Minimum:
    """Maximise the log-likelihood of the shards that are known plus the log-prior, from ``theta`` or 0 on.

    ``course`` may hold ``state`` and ``on_state``, as of `maximise_posterior`.
    """
    start = model.initial() if theta is None else theta
    return maximise(model, start, corpus.sum(known_counts, model), corpus, known=True, optimiser=optimiser, **course)


def advice(best: Minimum, optimiser: Optimiser) -> str:
    """Advice where training ended before weights were within ``tol`` of the best."""
    if best.ending is Ending.STALLED:
        return "rounding hides how it could rise; subtract from features what is the same in all rows"
    if optimiser.max_steps is not None:
        return "raise m_steps or m_tol"
    return "bring features to similar sizes, strengthen the prior (a smaller C), raise m_tol, or set m_steps"


def m_step(model: Any, theta: Floats, stats: Floats, corpus: Corpus) -> Floats:
    """The weights of `maximise`, and a warning where they are not within ``tol`` of the best unless steps are fixed."""
    best = maximise(model, theta, stats, corpus)
    fixed = best.ending is Ending.STEPS and model.optimiser.max_steps is not None
    if best.ending is not Ending.CONVERGED and not fixed:
        warn_unconverged(
            f"the objective of an M-step was not within m_tol of its maximum after {best.n_steps} steps: "
            f"{advice(best, model.optimiser)}"
        )
    return best.point


def maximise_posterior(
    model: Any,
    evaluate: Callable[[Floats], tuple[float, Floats]],
    theta: Floats,
    spread: Spread,
    optimiser: Optimiser | None = None,
    on_step: Callable[[float], None] | None = None,
    state: State | None = None,
    on_state: Callable[[State, Floats], None] | None = None,
) -> Minimum:
    """Maximise a function of the weights plus their log-prior, from ``theta`` on.

    Parameters
    ----------
    model : LogLinearModel
        Whose prior it is.
    evaluate : callable
        From weights to minus the function and a fresh array of its gradient.
    theta : ndarray of shape (n_weights,)
    spread : Spread
        How features spread over the instances that the function is about.
    optimiser : Optimiser, optional
        By default that of the model.
    on_step : callable, optional
        Called at the start and after every step with the value, of minus the function less the log-prior.
    state : State, optional
        As for `minimise`, in the `Coordinates` of the model.
    on_state : callable, optional
        As for `minimise`, called with the weights, too.

    Returns
    -------
    Minimum
        Of minus the function less the log-prior; its slope is that in the `Coordinates` of the model. Where no step
        raises the function any more and rounding hides next to nothing, it has converged.
    """
    l2, l1, n = model.prior.l2, model.prior.l1, model.n_penalised
    how = optimiser or model.optimiser
    weights: Callable[[Floats], Floats] = _same
    gradient_at, point, scale, apart = weights, weights, np.ones(1), np.ones(1)
    if len(spread.mean):
        coordinates = model.coordinates(*spread.scales(l2, centred=model.intercept), spread.mean)
        weights, gradient_at, point = coordinates.weights, coordinates.gradient, coordinates.point
        scale = coordinates.scale[:n]
        if not model.intercept:  # features far from 0 are all alike, up to how they spread
            share = np.divide(spread.square, spread.whole, out=np.ones(len(spread.mean)), where=spread.whole > 0)
            apart = model.coordinates(share, 1.0, spread.mean).scale[:n]
    prior, free = np.broadcast_to(l2 * scale**2, n), max(_FREE * spread.curvature, _TINY)
    weak = np.broadcast_to(apart * (_WEAK * spread.curvature if l2 else free), n)
    least, unsure = np.maximum(prior, weak), prior < weak
    sizes = np.append(np.broadcast_to(l1 * scale, n), np.zeros(len(theta) - n)) if l1 else None
    unit = spread.instance_weight / max(spread.n_instances, 1)

    def penalised(u: Floats) -> tuple[float, Floats]:
        x = weights(u)
        value, gradient = evaluate(x)
        if l2:
            value += 0.5 * l2 * float(x[:n] @ x[:n])
            gradient[:n] += l2 * x[:n]
        return value, gradient_at(gradient)

    def near(u: Floats, value: float, slope: Floats, tol: float, hidden: float) -> bool:
        # A function that curves by at least h_j along variable j is above its minimum by at most sum g_j^2 / (2 h_j).
        size, first = max(abs(value), unit), slope[:n]
        bound = 0.5 * (float(first @ (first / np.maximum(least, _TINY))) + float(slope[n:] @ slope[n:]) / free)
        if bound > tol * size:
            return False
        # Where that curvature is assumed, g_j^2 / (2 l2_j) still bounds what variable j adds, and so does |g_j u_j| if
        # the minimum is no farther from u than 0 is.
        steep, far = np.abs(first)[unsure], np.abs(u[:n])[unsure]
        if l2:
            far = np.minimum(far, 0.5 * steep / prior[unsure])
        return float(steep @ far) <= max(tol, hidden) * size

    def done(u: Floats, value: float, slope: Floats) -> bool:
        if on_step is not None:
            on_step(value)
        return near(u, value, slope, how.tol, _HIDDEN)

    with ONE_BLAS_THREAD:  # products of long vectors wait for threads that the shards keep busy
        best = minimise(
            penalised,
            point(theta),
            done=done,
            sizes=sizes,
            max_steps=MOST_STEPS if how.max_steps is None else how.max_steps,
            memory=how.remembered(len(theta)),
            state=state,
            on_state=None if on_state is None else lambda state: on_state(state, weights(state.point)),
        )
    if best.ending is Ending.STALLED and near(*best[:3], max(how.tol, _HIDDEN), 10 * _HIDDEN):
        best = best._replace(ending=Ending.CONVERGED)
    return best._replace(point=weights(best.point) if best.n_steps else theta)


def _same(array: Floats) -> Floats:
    return array


@dataclass(frozen=True)
class WeightPrior:
    """Minus the log-density of weights: ``l2 / 2 * sum of squares + l1 * sum of sizes``, nats.

    Parameters
    ----------
    l2 : float
        One over the variance of a Gaussian, at least 0.
    l1 : float
        At least 0; above 0 many weights become 0.

    Raises
    ------
    InvalidInputError
        If one of them is negative or not finite.

    Examples
    --------
    >>> WeightPrior(l2=2.0, l1=1.0).penalty(np.array([1.0, -3.0]))
    14.0
    """

    l2: float = 1.0
    l1: float = 0.0

    def __post_init__(self) -> None:
        for name in ("l2", "l1"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInputError(f"{name} must be finite and at least 0, got {value}; 0 leaves weights free")

    def penalty(self, weights: Floats) -> float:
        """Minus the log-density, nats, up to a constant."""
        total = 0.5 * self.l2 * float(weights @ weights) if self.l2 else 0.0
        return total + self.l1 * float(np.abs(weights).sum()) if self.l1 else total
