"""Mixtures of Gaussians."""

from spectrem.models.mixture.model import (
    MixtureModel,
    MixtureShard,
    build_shards,
    from_posteriors,
    has_gaps,
    impute,
    log_joint,
)
from spectrem.models.mixture.parameters import (
    Bounds,
    CovarianceType,
    MixtureParameters,
    covariance_shape,
    from_covariances,
    from_precisions,
)

__all__ = [
    "Bounds", "CovarianceType", "MixtureModel", "MixtureParameters", "MixtureShard", "build_shards", "covariance_shape",
    "from_covariances", "from_posteriors", "from_precisions", "has_gaps", "impute", "log_joint",
]  # fmt: skip
