"""The E-step of a mixture without constraints: scores, posteriors and moments shard by shard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from spectrem.exceptions import InvalidInputError
from spectrem.kernels.mixtures import responsibilities
from spectrem.models.estep import EStepResult, Statistics
from spectrem.models.mixture.model import MixtureModel, log_joint
from spectrem.models.mixture.parameters import MixtureParameters
from spectrem.models.mixture.shards import MixtureShard


@dataclass(frozen=True)
class MixtureKernel:
    """Expected moments under unconstrained posteriors, at any gamma, equal to those of the general E-step.

    Use when there are no constraints.

    Parameters
    ----------
    model : MixtureModel
    """

    model: MixtureModel

    def prepare(self, params: MixtureParameters, gamma: float) -> Callable[[MixtureShard], EStepResult[Statistics]]:
        """The E-step of a shard."""
        return partial(self._expect, params, gamma)

    def _expect(self, params: MixtureParameters, gamma: float, shard: MixtureShard) -> EStepResult[Statistics]:
        joint, values = log_joint(params, shard.x, shard.labels), np.empty(len(shard.x))
        if gamma > 0:
            responsibilities.soft_pass(joint, gamma, shard.weights, values)
        else:
            responsibilities.hard_pass(joint, shard.weights, values)
        if not np.isfinite(values).all():
            bad = int(np.argmin(np.isfinite(values)))
            raise InvalidInputError(
                f"row {shard.instances[bad]} must be possible in some component, got a log-density of {values[bad]}; "
                "scale the data, or give the components of known rows a positive proportion"
            )
        value = float(shard.weights @ values)
        return EStepResult(self.model.moments(params, shard, joint), value, value)
