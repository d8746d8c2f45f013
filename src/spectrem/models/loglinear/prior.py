"""Priors of weights: Gaussian, Laplace, and both, which is the elastic net."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Floats
from spectrem.exceptions import InvalidInputError


@dataclass(frozen=True)
class WeightPrior:
    """Minus the log-density of weights: ``l2 / 2 * sum of squares + l1 * sum of sizes``, nats.

    Parameters
    ----------
    l2 : float
        One over the variance of a Gaussian, at least 0.
    l1 : float
        At least 0; above 0 many weights become 0.

    Raises
    ------
    InvalidInputError
        If one of them is negative or not finite.

    Examples
    --------
    >>> WeightPrior(l2=2.0, l1=1.0).penalty(np.array([1.0, -3.0]))
    14.0
    """

    l2: float = 1.0
    l1: float = 0.0

    def __post_init__(self) -> None:
        for name in ("l2", "l1"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInputError(f"{name} must be finite and at least 0, got {value}; 0 leaves weights free")

    def penalty(self, weights: Floats) -> float:
        """Minus the log-density, nats, up to a constant."""
        total = 0.5 * self.l2 * float(weights @ weights) if self.l2 else 0.0
        return total + self.l1 * float(np.abs(weights).sum()) if self.l1 else total
