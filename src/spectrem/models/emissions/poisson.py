"""Columns of counts, each from a Poisson distribution for each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, pdtr, xlogy

from spectrem._arrays import Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.models.emissions import columns
from spectrem.models.estep import Statistics
from spectrem.models.mixture.model import NOTHING


@brief_dataclass(frozen=True, eq=False)
class PoissonParameters:
    """Rates of events.

    Attributes
    ----------
    lambdas : ndarray of shape (n_states, n_columns)
    """

    lambdas: Floats


@brief_dataclass(frozen=True, eq=False)
class Poisson:
    """Columns of counts, independent given the state, each from a Poisson distribution, with a gamma prior.

    Parameters
    ----------
    lambdas_prior : array-like that broadcasts to (n_states, n_columns), optional
        Events that the prior counts, at least 0; by default as many as its rows have at the mean of the column, so that
        no state excludes a count.
    lambdas_weight : array-like that broadcasts to (n_states, n_columns)
        Rows that the prior counts, at least 0.
    fixed : sequence of {"lambdas"}
        Parameters that training keeps.

    Examples
    --------
    >>> import numpy as np
    >>> emission = Poisson(lambdas_prior=1.0, lambdas_weight=1.0)
    >>> x, shares = np.array([[0.0], [2.0], [np.nan], [9.0]]), np.array([[1.0, 0], [1, 0], [1, 0], [0, 1]])
    >>> params = emission.of_arrays({"lambdas": np.ones((2, 1))})
    >>> emission.m_step(params, emission.gather(params, x, shares)).lambdas.tolist()
    [[1.0], [5.0]]
    """

    lambdas_prior: ArrayLike | None = None
    lambdas_weight: ArrayLike = 0.001
    fixed: Sequence[str] = ()

    def learn(self, x: Floats, names: Sequence[str]) -> Poisson:
        columns.check_training(self, x, names, ("lambdas",))
        weight = columns.at_least(0, self.lambdas_weight, "lambdas_weight")
        if self.lambdas_prior is not None:
            columns.at_least(0, self.lambdas_prior, "lambdas_prior")
            return self
        there, values = columns.observed(x)
        return replace(self, lambdas_prior=weight * (values.sum(axis=0) + 0.5) / (there.sum(axis=0) + 1))

    def check(self, x: Floats, names: Sequence[str]) -> None:
        columns.whole_or_missing(x, names)

    def start(self, x: Floats, shares: Floats) -> PoissonParameters:
        params = PoissonParameters(np.ones((shares.shape[1], x.shape[1])))
        return replace(self, fixed=()).m_step(params, self.gather(params, x, columns.blended(shares)))

    def scores(self, params: PoissonParameters, x: Floats) -> Floats:
        scores = np.zeros((len(x), len(params.lambdas)))
        for one, rates in zip(x.T, params.lambdas.T, strict=True):
            missing = np.isnan(one)
            counts, places = columns.distinct(np.where(missing, 0.0, one))
            table = xlogy(counts[:, None], rates) - rates - gammaln(counts + 1)[:, None]
            places[missing] = len(counts)
            scores += np.vstack([table, np.zeros_like(rates)]).take(places, axis=0)
        return scores

    def gather(self, params: PoissonParameters, x: Floats, shares: Floats) -> Statistics:
        there, values = columns.observed(x)
        return Statistics(rows=shares.T @ there, events=shares.T @ values)

    def m_step(self, params: PoissonParameters, stats: Statistics) -> PoissonParameters:
        if self.fixed:
            return params
        events, rows = stats.events + self._events, stats.rows + self.lambdas_weight
        return PoissonParameters(np.where(stats.rows > NOTHING, events / np.maximum(rows, NOTHING), params.lambdas))

    def log_prior(self, params: PoissonParameters) -> float:
        return float((xlogy(self._events, params.lambdas) - np.asarray(self.lambdas_weight) * params.lambdas).sum())

    def means(self, params: PoissonParameters) -> Floats:
        return params.lambdas

    def variances(self, params: PoissonParameters) -> Floats:
        return params.lambdas

    def cumulative(self, params: PoissonParameters, x: Floats, strictly: bool = False) -> Floats:
        x = (x - strictly)[:, None, :]
        return np.where(x < 0, 0.0, pdtr(np.maximum(x, 0.0), params.lambdas))

    def impute(self, params: PoissonParameters, x: Floats, posteriors: Floats) -> Floats:
        return columns.fill_with_means(params.lambdas, x, posteriors)

    def sample(self, params: PoissonParameters, states: Ints, rng: np.random.Generator) -> Floats:
        return rng.poisson(params.lambdas[states]).astype(np.float64)

    def n_free(self, params: PoissonParameters) -> int:
        return 0 if self.fixed else params.lambdas.size

    def arrays(self, params: PoissonParameters) -> dict[str, Floats]:
        return {"lambdas": params.lambdas}

    def of_arrays(self, arrays: Mapping[str, Floats]) -> PoissonParameters:
        return PoissonParameters(columns.as_parameter(arrays, "lambdas", (None, None), 0.0))

    @property
    def _events(self) -> Floats:
        return np.asarray(0.0 if self.lambdas_prior is None else self.lambdas_prior, np.float64)
