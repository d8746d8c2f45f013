"""Log-likelihoods of hidden Markov models equal those of hmmlearn 0.3.3 at the same parameters."""

import numpy as np
import pytest

from spectrem import CategoricalHMM, GaussianHMM, GaussianMixtureHMM, MultinomialHMM, PoissonHMM

NUMBERS = [
    *([-0.007, 1.046], [0.742, 0.724], [1.619, -1.206], [-0.627, -1.321], [-0.108, 0.999], [-0.022, 0.496]),
    *([-1.911, 0.147], [-0.907, 1.775], [0.887, 0.949], [-0.058, 0.613], [0.658, -0.344], [-0.497, -0.115]),
]
COUNTS = [[2, 0], [7, 8], [2, 5], [1, 7], [7, 3], [7, 1], [8, 7], [7, 5], [1, 7], [6, 1], [7, 1], [3, 6]]
NINE = [[first, 9 - first] for first, _ in COUNTS]
KINDS = [[0], [2], [1], [0], [0], [1], [2], [2], [2], [0], [1], [1]]
MEANS = [[0.0, 1.0], [2.0, -1.0]]


START, MOVES = [0.6, 0.4], [[0.9, 0.1], [0.3, 0.7]]
WEIGHTS = [[0.4, 0.6], [0.7, 0.3]]
MIXTURE_MEANS = [[[0.0, 1.0], [1.0, 0.0]], [[2.0, -1.0], [-1.0, -1.0]]]


def gaussian(kind, covars, *expected):
    emission = {"means": MEANS, "covars": covars}
    return pytest.param(GaussianHMM, {"covariance_type": kind}, NUMBERS, emission, expected, id=kind)


def mixture(kind, covars, *expected):
    emission = {"weights": WEIGHTS, "means": MIXTURE_MEANS, "covars": covars}
    options = {"covariance_type": kind, "n_mix": 2}
    return pytest.param(GaussianMixtureHMM, options, NUMBERS, emission, expected, id=f"mixture, {kind}")


FULL = [[[1.0, 0.3], [0.3, 0.5]], [[2.0, -0.4], [-0.4, 1.5]]]
CASES = [
    gaussian("diag", [[1.0, 0.5], [2.0, 1.5]], -34.449897211360756, -34.790591979090614),
    gaussian("spherical", [1.0, 2.0], -34.79410795090026, -35.14170628889483),
    gaussian("full", FULL, -34.87457553395113, -35.18976125295096),
    gaussian("tied", FULL[0], -35.09675749174832, -35.502043389409664),
    (PoissonHMM, {}, COUNTS, {"lambdas": [[2.0, 5.0], [6.0, 3.0]]}, (-61.578348086375584, -62.02686229857247)),
    (
        *(CategoricalHMM, {}, KINDS, {"emissionprob": [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]}),
        (-13.602390283049363, -13.304733092205353),
    ),
    (MultinomialHMM, {}, NINE, {"emissionprob": [[0.3, 0.7], [0.6, 0.4]]}, (-31.782572370575007, -32.17902279020269)),
    mixture("diag", [[[1.0, 0.5], [2.0, 1.5]], [[1.0, 1.0], [0.5, 2.0]]], -34.93885705417295, -35.26569159943507),
    mixture("spherical", [[1.0, 2.0], [0.5, 1.5]], -36.111310580811036, -36.44923067146767),
    mixture("full", [FULL, FULL[::-1]], -34.68692459585057, -35.00877490053118),
    mixture("tied", FULL, -35.418686902218866, -35.70296310008541),
]


@pytest.mark.parametrize(("model", "options", "rows", "emission", "expected"), CASES)
def test_log_likelihoods_of_hmmlearn(model, options, rows, emission, expected):
    """One sequence of twelve rows, and two of five and seven."""
    model = model.from_parameters(START, MOVES, emission, n_threads=1, **options)
    np.testing.assert_allclose(model.score_samples(rows), expected[:1], rtol=1e-10)
    np.testing.assert_allclose(model.score_samples(rows, lengths=[5, 7]).sum(), expected[1], rtol=1e-10)
