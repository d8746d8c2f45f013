"""Distributions of how long states last, learned from expected numbers of segments, some of them cut off.

All are distributions on 1, 2, ..., ``longest`` tokens: families that know no longest duration are renormalised on
these, so that probabilities sum to one. `duration_scores` makes the table of scores that a
`spectrem.structures.SemiMarkovChain` takes, and ``fit`` of a family takes the expected counts that come back.

With p(l) the probability of l tokens, S(d) the sum of p(l) over l >= d, T(d) that of S, and the mean T(1), the
probability of d tokens is

* p(d) for a whole segment;
* S(d) for one that goes on behind the last token [Guedon2003];
* S(d) / T(1) for one that was there before the first token, at a time that the process knows nothing of: a long segment
  meets such a time more often than a short one, and what is left of it is as likely as any other part;
* T(d) / T(1) for one that did both.

The score of a fit is the sum of counts times the logarithms of these. Its derivative by log p(l) is the expected number
of segments of l tokens, cut ones completed in proportion to p, less the number of those of unknown beginning times
l p(l) / T(1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from spectrem._arrays import Floats
from spectrem._validate import as_count
from spectrem.exceptions import InvalidInputError

# Steps of one fit, the change of a probability that ends that of a histogram, and the step that ends others.
_MOST, _LEAST_CHANGE, _LEAST_STEP = 200, 1e-10, 1e-10
# Slopes are compared so far to each side for the curvature; less of it than that counts as that; steps are no longer.
_SHIFT, _LEAST_CURVATURE, _LONGEST_STEP = 1e-5, 1e-9, 2.0
# Scores that fall by less than this share are the same but for rounding.
_ROUNDING = 1e-14
# Probabilities of durations that a family allows are no less when segments are completed, so that shares are numbers.
_LEAST = 1e-290
# A bisection of the range of means halves it so often, and a step that is too long is halved so often at most.
_HALVINGS = 60
# Logarithms of rates, means, sizes and odds are at most so far from 0.
_FARTHEST = 20.0


class Durations(Protocol):
    """A family of distributions of durations, one for each of some states.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.durations import Geometric
    >>> np.exp(Geometric(minimum=2).log_probabilities(np.array([[0.5]]), longest=3)).round(3).ravel().tolist()
    [0.0, 0.667, 0.333]
    """

    def log_probabilities(self, parameters: Floats, longest: int) -> Floats:
        """Logarithms of the probabilities of 1, 2, ... tokens.

        Parameters
        ----------
        parameters : ndarray of shape (n_parameters, n_states)
        longest : int
            The most tokens.

        Returns
        -------
        ndarray of shape (longest, n_states), nats
        """
        ...

    def log_density(self, parameters: Floats) -> float:
        """The logarithm of the prior density, up to a constant.

        Parameters
        ----------
        parameters : ndarray of shape (n_parameters, n_states)

        Returns
        -------
        float, nats
        """
        ...

    def fit(self, counts: Floats, *, left: bool, right: bool, previous: Floats | None = None) -> Floats:
        """Parameters, shape (n_parameters, n_states), that have the largest score plus `log_density`.

        Parameters
        ----------
        counts : ndarray of shape (2, 2, longest, n_states)
            Expected numbers of segments, [first, last, duration - 1, state], as `SemiMarkovChain` counts them.
        left, right : bool
            Whether first segments may have begun before the first token, and last ones go on behind the last.
        previous : ndarray of shape (n_parameters, n_states), optional
            Where the search begins: the score is never less than theirs. States without counts keep them.

        Returns
        -------
        ndarray of shape (n_parameters, n_states)
        """
        ...


def duration_scores(log_probabilities: Floats, *, left: bool = False, right: bool = False) -> Floats:
    """Scores of the durations of a `SemiMarkovChain`, shape (2, 2, longest, n_states), nats.

    Parameters
    ----------
    log_probabilities : ndarray of shape (longest, n_states)
        Of 1, 2, ... tokens.
    left, right : bool
        Whether first segments may have begun before the first token, and last ones go on behind the last.

    Returns
    -------
    ndarray of shape (2, 2, longest, n_states), nats

    Examples
    --------
    >>> import numpy as np
    >>> scores = duration_scores(np.log([[0.5], [0.25], [0.25]]), left=True, right=True)
    >>> np.exp(scores[0, 1, :, 0]).round(12).tolist()  # so long or longer
    [1.0, 0.5, 0.25]
    >>> np.exp(scores[1, 0, :, 0]).round(3).tolist()  # left of one that was there before
    [0.571, 0.286, 0.143]
    """
    survival = np.logaddexp.accumulate(log_probabilities[::-1])[::-1]
    left_over = np.logaddexp.accumulate(survival[::-1])[::-1]
    scores = np.empty((2, 2, *log_probabilities.shape))
    for first in (0, 1):
        for last in (0, 1):
            scores[first, last] = (log_probabilities, survival, left_over)[(first and left) + (last and right)]
    if left:
        scores[1] -= left_over[0]
    return scores


@dataclass(frozen=True)
class Histogram:
    """A probability of its own for every duration; parameters are these, shape (longest, n_states).

    Parameters
    ----------
    pseudo_count : float
        At least 0; added to the number of segments of every duration: a Dirichlet prior of ``1 + pseudo_count``.

    Raises
    ------
    InvalidInputError
        If ``pseudo_count`` is negative.

    Examples
    --------
    One segment of two tokens, and one that is cut off after two:

    >>> import numpy as np
    >>> counts = np.zeros((2, 2, 3, 1))
    >>> counts[0, :, 1] = 1.0
    >>> Histogram().fit(counts, left=False, right=True)[:, 0].round(6).tolist()
    [0.0, 1.0, 0.0]
    """

    pseudo_count: float = 0.0

    def __post_init__(self) -> None:
        if not self.pseudo_count >= 0:
            raise InvalidInputError(
                f"pseudo_count must be at least 0, got {self.pseudo_count}; 0 is maximum likelihood"
            )

    def log_probabilities(self, parameters: Floats, longest: int) -> Floats:
        """See `Durations`."""
        with np.errstate(divide="ignore"):
            return np.log(parameters)

    def log_density(self, parameters: Floats) -> float:
        """See `Durations`."""
        if self.pseudo_count == 0.0:
            return 0.0
        return float(self.pseudo_count * self.log_probabilities(parameters, len(parameters)).sum())

    def fit(self, counts: Floats, *, left: bool, right: bool, previous: Floats | None = None) -> Floats:
        """See `Durations`; segments are completed and counted by turns [Vardi1982], until probabilities stay."""
        observed, longest = _observed(counts, left, right), counts.shape[2]
        p = np.full(counts.shape[2:], 1.0 / longest) if previous is None else previous
        known = counts.any(axis=(0, 1, 2)) | (self.pseudo_count > 0.0)
        for _ in range(_MOST):
            completed, _ = _complete(observed, p)
            fitted = np.where(known, _normalise(completed + self.pseudo_count, observed.met), p)
            change, p = np.abs(fitted - p).max(), fitted
            if change < _LEAST_CHANGE or not (observed.cut.any() or observed.cut_twice.any()):
                break
        return p


@dataclass(frozen=True)
class Poisson:
    """d - 1 is Poisson; the one parameter is its rate, shape (1, n_states).

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(Poisson().log_probabilities(np.array([[1.0]]), longest=3)).round(3).ravel().tolist()
    [0.4, 0.4, 0.2]
    """

    def log_probabilities(self, parameters: Floats, longest: int) -> Floats:
        """See `Durations`."""
        return _log_normalised(_poisson(np.log(parameters), longest)[0])

    def log_density(self, parameters: Floats) -> float:
        """See `Durations`: 0."""
        return 0.0

    def fit(self, counts: Floats, *, left: bool, right: bool, previous: Floats | None = None) -> Floats:
        """See `Durations`."""
        start = np.log(_means(counts, 1)[None] if previous is None else previous)
        return np.exp(_climb(_poisson, _observed(counts, left, right), start))


@dataclass(frozen=True)
class NegativeBinomial:
    """d - 1 is negative binomial; parameters are its mean m and its size r, shape (2, n_states).

    The variance is m + m² / r; with r large it is nearly `Poisson`, with r = 1 geometric.

    Examples
    --------
    >>> import numpy as np
    >>> family = NegativeBinomial()
    >>> np.exp(family.log_probabilities(np.array([[1.0], [1.0]]), longest=3)).round(3).ravel().tolist()
    [0.571, 0.286, 0.143]
    """

    def log_probabilities(self, parameters: Floats, longest: int) -> Floats:
        """See `Durations`."""
        return _log_normalised(_negative_binomial(np.log(parameters), longest)[0])

    def log_density(self, parameters: Floats) -> float:
        """See `Durations`: 0."""
        return 0.0

    def fit(self, counts: Floats, *, left: bool, right: bool, previous: Floats | None = None) -> Floats:
        """See `Durations`."""
        means = _means(counts, 1)
        start = np.log(np.stack([means, np.ones_like(means)]) if previous is None else previous)
        return np.exp(_climb(_negative_binomial, _observed(counts, left, right), start))


@dataclass(frozen=True)
class Geometric:
    """From a minimum on, a segment ends after each token with the same probability, the one parameter, (1, n_states).

    Parameters
    ----------
    minimum : int
        The least duration, >= 1. Counts of shorter segments that are whole are left out.

    Raises
    ------
    InvalidInputError
        If the minimum is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(Geometric(minimum=2).log_probabilities(np.array([[0.5]]), longest=3)).round(3).ravel().tolist()
    [0.0, 0.667, 0.333]
    """

    minimum: int = 1

    def __post_init__(self) -> None:
        as_count(self.minimum, "minimum", minimum=1)

    def log_probabilities(self, parameters: Floats, longest: int) -> Floats:
        """See `Durations`."""
        return _log_normalised(self._weights(np.log(parameters) - np.log1p(-parameters), longest)[0])

    def log_density(self, parameters: Floats) -> float:
        """See `Durations`: 0."""
        return 0.0

    def fit(self, counts: Floats, *, left: bool, right: bool, previous: Floats | None = None) -> Floats:
        """See `Durations`."""
        observed = _observed(counts, left, right)
        observed.whole[: self.minimum - 1] = 0.0
        start = 1.0 / (1.0 + _means(counts, self.minimum)[None]) if previous is None else previous
        odds = np.exp(_climb(self._weights, observed, np.log(start) - np.log1p(-start)))
        return odds / (1.0 + odds)

    def _weights(self, log_odds: Floats, longest: int) -> tuple[Floats, Floats]:
        more = np.arange(longest)[:, None] - (self.minimum - 1)
        ends = 1.0 / (1.0 + np.exp(-log_odds[0]))
        log_weights = np.where(more < 0, -np.inf, -more * np.logaddexp(0.0, log_odds[0]))
        return log_weights, np.where(more < 0, 0.0, -more * ends)[None]


class _Observed(NamedTuple):
    """Numbers of segments, shape (longest, n_states), by how they were seen.

    Attributes
    ----------
    whole, cut, cut_twice
        Of so many tokens; with one end, and with both, outside.
    met : ndarray of shape (n_states,)
        Segments that began before the first token.
    """

    whole: Floats
    cut: Floats
    cut_twice: Floats
    met: Floats


def _observed(counts: Floats, left: bool, right: bool) -> _Observed:
    kinds = np.zeros((3, *counts.shape[2:]))
    for first in (0, 1):
        for last in (0, 1):
            kinds[(first and left) + (last and right)] += counts[first, last]
    return _Observed(kinds[0], kinds[1], kinds[2], counts[1].sum(axis=(0, 1)) * left)


def _complete(observed: _Observed, p: Floats) -> tuple[Floats, Floats]:
    """Expected numbers of segments by their true durations, and logarithms of survival and of its sum, [S, T]."""
    survival = np.cumsum(p[::-1], axis=0)[::-1]
    left_over = np.cumsum(survival[::-1], axis=0)[::-1]
    both = np.stack([survival, left_over])
    rates = np.stack([observed.cut, observed.cut_twice])
    rates = np.divide(rates, both, out=np.zeros_like(rates), where=both > 0.0)
    completed = observed.whole + p * np.cumsum(rates[0] + np.cumsum(rates[1], axis=0), axis=0)
    return completed, np.log(both, out=np.full_like(both, -np.inf), where=both > 0.0)


def _normalise(completed: Floats, met: Floats) -> Floats:
    """The probabilities of the largest sum of ``completed * log p - met * log(mean)``, by state.

    They are completed / (the others + met * duration / mean), with the mean at which they sum to one.
    """
    total, durations = completed.sum(axis=0), np.arange(1, len(completed) + 1)[:, None]
    low, high = np.full(len(met), 1.0 / len(completed)), np.ones(len(met))

    def probabilities(rate: Floats) -> Floats:
        weights = total - met + met * durations * rate
        return np.divide(completed, weights, out=np.zeros_like(completed), where=weights > 0.0)

    for _ in range(_HALVINGS if met.any() else 0):
        middle = 0.5 * (low + high)
        too_many = probabilities(middle).sum(axis=0) > 1.0
        low, high = np.where(too_many, middle, low), np.where(too_many, high, middle)
    p = probabilities(low)
    return p / np.where(total > 0.0, p.sum(axis=0), 1.0)


def _means(counts: Floats, minimum: int) -> Floats:
    """Mean durations beyond the minimum as if all segments were whole, by state; never 0."""
    by_duration = counts.sum(axis=(0, 1)) + 1e-9
    more = np.maximum(np.arange(1, len(by_duration) + 1) - minimum, 0)
    return np.maximum(more @ by_duration / by_duration.sum(axis=0), 1e-3)


def _log_normalised(log_weights: Floats) -> Floats:
    return log_weights - np.logaddexp.reduce(log_weights)


def _poisson(log_rate: Floats, longest: int) -> tuple[Floats, Floats]:
    """Logarithms of weights, (longest, n_states), and their derivatives by every parameter before them."""
    from scipy.special import gammaln

    more = np.arange(longest)[:, None]
    return more * log_rate[0] - gammaln(more + 1), np.broadcast_to(more, (1, longest, log_rate.shape[1]))


def _negative_binomial(logarithms: Floats, longest: int) -> tuple[Floats, Floats]:
    """The same of the mean and the size.

    Quotients of gamma functions are products over the tokens before, each near 1 where the size is large, so that
    nothing cancels on the way to the Poisson distribution.
    """
    from scipy.special import gammaln

    more, (log_mean, log_size) = np.arange(longest)[:, None], logarithms
    mean, size = np.exp(log_mean), np.exp(log_size)

    def over_tokens_before(terms: Floats) -> Floats:
        return np.concatenate([np.zeros((1, len(mean))), np.cumsum(terms[:-1], axis=0)])

    log_weights = more * log_mean + over_tokens_before(np.log((size + more) / (size + mean))) - gammaln(more + 1)
    of_size = over_tokens_before((mean - more) / (size + mean) * size / (size + more))
    return log_weights, np.stack([more / (1.0 + np.exp(log_mean - log_size)), of_size])


def _climb(weights: Callable[[Floats, int], tuple[Floats, Floats]], observed: _Observed, start: Floats) -> Floats:
    """Parameters of the largest score, found from a start by damped Newton steps; states without counts keep the start.

    The search ends where the slope is zero to rounding, and not where the score no longer rises: the score is flat
    there, and rounding of the counts would move the parameters by its square root.
    """
    longest, n_parameters = len(observed.whole), len(start)
    totals = sum(numbers.sum(axis=0) for numbers in observed[:3])
    per_state = np.divide(1.0, totals, out=np.zeros(start.shape[1]), where=totals > 0.0)

    def score(parameters: Floats) -> tuple[Floats, Floats]:
        """Mean scores by state, and their slopes."""
        log_weights, slopes = weights(parameters, longest)
        log_p = _log_normalised(log_weights)
        p = np.where(log_p > -np.inf, np.maximum(np.exp(log_p), _LEAST), 0.0)
        completed, (survival, left_over) = _complete(observed, p)
        terms = (observed.whole, log_p), (observed.cut, survival), (observed.cut_twice, left_over)
        scores = sum(np.multiply(n, logs, out=np.zeros_like(n), where=n > 0.0).sum(axis=0) for n, logs in terms)
        slope = completed - observed.met * np.arange(1, longest + 1)[:, None] * p / np.exp(left_over[0])
        slope -= p * slope.sum(axis=0)
        return (scores - observed.met * left_over[0]) * per_state, (slopes * slope).sum(axis=1) * per_state

    point = np.clip(start, -_FARTHEST, _FARTHEST)
    value, slope = score(point)
    for _ in range(_MOST):
        # The curvature by differences of the exact slope: Newton's method needs it only roughly.
        shifts = _SHIFT * np.eye(n_parameters)[:, :, None]
        curvature = np.stack([score(point + shift)[1] - score(point - shift)[1] for shift in shifts]) / (2.0 * _SHIFT)
        sizes, directions = np.linalg.eigh(0.5 * (curvature + curvature.swapaxes(0, 1)).transpose(2, 0, 1))
        along = np.einsum("sij,is->sj", directions, slope) / np.maximum(np.abs(sizes), _LEAST_CURVATURE)
        step = np.clip(np.einsum("sij,sj->is", directions, along), -_LONGEST_STEP, _LONGEST_STEP)
        for _ in range(_HALVINGS):
            trial = np.clip(point + step, -_FARTHEST, _FARTHEST)
            reached, slope_there = score(trial)
            falls = reached < value - _ROUNDING * (1.0 + np.abs(value))
            if not falls.any():
                break
            step[:, falls] *= 0.5
        moved = np.abs(trial - point).max()
        point, value, slope = trial, reached, slope_there
        if moved < _LEAST_STEP:
            break
    return point
