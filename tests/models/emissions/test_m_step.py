"""M-steps of all emissions: their results cannot be bettered by an optimiser; starts, ties, fixed parameters."""

from dataclasses import replace
from functools import reduce
from operator import iadd

import numpy as np
import pytest
from emission_cases import CASES, NAMES, draw, params_of
from scipy.optimize import minimize

from spectrem.exceptions import InvalidInputError
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

FAMILIES = list(CASES)
PRIOR = {
    Gaussian: {"means_prior": [1.0, 2.0], "means_weight": 2.0, "covars_prior": 3.0, "covars_weight": 4.0},
    GaussianMixture: {"means_prior": [1.0, 2.0], "means_weight": 2.0, "covars_prior": 3.0, "covars_weight": 4.0,
                      "weights_prior": 3.0},
    StudentT: {"locations_prior": [1.0, 2.0], "locations_weight": 2.0, "scales_prior": 3.0, "scales_weight": 4.0},
    Poisson: {"lambdas_prior": [[1.0, 2.0], [3.0, 0.5]], "lambdas_weight": 2.0},
    NegativeBinomial: {"means_prior": [2.5, 4.0], "means_weight": 3.0},
    Categorical: {"emissionprob_prior": [2.0, 1.5, 4.0]},
    Multinomial: {"emissionprob_prior": [2.0, 5.0]},
}  # fmt: skip
POSITIVE = ("lambdas", "dispersions", "dof")
SIMPLEX = ("weights", "emissionprob")


def with_prior(name):
    emission = CASES[name].emission
    if isinstance(emission, Joined):
        of_counts = {"lambdas_prior": 2.0, "lambdas_weight": 1.0}
        parts = {
            key: replace(one, **({**PRIOR[Gaussian], "means_prior": 1.0} if isinstance(one, Gaussian) else of_counts))
            for key, one in emission.emissions.items()
        }
        return replace(emission, emissions=parts)
    return replace(emission, **PRIOR[type(emission)])


def kind_of(name, key, array):
    if key.endswith(SIMPLEX):
        return "simplex"
    if key.endswith(("covars", "scales")):
        has_matrices = any(word in name for word in ("full", "tied", "grouped", "joined"))
        return "matrix" if has_matrices else "positive"
    return "positive" if key.endswith(POSITIVE) or (name == "negative binomial") else "free"


def flatten(name, arrays):
    """Free numbers in place of constrained arrays."""
    parts = []
    for key, array in arrays.items():
        kind = kind_of(name, key, array)
        if kind == "simplex":
            parts.append(np.log(np.maximum(array, 1e-300)))
        elif kind == "matrix":
            parts.append(np.linalg.cholesky(array[:1] if name == "grouped" else array))
        else:
            parts.append(np.log(array) if kind == "positive" else array)
    return np.concatenate([part.ravel() for part in parts])


def restore(name, arrays, flat):
    restored, place = {}, 0
    for key, array in arrays.items():
        kind = kind_of(name, key, array)
        shape = (1, *array.shape[1:]) if name == "grouped" and kind == "matrix" else array.shape
        numbers = flat[place : place + int(np.prod(shape))].reshape(shape)
        place += numbers.size
        if kind == "simplex":
            numbers = np.exp(numbers - numbers.max(axis=-1, keepdims=True))
            restored[key] = numbers / numbers.sum(axis=-1, keepdims=True)
        elif kind == "matrix":
            lower = np.tril(numbers)
            restored[key] = np.broadcast_to(lower @ np.swapaxes(lower, -1, -2), array.shape)
        else:
            restored[key] = np.exp(numbers) if kind == "positive" else numbers
    return restored


@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_no_optimiser_finds_better_parameters(name, prior, gaps):
    emission = with_prior(name) if prior else CASES[name].emission
    x, states = draw(name, 60, gaps, seed=5)
    shares = 0.9 * np.eye(2)[states] + 0.05
    hidden = name.startswith(("t ", "mixture")) or (gaps and name not in ("poisson", "negative binomial", "categorical",
                                                                          "multinomial"))  # fmt: skip

    def value(params):
        return float((shares * emission.scores(params, x)).sum() + emission.log_prior(params))

    params = params_of(name)
    values = [value(params)]
    for _ in range(1500 if hidden else 1):
        params = emission.m_step(params, emission.gather(params, x, shares))
        values.append(value(params))
    assert (np.diff(values) > -1e-9 * abs(values[0])).all()
    if not hidden:
        again = emission.m_step(params, emission.gather(params, x, shares))
        for key, array in emission.arrays(again).items():
            np.testing.assert_allclose(array, emission.arrays(params)[key], rtol=1e-6, atol=1e-9)
    arrays = {key: np.array(array) for key, array in emission.arrays(params).items()}

    def loss(flat):
        try:
            return -value(emission.of_arrays(restore(name, arrays, flat)))
        except InvalidInputError:
            return np.inf

    start = flatten(name, arrays)
    assert loss(start) == pytest.approx(-values[-1], abs=1e-8)
    free = np.flatnonzero(start > -600)  # probabilities that are 0 stay so
    if name == "negative binomial" and not prior:
        free = free[:4]  # those of the Poisson-like column lie at their bounds, see below
    if name.startswith("t "):
        free = free[np.append(np.ones(len(free) - 2, bool), np.exp(start[-2:]) < 199)]

    def part(numbers):
        flat = start.copy()
        flat[free] = numbers
        return loss(flat)

    moved = start[free] + 0.01 * np.random.default_rng(0).normal(size=len(free))
    found = minimize(part, moved, method="L-BFGS-B", options={"maxiter": 300})
    assert -found.fun < values[-1] + 1e-4
    assert part(moved) > -values[-1]


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e5])
def test_dispersions_are_the_best_whatever_the_counts(scale):
    rng = np.random.default_rng(1)
    x = rng.negative_binomial(2.5, 2.5 / (2.5 + 10 * scale), size=(300, 1)).astype(float)
    emission, ones = NegativeBinomial(means_weight=0.0), np.ones((300, 1))
    params = emission.start(x, ones)
    np.testing.assert_allclose(params.means, x.mean(), rtol=1e-12)

    def loss(logarithm):
        arrays = {"means": params.means, "dispersions": np.exp(logarithm).reshape(1, 1)}
        return -emission.scores(emission.of_arrays(arrays), x).sum()

    found = minimize(loss, [0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9})
    np.testing.assert_allclose(params.dispersions, np.exp(found.x[0]), rtol=1e-4)


def test_counts_that_vary_less_than_poisson_ones_get_the_least_dispersion():
    x = np.array([[3.0], [3.0], [4.0]])
    params = NegativeBinomial(means_weight=0.0).start(x, np.ones((3, 1)))
    np.testing.assert_allclose(params.dispersions, 1e-4 / (10 / 3))
    np.testing.assert_allclose(
        NegativeBinomial().scores(params, x),
        Poisson().scores(Poisson().of_arrays({"lambdas": params.means}), x),
        atol=1e-3,
    )


@pytest.mark.parametrize("gaps", [0.0, 0.4])
@pytest.mark.parametrize("name", FAMILIES)
def test_statistics_of_parts_add_up_to_those_of_all_rows(name, gaps):
    emission, params = CASES[name].emission, params_of(name)
    x, states = draw(name, 50, gaps, seed=2)
    shares = 0.8 * np.eye(2)[states] + 0.1
    cuts = [slice(0, 7), slice(7, 7), slice(7, 50)]
    total = reduce(iadd, (emission.gather(params, x[cut], shares[cut]) for cut in cuts))
    whole = emission.gather(params, x, shares)
    twice = 2.0 * total
    for stats, factor in ((total, 1.0), (twice, 2.0), (total + total, 2.0)):
        expected = emission.m_step(params, emission.gather(params, x, factor * shares))
        for key, array in emission.arrays(emission.m_step(params, stats)).items():
            np.testing.assert_allclose(array, emission.arrays(expected)[key], rtol=1e-8, atol=1e-12)
    assert type(whole) is type(total)


@pytest.mark.parametrize("name", FAMILIES)
def test_states_without_rows_and_fixed_parameters_stay_as_they_are(name):
    emission = with_prior(name)
    params, (x, _) = params_of(name), draw(name, 30, 0.2)
    only_first = np.tile([1.0, 0.0], (30, 1))
    before = emission.arrays(params)
    after = emission.arrays(emission.m_step(params, emission.gather(params, x, only_first)))
    none = emission.arrays(emission.m_step(params, emission.gather(params, x, np.zeros((30, 2)))))
    for key, array in before.items():
        np.testing.assert_array_equal(none[key], array)
        if not (name in ("tied", "grouped") and key == "covars"):
            np.testing.assert_array_equal(after[key][1], array[1])
            assert (after[key][0] != array[0]).any()
    if name == "joined":
        return
    for key in before:
        kept = replace(emission, fixed=[key])
        new = kept.arrays(kept.m_step(params, kept.gather(params, x, np.full((30, 2), 0.5))))
        for other, array in before.items():
            assert (new[other] == array).all() == (other == key)
        assert kept.n_free(params) < emission.n_free(params)
        assert kept.start(x, np.full((30, 2), 0.5)) is not None


@pytest.mark.parametrize("name", FAMILIES)
def test_starts_are_parameters_of_the_rows(name):
    x, states = draw(name, 3000, 0.2, seed=4)
    emission = CASES[name].emission.learn(x, NAMES)
    params = emission.start(x, np.eye(2)[states])
    truth = params_of(name)
    apart = np.abs(emission.means(params) - emission.means(truth)) / np.sqrt(emission.variances(truth))
    assert apart.max() < 0.3
    empty = emission.start(x, np.tile([1.0, 0.0], (3000, 1)))
    assert np.isfinite(emission.scores(empty, x)).all()


def test_groups_of_states_share_covariances():
    x, states = draw("full", 500)
    shares = np.eye(2)[states]
    for first, second in ((Gaussian("full", tied=[[0, 1]]), Gaussian("tied")),
                          (StudentT("diag", tied=[(1, 0)]), None)):  # fmt: skip
        params = first.start(x, shares)
        matrices = first.arrays(params)["covars" if second else "scales"]
        np.testing.assert_array_equal(matrices[0], matrices[1])
        if second:
            np.testing.assert_allclose(second.arrays(second.start(x, shares))["covars"], matrices[0], rtol=1e-12)
            assert first.n_free(params) == second.n_free(second.start(x, shares)) == 4 + 3
    for tied in ([[0, 2]], [[0, 1], [1]], [[-1]]):
        with pytest.raises(InvalidInputError, match=r"tied must list states of 0\.\.1, each at most once"):
            Gaussian(tied=tied).start(x, shares)


@pytest.mark.parametrize(
    ("emission", "x", "message"),
    [
        (Gaussian(), [[1.0, np.inf]], r"column second must hold finite numbers.*got inf in row 0"),
        (StudentT(), [[1.0, -np.inf]], r"column second must hold finite numbers"),
        (Poisson(), [[1.0, 0.5]], r"column second must hold whole numbers of at least 0.*got 0\.5 in row 0; choose"),
        (NegativeBinomial(), [[-1.0, 0.5]], r"column first must hold whole numbers"),
        (Categorical(), [[np.inf, 0.5]], r"column first must hold whole numbers"),
        (Categorical(n_features=2), [[1.0, 2.0]], r"column second must hold categories below n_features, got 2 in row"),
        (Multinomial(), [[1.0, np.nan]], r"all there or all missing, got NaN only in column second of row 0: without"),
        (GaussianMixture(n_mix=0), [[1.0, 2.0]], r"n_mix must be an integer >= 1"),
        (Poisson(lambdas_weight=-1.0), [[1.0, 2.0]], r"lambdas_weight must be finite and at least 0, got -1"),
        (Poisson(lambdas_prior=np.nan), [[1.0, 2.0]], r"lambdas_prior must be finite and at least 0, got nan"),
        (NegativeBinomial(means_prior=0.0), [[1.0, 2.0]], r"means_prior must be finite and at least"),
        (Categorical(emissionprob_prior=0.5), [[1.0, 2.0]], r"emissionprob_prior must be finite and at least 1, got"),
        (Gaussian(means_weight=-2.0), [[1.0, 2.0]], r"means_weight must be finite and at least 0, got -2"),
        (Gaussian(fixed=["covariances"]), [[1.0, 2.0]], r"fixed must list some of 'means', 'covars', got"),
        (Gaussian(fixed="means"), [[1.0, 2.0]], r"fixed must list some of 'means', 'covars', got 'means'"),
        (StudentT(dof_bounds=(5.0, 1.0)), [[1.0, 2.0]], r"dof and dof_bounds must be finite.*got 5\.0 and \(5\.0, 1"),
        (Joined({0: Gaussian()}), [[1.0, 2.0]], r"emissions must name each column of 0\.\.1 once, got \[0\]"),
        (Joined({0: Gaussian(), (0, 1): Gaussian()}), [[1.0, 2.0]], r"each column of 0\.\.1 once, got \[0, 0, 1\]"),
        *(
            (CASES[name].emission, [[np.nan, np.nan if name == "multinomial" else 1.0]] * 3,
             r"column first must hold a value in some row to learn from, got none in 3 rows; leave")
            for name in FAMILIES
        ),
        (Gaussian(), np.zeros((0, 2)), r"column first must hold a value in some row to learn from, got none in 0 rows"),
    ],
)  # fmt: skip
def test_errors_of_training_say_what_to_do(emission, x, message):
    with pytest.raises(InvalidInputError, match=message):
        emission.learn(np.array(x), NAMES)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("full", {"means": np.zeros(2)}, r"means must have shape \(any, any\), got \(2,\)"),
        ("full", {"means": np.zeros((0, 2))}, r"means must have shape \(any, any\), got \(0, 2\)"),
        ("full", {"covars": np.zeros((2, 2))}, r"covars must have shape \(2, 2, 2\), got \(2, 2\)"),
        ("full", {"means": np.full((2, 2), np.nan)}, r"means must be finite, got nan"),
        ("full", {"covars": np.zeros((2, 2, 2))}, r"covariance of component 0 must be positive definite"),
        ("t full", {"dof": np.zeros(2)}, r"dof must be finite and at least 1e-06, got 0"),
        ("t full", {"scales": np.ones((2, 2))}, r"scales must have shape \(2, 2, 2\)"),
        ("poisson", {"lambdas": -np.ones((2, 2))}, r"lambdas must be finite and at least 0, got -1"),
        ("negative binomial", {"dispersions": np.zeros((2, 2))}, r"dispersions must be finite and at least 1e-12"),
        ("categorical", {"emissionprob": np.ones((2, 2, 3))}, r"emissionprob must sum to 1 over its last axis, got 3"),
        ("multinomial", {"emissionprob": np.ones((2, 2, 3))}, r"emissionprob must have shape \(any, any\)"),
        ("mixture diag", {"weights": np.ones((2, 2))}, r"weights must sum to 1 over its last axis, got 2"),
        ("mixture diag", {"means": np.ones((2, 3, 2))}, r"means must have shape \(any, 2, any\), got \(2, 3, 2\)"),
        ("mixture tied", {"covars": np.ones((2, 2, 2, 2))}, r"covars must have shape \(2, 2, 2\), got"),
        ("joined", {"first_lambdas": -np.ones((2, 1))}, r"lambdas must be finite and at least 0"),
    ],
)  # fmt: skip
def test_arrays_that_are_no_parameters_are_refused(name, change, message):
    with pytest.raises(InvalidInputError, match=message):
        CASES[name].emission.of_arrays({**CASES[name].arrays, **change})


def test_columns_of_one_name_are_refused():
    with pytest.raises(InvalidInputError, match=r"different names, got \['a', 'a'\]; rename one"):
        Joined({0: Gaussian(), 1: Gaussian()}).learn(np.zeros((2, 2)), ["a", "a"])
