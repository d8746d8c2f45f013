"""What the states of a hidden Markov model emit: Gaussians, counts, categories, and columns of several of them."""

from spectrem.models.emissions.emission import Emission
from spectrem.models.emissions.gaussian import Gaussian

__all__ = ["Emission", "Gaussian"]
