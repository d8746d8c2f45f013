"""Every family of emissions with parameters of two states, and its log-densities as SciPy has them."""

from types import SimpleNamespace

import numpy as np
from scipy import stats

from spectrem.models.emissions import (
    Categorical,
    Gaussian,
    GaussianMixture,
    Joined,
    Multinomial,
    NegativeBinomial,
    Poisson,
    StudentT,
)

NAMES = ["first", "second"]
MATRICES = np.array([[[2.0, 0.7], [0.7, 1.0]], [[0.5, -0.2], [-0.2, 0.9]]])
MEANS = np.array([[0.0, 1.0], [4.0, -3.0]])
MIXED = MEANS[:, None, :] + np.array([[-1.5, 0.5], [1.5, 0.3]])


def gaussian(arrays, k, row):
    covars = np.asarray(arrays["covars"])
    if covars.ndim == 3:
        matrix = covars[k]
    elif covars.ndim == 1:
        matrix = covars[k] * np.eye(2)
    else:
        matrix = np.diag(covars[k])
    return stats.multivariate_normal(arrays["means"][k], matrix).logpdf(row)


def tied(arrays, k, row):
    return stats.multivariate_normal(arrays["means"][k], arrays["covars"]).logpdf(row)


def student_t(arrays, k, row):
    scale = arrays["scales"][k]
    matrix = scale if scale.ndim == 2 else np.diag(scale)
    return stats.multivariate_t(arrays["locations"][k], matrix, df=arrays["dof"][k]).logpdf(row)


def mixture(arrays, k, row):
    parts = []
    for weight, mean, covar in zip(arrays["weights"][k], arrays["means"][k], arrays["covars"][k], strict=True):
        matrix = covar if covar.ndim == 2 else np.diag(np.broadcast_to(covar, 2))
        parts.append(np.log(weight) + stats.multivariate_normal(mean, matrix).logpdf(row))
    return np.logaddexp.reduce(parts)


def tied_mixture(arrays, k, row):
    each = {**arrays, "covars": np.repeat(arrays["covars"][:, None], 2, axis=1)}
    return mixture(each, k, row)


def poisson(arrays, k, row):
    return stats.poisson(arrays["lambdas"][k]).logpmf(row).sum()


def negative_binomial(arrays, k, row):
    sizes = 1 / arrays["dispersions"][k]
    return stats.nbinom(sizes, sizes / (sizes + arrays["means"][k])).logpmf(row).sum()


def categorical(arrays, k, row):
    return np.log(arrays["emissionprob"][k, np.arange(2), row.astype(int)]).sum()


def multinomial(arrays, k, row):
    return stats.multinomial(row.sum(), arrays["emissionprob"][k]).logpmf(row)


def joined(arrays, k, row):
    normal = stats.norm(arrays["second_means"][k, 0], np.sqrt(arrays["second_covars"][k, 0, 0])).logpdf(row[1])
    return stats.poisson(arrays["first_lambdas"][k, 0]).logpmf(row[0]) + normal


def _case(emission, density, discrete, **arrays):
    arrays = {name: np.array(array) for name, array in arrays.items()}
    return SimpleNamespace(emission=emission, density=density, discrete=discrete, arrays=arrays)


CASES = {
    "full": _case(Gaussian("full"), gaussian, (False, False), means=MEANS, covars=MATRICES),
    "tied": _case(Gaussian("tied"), tied, (False, False), means=MEANS, covars=MATRICES[0]),
    "diag": _case(Gaussian("diag"), gaussian, (False, False), means=MEANS, covars=[[2.0, 1.0], [0.5, 0.9]]),
    "spherical": _case(Gaussian("spherical"), gaussian, (False, False), means=MEANS, covars=[1.5, 0.5]),
    "grouped": _case(Gaussian(tied=[[1, 0]]), gaussian, (False, False), means=MEANS, covars=MATRICES[[0, 0]]),
    "t full": _case(StudentT("full"), student_t, (False, False), locations=MEANS, scales=MATRICES, dof=[4.0, 11.0]),
    "t diag": _case(
        StudentT("diag"), student_t, (False, False), locations=MEANS, scales=[[2.0, 1.0], [0.5, 0.9]], dof=[4.0, 11.0]
    ),
    "mixture full": _case(
        GaussianMixture(2, "full"),
        mixture,
        (False, False),
        weights=[[0.3, 0.7], [0.6, 0.4]],
        means=MIXED,
        covars=[MATRICES, MATRICES[::-1]],
    ),
    "mixture tied": _case(
        GaussianMixture(2, "tied"),
        tied_mixture,
        (False, False),
        weights=[[0.3, 0.7], [0.6, 0.4]],
        means=MIXED,
        covars=MATRICES,
    ),
    "mixture diag": _case(
        GaussianMixture(2, "diag"),
        mixture,
        (False, False),
        weights=[[0.3, 0.7], [0.6, 0.4]],
        means=MIXED,
        covars=[[[1.0, 0.5], [0.3, 2.0]], [[1.0, 0.7], [0.6, 0.6]]],
    ),
    "mixture spherical": _case(
        GaussianMixture(2, "spherical"),
        mixture,
        (False, False),
        weights=[[0.3, 0.7], [0.6, 0.4]],
        means=MIXED,
        covars=[[1.0, 0.5], [0.3, 2.0]],
    ),
    "poisson": _case(Poisson(), poisson, (True, True), lambdas=[[0.7, 3.0], [6.0, 1.0]]),
    "negative binomial": _case(
        NegativeBinomial(),
        negative_binomial,
        (True, True),
        means=[[0.7, 3.0], [6.0, 1.0]],
        dispersions=[[0.5, 1.5], [0.8, 1e-3]],
    ),
    "categorical": _case(
        Categorical(n_features=(3, 2)),
        categorical,
        (True, True),
        emissionprob=[[[0.2, 0.3, 0.5], [0.9, 0.1, 0.0]], [[0.6, 0.3, 0.1], [0.4, 0.6, 0.0]]],
    ),
    "multinomial": _case(Multinomial(n_trials=5), multinomial, (True, True), emissionprob=[[0.2, 0.8], [0.7, 0.3]]),
    "joined": _case(
        Joined({1: Gaussian(), 0: Poisson()}, ["second", "first"]),
        joined,
        (True, False),
        first_lambdas=[[0.7], [6.0]],
        second_means=[[1.0], [-3.0]],
        second_covars=[[[1.5]], [[0.6]]],
    ),
}


def draw(name, n, gaps=0.0, seed=0, stay=0.9):
    """Rows and states of a chain that stays where it is with a probability, and a share of cells missing."""
    case, rng = CASES[name], np.random.default_rng(seed)
    moves = rng.uniform(size=n) > stay
    states = np.cumsum(moves) % 2
    params = case.emission.of_arrays(case.arrays)
    x = case.emission.sample(params, states, rng)
    missing = rng.uniform(size=x.shape) < gaps
    if name == "multinomial":
        missing = np.repeat(missing[:, :1], 2, axis=1)
    return np.where(missing, np.nan, x), states


def params_of(name):
    return CASES[name].emission.of_arrays(CASES[name].arrays)
