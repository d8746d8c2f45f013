"""Hard EM under bounds on sizes: with equal spheres it is balanced k-means, against one written out."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from spectrem import GaussianMixture
from spectrem.constraints import cluster_size
from spectrem.exceptions import InfeasibleConstraintError


def make(seed, n=60, d=2):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3, d)) * 4
    return centres[rng.choice(3, n, p=[0.6, 0.3, 0.1])] + rng.normal(size=(n, d)) * 1.5


def spheres(k, gamma, means, variance=1.0, **options):
    return GaussianMixture(
        k, covariance_type="spherical", fixed=("weights", "covariances"), weights_init=np.full(k, 1 / k),
        precisions_init=np.full(k, 1 / variance), means_init=means, gamma=gamma, tol=0, random_state=0, n_threads=1,
        **options,
    )  # fmt: skip


def balanced_kmeans(x, means, low, high, rounds):
    """Lloyd's iterations in which clusters are seats: ``low`` that must be taken and the rest up to ``high``."""
    n, k = len(x), len(means)
    large = 1e6
    for _ in range(rounds):
        distance = ((x[:, None] - means) ** 2).sum(axis=2)
        seats = np.repeat(np.arange(k), high)
        must = np.tile(np.arange(high) < low, k)
        chosen = linear_sum_assignment(distance[:, seats] - large * must)[1]
        labels = seats[chosen]
        means = np.array([x[labels == j].mean(axis=0) for j in range(k)])
    assert len(labels) == n
    return labels, means


def inertia(x, labels):
    return sum(((x[labels == j] - x[labels == j].mean(axis=0)) ** 2).sum() for j in np.unique(labels))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gamma", [0.0, -np.inf])
@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
def test_balanced_kmeans_whatever_the_variance(seed, gamma):
    x = make(seed)
    start = x[:3]
    labels, means = balanced_kmeans(x, start, 15, 25, 12)
    for variance in (0.2, 1.0, 30.0):
        rule = cluster_size(15, 25)
        found = spheres(3, gamma, start, variance, constraints=[rule], max_iter=12).fit(x)
        assert found.labels_.tolist() == labels.tolist()
        np.testing.assert_allclose(found.means_, means, rtol=1e-12)
        objectives = [record.objective for record in found.history_]
        assert np.diff(objectives).min() >= -1e-9 * abs(objectives[-1])
        np.testing.assert_allclose(found.weights_, 1 / 3)
        np.testing.assert_allclose(found.covariances_, variance)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_labels_are_the_posteriors_and_meet_the_sizes(kind, gamma):
    x = make(5)
    settings = {
        "covariance_type": kind, "gamma": gamma, "constraints": [cluster_size(15, 25)], "random_state": 0,
        "n_threads": 1, "reg_covar": 1e-2,
    }  # fmt: skip
    found = GaussianMixture(3, **settings).fit(x)
    assert set(np.unique(found.posteriors_)) <= {0.0, 1.0}
    sizes = np.bincount(found.labels_, minlength=3)
    assert sizes.min() >= 15
    assert sizes.max() <= 25
    assert found.labels_.tolist() == found.posteriors_.argmax(axis=1).tolist()
    assert found.labels_.tolist() == GaussianMixture(3, assign="feasible", **settings).fit(x).labels_.tolist()
    assert all(record.violation == 0 for record in found.history_)
    assert np.diff(found.lower_bounds_).min(initial=0.0) >= -1e-9


def test_the_report_has_prices_at_zero():
    x = make(1)
    found = spheres(3, 0.0, None, constraints=[cluster_size(20, 20)]).fit(x)
    (table,) = found.report_.constraints
    assert "cluster size" in found.report_.summary()
    np.testing.assert_allclose(table.after, 20)
    assert np.abs(table.price).max() > 0


@pytest.mark.parametrize("weight", [0.5, 3.0])
@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
def test_rows_of_one_weight_are_as_many_rows(weight):
    x = make(2)
    plain = spheres(3, 0.0, x[:3], constraints=[cluster_size(15, 25)], max_iter=5).fit(x)
    weighed = spheres(3, 0.0, x[:3], constraints=[cluster_size(15 * weight, 25 * weight)], max_iter=5)
    weighed.fit(x, sample_weight=np.full(len(x), weight))
    assert weighed.labels_.tolist() == plain.labels_.tolist()
    assert weighed.lower_bound_ == pytest.approx(plain.lower_bound_, rel=1e-12)


def test_more_starts_find_clusters_that_are_no_worse():
    x = make(3, n=200)
    one, many = (
        spheres(4, 0.0, None, constraints=[cluster_size(40, 60)], init_params="k-means++", n_init=starts).fit(x)
        for starts in (1, 8)
    )
    assert inertia(x, many.labels_) <= inertia(x, one.labels_) + 1e-9


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_sizes_between_whole_numbers(gamma):
    x = make(4, n=10)
    found = spheres(2, gamma, x[:2], constraints=[cluster_size(4.5, 5.5)]).fit(x)
    sizes = np.sort(found.posteriors_.sum(axis=0))
    assert sizes[0] >= 4.5 - 1e-9
    if gamma == -np.inf:
        assert sizes.tolist() == [5, 5]
    with pytest.raises(InfeasibleConstraintError):
        spheres(2, gamma, x[:2], constraints=[cluster_size(max=4)]).fit(x)
