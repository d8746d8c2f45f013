"""Rows of numbers with outliers, from a Student-t distribution for each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, psi, stdtr

from spectrem._arrays import Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.exceptions import InvalidInputError
from spectrem.models.emissions.columns import as_parameter, check_training, falling_root
from spectrem.models.emissions.gaussian import Gaussian
from spectrem.models.estep import Statistics
from spectrem.models.mixture import MixtureParameters, covariance_shape, from_covariances, has_gaps, log_joint
from spectrem.models.mixture.model import NOTHING, find_patterns

_BLOCKS = {"locations": "means", "scales": "covars"}  # parameters by the names that they have in a Gaussian


@brief_dataclass(frozen=True, eq=False)
class StudentTParameters:
    """The Gaussians that rows have for one and the same factor of their precision, and degrees of freedom.

    Attributes
    ----------
    normal : MixtureParameters
        Locations as means, scale matrices as covariances.
    dof : ndarray of shape (n_states,)
    """

    normal: MixtureParameters
    dof: Floats


@brief_dataclass(frozen=True, eq=False)
class StudentT:
    """Rows of numbers from a multivariate Student-t distribution for each state.

    Every row is Gaussian with a precision times a factor of its own, which has a gamma distribution
    [LiuRubin1995]: rows far from all others have small factors and little influence.

    Parameters
    ----------
    scale_type : {"full", "diag"}
        A matrix for each state, or a scale for every column.
    dof : float
        Degrees of freedom to start from, above 0.
    dof_bounds : pair of float
        The least and the most that are learned.
    locations_prior, locations_weight, scales_prior, scales_weight
        As the priors of means and covariances of `Gaussian`.
    tied : sequence of sequences of int
        Groups of states that share a scale matrix; states in no group have their own.
    fixed : sequence of {"locations", "scales", "dof"}
        Parameters that training keeps.

    Examples
    --------
    >>> import numpy as np
    >>> emission, x = StudentT(dof=1.0, fixed=["dof"]), np.array([[1.0], [2.0], [3.0], [1e6]])
    >>> params = emission.start(x, np.ones((4, 1)))
    >>> for _ in range(100):
    ...     params = emission.m_step(params, emission.gather(params, x, np.ones((4, 1))))
    >>> params.normal.means.round(1).tolist()
    [[2.0]]
    """

    scale_type: Literal["full", "diag"] = "full"
    dof: float = 5.0
    dof_bounds: tuple[float, float] = (1.0, 200.0)
    locations_prior: ArrayLike = 0.0
    locations_weight: float = 0.0
    scales_prior: ArrayLike | None = None
    scales_weight: float = 1.0
    tied: Sequence[Sequence[int]] = ()
    fixed: Sequence[str] = ()

    def learn(self, x: Floats, names: Sequence[str]) -> StudentT:
        low, high = self.dof_bounds
        if not (0 < low <= high < np.inf and 0 < self.dof < np.inf):
            raise InvalidInputError(
                f"dof and dof_bounds must be finite, above 0 and in ascending order, got {self.dof} and "
                f"{self.dof_bounds}; try dof=5.0 and dof_bounds=(1.0, 200.0)"
            )
        check_training(self, x, names, (*_BLOCKS, "dof"))
        normal = self._normal.learn(x, names)
        return replace(self, scales_prior=normal.covars_prior, scales_weight=normal.covars_weight)

    def check(self, x: Floats, names: Sequence[str]) -> None:
        self._normal.check(x, names)

    def start(self, x: Floats, shares: Floats) -> StudentTParameters:
        return StudentTParameters(self._normal.start(x, shares), np.full(shares.shape[1], float(self.dof)))

    def scores(self, params: StudentTParameters, x: Floats) -> Floats:
        squares, sizes, pattern, tops, _ = _distances(params.normal, x)
        dof, many = params.dof, sizes[:, None]
        tops = tops + gammaln((dof + many) / 2) - gammaln(dof / 2) - many / 2 * np.log(dof / 2)
        return tops[pattern] - (dof + many[pattern]) / 2 * np.log1p(squares / dof)

    def gather(self, params: StudentTParameters, x: Floats, shares: Floats) -> Statistics:
        squares, sizes, pattern, _, points = _distances(params.normal, x)
        k, half = len(params.dof), (params.dof + sizes[pattern][:, None]) / 2
        factors = half / ((params.dof + squares) / 2)
        logs = psi((params.dof + sizes[:, None]) / 2)[pattern] - np.log((params.dof + squares) / 2)
        stats = self._normal.gather(params.normal, x, shares * factors)
        if has_gaps(x):  # what missing cells vary given the others does not count by the factors
            rest = np.zeros((len(sizes), k))
            np.add.at(rest, pattern, shares * (1 - factors))
            stats.second += self._normal.gather(
                params.normal, points, (rest[:, :, None] * np.eye(k)).reshape(-1, k)
            ).second
        return Statistics(**vars(stats), rows=shares.sum(axis=0), logs=(shares * (logs - factors)).sum(axis=0))

    def m_step(self, params: StudentTParameters, stats: Statistics) -> StudentTParameters:
        normal, (low, high), n = self._normal.m_step(params.normal, stats), self.dof_bounds, len(params.dof)
        if "dof" in self.fixed:
            return StudentTParameters(normal, params.dof)

        def slope(dof: Floats, states: Ints) -> Floats:
            return stats.rows[states] * (np.log(dof / 2) + 1 - psi(dof / 2)) + stats.logs[states]

        dof = falling_root(slope, np.full(n, float(low)), np.full(n, float(high)))
        return StudentTParameters(normal, np.where(stats.rows > NOTHING, dof, params.dof))

    def log_prior(self, params: StudentTParameters) -> float:
        return self._normal.log_prior(params.normal)

    def means(self, params: StudentTParameters) -> Floats:
        """Locations, which are means where there are more than 1 degrees of freedom."""
        return params.normal.means

    def variances(self, params: StudentTParameters) -> Floats:
        """Variances of the columns in all states, shape (n_states, n_columns); inf up to 2 degrees of freedom."""
        dof = params.dof[:, None]
        return np.where(dof > 2, dof / np.maximum(dof - 2, NOTHING), np.inf) * self._normal.variances(params.normal)

    def cumulative(self, params: StudentTParameters, x: Floats, strictly: bool = False) -> Floats:
        roots = np.sqrt(self._normal.variances(params.normal))
        return stdtr(params.dof[:, None], (x[:, None, :] - params.normal.means) / roots)

    def impute(self, params: StudentTParameters, x: Floats, posteriors: Floats) -> Floats:
        return self._normal.impute(params.normal, x, posteriors)

    def sample(self, params: StudentTParameters, states: Ints, rng: np.random.Generator) -> Floats:
        apart = self._normal.sample(params.normal, states, rng) - params.normal.means[states]
        dof = params.dof[states]
        return params.normal.means[states] + apart * np.sqrt(dof / rng.chisquare(dof))[:, None]

    def n_free(self, params: StudentTParameters) -> int:
        return self._normal.n_free(params.normal) + ("dof" not in self.fixed) * len(params.dof)

    def arrays(self, params: StudentTParameters) -> dict[str, Floats]:
        return {"locations": params.normal.means, "scales": params.normal.covariances, "dof": params.dof}

    def of_arrays(self, arrays: Mapping[str, Floats]) -> StudentTParameters:
        locations = as_parameter(arrays, "locations", (None, None))
        k, d = locations.shape
        scales = as_parameter(arrays, "scales", covariance_shape(self.scale_type, k, d))
        normal = from_covariances(self.scale_type, np.full(k, 1 / k), locations, scales)
        return StudentTParameters(normal, as_parameter(arrays, "dof", (k,), 1e-6))

    @property
    def _normal(self) -> Gaussian:
        location = self.locations_prior, self.locations_weight
        fixed = [_BLOCKS[name] for name in self.fixed if name in _BLOCKS]
        return Gaussian(self.scale_type, *location, self.scales_prior, self.scales_weight, self.tied, fixed)


def _distances(normal: MixtureParameters, x: Floats) -> tuple[Floats, Ints, Ints, Floats, Floats]:
    """How far rows are from the locations of states.

    Returns
    -------
    squares : ndarray of shape (n_rows, n_states)
        Squared Mahalanobis distances in the columns that a row has.
    sizes : ndarray of shape (n_patterns,)
        Columns that rows have, by what they miss.
    pattern : ndarray of shape (n_rows,), int
    tops : ndarray of shape (n_patterns, n_states)
        Gaussian log-densities at the locations, nats.
    points : ndarray of shape (n_patterns * n_states, n_columns)
        Locations with the missing cells of every pattern.
    """
    (k, d), pattern, missing = normal.means.shape, np.zeros(len(x), np.int64), np.zeros((1, x.shape[1]), np.bool_)
    if has_gaps(x):
        _, (order, starts, patterns) = find_patterns(x)
        pattern[order] = np.repeat(np.arange(len(patterns)) + 1, np.diff(starts))
        missing = np.concatenate([missing, patterns])
    points = np.where(missing[:, None, :], np.nan, normal.means).reshape(-1, d)
    tops = np.einsum("pkk->pk", log_joint(normal, points).reshape(-1, k, k)) + np.log(k)
    squares = 2 * np.maximum(tops[pattern] - np.log(k) - log_joint(normal, x), 0.0)
    return squares, d - missing.sum(axis=1), pattern, tops, points
