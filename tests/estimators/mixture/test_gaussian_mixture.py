"""GaussianMixture: a drop-in for scikit-learn's, and what it adds."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Peer
from sklearn.utils.estimator_checks import parametrize_with_checks

from spectrem import E, GaussianMixture, part
from spectrem.estimators.mixture.input import _seeded_centres
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal

KINDS = ("full", "tied", "diag", "spherical")
ATTRIBUTES = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_")


def make_data(n=240, k=3, d=3, seed=0, apart=4.0):
    rng = np.random.default_rng(seed)
    z = rng.integers(k, size=n)
    return apart * rng.normal(size=(k, d))[z] + rng.normal(size=(n, d)), z


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:max_iter was reached")
@parametrize_with_checks([GaussianMixture(n_threads=1)])
def test_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random", "random_from_data"])
def test_fits_as_scikit_learn(kind, init):
    few = init in ("k-means++", "random_from_data")  # a row per component is all the start knows
    if few and kind == "tied":
        pytest.skip("scikit-learn divides the scatter of all rows by the number of those few")
    x, _ = make_data()
    # both starts of this one end alike but for the order of components: rounding would say which is kept
    n_init = 1 if (kind, init) == ("tied", "kmeans") else 2
    options = {"covariance_type": kind, "init_params": init, "random_state": 3, "n_init": n_init, "tol": 1e-2}
    ours, peer = GaussianMixture(3, n_threads=1, **options).fit(x), Peer(3, **options).fit(x)
    assert ours.n_iter_ == peer.n_iter_
    assert ours.converged_
    assert peer.converged_
    # scikit-learn starts from weights that sum to the share of the rows that the start knows
    np.testing.assert_allclose(ours.lower_bounds_[few:], peer.lower_bounds_[few:], rtol=1e-10)
    for name in ATTRIBUTES:
        np.testing.assert_allclose(getattr(ours, name), getattr(peer, name), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(x), peer.predict_proba(x), atol=1e-8)
    np.testing.assert_allclose(ours.score_samples(x), peer.score_samples(x), rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(x), peer.predict(x))
    np.testing.assert_array_equal(ours.labels_, peer.predict(x))
    for name in ("score", "aic", "bic"):
        np.testing.assert_allclose(getattr(ours, name)(x), getattr(peer, name)(x), rtol=1e-10)
    drawn, theirs = ours.sample(20), peer.sample(20)
    np.testing.assert_allclose(drawn[0], theirs[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(drawn[1], theirs[1])


@pytest.mark.parametrize("given", [("weights",), ("means",), ("precisions",), ("weights", "means", "precisions")])
def test_given_starts(given):
    x, _ = make_data()
    start = Peer(3, random_state=1).fit(x[:60])
    values = {"weights": start.weights_, "means": start.means_, "precisions": start.precisions_}
    options = {f"{name}_init": values[name] for name in given}
    ours = GaussianMixture(3, random_state=0, n_threads=1, **options).fit(x)
    peer = Peer(3, random_state=0, **options).fit(x)
    np.testing.assert_allclose(ours.lower_bound_, peer.lower_bound_, rtol=1e-10)


def test_no_iterations_keep_the_start():
    x, _ = make_data()
    ours, peer = GaussianMixture(3, max_iter=0, random_state=0).fit(x), Peer(3, max_iter=0, random_state=0).fit(x)
    np.testing.assert_allclose(ours.means_, peer.means_)
    assert (ours.n_iter_, ours.converged_, ours.lower_bound_) == (0, False, -np.inf)


@pytest.mark.filterwarnings("ignore:max_iter was reached")
def test_warm_start_goes_on():
    x, _ = make_data(apart=1.0)
    steps = GaussianMixture(3, max_iter=3, tol=0, warm_start=True, random_state=0)
    steps.fit(x).fit(x)
    whole = GaussianMixture(3, max_iter=6, tol=0, random_state=0).fit(x)
    np.testing.assert_array_equal(steps.means_, whole.means_)


def test_weights_and_removed_rows():
    x, _ = make_data()
    kept = np.arange(240) % 4 != 0
    start = Peer(3, random_state=1).fit(x)
    options = {"means_init": start.means_, "weights_init": start.weights_, "precisions_init": start.precisions_}
    ours = GaussianMixture(3, **options).fit(x, sample_weight=kept.astype(float))
    fewer = GaussianMixture(3, **options).fit(x[kept])
    np.testing.assert_allclose(ours.means_, fewer.means_, rtol=1e-10)
    np.testing.assert_allclose(ours.lower_bound_, fewer.lower_bound_, rtol=1e-12)


def test_partial_labels_name_the_components():
    x, z = make_data(apart=2.0)
    y = np.where(np.arange(240) < 30, z, -1)
    ours = GaussianMixture(3, partial_labels=True, random_state=0).fit(x, y)
    assert (ours.labels_[:30] == z[:30]).all()
    assert (ours.labels_ == z).mean() > 0.9


def test_one_label_seeds_its_component_only():
    x, z = make_data()
    y = np.where((np.arange(240) < 60) & (z == 2), 2, -1)
    ours = GaussianMixture(3, partial_labels=True, random_state=0).fit(x, y)
    assert (ours.predict(x)[z == 2] == 2).mean() > 0.95
    assert adjusted_rand_score(z, ours.labels_) > 0.9


def test_labelled_rows_seed_by_their_weight():
    x = np.array([[0.0], [9.0], [10.0], [1.0], [10.5], [9.5]])
    labels = np.array([0, 0, 1, -1, -1, -1])
    weights = np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    start = GaussianMixture(2, random_state=0, max_iter=0, partial_labels=True).fit(x, labels, sample_weight=weights)
    np.testing.assert_allclose(start.means_.ravel(), [0.5, 10.0])
    one = np.array([0, -1, -1, -1, -1, -1])
    drawn = {_seeded_centres(x, 2, weights, one, np.random.RandomState(seed))[1, 0] for seed in range(50)}
    assert 9.0 not in drawn


def test_targets_are_ignored_but_labels_noticed():
    x, z = make_data()
    plain = GaussianMixture(3, random_state=0).fit(x)
    np.testing.assert_array_equal(GaussianMixture(3, random_state=0).fit(x, z).means_, plain.means_)
    with pytest.warns(UserWarning, match="y looks like known components and is ignored: set partial_labels=True"):
        GaussianMixture(3, random_state=0).fit(x, np.where(z == 0, -1, z))


def test_hard_em_gives_proportions_of_whole_rows():
    x, _ = make_data()
    ours = GaussianMixture(3, gamma=0, random_state=0).fit(x)
    np.testing.assert_allclose(ours.weights_ * 240, np.round(ours.weights_ * 240), atol=1e-9)


def test_schedules_run_every_gamma():
    x, _ = make_data()
    ours = GaussianMixture(3, schedule=Anneal(0.25, alpha=2.0), random_state=0).fit(x)
    assert sorted({record.gamma for record in ours.history_}) == [1.0, 2.0, 4.0]
    assert ours.n_iter_ == len(ours.history_)


def test_threads_change_nothing():
    x, _ = make_data(n=9000)
    one, two = (GaussianMixture(3, random_state=0, n_threads=n).fit(x) for n in (1, 2))
    np.testing.assert_array_equal(one.covariances_, two.covariances_)
    assert one.lower_bounds_ == two.lower_bounds_


def test_sizes_under_constraints():
    x, _ = make_data(apart=1.0)
    ours = GaussianMixture(3, random_state=0, constraints=[E[...].per("label").between(75, 85)]).fit(x)
    sizes = ours.posteriors_.sum(axis=0)
    assert sizes.min() > 75 - 1e-3
    assert sizes.max() < 85 + 1e-3
    assert ours.history_[-1].penalty > 0
    objectives = [record.objective for record in ours.history_]
    assert all(after >= before - 1e-4 for before, after in pairwise(objectives))
    free = GaussianMixture(3, random_state=0).fit(x)
    assert np.bincount(free.labels_).min() < 75


@pytest.mark.parametrize("library", [None, "pandas", "polars"])
def test_groups_of_a_column(library):
    x, _ = make_data(n=60)
    make = dict if library is None else pytest.importorskip(library).DataFrame
    columns = make({"document": np.arange(60) // 3})
    unique = (E[...] <= 1).per("document", "label")
    ours = GaussianMixture(3, random_state=0, constraints=[unique]).fit(x, columns=columns)
    assert ours.posteriors_.reshape(20, 3, 3).sum(axis=1).max() < 1 + 1e-4


def test_weights_count_in_constraints():
    x, _ = make_data(n=60, apart=1.0)
    weights = np.where(np.arange(60) < 30, 2.0, 0.5)
    start = {
        "weights_init": np.full(2, 0.5),
        "means_init": x[:2],
        "precisions_init": np.repeat(np.eye(3)[None], 2, axis=0),
    }
    balanced = [E[part("label") == 0] <= 20]
    ours = GaussianMixture(2, constraints=balanced, max_iter=1, **start, tol=0).fit(x, sample_weight=weights)
    assert weights @ ours.posteriors_[:, 0] < 20 + 1e-3
    twice = np.concatenate([np.repeat(x[:30], 4, axis=0), x[30:]])
    doubled = [E[part("label") == 0] <= 40]
    wanted = GaussianMixture(2, constraints=doubled, max_iter=1, **start, tol=0).fit(twice)
    np.testing.assert_allclose(ours.means_, wanted.means_, atol=1e-4)
    np.testing.assert_allclose(ours.lower_bound_, wanted.lower_bound_, rtol=1e-6)


def test_weights_of_a_score_and_columns_at_prediction():
    x, _ = make_data(40)
    mixture = GaussianMixture(2, random_state=0, n_threads=1).fit(x)
    counts = np.arange(len(x)) % 3
    assert mixture.score(x, sample_weight=counts) == pytest.approx(mixture.score(np.repeat(x, counts, axis=0)))
    group = {"group": np.arange(len(x))}
    np.testing.assert_array_equal(mixture.predict(x, columns=group), mixture.predict(x))
    np.testing.assert_array_equal(mixture.predict_proba(x, columns=group), mixture.predict_proba(x))
    with pytest.raises(InvalidInputError, match="group"):
        mixture.predict(x, columns={"group": [1]})
    with pytest.raises(InvalidInputError, match="sample_weight must have shape"):
        mixture.score(x, sample_weight=[1.0])
