"""Mixtures of Gaussians."""

from spectrem.models.mixture.bounds import Bounds
from spectrem.models.mixture.compiled import MixtureKernel
from spectrem.models.mixture.model import MixtureModel, log_joint
from spectrem.models.mixture.parameters import (
    CovarianceType,
    MixtureParameters,
    covariance_shape,
    from_covariances,
    from_precisions,
)
from spectrem.models.mixture.shards import MixtureShard, build_shards
from spectrem.models.mixture.start import from_posteriors, unit_covariances
from spectrem.models.mixture.statistics import MixtureStats

__all__ = [
    "Bounds", "CovarianceType", "MixtureKernel", "MixtureModel", "MixtureParameters", "MixtureShard", "MixtureStats",
    "build_shards", "covariance_shape", "from_covariances", "from_posteriors", "from_precisions", "log_joint",
    "unit_covariances",
]  # fmt: skip
