"""What the states of a hidden Markov model emit: numbers, counts, categories, and columns of several of them."""

from spectrem.models.emissions import (
    Categorical,
    Emission,
    Gaussian,
    GaussianMixture,
    Joined,
    Multinomial,
    NegativeBinomial,
    Poisson,
    StudentT,
)

__all__ = [
    "Categorical",
    "Emission",
    "Gaussian",
    "GaussianMixture",
    "Joined",
    "Multinomial",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
]
