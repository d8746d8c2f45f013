"""GaussianMixture with fixed and bounded parameters: settings, starts, and what it refuses."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

from spectrem import GaussianMixture
from spectrem.constraints import cluster_size
from spectrem.exceptions import InvalidInputError

KINDS = ("full", "tied", "diag", "spherical")
X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [3.0, 1.0]], 30, axis=0)


def error_of(call):
    with pytest.raises(InvalidInputError) as error:
        call()
    return str(error.value)


def variances_of(mixture):
    return np.linalg.eigvalsh(mixture.covariances_) if mixture.covariances_.ndim > 1 else mixture.covariances_


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["kmeans", "random"])
def test_bounds_hold_from_the_start_to_the_end(kind, init):
    options = {
        "covariance_type": kind, "init_params": init, "weights_bounds": (0.4, None), "random_state": 0,
        "means_bounds": ([0.5, -np.inf], None), "variances_bounds": (0.8, [1.2, 1.5] if kind == "full" else 1.2),
        "n_threads": 1,
    }  # fmt: skip
    for max_iter in (0, 100):
        mixture = GaussianMixture(2, max_iter=max_iter, **options).fit(X)
        assert mixture.weights_.min() >= 0.4 - 1e-12
        assert mixture.means_[:, 0].min() >= 0.5
        values = variances_of(mixture) if kind in ("full", "tied") else mixture.covariances_
        assert values.min() >= 0.8 - 1e-9
        assert (values <= np.reshape([1.2, 1.5], (2, 1)) + 1e-9 if kind == "full" else values <= 1.2 + 1e-9).all()
    objectives = [record.objective for record in mixture.history_]
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(objectives))


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_and_constraints_together(kind):
    mixture = GaussianMixture(
        2, covariance_type=kind, constraints=[cluster_size(28)], means_bounds=(None, 2.0), fixed=["weights"],
        weights_init=[0.5, 0.5], random_state=0, tol=1e-4, n_threads=1,
    ).fit(X)  # fmt: skip
    assert mixture.weights_.tolist() == [0.5, 0.5]
    assert mixture.means_.max() <= 2.0
    assert mixture.posteriors_.sum(axis=0).min() > 28 - 1e-3
    objectives = [record.objective for record in mixture.history_]
    assert all(after >= before - 1e-5 * abs(before) for before, after in pairwise(objectives))


def test_fixed_parameters_stay_where_they_start():
    start = GaussianMixture(2, max_iter=0, random_state=0, n_threads=1).fit(X)
    for name in ("weights", "means", "covariances"):
        mixture = GaussianMixture(2, fixed=[name], random_state=0, tol=1e-6, n_threads=1).fit(X)
        np.testing.assert_array_equal(getattr(mixture, f"{name}_"), getattr(start, f"{name}_"))
        others = {"weights", "means", "covariances"} - {name}
        assert all((getattr(mixture, f"{other}_") != getattr(start, f"{other}_")).any() for other in others)
    means = [[0.0, 0.0], [2.0, 2.0]]
    mixture = GaussianMixture(2, fixed=("means",), means_init=means, random_state=0, n_threads=1).fit(X)
    assert mixture.means_.tolist() == means
    everything = GaussianMixture(2, fixed=("weights", "means", "covariances"), random_state=0, n_threads=1).fit(X)
    assert everything.converged_
    np.testing.assert_array_equal(everything.means_, start.means_)


def test_one_entry_is_fixed_by_equal_ends():
    mixture = GaussianMixture(
        2, covariance_type="diag", weights_bounds=([0.3, 0], [0.3, 1]),
        variances_bounds=([[0.5, 0], [0, 0]], [[0.5, np.inf], [np.inf, np.inf]]), random_state=0, n_threads=1,
    ).fit(X)  # fmt: skip
    np.testing.assert_allclose(mixture.weights_, [0.3, 0.7], rtol=1e-12)
    assert mixture.covariances_[0, 0] == 0.5
    assert len(np.unique(mixture.covariances_)) == 4


def test_no_bounds_are_no_change():
    plain = GaussianMixture(2, random_state=0, n_threads=1).fit(X)
    loose = GaussianMixture(
        2, weights_bounds=(0, None), means_bounds=(-np.inf, None), variances_bounds=(0, np.inf), random_state=0,
        n_threads=1,
    ).fit(X)  # fmt: skip
    np.testing.assert_allclose(loose.covariances_, plain.covariances_, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "free"),
    [
        ({"fixed": ["weights"]}, 10),
        ({"fixed": ["means"]}, 7),
        ({"fixed": ["covariances"]}, 5),
        ({"means_bounds": ([[0, -9], [-9, -9]], [[0, 9], [9, 9]])}, 10),
        ({"weights_bounds": (0.5, 0.5)}, 10),
        ({"variances_bounds": ([1, 0.1], [1, 9])}, 8),
        ({"fixed": ["weights", "means", "covariances"]}, 0),
    ],
)
def test_criteria_count_free_parameters_only(options, free):
    mixture = GaussianMixture(2, random_state=0, n_threads=1, **options).fit(X)
    total = mixture.score_samples(X).sum()
    np.testing.assert_allclose(mixture.aic(X), -2 * total + 2 * free)
    np.testing.assert_allclose(mixture.bic(X), -2 * total + free * np.log(60))


def test_given_starts_outside_are_moved_and_said_to_be():
    options = {"means_init": [[5.0, 0.0], [0.0, 0.0]], "means_bounds": (None, 2.0), "max_iter": 0, "random_state": 0}
    with pytest.warns(UserWarning, match="means_init") as caught:
        mixture = GaussianMixture(2, n_threads=1, **options).fit(X)
    assert [str(one.message) for one in caught] == [
        "means_init lies outside means_bounds; EM starts from the nearest point within"
    ]
    assert caught[0].filename == __file__
    assert mixture.means_.tolist() == [[2.0, 0.0], [0.0, 0.0]]
    with pytest.warns(UserWarning, match="weights_init lies outside weights_bounds"):
        mixture = GaussianMixture(2, weights_init=[0.9, 0.1], weights_bounds=(0.2, 1), max_iter=0, random_state=0).fit(
            X
        )
    np.testing.assert_allclose(mixture.weights_, [0.8, 0.2])
    with pytest.warns(UserWarning, match="precisions_init lies outside variances_bounds"):
        GaussianMixture(
            2, covariance_type="spherical", precisions_init=[0.1, 1.0], variances_bounds=(None, 2), random_state=0
        ).fit(X)


def test_warm_start_moves_into_new_bounds():
    mixture = GaussianMixture(2, warm_start=True, random_state=0, n_threads=1).fit(X)
    mixture.set_params(weights_bounds=(0.45, None), max_iter=0).fit(X)
    assert mixture.weights_.min() >= 0.45 - 1e-12


def test_clone():
    mixture = GaussianMixture(2, fixed=("means",), weights_bounds=(0.1, None), variances_bounds=(1, 2))
    assert repr(clone(mixture).get_params()) == repr(mixture.get_params())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fixed": "means"}, "fixed must be a sequence of names, got 'means'; write fixed=['means']"),
        ({"fixed": ["variances"]}, "fixed must name some of weights, means, covariances; got 'variances'"),
        (
            {"fixed": ["covariances"], "variances_bounds": (1, 2)},
            "covariances must not be fixed and bounded at once, got fixed=['covariances'] and variances_bounds; drop "
            "one",
        ),
        (
            {"means_bounds": 3},
            "means_bounds must be a pair (low, high), got 3; None for no bound, as in (0, None)",
        ),
        (
            {"means_bounds": ([1, 2, 3], None)},
            "means_bounds: low must be a number or an array that broadcasts to (n_components, n_features) = (2, 2), "
            "got shape (3,)",
        ),
        (
            {"means_bounds": ("a", None)},
            "means_bounds: low must be a number or an array that broadcasts to (n_components, n_features) = (2, 2), "
            "got 'a'",
        ),
        (
            {"means_bounds": ([[1], [2, 3]], None)},
            "means_bounds: low must be a number or an array that broadcasts to (n_components, n_features) = (2, 2), "
            "got rows of different lengths",
        ),
        (
            {"means_bounds": ([np.nan, 0], None)},
            "means_bounds: low must not be NaN; write -inf or inf where there is no bound",
        ),
        (
            {"means_bounds": ([0, 3], 2)},
            "means_bounds: low must not be above high, got 3 and 2 at [0, 1]; swap them",
        ),
        (
            {"means_bounds": (np.inf, np.inf)},
            "means_bounds: low must be below inf and high above -inf; write (-inf, inf) for no bound",
        ),
        (
            {"weights_bounds": (0.6, 1)},
            "weights_bounds: the lowest proportions sum to 1.2, more than 1; lower some, or n_components",
        ),
        (
            {"weights_bounds": (0, [0.3, 0.4])},
            "weights_bounds: the highest proportions sum to 0.7, less than 1; raise some, or n_components",
        ),
        (
            {"weights_bounds": (-2, -1)},
            "weights_bounds must be proportions in [0, 1], got low 0 and high -1",
        ),
        (
            {"variances_bounds": (-1, 0)},
            "variances_bounds: high must be positive, got 0; None stands for no bound",
        ),
        (
            {"variances_bounds": (np.ones((2, 2)), None)},
            "variances_bounds: low must be a number or an array that broadcasts to (n_components,), bounds of "
            "eigenvalues, = (2,), got shape (2, 2)",
        ),
        (
            {"variances_bounds": (3, 2), "covariance_type": "tied"},
            "variances_bounds: low must not be above high, got 3 and 2; swap them",
        ),
        (
            {"variances_bounds": ([1, 2], None), "covariance_type": "tied"},
            "variances_bounds: low must be a number or an array that broadcasts to (), a number that bounds "
            "eigenvalues, = (), got shape (2,)",
        ),
    ],
)
def test_settings_that_cannot_be_meant(options, message):
    assert error_of(lambda: GaussianMixture(2, **options).fit(X)) == message
