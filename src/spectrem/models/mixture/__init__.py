"""Mixtures of Gaussians."""

from spectrem.models.mixture.bounds import Bounds
from spectrem.models.mixture.compiled import MixtureKernel
from spectrem.models.mixture.model import MixtureModel, from_posteriors, log_joint, unit_covariances
from spectrem.models.mixture.parameters import (
    CovarianceType,
    MixtureParameters,
    covariance_shape,
    from_covariances,
    from_precisions,
)
from spectrem.models.mixture.shards import MixtureShard, build_shards

__all__ = [
    "Bounds", "CovarianceType", "MixtureKernel", "MixtureModel", "MixtureParameters", "MixtureShard", "build_shards",
    "covariance_shape", "from_covariances", "from_posteriors", "from_precisions", "log_joint", "unit_covariances",
]  # fmt: skip
