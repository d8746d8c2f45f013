"""Rows of counts that share a total, from a multinomial distribution for each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, gammaln, xlogy

from spectrem._arrays import Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.exceptions import InvalidInputError
from spectrem.models.emissions import columns
from spectrem.models.emissions.categorical import Probabilities, as_probabilities, maximise_probabilities
from spectrem.models.estep import Statistics


@brief_dataclass(frozen=True, eq=False)
class Multinomial:
    """Rows of counts of categories, a column for each, from a multinomial distribution, with a Dirichlet prior.

    Rows may have different totals, which are not modelled. A row is observed or missing as a whole.

    Parameters
    ----------
    emissionprob_prior : array-like that broadcasts to (n_states, n_columns)
        As of `Categorical`.
    n_trials : int, optional
        The total of rows that are drawn, or filled in; by default the mean total of the rows of training, rounded.
    fixed : sequence of {"emissionprob"}
        Parameters that training keeps.

    Examples
    --------
    >>> import numpy as np
    >>> emission = Multinomial().learn(np.array([[1.0, 3.0], [2.0, 2.0]]), ["yes", "no"])
    >>> params = emission.of_arrays({"emissionprob": np.array([[0.5, 0.5]])})
    >>> emission.scores(params, np.array([[1.0, 1.0], [np.nan, np.nan]])).round(3).tolist()
    [[-0.693], [0.0]]
    """

    emissionprob_prior: ArrayLike = 1.0
    n_trials: int | None = None
    fixed: Sequence[str] = ()

    def learn(self, x: Floats, names: Sequence[str]) -> Multinomial:
        columns.at_least(1, self.emissionprob_prior, "emissionprob_prior")
        columns.check_training(self, x, names, ("emissionprob",))
        if self.n_trials is not None:
            return replace(self, n_trials=int(columns.at_least(0, self.n_trials, "n_trials")))
        return replace(self, n_trials=round(np.nanmean(x.sum(axis=1))))

    def check(self, x: Floats, names: Sequence[str]) -> None:
        columns.whole_or_missing(x, names)
        missing = np.isnan(x)
        partly = missing.any(axis=1) & ~missing.all(axis=1)
        if partly.any():
            row = int(np.argmax(partly))
            raise InvalidInputError(
                f"counts of a multinomial row must be all there or all missing, got NaN only in column "
                f"{names[int(np.argmax(missing[row]))]} of row {row}: without one count the total is unknown; make the "
                "whole row NaN, or choose emissions 'poisson'"
            )

    def start(self, x: Floats, shares: Floats) -> Probabilities:
        params = Probabilities(np.full((shares.shape[1], x.shape[1]), 1 / x.shape[1]))
        return replace(self, fixed=()).m_step(params, self.gather(params, x, columns.blended(shares)))

    def scores(self, params: Probabilities, x: Floats) -> Floats:
        values = columns.observed(x)[1]
        orders = gammaln(values.sum(axis=1) + 1) - gammaln(values + 1).sum(axis=1)
        return columns.sums_of_logs(values, params.emissionprob) + orders[:, None]

    def gather(self, params: Probabilities, x: Floats, shares: Floats) -> Statistics:
        return Statistics(counts=shares.T @ columns.observed(x)[1])

    def m_step(self, params: Probabilities, stats: Statistics) -> Probabilities:
        prior = np.asarray(self.emissionprob_prior, np.float64)
        return params if self.fixed else Probabilities(maximise_probabilities(stats.counts, prior, params.emissionprob))

    def log_prior(self, params: Probabilities) -> float:
        return float(xlogy(np.asarray(self.emissionprob_prior) - 1, params.emissionprob).sum())

    def means(self, params: Probabilities) -> Floats:
        return (self.n_trials or 0) * params.emissionprob

    def variances(self, params: Probabilities) -> Floats:
        return self.means(params) * (1 - params.emissionprob)

    def cumulative(self, params: Probabilities, x: Floats, strictly: bool = False) -> Floats:
        """Probabilities of counts of single columns, which are binomial given the total of the row."""
        more = (x.sum(axis=1, keepdims=True) - x + strictly)[:, None, :]
        x = (x - strictly)[:, None, :]
        inside = betainc(np.maximum(more, 1.0), np.maximum(x, 0.0) + 1, 1 - params.emissionprob)
        return np.where(more <= 0, 1.0, np.where(x < 0, 0.0, inside))

    def impute(self, params: Probabilities, x: Floats, posteriors: Floats) -> Floats:
        return columns.fill_with_means(self.means(params), x, posteriors)

    def sample(self, params: Probabilities, states: Ints, rng: np.random.Generator) -> Floats:
        if self.n_trials is None:
            raise InvalidInputError("n_trials must be the total of the rows that are drawn, got None; set it")
        return rng.multinomial(self.n_trials, params.emissionprob[states]).astype(np.float64)

    def n_free(self, params: Probabilities) -> int:
        return 0 if self.fixed else len(params.emissionprob) * (params.emissionprob.shape[1] - 1)

    def arrays(self, params: Probabilities) -> dict[str, Floats]:
        return {"emissionprob": params.emissionprob}

    def of_arrays(self, arrays: Mapping[str, Floats]) -> Probabilities:
        return Probabilities(as_probabilities(arrays, "emissionprob", (None, None)))
