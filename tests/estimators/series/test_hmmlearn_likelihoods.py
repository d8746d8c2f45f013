"""Log-likelihoods of hidden Markov models equal those of hmmlearn 0.3.3 at the same parameters."""

import numpy as np
import pytest

from spectrem import CategoricalHMM, GaussianHMM, GaussianMixtureHMM, MultinomialHMM, PoissonHMM
from spectrem.models.series import SeriesParameters

NUMBERS = [
    *([-0.007, 1.046], [0.742, 0.724], [1.619, -1.206], [-0.627, -1.321], [-0.108, 0.999], [-0.022, 0.496]),
    *([-1.911, 0.147], [-0.907, 1.775], [0.887, 0.949], [-0.058, 0.613], [0.658, -0.344], [-0.497, -0.115]),
]
COUNTS = [[2, 0], [7, 8], [2, 5], [1, 7], [7, 3], [7, 1], [8, 7], [7, 5], [1, 7], [6, 1], [7, 1], [3, 6]]
NINE = [[first, 9 - first] for first, _ in COUNTS]
KINDS = [[0], [2], [1], [0], [0], [1], [2], [2], [2], [0], [1], [1]]
MEANS = [[0.0, 1.0], [2.0, -1.0]]


def gaussian(kind, covars, *expected):
    return pytest.param(GaussianHMM(2, covariance_type=kind), NUMBERS, {"means": MEANS, "covars": covars}, expected)


MIXTURE = {
    "weights": [[0.4, 0.6], [0.7, 0.3]],
    "means": [[[0.0, 1.0], [1.0, 0.0]], [[2.0, -1.0], [-1.0, -1.0]]],
    "covars": [[[1.0, 0.5], [2.0, 1.5]], [[1.0, 1.0], [0.5, 2.0]]],
}
FULL = [[[1.0, 0.3], [0.3, 0.5]], [[2.0, -0.4], [-0.4, 1.5]]]
CASES = [
    gaussian("diag", [[1.0, 0.5], [2.0, 1.5]], -34.449897211360756, -34.790591979090614),
    gaussian("spherical", [1.0, 2.0], -34.79410795090026, -35.14170628889483),
    gaussian("full", FULL, -34.87457553395113, -35.18976125295096),
    gaussian("tied", FULL[0], -35.09675749174832, -35.502043389409664),
    (PoissonHMM(2), COUNTS, {"lambdas": [[2.0, 5.0], [6.0, 3.0]]}, (-61.578348086375584, -62.02686229857247)),
    (
        *(CategoricalHMM(2), KINDS, {"emissionprob": [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]}),
        (-13.602390283049363, -13.304733092205353),
    ),
    (MultinomialHMM(2), NINE, {"emissionprob": [[0.3, 0.7], [0.6, 0.4]]}, (-31.782572370575007, -32.17902279020269)),
    (GaussianMixtureHMM(2, n_mix=2), NUMBERS, MIXTURE, (-34.93885705417295, -35.26569159943507)),
]


@pytest.mark.parametrize(("model", "rows", "arrays", "expected"), CASES)
def test_log_likelihoods_of_hmmlearn(model, rows, arrays, expected):
    """One sequence of twelve rows, and two of five and seven."""
    model = model.set_params(max_iter=1, tol=0.0, n_init=1, n_threads=1, random_state=0).fit(rows)
    emission = model.emission_.of_arrays({name: np.array(array) for name, array in arrays.items()})
    model.params_ = SeriesParameters(np.array([0.6, 0.4]), np.array([[0.9, 0.1], [0.3, 0.7]]), emission)
    np.testing.assert_allclose(model.score_samples(rows), expected[:1], rtol=1e-10)
    np.testing.assert_allclose(model.score_samples(rows, lengths=[5, 7]).sum(), expected[1], rtol=1e-10)
