"""Densities, moments and conditional means of all emissions against SciPy, sums and integrals."""

import itertools

import numpy as np
import pytest
from emission_cases import CASES, NAMES, draw, params_of
from scipy import stats
from scipy.integrate import quad

FAMILIES = list(CASES)
WITH_SINGLE_CELLS = [name for name in FAMILIES if name != "multinomial"]


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_are_the_log_densities_of_scipy(name):
    x, _ = draw(name, 30)
    case = CASES[name]
    expected = [[case.density(case.arrays, k, row) for k in range(2)] for row in x]
    np.testing.assert_allclose(case.emission.scores(params_of(name), x), expected, rtol=1e-10, atol=1e-12)


def sum_or_integral(name, function):
    """Over the values of the second column."""
    if CASES[name].discrete[1]:
        values = range(2 if name == "categorical" else 400)
        return sum(function(float(y)) for y in values)
    ends = [-np.inf, -3.0, 1.0, np.inf]
    return sum(quad(function, *pair, epsabs=0, epsrel=1e-9)[0] for pair in itertools.pairwise(ends))


@pytest.mark.parametrize("name", WITH_SINGLE_CELLS)
def test_missing_cells_are_summed_out_and_filled_by_conditional_means(name):
    emission, params = CASES[name].emission, params_of(name)
    x = draw(name, 2, seed=3)[0][:, :1]
    for first in x.ravel():
        row = np.array([[first, np.nan]])
        for k in range(2):

            def density(y, first=first, k=k):
                return float(np.exp(emission.scores(params, np.array([[first, y]]))[0, k]))

            total = sum_or_integral(name, density)
            np.testing.assert_allclose(np.exp(emission.scores(params, row))[0, k], total, rtol=1e-7)
            filled = emission.impute(params, row, np.eye(2)[[k]])
            assert filled[0, 0] == first
            if name == "categorical":
                assert filled[0, 1] == params.emissionprob[k, 1].argmax()
            else:
                mean = sum_or_integral(name, lambda y, density=density: y * density(y)) / total
                np.testing.assert_allclose(filled[0, 1], mean, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_without_any_value_have_density_one_and_no_rows_work(name):
    emission, params = CASES[name].emission, params_of(name)
    assert np.abs(emission.scores(params, np.full((3, 2), np.nan))).max() < 1e-12
    assert emission.scores(params, np.zeros((0, 2))).shape == (0, 2)
    assert emission.cumulative(params, np.zeros((0, 2))).shape == (0, 2, 2)
    assert emission.impute(params, np.zeros((0, 2)), np.zeros((0, 2))).shape == (0, 2)
    assert emission.sample(params, np.zeros(0, np.int64), np.random.default_rng(0)).shape == (0, 2)


@pytest.mark.parametrize("name", FAMILIES)
def test_means_variances_and_probabilities_up_to_values_are_those_of_draws(name):
    emission, params = CASES[name].emission, params_of(name)
    for k in range(2):
        x = emission.sample(params, np.full(40_000, k), np.random.default_rng(k))
        spread = np.sqrt(emission.variances(params)[k])
        assert (np.abs(x.mean(axis=0) - emission.means(params)[k]) < 0.03 * spread).all()
        np.testing.assert_allclose(x.var(axis=0), emission.variances(params)[k], rtol=0.15)
        below = emission.cumulative(params, x)[:, k]
        strictly = emission.cumulative(params, x, strictly=True)[:, k]
        for column, discrete in enumerate(CASES[name].discrete):
            cells = x[:, column]
            for value in np.quantile(cells, [0.1, 0.5, 0.9]) if not discrete else np.unique(cells)[:4]:
                at = np.argmin(np.abs(cells - value))
                assert below[at, column] == pytest.approx((cells <= cells[at]).mean(), abs=0.012)
                assert strictly[at, column] == pytest.approx((cells < cells[at]).mean(), abs=0.012)


def test_probabilities_up_to_values_are_those_of_scipy():
    x = np.array([[0.0, 4.0], [3.0, 1.0], [5.0, 0.0], [np.nan, np.nan]])
    rows, complete = x[:, None, :], slice(0, 3)
    for name, distribution in (
        ("poisson", stats.poisson(CASES["poisson"].arrays["lambdas"])),
        ("negative binomial", stats.nbinom(*sizes_of(CASES["negative binomial"].arrays))),
        (
            "multinomial",
            stats.binom(np.array([4, 4, 5, 0])[:, None, None], CASES["multinomial"].arrays["emissionprob"]),
        ),
    ):
        emission, params = CASES[name].emission, params_of(name)
        below, strictly = (emission.cumulative(params, x, strictly=which) for which in (False, True))
        np.testing.assert_allclose(below[complete], distribution.cdf(rows)[complete], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(strictly[complete], distribution.cdf(rows - 1)[complete], rtol=1e-9, atol=1e-12)
        assert np.isnan([below[3], strictly[3]]).all()


def sizes_of(arrays):
    sizes = 1 / arrays["dispersions"]
    return sizes, sizes / (sizes + arrays["means"])


def test_categories_have_probabilities_up_to_and_below_them():
    emission, params = CASES["categorical"].emission, params_of("categorical")
    x = np.array([[0.0, 1.0], [2.0, np.nan]])
    np.testing.assert_allclose(emission.cumulative(params, x)[:, 0], [[0.2, 1.0], [1.0, np.nan]])
    np.testing.assert_allclose(emission.cumulative(params, x, strictly=True)[:, 0], [[0.0, 0.9], [0.5, np.nan]])


def test_rates_and_probabilities_of_zero_exclude_values_and_nothing_else():
    params = CASES["poisson"].emission.of_arrays({"lambdas": np.array([[0.0, 1.0], [1.0, 0.0]])})
    scores = CASES["poisson"].emission.scores(params, np.array([[0.0, 2.0], [1.0, 0.0], [np.nan, 1.0]]))
    assert np.isneginf(scores).tolist() == [[False, True], [True, False], [False, True]]
    assert scores[0, 0] == pytest.approx(stats.poisson(1).logpmf(2))
    params = CASES["multinomial"].emission.of_arrays({"emissionprob": np.array([[0.0, 1.0], [0.5, 0.5]])})
    scores = CASES["multinomial"].emission.scores(params, np.array([[0.0, 2.0], [1.0, 1.0]]))
    np.testing.assert_allclose(scores, [[0.0, np.log(0.25)], [-np.inf, np.log(0.5)]])
    params = CASES["negative binomial"].emission.of_arrays({"means": np.zeros((1, 1)), "dispersions": np.ones((1, 1))})
    scores = CASES["negative binomial"].emission.scores(params, np.array([[0.0], [2.0]]))
    assert scores.tolist() == [[0.0], [-np.inf]]


@pytest.mark.parametrize("mean", [1e-3, 1.0, 1e5])
@pytest.mark.parametrize("dispersion", [1e3, 1.0, 1e-3, 1e-9])
def test_negative_binomial_densities_keep_their_digits_near_poisson(mean, dispersion):
    emission = CASES["negative binomial"].emission
    params = emission.of_arrays({"means": np.full((1, 1), mean), "dispersions": np.full((1, 1), dispersion)})
    x = np.unique(np.round([0, 1, 0.9 * mean, mean, 1.1 * mean]))[:, None]
    size = 1 / dispersion
    steps = [np.log1p(-(mean - m) / (size + mean)) for m in range(int(x.max()) + 1)]  # log((size + m) / (size + mean))
    sums = np.append(0, np.cumsum(steps))[x.astype(int)]
    expected = sums + x * np.log(mean) - np.log(np.arange(1, x.max() + 1)).cumsum()[np.maximum(x.astype(int) - 1, 0)]
    expected[x == 0] = 0.0
    expected -= size * np.log1p(mean / size)
    np.testing.assert_allclose(emission.scores(params, x), expected, rtol=1e-9, atol=2e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_arrays_come_back_as_parameters(name):
    emission, params = CASES[name].emission, params_of(name)
    arrays = emission.arrays(params)
    assert set(arrays) == set(CASES[name].arrays)
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, CASES[name].arrays[key])
    x, _ = draw(name, 20, 0.3)
    np.testing.assert_array_equal(emission.scores(emission.of_arrays(arrays), x), emission.scores(params, x))
    assert emission.n_free(params) == FREE[name]
    assert emission.check(x, NAMES) is None


FREE = {
    "full": 10, "tied": 7, "diag": 8, "spherical": 6, "grouped": 7, "t full": 12, "t diag": 10, "mixture full": 22,
    "mixture tied": 16, "mixture diag": 18, "mixture spherical": 14, "poisson": 4, "negative binomial": 8,
    "categorical": 6, "multinomial": 2, "joined": 6,
}  # fmt: skip
