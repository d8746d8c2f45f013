"""Restrictions on the M-step of a mixture: fixed blocks of parameters, and bounds on entries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import lsq_linear

from spectrem._arrays import Floats
from spectrem.models.mixture.parameters import CovarianceType, MixtureParameters, from_covariances

Range = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class Bounds:
    """Fixed and bounded parameters of a mixture.

    The M-step maximises the expected log-likelihood over one block after the other, each exactly: proportions, means
    for the covariances that there are, covariances for the new means. For full and tied covariances with bounds on
    means that is conditional maximisation (ECM, [MengRubin1993]), for all others a maximum over all of them; either
    way the objective does not fall.

    Attributes
    ----------
    fixed : frozenset of {"weights", "means", "covariances"}
        Blocks of parameters that the M-step does not change.
    weights : pair of ndarrays of shape (n_components,), or None
        Lowest and highest proportions, in [0, 1]; the lowest sum to at most 1, the highest to at least 1.
    means : pair of ndarrays of shape (n_components, n_features), or None
        -inf and inf are no bounds.
    variances : pair of ndarrays, or None
        Of shape (n_components, n_features) for "diag", (n_components,) for "spherical" and "full", () for "tied": of
        the variances, of all eigenvalues for "full" and "tied". 0 and inf are no bounds.

    Examples
    --------
    >>> bounds = Bounds(weights=(np.array([0.2, 0.0, 0.0]), np.ones(3)))
    >>> bounds.bound_weights(np.array([1.0, 6.0, 3.0])).round(3).tolist()
    [0.2, 0.533, 0.267]
    """

    fixed: frozenset[str] = field(default_factory=frozenset)
    weights: Range | None = None
    means: Range | None = None
    variances: Range | None = None

    def project(self, params: MixtureParameters) -> MixtureParameters:
        """The nearest parameters within the bounds: in relative entropy of proportions, Euclidean distance of means."""
        weights = params.weights if self.weights is None else self.bound_weights(params.weights)
        means = params.means if self.means is None else np.clip(params.means, *self.means)
        if self.variances is None:
            return replace(params, weights=weights, means=means)
        covariances = self.bound_covariances(params.covariance_type, params.covariances)
        return from_covariances(params.covariance_type, weights, means, covariances)

    def bound_weights(self, counts: Floats) -> Floats:
        """The proportions that maximise ``counts @ log(weights)``, shape (n_components,); counts are at least 0.

        They are ``clip(counts / price, low, high)`` at the price at which they sum to 1, which is found by sorting the
        prices at which an entry reaches a bound.
        """
        if self.weights is None:
            return counts / counts.sum()
        low, high = self.weights
        share = np.maximum(counts / counts.sum(), np.finfo(np.float64).tiny)
        with np.errstate(divide="ignore"):
            prices = np.sort(np.concatenate([share / low, share / high]))
        prices = prices[np.isfinite(prices)]
        sums = np.clip(share / prices[:, None], low, high).sum(axis=1)  # these fall
        at = int(np.searchsorted(-sums, -1.0))
        least = prices[at - 1] if at > 0 else 0.0
        most = prices[at] if at < len(prices) else np.inf
        # Whatever the price between these two, the same entries lie at their bounds.
        with np.errstate(divide="ignore"):
            at_low, at_high = share / low <= least, share / high >= most
        inside = ~(at_low | at_high)
        weights = np.where(at_low, low, high)
        if inside.any():
            room = max(1.0 - weights[~inside].sum(), 0.0)
            weights[inside] = room * share[inside] / share[inside].sum()
        return np.clip(weights, low, high)

    def bound_means(self, params: MixtureParameters, means: Floats) -> Floats:
        """The means that maximise the expected log-likelihood for the covariances of ``params``.

        Without bounds they would be ``means``. With diagonal covariances each entry is on its own; with others
        every component is a least-squares problem in a box.
        """
        if self.means is None:
            return means
        low, high = self.means
        nearest = np.clip(means, low, high)
        if params.covariance_type in ("diag", "spherical"):
            return nearest
        for component in np.flatnonzero((nearest != means).any(axis=1)).tolist():
            factor = params.precisions_cholesky
            upper = factor if factor.ndim == 2 else factor[component]
            nearest[component] = _nearest_in_box(upper.T, means[component], low[component], high[component])
        return nearest

    def bound_covariances(self, kind: CovarianceType, covariances: Floats) -> Floats:
        """The covariances within the bounds that fit best in place of these, the best without bounds.

        Eigenvalues are clipped: for given eigenvalues the best matrix has the eigenvectors of the scatter in the same
        order (von Neumann's inequality for traces), and the rest is a variance at a time.
        """
        if self.variances is None:
            return covariances
        low, high = self.variances
        if kind in ("diag", "spherical"):
            return np.clip(covariances, low, high)
        values, vectors = np.linalg.eigh(covariances)
        clipped = np.clip(values, low[..., None], high[..., None])
        made = (vectors * clipped[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        changed = (clipped != values).any(axis=-1)[..., None, None]
        return np.where(changed, (made + np.swapaxes(made, -1, -2)) / 2, covariances)


def _nearest_in_box(factor: Floats, point: Floats, low: Floats, high: Floats) -> Floats:
    """The x in the box with the smallest ``|factor @ (x - point)|``, by an active set."""
    free, found = low < high, np.where(low < high, point, low)
    if free.any():
        scale = 1.0 / np.sqrt((factor[:, free] ** 2).sum(axis=0))  # units of the data must not matter to the tolerance
        target = factor[:, ~free] @ (point - found)[~free]
        ends = (low[free] - point[free]) / scale, (high[free] - point[free]) / scale
        moved = lsq_linear(factor[:, free] * scale, target, ends, method="bvls", tol=1e-14).x
        found[free] = point[free] + moved * scale
    return np.clip(found, low, high)
