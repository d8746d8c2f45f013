"""Proportions, means and covariances of a mixture of Gaussians, and the bounds that its M-step may have to keep."""

from __future__ import annotations

import math
from dataclasses import field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.linalg import LinAlgError

from spectrem._arrays import Floats
from spectrem._reprs import brief_dataclass
from spectrem.exceptions import InvalidInputError, advice
from spectrem.kernels.gaussian import invert_lower

CovarianceType = Literal["full", "tied", "diag", "spherical"]
Range = tuple[Floats, Floats]


@brief_dataclass(frozen=True, eq=False)
class MixtureParameters:
    """A mixture of Gaussians, with the Cholesky factors of its precisions.

    Attributes
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}
    weights : ndarray of shape (n_components,)
        Proportions, which sum to 1.
    means : ndarray of shape (n_components, n_features)
    covariances : ndarray
        Of shape (n_components, n_features, n_features) if "full", (n_features, n_features) if "tied", (n_components,
        n_features) if "diag", (n_components,) if "spherical".
    precisions_cholesky : ndarray
        In the shape of the covariances: upper triangular U with ``U @ U.T`` the precision, or roots of precisions.

    Examples
    --------
    >>> params = from_covariances("diag", np.array([1.0]), np.zeros((1, 2)), np.array([[4.0, 1.0]]))
    >>> params.precisions.tolist()
    [[0.25, 1.0]]
    """

    covariance_type: CovarianceType
    weights: Floats
    means: Floats
    covariances: Floats
    precisions_cholesky: Floats

    @property
    def precisions(self) -> Floats:
        """Inverses of the covariances, of the same shape."""
        upper = self.precisions_cholesky
        return upper @ np.swapaxes(upper, -1, -2) if self.covariance_type in ("full", "tied") else upper**2

    @cached_property
    def lower(self) -> Floats:
        """F with ``|F (x - mean)|`` the Mahalanobis distance: lower triangular, or scales for every feature."""
        factor = self.precisions_cholesky
        if self.covariance_type in ("full", "tied"):
            return np.ascontiguousarray(np.swapaxes(factor, -1, -2))
        return factor if factor.ndim == 2 else np.repeat(factor[:, None], self.means.shape[1], axis=1)

    @cached_property
    def constants(self) -> Floats:
        """Log of the joint density of each component at its mean, shape (n_components,), nats."""
        lower = self.lower
        scales = lower if self.covariance_type in ("diag", "spherical") else np.diagonal(lower, axis1=-2, axis2=-1)
        n_features = self.means.shape[1]
        with np.errstate(divide="ignore"):
            return np.log(self.weights) + np.log(scales).sum(axis=-1) - 0.5 * n_features * math.log(2 * math.pi)

    @cached_property
    def variances(self) -> Floats:
        """Variances of the features of each component, shape (n_components, n_features)."""
        k, d = self.means.shape
        matrices = self.covariance_type in ("full", "tied")
        variances = np.diagonal(self.covariances, axis1=-2, axis2=-1) if matrices else self.covariances.reshape(k, -1)
        return np.broadcast_to(variances, (k, d)).copy()

    @cached_property
    def matrices(self) -> Floats:
        """Inverses of ``lower.T @ lower``, shape (1 if "tied" else n_components, d, d), of matrices of covariances."""
        factors = self.lower.reshape(-1, *self.lower.shape[-2:])
        roots = np.zeros_like(factors)
        for factor, root in zip(factors, roots, strict=True):
            invert_lower(factor, root)
        return roots @ np.swapaxes(roots, 1, 2)

    @cached_property
    def centre(self) -> Floats:
        """Mean of the mixture, shape (n_features,), about which sums of squares of tied covariances are taken."""
        return self.weights @ self.means


def covariance_shape(covariance_type: CovarianceType, n_components: int, n_features: int) -> tuple[int, ...]:
    """The shape of the covariances of a mixture.

    Examples
    --------
    >>> covariance_shape("tied", 3, 2)
    (2, 2)
    """
    k, d = n_components, n_features
    return {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}[covariance_type]


def from_covariances(
    covariance_type: CovarianceType, weights: Floats, means: Floats, covariances: Floats
) -> MixtureParameters:
    """A mixture with the precisions that belong to its covariances.

    Raises
    ------
    InvalidInputError
        If a covariance is not positive definite.
    """
    if covariance_type in ("diag", "spherical"):
        if not (covariances > 0).all():
            component = int(np.argwhere(~(covariances > 0))[0, 0])
            raise _singular(f"component {component}", f"got a variance of {covariances[~(covariances > 0)][0]:.3g}")
        return MixtureParameters(covariance_type, weights, means, covariances, 1.0 / np.sqrt(covariances))
    if covariance_type == "tied":
        factors = np.ascontiguousarray(_inverse_factor("all components", covariances))
    else:
        factors = np.stack([_inverse_factor(f"component {k}", matrix) for k, matrix in enumerate(covariances)])
    return MixtureParameters(covariance_type, weights, means, covariances, factors)


def from_precisions(
    covariance_type: CovarianceType, weights: Floats, means: Floats, precisions: Floats
) -> MixtureParameters:
    """A mixture with given precisions, which must be positive (definite).

    Examples
    --------
    >>> from_precisions("spherical", np.array([1.0]), np.zeros((1, 2)), np.array([4.0])).covariances.tolist()
    [0.25]
    """
    if covariance_type in ("diag", "spherical"):
        return MixtureParameters(covariance_type, weights, means, 1.0 / precisions, np.sqrt(precisions))
    upper = np.linalg.cholesky(precisions[..., ::-1, ::-1])[..., ::-1, ::-1]
    covariances = np.asarray(np.linalg.inv(precisions), np.float64)
    return MixtureParameters(covariance_type, weights, means, covariances, np.ascontiguousarray(upper, np.float64))


def _inverse_factor(whose: str, covariance: Floats) -> Floats:
    """Upper triangular U with ``U @ U.T`` the inverse."""
    try:
        lower = np.linalg.cholesky(covariance)
        unshared = np.diagonal(lower) ** 2 / np.diagonal(covariance)  # 1 less R^2 of a feature on those before it
        singular = not unshared.min() > len(lower) * np.finfo(np.float64).eps  # NaN, too
    except LinAlgError:
        singular = True
    if singular:
        lowest = float(np.linalg.eigvalsh(covariance)[0]) if np.isfinite(covariance).all() else math.nan
        raise _singular(whose, f"got a lowest eigenvalue of {lowest:.3g}")
    inverse = np.zeros_like(lower)
    invert_lower(lower, inverse)
    return inverse.T


def _singular(whose: str, received: str) -> InvalidInputError:
    return InvalidInputError(
        f"the covariance of {whose} must be positive definite, {received}; "
        + advice("singular covariance", "raise reg_covar, scale the data or ask for fewer components")
    )


@brief_dataclass(frozen=True, eq=False)
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

        They are ``clip(counts / price, low, high)`` at the price at which they sum to 1, found by sorting the prices at
        which an entry reaches a bound.
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
    free = low < high
    nearest = np.where(free, point, low)
    if free.any():
        from scipy.optimize import lsq_linear

        scale = 1.0 / np.sqrt((factor[:, free] ** 2).sum(axis=0))  # units of the data must not matter to the tolerance
        target = factor[:, ~free] @ (point - nearest)[~free]
        ends = (low[free] - point[free]) / scale, (high[free] - point[free]) / scale
        moved = lsq_linear(factor[:, free] * scale, target, ends, method="bvls", tol=1e-14).x
        nearest[free] = point[free] + moved * scale
    return np.clip(nearest, low, high)
