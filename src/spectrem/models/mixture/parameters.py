"""Proportions, means and covariances of a mixture of Gaussians, and the expected sums that its M-step needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.linalg import LinAlgError

from spectrem._arrays import Floats
from spectrem.exceptions import InvalidInputError, advice
from spectrem.kernels.mixtures import gaussian

CovarianceType = Literal["full", "tied", "diag", "spherical"]


@dataclass(frozen=True, eq=False)
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
        factors = np.stack([_inverse_factor(f"component {k}", own) for k, own in enumerate(covariances)])
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
        own = np.diagonal(lower) ** 2 / np.diagonal(covariance)  # what a feature does not share with those before it
        singular = not own.min() > len(own) * np.finfo(np.float64).eps  # NaN, too
    except LinAlgError:
        singular = True
    if singular:
        lowest = float(np.linalg.eigvalsh(covariance)[0]) if np.isfinite(covariance).all() else math.nan
        raise _singular(whose, f"got a lowest eigenvalue of {lowest:.3g}")
    inverse = np.zeros_like(lower)
    gaussian.invert_lower(lower, inverse)
    return inverse.T


def _singular(whose: str, found: str) -> InvalidInputError:
    return InvalidInputError(
        f"the covariance of {whose} must be positive definite, {found}; "
        + advice("singular covariance", "raise reg_covar, scale the data or ask for fewer components")
    )
