"""What the states of a hidden Markov model emit: numbers, counts, categories, and columns of several of them."""

from spectrem.models.emissions.categorical import Categorical
from spectrem.models.emissions.emission import Emission
from spectrem.models.emissions.gaussian import Gaussian
from spectrem.models.emissions.gaussian_mixture import GaussianMixture
from spectrem.models.emissions.joined import Joined
from spectrem.models.emissions.multinomial import Multinomial
from spectrem.models.emissions.negative_binomial import NegativeBinomial
from spectrem.models.emissions.poisson import Poisson
from spectrem.models.emissions.student_t import StudentT

__all__ = [
    "Categorical", "Emission", "Gaussian", "GaussianMixture", "Joined", "Multinomial", "NegativeBinomial", "Poisson",
    "StudentT",
]  # fmt: skip
