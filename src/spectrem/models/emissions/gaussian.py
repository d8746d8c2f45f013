"""Rows of numbers from a Gaussian for each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from spectrem._arrays import Floats, Ints
from spectrem.models.emissions.columns import finite_or_missing, spread_of
from spectrem.models.estep import Statistics
from spectrem.models.mixture import MixtureModel, MixtureParameters, from_covariances, log_joint
from spectrem.models.mixture.model import NOTHING
from spectrem.models.mixture.parameters import Bounds, CovarianceType

_SHARE = 1e-2  # of the variance of a column, in the scale matrix of the default prior


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Rows of numbers from a Gaussian for each state, with a normal-inverse-Wishart prior.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}
        As of `spectrem.GaussianMixture`.
    means_prior : array-like that broadcasts to (n_states, n_columns)
        The mean of the prior of means.
    means_weight : float
        How many rows it counts, at least 0.
    covars_prior : float or array-like, optional
        Added to the sums of squares of every state (or of all, if "tied"): a number, one for each column, or a matrix;
        in squared units of the data. By default a hundredth of the variance of each column, so that no state shrinks to
        a point.
    covars_weight : float
        Degrees of freedom of its inverse Wishart (for "diag" and "spherical", inverse gamma) prior; up to 1 (or the
        number of columns) they count nothing, and each more counts as a row.
    fixed : sequence of {"means", "covars"}
        Parameters that training keeps.
    """

    covariance_type: CovarianceType = "full"
    means_prior: ArrayLike = 0.0
    means_weight: float = 0.0
    covars_prior: ArrayLike | None = None
    covars_weight: float = 1.0
    fixed: Sequence[str] = ()
    discrete: ClassVar[bool] = False

    def learn(self, x: Floats, names: Sequence[str]) -> Gaussian:
        self.check(x, names)
        if self.covars_prior is not None:
            return self
        return replace(self, covars_prior=_SHARE * spread_of(x) ** 2)

    def check(self, x: Floats, names: Sequence[str]) -> None:
        finite_or_missing(x, names)

    def start(self, x: Floats, shares: Floats) -> MixtureParameters:
        there = ~np.isnan(x)
        means = (shares.T @ np.where(there, x, 0.0)) / np.maximum(shares.T @ there, NOTHING)
        rows = shares / np.maximum(shares.sum(axis=1, keepdims=True), NOTHING)
        filled = np.where(there, x, rows @ means)
        k, d = means.shape
        unit = np.broadcast_to(np.eye(d), (k, d, d)) if self._kind == "full" else np.eye(d)
        unit = unit if self._kind in ("full", "tied") else np.ones((k, d) if self._kind == "diag" else k)
        about = from_covariances(self._kind, np.full(k, 1 / k), means, unit.copy())
        return replace(self, fixed=()).m_step(about, self.gather(about, filled, shares))

    def scores(self, params: MixtureParameters, x: Floats) -> Floats:
        return log_joint(params, x) + np.log(len(params.means))

    def gather(self, params: MixtureParameters, x: Floats, shares: Floats) -> Statistics:
        return self._model(len(params.means)).moments(params, SimpleNamespace(x=x), shares)  # type: ignore[arg-type]

    def m_step(self, params: MixtureParameters, stats: Statistics) -> MixtureParameters:
        k, d = params.means.shape
        weight, rows = self.means_weight, self._prior_rows(d)
        centre = params.centre if self._kind == "tied" else params.means
        first = weight * (np.broadcast_to(self.means_prior, (k, d)) - params.means)
        apart = np.broadcast_to(self.means_prior, (k, d)) - centre
        square = weight * (apart**2 if self._kind in ("diag", "spherical") else apart[:, :, None] * apart[:, None, :])
        second = (square.sum(axis=0) if self._kind == "tied" else square) + self._scale(d)
        seen = Statistics(counts=stats.counts + weight, first=stats.first + first, second=stats.second + second)
        new = replace(self._model(k).m_step(params, seen), weights=params.weights)
        if rows == weight or "covars" in self.fixed:
            return new
        counts = stats.counts.sum() if self._kind == "tied" else stats.counts
        factor = np.where(counts > NOTHING, (counts + weight) / np.maximum(counts + rows, NOTHING), 1.0)
        factor = factor.reshape(factor.shape + (1,) * (new.covariances.ndim - factor.ndim))
        return from_covariances(self._kind, params.weights, new.means, new.covariances * factor)

    def log_prior(self, params: MixtureParameters) -> float:
        k, d = params.means.shape
        covariances, scale = self.covariances(params), self._scale(d)
        scale = scale if scale.ndim == 2 else np.diag(scale)
        apart = np.broadcast_to(self.means_prior, (k, d)) - params.means
        distances = np.einsum("kd,kde,ke->", apart, np.linalg.inv(covariances), apart) if self.means_weight else 0.0
        one = covariances[:1] if self._kind == "tied" else covariances
        traces = np.trace(np.linalg.solve(one, scale), axis1=1, axis2=2).sum()
        spread = self._prior_rows(d) * np.linalg.slogdet(one)[1].sum()
        return -0.5 * float(self.means_weight * distances + traces + spread)

    def means(self, params: MixtureParameters) -> Floats:
        return params.means

    def variances(self, params: MixtureParameters) -> Floats:
        return np.diagonal(self.covariances(params), axis1=1, axis2=2)

    def covariances(self, params: MixtureParameters) -> Floats:
        """Covariance matrices of all states, shape (n_states, n_columns, n_columns)."""
        (k, d), covariances = params.means.shape, params.covariances
        if self._kind in ("full", "tied"):
            return np.broadcast_to(covariances, (k, d, d))
        return np.broadcast_to(covariances.reshape(k, -1), (k, d))[:, :, None] * np.eye(d)

    def cumulative(self, params: MixtureParameters, x: Floats) -> Floats:
        return ndtr((x[:, None, :] - params.means) / np.sqrt(self.variances(params)))

    def sample(self, params: MixtureParameters, states: Ints, rng: np.random.Generator) -> Floats:
        factors = np.linalg.cholesky(self.covariances(params))
        noise = rng.standard_normal((len(states), params.means.shape[1]))
        return params.means[states] + np.einsum("nij,nj->ni", factors[states], noise)

    def n_free(self, params: MixtureParameters) -> int:
        k, d = params.means.shape
        of_covariances = {"full": k * d * (d + 1) // 2, "tied": d * (d + 1) // 2, "diag": k * d, "spherical": k}
        parts = {"means": k * d, "covars": of_covariances[self._kind]}
        return sum(n for name, n in parts.items() if name not in self.fixed)

    def arrays(self, params: MixtureParameters) -> dict[str, Floats]:
        return {"means": params.means, "covars": params.covariances}

    def of_arrays(self, arrays: Mapping[str, Floats]) -> MixtureParameters:
        means = arrays["means"]
        return from_covariances(self._kind, np.full(len(means), 1 / len(means)), means, arrays["covars"])

    @property
    def _kind(self) -> CovarianceType:
        return self.covariance_type

    def _model(self, n_states: int) -> MixtureModel:
        names = {"means": "means", "covars": "covariances"}
        return MixtureModel(n_states, self._kind, 0.0, Bounds(frozenset(names[name] for name in self.fixed)))

    def _prior_rows(self, n_columns: int) -> float:
        least = n_columns if self._kind in ("full", "tied") else 1
        return max(self.covars_weight - least, 0.0)

    def _scale(self, n_columns: int) -> Floats:
        """The scale of the prior of covariances: a matrix, or one number for each column."""
        scale = np.asarray(0.0 if self.covars_prior is None else self.covars_prior, np.float64)
        if scale.ndim == 2:
            return scale if self._kind in ("full", "tied") else np.diagonal(scale)
        scale = np.broadcast_to(scale, (n_columns,))
        return np.diag(scale) if self._kind in ("full", "tied") else scale
