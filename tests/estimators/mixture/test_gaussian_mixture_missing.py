"""GaussianMixture on tables with missing values."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.utils import get_tags

import spectrem
from spectrem import GaussianMixture
from spectrem.constraints import cannot_link, cluster_size, must_link
from spectrem.exceptions import InvalidInputError

KINDS = ("full", "tied", "diag", "spherical")
CENTRES = np.array([[-4.0, 0.0, 2.0], [4.0, 1.0, -2.0]])


def make_data(n=400, share=0.3, seed=0):
    """Complete rows around two centres, with missing cells, and the centre of each."""
    rng = np.random.default_rng(seed)
    components = rng.integers(2, size=n)
    complete = CENTRES[components] + rng.normal(size=(n, 3)) @ [[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 1.0]]
    return complete, np.where(rng.uniform(size=complete.shape) < share, np.nan, complete), components


def fitted(x, kind="full", k=2, **options):
    return GaussianMixture(k, covariance_type=kind, random_state=0, n_threads=1, **options).fit(x)


def same_clusters(labels, components):
    return max((labels == components).mean(), (labels != components).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_are_found(kind):
    complete, x, components = make_data()
    mixture = fitted(x, kind, tol=1e-8)
    means, wanted = (one.means_[np.argsort(one.means_[:, 0])] for one in (mixture, fitted(complete, kind)))
    np.testing.assert_allclose(means, wanted, atol=0.3)
    assert same_clusters(mixture.labels_, components) > 0.9
    np.testing.assert_array_equal(mixture.predict(x), mixture.labels_)
    np.testing.assert_allclose(mixture.predict_proba(x).sum(axis=1), 1.0)
    assert mixture.report_.to_html()


def test_scores_are_those_of_the_observed_values():
    _, x, _ = make_data(n=60)
    mixture = fitted(x)
    wanted = []
    for row in x:
        seen = np.flatnonzero(~np.isnan(row))
        densities = [
            multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[seen]) if len(seen) else 0.0
            for mean, covariance in zip(mixture.means_, mixture.covariances_, strict=True)
        ]
        wanted.append(logsumexp(np.log(mixture.weights_) + densities))
    np.testing.assert_allclose(mixture.score_samples(x), wanted, rtol=1e-9)
    assert mixture.score(x) == pytest.approx(np.mean(wanted))


@pytest.mark.parametrize("kind", KINDS)
def test_imputed_values_are_nearer_than_means(kind):
    complete, x, _ = make_data()
    gaps = np.isnan(x)
    imputed = fitted(x, kind).impute(x)
    np.testing.assert_array_equal(imputed[~gaps], x[~gaps])
    means = np.broadcast_to(np.nanmean(x, axis=0), x.shape)
    assert ((imputed - complete)[gaps] ** 2).mean() < 0.5 * ((means - complete)[gaps] ** 2).mean()


def test_imputing_a_whole_row_gives_the_mean_of_the_mixture():
    mixture = fitted(make_data()[1])
    np.testing.assert_allclose(mixture.impute([[np.nan] * 3])[0], mixture.weights_ @ mixture.means_)


def test_float32_stays_float32():
    _, x, _ = make_data()
    mixture = fitted(x.astype(np.float32))
    assert mixture.means_.dtype == mixture.impute(x.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(mixture.means_, fitted(x).means_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random", "random_from_data"])
def test_every_start_takes_missing_values(init):
    _, x, components = make_data(share=0.2)
    mixture = fitted(x, init_params=init, n_init=3, max_iter=300)
    assert np.isfinite(mixture.lower_bound_)
    assert same_clusters(mixture.labels_, components) > 0.9


def test_starts_see_the_weighted_means_of_columns():
    x = np.array([[0.0, 1.0], [2.0, np.nan], [9.0, 4.0]])
    start = GaussianMixture(1, max_iter=0, random_state=0).fit(x, sample_weight=[1.0, 1.0, 2.0])
    np.testing.assert_allclose(start.means_, [[5.0, 3.0]])


def test_weights_stand_for_repeated_rows():
    _, x, _ = make_data(n=100)
    times = np.random.default_rng(1).integers(0, 3, 100)
    means = {"means_init": CENTRES, "weights_init": [0.5, 0.5], "precisions_init": [np.eye(3)] * 2}
    weighted = GaussianMixture(2, **means, tol=1e-9).fit(x, sample_weight=times)
    repeated = GaussianMixture(2, **means, tol=1e-9).fit(np.repeat(x, times, axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-8)
    np.testing.assert_allclose(weighted.covariances_, repeated.covariances_, rtol=1e-7, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_goes_on_and_partial_labels_hold():
    _, x, components = make_data()
    known = np.where(np.arange(len(x)) < 20, components, -1)
    mixture = GaussianMixture(2, partial_labels=True, warm_start=True, max_iter=3, random_state=0).fit(x, known)
    first = mixture.lower_bound_
    assert mixture.fit(x, known).lower_bound_ >= first
    np.testing.assert_array_equal(mixture.labels_[:20], components[:20])
    assert (mixture.labels_ == components).mean() > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_constraints_hold(kind):
    _, x, _ = make_data(n=60)
    x[3] = np.nan
    links = [must_link([[0, 3], [3, 5]]), cannot_link([[0, 2]]), cluster_size(25, 35)]
    mixture = fitted(x, kind, constraints=links, assign="feasible")
    labels = mixture.labels_
    assert labels[0] == labels[3] == labels[5] != labels[2]
    assert 25 <= labels.sum() <= 35
    sizes = mixture.posteriors_.sum(axis=0)
    assert ((sizes > 24.9) & (sizes < 35.1)).all()


def test_threads_and_saved_mixtures_agree(tmp_path):
    _, x, _ = make_data(n=9000)
    one, two = (GaussianMixture(2, random_state=0, n_threads=n).fit(x) for n in (1, 2))
    np.testing.assert_array_equal(one.means_, two.means_)
    one.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(spectrem.load(tmp_path / "m.npz").impute(x), one.impute(x))


def test_complete_tables_are_treated_as_before():
    complete, _, _ = make_data()
    mixture = fitted(complete)
    np.testing.assert_array_equal(mixture.impute(complete), complete)
    assert get_tags(mixture).input_tags.allow_nan


@pytest.mark.parametrize(
    ("x", "weights", "message"),
    [
        ([[np.nan, 1.0], [np.nan, 2.0]], None, "got NaN throughout column 0; leave the column out"),
        ([[np.nan, np.nan]] * 2, None, "X must have a value in every column, in rows of positive weight, got NaN"),
        ([[1.0, 1.0], [2.0, np.nan], [3.0, np.nan]], [0, 1, 1], "got NaN throughout column 1; leave the column out"),
    ],
)
def test_columns_without_values_are_refused(x, weights, message):
    with pytest.raises(InvalidInputError) as error:
        GaussianMixture().fit(x, sample_weight=weights)
    assert message in str(error.value)


def test_the_name_of_a_column_without_values_is_said():
    polars = pytest.importorskip("polars")
    with pytest.raises(InvalidInputError, match="throughout column 'width'; leave the column out"):
        GaussianMixture().fit(polars.DataFrame({"length": [1.0, 2.0], "width": [np.nan, None]}))


def test_infinite_values_are_refused():
    with pytest.raises(ValueError, match="contains infinity"):
        GaussianMixture().fit([[np.inf, 1.0], [np.nan, 2.0]])
