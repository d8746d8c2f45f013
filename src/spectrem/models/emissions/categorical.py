"""Columns of categories, each from a distribution for each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.exceptions import InvalidInputError
from spectrem.models.emissions import columns
from spectrem.models.estep import Statistics
from spectrem.models.mixture.model import NOTHING
from spectrem.models.tagging import log


@brief_dataclass(frozen=True, eq=False)
class Probabilities:
    """Probabilities of what states emit.

    Attributes
    ----------
    emissionprob : ndarray of shape (n_states, n_columns, n_categories) or (n_states, n_columns)
        Sums over the last axis are 1. 0 for categories that a column does not have.
    """

    emissionprob: Floats


def as_probabilities(arrays: Mapping[str, Floats], name: str, shape: Sequence[int | None]) -> Floats:
    """The array of this name and shape, whose sums over the last axis must be 1; see `as_parameter`."""
    table = columns.as_parameter(arrays, name, shape, 0.0)
    sums = table.sum(axis=-1)
    if not np.allclose(sums, 1.0, atol=1e-6):
        wrong = sums[~np.isclose(sums, 1.0, atol=1e-6)][0]
        raise InvalidInputError(f"{name} must sum to 1 over its last axis, got {wrong}; divide it by its sums")
    return table


def maximise_probabilities(counts: Floats, prior: Floats, probabilities: Floats) -> Floats:
    """Shares of counts and of ``prior - 1`` pseudo-counts; ``probabilities`` where there are no counts."""
    smoothed = counts + (prior - 1)
    seen = counts.sum(axis=-1, keepdims=True) > NOTHING
    return np.where(seen, smoothed / np.maximum(smoothed.sum(axis=-1, keepdims=True), NOTHING), probabilities)


@brief_dataclass(frozen=True, eq=False)
class Categorical:
    """Columns of categories, coded as 0, 1, 2, ..., independent given the state, with a Dirichlet prior.

    Parameters
    ----------
    emissionprob_prior : array-like that broadcasts to (n_states, n_columns, n_categories)
        Parameters of the Dirichlet prior, at least 1, which counts nothing; each category is counted as often as its
        parameter is above 1.
    n_features : int or sequence of int, optional
        Number of categories, of all columns or of each; by default training counts them.
    fixed : sequence of {"emissionprob"}
        Parameters that training keeps.

    Examples
    --------
    >>> import numpy as np
    >>> emission = Categorical().learn(np.array([[0.0], [2.0]]), ["colour"])
    >>> params = emission.start(np.array([[0.0], [2.0], [2.0], [np.nan]]), np.ones((4, 1)))
    >>> params.emissionprob[0, 0].round(3).tolist()
    [0.333, 0.0, 0.667]
    """

    emissionprob_prior: ArrayLike = 1.0
    n_features: int | Sequence[int] | None = None
    fixed: Sequence[str] = ()

    def learn(self, x: Floats, names: Sequence[str]) -> Categorical:
        columns.at_least(1, self.emissionprob_prior, "emissionprob_prior")
        columns.check_training(self, x, names, ("emissionprob",))
        sizes = np.nanmax(x, axis=0).astype(np.int64) + 1 if self.n_features is None else self.n_features
        return replace(self, n_features=tuple(np.broadcast_to(sizes, x.shape[1]).tolist()))

    def check(self, x: Floats, names: Sequence[str]) -> None:
        columns.whole_or_missing(x, names)
        if self.n_features is None:
            return
        row, column = np.nonzero(x >= np.broadcast_to(self.n_features, x.shape[1]))
        if len(row):
            raise InvalidInputError(
                f"column {names[column[0]]} must hold categories below n_features, got {x[row[0], column[0]]:g} in row "
                f"{row[0]} and n_features={self.n_features}; raise n_features, and emissionprob_prior above 1"
            )

    def start(self, x: Floats, shares: Floats) -> Probabilities:
        there = self._there(x.shape[1])
        uniform = there / there.sum(axis=1, keepdims=True)
        params = Probabilities(np.broadcast_to(uniform, (shares.shape[1], *there.shape)))
        return replace(self, fixed=()).m_step(params, self.gather(params, x, columns.blended(shares)))

    def scores(self, params: Probabilities, x: Floats) -> Floats:
        scores = np.zeros((len(x), len(params.emissionprob)))
        for table, codes in zip(np.moveaxis(params.emissionprob, 0, 2), self._codes(params, x).T, strict=True):
            scores += np.vstack([log(table), np.zeros(table.shape[1])]).take(codes, axis=0)
        return scores

    def gather(self, params: Probabilities, x: Floats, shares: Floats) -> Statistics:
        n = params.emissionprob.shape[2]
        counts = [columns.count_values(codes, shares, n + 1)[:n].T for codes in self._codes(params, x).T]
        return Statistics(counts=np.stack(counts, axis=1))

    def m_step(self, params: Probabilities, stats: Statistics) -> Probabilities:
        if self.fixed:
            return params
        prior = self._prior(params)
        return Probabilities(maximise_probabilities(stats.counts, prior, params.emissionprob))

    def log_prior(self, params: Probabilities) -> float:
        return float(xlogy(self._prior(params) - 1, params.emissionprob).sum())

    def means(self, params: Probabilities) -> Floats:
        return params.emissionprob @ np.arange(params.emissionprob.shape[2], dtype=np.float64)

    def variances(self, params: Probabilities) -> Floats:
        return params.emissionprob @ np.arange(params.emissionprob.shape[2]) ** 2.0 - self.means(params) ** 2

    def cumulative(self, params: Probabilities, x: Floats, strictly: bool = False) -> Floats:
        k, d, n = params.emissionprob.shape
        ends = np.full((k, d, 1), 0.0), np.cumsum(params.emissionprob, axis=2), np.full((k, d, 1), np.nan)
        table = np.concatenate(ends, axis=2)
        places = np.where(np.isnan(x), n + 1, np.clip(x - strictly, -1, n - 1) + 1).astype(np.int64)
        return np.moveaxis(table[:, np.arange(d), places], 0, 1)

    def impute(self, params: Probabilities, x: Floats, posteriors: Floats) -> Floats:
        """Rows whose missing cells hold the most probable category."""
        best = np.einsum("nk,kdc->ndc", posteriors, params.emissionprob).argmax(axis=2)
        return np.where(np.isnan(x), best, x)

    def sample(self, params: Probabilities, states: Ints, rng: np.random.Generator) -> Floats:
        ends = np.cumsum(params.emissionprob, axis=2)
        points = rng.uniform(size=(len(states), ends.shape[1], 1)) * ends[states, :, -1:]
        return (ends[states] <= points).sum(axis=2).astype(np.float64)

    def n_free(self, params: Probabilities) -> int:
        there = self._there(*params.emissionprob.shape[1:])
        return 0 if self.fixed else len(params.emissionprob) * int(there.sum() - len(there))

    def arrays(self, params: Probabilities) -> dict[str, Floats]:
        """Probabilities of shape (n_states, n_categories) if there is one column."""
        table = params.emissionprob
        return {"emissionprob": table[:, 0] if table.shape[1] == 1 else table}

    def of_arrays(self, arrays: Mapping[str, Floats]) -> Probabilities:
        axes = min(max(np.ndim(arrays["emissionprob"]), 2), 3)
        table = as_probabilities(arrays, "emissionprob", (None,) * axes)
        return Probabilities(table[:, None] if table.ndim == 2 else table)

    def _there(self, n_columns: int, most: int = 0) -> Bools:
        """Which categories columns have, shape (n_columns, n_categories); ``most`` where ``n_features`` is None."""
        sizes = np.broadcast_to(np.asarray(most if self.n_features is None else self.n_features), n_columns)
        return np.arange(sizes.max()) < sizes[:, None]

    def _prior(self, params: Probabilities) -> Floats:
        prior = np.broadcast_to(np.asarray(self.emissionprob_prior, np.float64), params.emissionprob.shape)
        return np.where(self._there(*prior.shape[1:]), prior, 1.0)

    def _codes(self, params: Probabilities, x: Floats) -> Ints:
        """Categories, one more than the last for missing cells."""
        n = params.emissionprob.shape[2]
        if (x >= n).any():
            raise InvalidInputError(
                f"X must hold categories below {n}, as emissionprob has no more, got {x[x >= n][0]:g}; make it missing"
            )
        return np.where(np.isnan(x), n, x).astype(np.int64)
