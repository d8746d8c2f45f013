"""Rows of numbers from a mixture of Gaussians for each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, xlogy

from spectrem._arrays import Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_count
from spectrem.kernels.gaussian import soft_pass
from spectrem.models.emissions.categorical import as_probabilities, maximise_probabilities
from spectrem.models.emissions.columns import as_parameter, at_least, check_training
from spectrem.models.emissions.gaussian import Gaussian
from spectrem.models.estep import Statistics
from spectrem.models.mixture import MixtureParameters, covariance_shape, from_covariances, log_joint
from spectrem.models.mixture.parameters import CovarianceType


@brief_dataclass(frozen=True, eq=False)
class GaussianMixture:
    """Rows of numbers from a mixture of ``n_mix`` Gaussians for each state.

    Parameters are those of one mixture of all Gaussians, those of the first state first; weights sum to 1 in every
    state.

    Parameters
    ----------
    n_mix : int
        Gaussians of a state.
    covariance_type : {"full", "tied", "diag", "spherical"}
        As of `Gaussian`, for every Gaussian; "tied" is a matrix for each state, which its Gaussians share.
    weights_prior : array-like that broadcasts to (n_states, n_mix)
        Parameters of the Dirichlet prior of proportions, at least 1, which counts nothing.
    means_prior, means_weight, covars_prior, covars_weight
        The prior of every Gaussian, as of `Gaussian`.
    fixed : sequence of {"weights", "means", "covars"}
        Parameters that training keeps.

    Examples
    --------
    >>> import numpy as np
    >>> emission, x = GaussianMixture(2, covars_prior=0.0), np.array([[-2.0], [-1.0], [5.0], [6.0]])
    >>> params = emission.start(x, np.ones((4, 1)))
    >>> for _ in range(20):
    ...     params = emission.m_step(params, emission.gather(params, x, np.ones((4, 1))))
    >>> params.means.round(3).tolist(), params.weights.round(3).tolist()
    ([[-1.5], [5.5]], [0.5, 0.5])
    """

    n_mix: int = 2
    covariance_type: CovarianceType = "diag"
    weights_prior: ArrayLike = 1.0
    means_prior: ArrayLike = 0.0
    means_weight: float = 0.0
    covars_prior: ArrayLike | None = None
    covars_weight: float = 1.0
    fixed: Sequence[str] = ()

    def learn(self, x: Floats, names: Sequence[str]) -> GaussianMixture:
        as_count(self.n_mix, "n_mix", minimum=1)
        at_least(1, self.weights_prior, "weights_prior")
        check_training(self, x, names, ("weights", "means", "covars"))
        normal = self._normal(1).learn(x, names)
        return replace(self, covars_prior=normal.covars_prior, covars_weight=normal.covars_weight)

    def check(self, x: Floats, names: Sequence[str]) -> None:
        self._normal(1).check(x, names)

    def start(self, x: Floats, shares: Floats) -> MixtureParameters:
        """The Gaussians of each state stand side by side where the columns, in their own units, vary most."""
        k, whole = shares.shape[1], replace(self._normal(1), covariance_type="full", fixed=())
        one = whole.start(x, shares)
        spreads = np.sqrt(whole.variances(one))
        sizes, axes = np.linalg.eigh(one.covariances / (spreads[:, :, None] * spreads[:, None, :]))
        step = spreads * axes[:, :, -1] * np.sqrt(sizes[:, -1:])
        places = ndtri((np.arange(self.n_mix) + 0.5) / self.n_mix)
        means = (one.means[:, None, :] + places[:, None] * step[:, None, :]).reshape(k * self.n_mix, -1)
        same = self._normal(k).start(x, np.repeat(shares / self.n_mix, self.n_mix, axis=1))
        return replace(same, weights=np.full(k * self.n_mix, 1 / self.n_mix), means=means)

    def scores(self, params: MixtureParameters, x: Floats) -> Floats:
        return self._split(params, x, np.ones((len(x), self._n_states(params))))[0]

    def gather(self, params: MixtureParameters, x: Floats, shares: Floats) -> Statistics:
        return self._of(params).gather(params, x, self._split(params, x, shares)[1])

    def m_step(self, params: MixtureParameters, stats: Statistics) -> MixtureParameters:
        new, prior = self._of(params).m_step(params, stats), np.asarray(self.weights_prior, np.float64)
        if "weights" in self.fixed:
            return new
        counts, weights = (self._by_state(values) for values in (stats.counts, params.weights))
        return replace(new, weights=maximise_probabilities(counts, prior, weights).ravel())

    def log_prior(self, params: MixtureParameters) -> float:
        of_weights = xlogy(np.asarray(self.weights_prior) - 1, self._by_state(params.weights)).sum()
        return float(of_weights) + self._of(params).log_prior(params)

    def means(self, params: MixtureParameters) -> Floats:
        return self._average(params, params.means)

    def variances(self, params: MixtureParameters) -> Floats:
        apart = params.means - np.repeat(self.means(params), self.n_mix, axis=0)
        return self._average(params, self._of(params).variances(params) + apart**2)

    def cumulative(self, params: MixtureParameters, x: Floats, strictly: bool = False) -> Floats:
        each, weights = self._of(params).cumulative(params, x), self._by_state(params.weights)
        return np.einsum("km,nkmd->nkd", weights, each.reshape(len(x), *weights.shape, x.shape[1]))

    def impute(self, params: MixtureParameters, x: Floats, posteriors: Floats) -> Floats:
        return self._of(params).impute(params, x, self._split(params, x, posteriors)[1])

    def sample(self, params: MixtureParameters, states: Ints, rng: np.random.Generator) -> Floats:
        ends = np.cumsum(self._by_state(params.weights), axis=1)[states]
        part = (ends <= rng.uniform(size=(len(states), 1)) * ends[:, -1:]).sum(axis=1)
        return self._of(params).sample(params, states * self.n_mix + part, rng)

    def n_free(self, params: MixtureParameters) -> int:
        of_weights = self._n_states(params) * (self.n_mix - 1)
        return ("weights" not in self.fixed) * of_weights + self._of(params).n_free(params)

    def arrays(self, params: MixtureParameters) -> dict[str, Floats]:
        """``means`` of shape (n_states, n_mix, n_columns), ``covars`` (n_states, [n_mix,] [n_columns, n_columns])."""
        covars = self._by_state(params.covariances)
        covars = covars[:, 0] if self.covariance_type == "tied" else covars
        return {"weights": self._by_state(params.weights), "means": self._by_state(params.means), "covars": covars}

    def of_arrays(self, arrays: Mapping[str, Floats]) -> MixtureParameters:
        means, tied = as_parameter(arrays, "means", (None, self.n_mix, None)), self.covariance_type == "tied"
        k, n_mix, d = means.shape
        weights = as_probabilities(arrays, "weights", (k, n_mix))
        one = (k, d, d) if tied else (k, n_mix, *covariance_shape(self.covariance_type, n_mix, d)[1:])
        covars = as_parameter(arrays, "covars", one)
        covars = np.repeat(covars, n_mix, axis=0) if tied else covars.reshape(k * n_mix, *covars.shape[2:])
        kind = "full" if tied else self.covariance_type
        return from_covariances(kind, weights.ravel(), means.reshape(-1, d), covars)

    def _normal(self, n_states: int) -> Gaussian:
        """All Gaussians, each a state."""
        tied, fixed = self.covariance_type == "tied", [name for name in self.fixed if name != "weights"]
        groups = np.arange(n_states * self.n_mix).reshape(n_states, -1).tolist() if tied else ()
        kind, means = "full" if tied else self.covariance_type, (self.means_prior, self.means_weight)
        return Gaussian(kind, *means, self.covars_prior, self.covars_weight, groups, fixed)

    def _of(self, params: MixtureParameters) -> Gaussian:
        return self._normal(self._n_states(params))

    def _n_states(self, params: MixtureParameters) -> int:
        return len(params.weights) // self.n_mix

    def _by_state(self, values: Floats) -> Floats:
        return values.reshape(-1, self.n_mix, *values.shape[1:])

    def _average(self, params: MixtureParameters, values: Floats) -> Floats:
        """Averages over the Gaussians of all states, by their weights."""
        return np.einsum("km,km...->k...", self._by_state(params.weights), self._by_state(values))

    def _split(self, params: MixtureParameters, x: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """Log-densities of rows in all states, nats, and their shares in all Gaussians."""
        joint, densities = log_joint(params, x), np.empty(shares.size)
        soft_pass(joint.reshape(-1, self.n_mix), 1.0, np.ascontiguousarray(shares).ravel(), densities)
        return densities.reshape(shares.shape), joint
