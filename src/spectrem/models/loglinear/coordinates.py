"""Variables in which the objective of a log-linear model curves about alike in every direction."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.models.loglinear.features import Features
from spectrem.models.loglinear.support import Support

_nothing = partial(np.zeros, 0)
# Squares of spreads below this share of the mean square are rounding.
_ROUNDING = 1e-24
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


@dataclass(frozen=True)
class Scales:
    """How far a step of length 1 moves weights; it moves an intercept by 1.

    Attributes
    ----------
    features : ndarray of shape (n_features,)
    constant : float
        The same for the weight, with a prior, of a feature that is 1 in every choice.
    """

    features: Floats
    constant: float

    @classmethod
    def of(cls, spread: Spread, l2: float, *, centred: bool) -> Scales:
        """The scales for features of this spread, about their means where a step moves the intercept along.

        The weight of a feature whose values have the mean square s, where they are present, curves the objective by at
        most ``c s + l2``, with c the ``curvature`` of the spread; in units of ``1 / sqrt(s + l2 / c)`` all curve
        alike. Where most features are 0 in most choices, as words of a text are, frequent ones explain what rare ones
        would, and these bounds say little: with such scales, training takes several times as many steps. Then a
        share of the sum of all s, as far as these are like their median, takes the place of l2 / c: the features of a
        text keep about one scale, and some in other units, such as a year, still get their own.

        Parameters
        ----------
        spread : Spread
        l2 : float
            One over the variance of the prior.
        centred : bool
        """
        total = np.maximum(spread.square, _ROUNDING * spread.whole) if centred else spread.whole
        square = np.divide(total, spread.present, out=np.zeros(len(total)), where=spread.present > 0)
        positive = square[square > 0]
        typical = float(np.median(positive)) if len(positive) else 1.0
        sparse = spread.present.sum() < 0.5 * spread.choice_weight * len(spread.present)
        least = _SHARE * len(positive) * typical if sparse else 0.0
        prior, unit = l2 / spread.curvature, 1.0 + least / typical
        bound = square + max(prior, least)
        features = np.sqrt(np.divide(unit, bound, out=np.ones(len(bound)), where=bound > 0))
        return cls(features, float(np.sqrt(unit / (1.0 + max(prior, least / typical)))))


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
