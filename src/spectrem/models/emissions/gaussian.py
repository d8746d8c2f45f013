"""Rows of numbers from a Gaussian for each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from spectrem._arrays import Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.models.emissions import columns
from spectrem.models.estep import Statistics
from spectrem.models.mixture import MixtureModel, MixtureParameters, covariance_shape, from_covariances, log_joint
from spectrem.models.mixture import impute as impute_rows
from spectrem.models.mixture.model import NOTHING
from spectrem.models.mixture.parameters import CovarianceType

_ROWS = 0.01  # that the default prior counts


@brief_dataclass(frozen=True, eq=False)
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
        Added to the sums of squares of every covariance: a number, one for each column, or a matrix; in squared units
        of the data. By default the prior counts a hundredth of a row that has the variances of the columns, so that no
        state shrinks to a point.
    covars_weight : float
        Degrees of freedom of its inverse Wishart (for "diag" and "spherical", inverse gamma) prior; up to the number of
        columns (or 1) they count nothing, and each more counts as a row.
    tied : sequence of sequences of int
        Groups of states that share a covariance; states in no group have their own.
    fixed : sequence of {"means", "covars"}
        Parameters that training keeps.

    Examples
    --------
    >>> import numpy as np
    >>> emission = Gaussian("diag", covars_prior=0.0, tied=[[0, 1]])
    >>> x, shares = np.array([[0.0], [2.0], [7.0]]), np.array([[1.0, 0], [1, 0], [0, 1]])
    >>> params = emission.of_arrays({"means": np.zeros((2, 1)), "covars": np.ones((2, 1))})
    >>> params = emission.m_step(params, emission.gather(params, x, shares))
    >>> params.means.ravel().tolist(), params.covariances.round(3).ravel().tolist()
    ([1.0, 7.0], [0.667, 0.667])
    """

    covariance_type: CovarianceType = "full"
    means_prior: ArrayLike = 0.0
    means_weight: float = 0.0
    covars_prior: ArrayLike | None = None
    covars_weight: float = 1.0
    tied: Sequence[Sequence[int]] = ()
    fixed: Sequence[str] = ()

    def learn(self, x: Floats, names: Sequence[str]) -> Gaussian:
        columns.at_least(0, self.means_weight, "means_weight")
        columns.at_least(0, self.covars_weight, "covars_weight")
        columns.check_training(self, x, names, ("means", "covars"))
        if self.covars_prior is not None:
            return self
        weight = max(self.covars_weight, (x.shape[1] if self._kind == "full" else 1) + _ROWS)
        return replace(self, covars_prior=_ROWS * columns.spread_of(x) ** 2, covars_weight=weight)

    def check(self, x: Floats, names: Sequence[str]) -> None:
        columns.finite_or_missing(x, names)

    def start(self, x: Floats, shares: Floats) -> MixtureParameters:
        shares, (there, values) = columns.blended(shares), columns.observed(x)
        means, variances = (shares.T @ values) / np.maximum(shares.T @ there, NOTHING), columns.spread_of(x) ** 2
        each = {"full": np.diag(variances), "diag": variances, "spherical": variances.mean()}[self._kind]
        covariances = np.zeros(covariance_shape(self._kind, *means.shape)) + each
        about = from_covariances(self._kind, np.full(len(means), 1 / len(means)), means, covariances)
        return replace(self, fixed=()).m_step(about, self.gather(about, x, shares))

    def scores(self, params: MixtureParameters, x: Floats) -> Floats:
        return log_joint(params, x) + np.log(len(params.means))

    def gather(self, params: MixtureParameters, x: Floats, shares: Floats) -> Statistics:
        model = MixtureModel(len(params.means), self._kind)
        return model.moments(params, SimpleNamespace(x=x), shares)  # type: ignore[arg-type]

    def m_step(self, params: MixtureParameters, stats: Statistics) -> MixtureParameters:
        """Parameters that maximise the expected log-density plus the log-prior; states without rows keep theirs.

        ``stats.rows``, if it is there, are the rows that divide the sums of squares in place of ``stats.counts``.
        """
        (k, d), weight, first = params.means.shape, self.means_weight, stats.first
        members, centre = self._groups(k), np.broadcast_to(np.asarray(self.means_prior, np.float64), (k, d))
        moved = (first + weight * (centre - params.means)) / np.maximum(stats.counts + weight, NOTHING)[:, None]
        moved[np.full(k, True) if "means" in self.fixed else stats.counts <= NOTHING] = 0.0
        means = params.means + moved
        if "covars" in self.fixed:
            return replace(params, means=means)
        second = stats.second
        if self._kind == "full":
            second = np.tril(second) + np.swapaxes(np.tril(second, -1), 1, 2)
        across = self._product(first - 0.5 * stats.counts[:, None] * moved, moved)
        across = across + (np.swapaxes(across, 1, 2) if self._kind == "full" else across)
        second = second - across + weight * self._product(centre - means, centre - means)
        pooled = np.tensordot(members, second, 1) + self._scale(d)
        pooled = pooled.mean(axis=1) if self._kind == "spherical" else pooled
        counted, group = members @ getattr(stats, "rows", stats.counts), members.argmax(axis=0)
        column = (-1,) + (1,) * (pooled.ndim - 1)
        learnt = pooled / np.maximum(counted + self._prior_rows(d), NOTHING).reshape(column)
        seen = (counted > NOTHING)[group].reshape(column)
        return from_covariances(self._kind, params.weights, means, np.where(seen, learnt[group], params.covariances))

    def log_prior(self, params: MixtureParameters) -> float:
        (k, d), covariances = params.means.shape, self.covariances(params)
        scale, apart = self._scale(d), np.broadcast_to(self.means_prior, (k, d)) - params.means
        distances = np.einsum("kd,kde,ke->", apart, np.linalg.inv(covariances), apart) if self.means_weight else 0.0
        one = covariances[self._groups(k).argmax(axis=1)]
        traces = np.trace(np.linalg.solve(one, scale if scale.ndim == 2 else np.diag(scale)), axis1=1, axis2=2).sum()
        spread = self._prior_rows(d) * np.linalg.slogdet(one)[1].sum()
        return -0.5 * float(self.means_weight * distances + traces + spread)

    def means(self, params: MixtureParameters) -> Floats:
        return params.means

    def variances(self, params: MixtureParameters) -> Floats:
        return np.diagonal(self.covariances(params), axis1=1, axis2=2)

    def covariances(self, params: MixtureParameters) -> Floats:
        """Covariance matrices of all states.

        Parameters
        ----------
        params : MixtureParameters

        Returns
        -------
        ndarray of shape (n_states, n_columns, n_columns)
        """
        (k, d), covariances = params.means.shape, params.covariances
        if self._kind == "full":
            return covariances
        return np.broadcast_to(covariances.reshape(k, -1), (k, d))[:, :, None] * np.eye(d)

    def cumulative(self, params: MixtureParameters, x: Floats, strictly: bool = False) -> Floats:
        return ndtr((x[:, None, :] - params.means) / np.sqrt(self.variances(params)))

    def impute(self, params: MixtureParameters, x: Floats, posteriors: Floats) -> Floats:
        return impute_rows(params, x, posteriors)

    def sample(self, params: MixtureParameters, states: Ints, rng: np.random.Generator) -> Floats:
        means, factors = params.means[states], np.linalg.cholesky(self.covariances(params))[states]
        return means + np.einsum("nij,nj->ni", factors, rng.standard_normal(means.shape))

    def n_free(self, params: MixtureParameters) -> int:
        k, d = params.means.shape
        each = {"full": d * (d + 1) // 2, "diag": d, "spherical": 1}[self._kind]
        of_covariances = ("covars" not in self.fixed) * len(self._groups(k)) * each
        return ("means" not in self.fixed) * k * d + of_covariances

    def arrays(self, params: MixtureParameters) -> dict[str, Floats]:
        """``covars`` has the shape that `spectrem.GaussianMixture` gives covariances."""
        tied = self.covariance_type == "tied"
        return {"means": params.means, "covars": params.covariances[0] if tied else params.covariances}

    def of_arrays(self, arrays: Mapping[str, Floats]) -> MixtureParameters:
        means = columns.as_parameter(arrays, "means", (None, None))
        k, d = means.shape
        covars = columns.as_parameter(arrays, "covars", covariance_shape(self.covariance_type, k, d))
        covars = np.repeat(covars[None], k, axis=0) if self.covariance_type == "tied" else covars
        return from_covariances(self._kind, np.full(k, 1 / k), means, covars)

    @property
    def _kind(self) -> CovarianceType:
        """How every state holds its covariance."""
        return "full" if self.covariance_type == "tied" else self.covariance_type

    def _groups(self, n_states: int) -> Floats:
        return columns.groups_of([range(n_states)] if self.covariance_type == "tied" else self.tied, n_states)

    def _product(self, one: Floats, other: Floats) -> Floats:
        """Products of the columns of rows, with each other if covariances are matrices."""
        return one[:, :, None] * other[:, None, :] if self._kind == "full" else one * other

    def _prior_rows(self, n_columns: int) -> float:
        return max(self.covars_weight - (n_columns if self._kind == "full" else 1), 0.0)

    def _scale(self, n_columns: int) -> Floats:
        """The scale of the prior of covariances: a matrix, or one number for each column."""
        scale = np.asarray(0.0 if self.covars_prior is None else self.covars_prior, np.float64)
        if scale.ndim == 2:
            return scale if self._kind == "full" else np.diagonal(scale)
        scale = np.broadcast_to(scale, (n_columns,))
        return np.diag(scale) if self._kind == "full" else scale
