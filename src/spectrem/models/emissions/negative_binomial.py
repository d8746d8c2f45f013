"""Columns of counts that vary more than Poisson ones, each from a negative binomial distribution for each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, gammaln, psi, xlogy

from spectrem._arrays import Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.models.emissions import columns
from spectrem.models.estep import Statistics
from spectrem.models.mixture.model import NOTHING

# Sizes 1 / dispersion: above the largest, times the mean, the distribution cannot be told from a Poisson one.
_LEAST, _MOST = 1e-6, 1e4
_SERIES = 100.0  # Stirling's series has all digits from here on


@brief_dataclass(frozen=True, eq=False)
class NegativeBinomialParameters:
    """Means, and dispersions a of variances ``mean + a mean ** 2``.

    Attributes
    ----------
    means, dispersions : ndarrays of shape (n_states, n_columns)
    """

    means: Floats
    dispersions: Floats


@brief_dataclass(frozen=True, eq=False)
class ValueCounts:
    """Expected numbers of rows by state and value: with + a histogram of the rows of both.

    Attributes
    ----------
    values : ndarray of shape (n_values,)
        In ascending order.
    counts : ndarray of shape (n_values, n_states)
    """

    values: Floats
    counts: Floats

    def __add__(self, other: ValueCounts) -> ValueCounts:
        values, places = np.unique(np.concatenate([self.values, other.values]), return_inverse=True)
        return ValueCounts(
            values, columns.count_values(places, np.concatenate([self.counts, other.counts]), len(values))
        )

    def __rmul__(self, factor: float) -> ValueCounts:
        return ValueCounts(self.values, factor * self.counts)


@brief_dataclass(frozen=True, eq=False)
class NegativeBinomial:
    """Columns of counts, independent given the state, each from a negative binomial distribution.

    The M-step keeps a histogram of every column, and finds the mean and, by its derivative, the dispersion that are the
    most probable. Dispersions stay between 1e-4, over the mean if that is above 1, and 1e6.

    Parameters
    ----------
    means_prior : array-like that broadcasts to (n_states, n_columns), optional
        The prior is the density of rows with this value, above 0; by default the mean of each column.
    means_weight : float
        How many such rows it counts, at least 0.
    fixed : sequence of {"means", "dispersions"}
        Parameters that training keeps.

    Examples
    --------
    >>> import numpy as np
    >>> emission = NegativeBinomial(means_weight=0.0)
    >>> params = emission.start(np.array([[0.0], [1.0], [1.0], [10.0]]), np.ones((4, 1)))
    >>> params.means.round(3).tolist(), params.dispersions.round(3).tolist()
    ([[3.0]], [[1.651]])
    """

    means_prior: ArrayLike | None = None
    means_weight: float = 0.01
    fixed: Sequence[str] = ()

    def learn(self, x: Floats, names: Sequence[str]) -> NegativeBinomial:
        columns.at_least(0, self.means_weight, "means_weight")
        columns.check_training(self, x, names, ("means", "dispersions"))
        if self.means_prior is not None:
            columns.at_least(np.finfo(float).tiny, self.means_prior, "means_prior")
            return self
        return replace(self, means_prior=np.maximum(columns.mean_of(x), 0.5 / (len(x) + 1)))

    def check(self, x: Floats, names: Sequence[str]) -> None:
        columns.whole_or_missing(x, names)

    def start(self, x: Floats, shares: Floats) -> NegativeBinomialParameters:
        ones = np.ones((shares.shape[1], x.shape[1]))
        params = NegativeBinomialParameters(ones, ones)
        return replace(self, fixed=()).m_step(params, self.gather(params, x, columns.blended(shares)))

    def scores(self, params: NegativeBinomialParameters, x: Floats) -> Floats:
        scores = np.zeros((len(x), len(params.means)))
        for column, mean, dispersion in zip(x.T, params.means.T, params.dispersions.T, strict=True):
            there = np.flatnonzero(~np.isnan(column))
            values, places = columns.distinct(column[there])
            scores[there] += _log_densities(values[:, None], mean, 1 / dispersion)[places]
        return scores

    def gather(self, params: NegativeBinomialParameters, x: Floats, shares: Floats) -> Statistics:
        stats = {}
        for number, column in enumerate(x.T):
            there = np.flatnonzero(~np.isnan(column))
            values, places = columns.distinct(column[there])
            stats[str(number)] = ValueCounts(values, columns.count_values(places, shares[there], len(values)))
        return Statistics(**stats)

    def m_step(self, params: NegativeBinomialParameters, stats: Statistics) -> NegativeBinomialParameters:
        means, sizes = params.means.copy(), 1 / params.dispersions
        for column, seen in enumerate(vars(stats).values()):
            states = np.flatnonzero(seen.counts.sum(axis=0) > NOTHING)
            values, counts = (table[:, states] for table in self._with_prior(seen, means.shape, column))
            if "means" not in self.fixed:
                means[states, column] = (counts * values).sum(axis=0) / counts.sum(axis=0)
            if "dispersions" not in self.fixed:
                sizes[states, column] = _best_sizes(values, counts, means[states, column], sizes[states, column])
        return NegativeBinomialParameters(means, 1 / sizes)

    def log_prior(self, params: NegativeBinomialParameters) -> float:
        if not self.means_weight or self.means_prior is None:
            return 0.0
        densities = _log_densities(np.asarray(self.means_prior), params.means, 1 / params.dispersions)
        return self.means_weight * float(densities.sum())

    def means(self, params: NegativeBinomialParameters) -> Floats:
        return params.means

    def variances(self, params: NegativeBinomialParameters) -> Floats:
        return params.means + params.dispersions * params.means**2

    def cumulative(self, params: NegativeBinomialParameters, x: Floats, strictly: bool = False) -> Floats:
        x = (x - strictly)[:, None, :]
        below = betainc(1 / params.dispersions, np.maximum(x, 0.0) + 1, 1 / (1 + params.dispersions * params.means))
        return np.where(x < 0, 0.0, below)

    def impute(self, params: NegativeBinomialParameters, x: Floats, posteriors: Floats) -> Floats:
        return columns.fill_with_means(params.means, x, posteriors)

    def sample(self, params: NegativeBinomialParameters, states: Ints, rng: np.random.Generator) -> Floats:
        rates = rng.gamma(1 / params.dispersions[states], (params.dispersions * params.means)[states])
        return rng.poisson(rates).astype(np.float64)

    def n_free(self, params: NegativeBinomialParameters) -> int:
        return sum(table.size for name, table in self.arrays(params).items() if name not in self.fixed)

    def arrays(self, params: NegativeBinomialParameters) -> dict[str, Floats]:
        return {"means": params.means, "dispersions": params.dispersions}

    def of_arrays(self, arrays: Mapping[str, Floats]) -> NegativeBinomialParameters:
        means = columns.as_parameter(arrays, "means", (None, None), 0.0)
        return NegativeBinomialParameters(means, columns.as_parameter(arrays, "dispersions", means.shape, 1e-12))

    def _with_prior(self, seen: ValueCounts, shape: tuple[int, ...], column: int) -> tuple[Floats, Floats]:
        """Values and their counts in all states, shapes (n_values + 1, n_states), the rows of the prior last."""
        weight, prior = (0.0, 0.0) if self.means_prior is None else (self.means_weight, self.means_prior)
        values = np.repeat(seen.values[:, None], shape[0], axis=1)
        values = np.vstack([values, np.broadcast_to(prior, shape)[:, column]])
        return values, np.vstack([seen.counts, np.full(shape[0], weight)])


def _log_densities(x: Floats, means: Floats, sizes: Floats) -> Floats:
    """Log-densities, nats, of counts, which need not be whole."""
    large = np.maximum(sizes, _SERIES)
    series = (large - 0.5) * np.log1p(x / large) + x * np.log(large + x) - x + _rest(large + x) - _rest(large)
    rising = np.where(sizes < _SERIES, gammaln(sizes + x) - gammaln(sizes), series)
    return rising - gammaln(x + 1) + xlogy(x, means / (means + sizes)) - sizes * np.log1p(means / sizes)


def _rest(z: Floats) -> Floats:
    """The last terms of Stirling's series of the log of the gamma function."""
    return 1 / (12 * z) - 1 / (360 * z**3) + 1 / (1260 * z**5)


def _best_sizes(values: Floats, counts: Floats, means: Floats, before: Floats) -> Floats:
    """The sizes of the largest expected log-density, shape (n_states,); those ``before`` where none is better."""

    def slope(logs: Floats, states: Ints) -> Floats:
        size, mean, x = np.exp(logs), means[states], values[:, states]
        change = psi(x + size) - psi(size) - np.log1p(mean / size) + (mean - x) / (mean + size)
        return np.asarray((counts[:, states] * size * change).sum(axis=0), np.float64)

    most = np.log(_MOST * np.maximum(means, 1.0))
    after = np.exp(columns.falling_root(slope, np.full(len(means), np.log(_LEAST)), most))
    gains = (counts * (_log_densities(values, means, after) - _log_densities(values, means, before))).sum(axis=0)
    return np.where(gains > 0, after, before)
