"""Mixtures of rows with missing values, against the conditional normal distributions of each row, written plainly."""

from dataclasses import replace

import numpy as np
import pytest
from esteps import by_kernel, in_general
from scipy.stats import multivariate_normal

from spectrem.corpus import Local
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.mixture import (
    Bounds,
    MixtureModel,
    build_shards,
    from_covariances,
    impute,
    log_joint,
)

KINDS = ("full", "tied", "diag", "spherical")


def make_params(kind, k=3, d=4, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(k, d, d))
    full = roots @ np.swapaxes(roots, 1, 2) + 0.3 * np.eye(d)
    covariances = {
        "full": full,
        "tied": full[0],
        "diag": rng.uniform(0.2, 3.0, (k, d)),
        "spherical": rng.uniform(0.2, 3.0, k),
    }[kind]
    means = rng.normal(0, 3, (k, d))
    return from_covariances(kind, rng.dirichlet(np.full(k, 5.0)), scale * means, scale**2 * covariances)


def dense(params):
    """Covariances as matrices, shape (n_components, d, d)."""
    k, d = params.means.shape
    shaped = {"full": (k, d, d), "tied": (1, d, d), "diag": (k, d, 1), "spherical": (k, 1, 1)}[params.covariance_type]
    matrices = params.covariances.reshape(shaped)
    return np.broadcast_to(matrices if params.covariance_type in ("full", "tied") else matrices * np.eye(d), (k, d, d))


def draw(params, n, share, seed=0):
    """Rows of the mixture, complete, and with a share of their cells missing; their components."""
    rng = np.random.default_rng(seed)
    components = rng.choice(len(params.weights), n, p=params.weights)
    roots = np.linalg.cholesky(dense(params))
    complete = params.means[components] + np.einsum(
        "nji,ni->nj", roots[components], rng.normal(size=(n, roots.shape[1]))
    )
    return complete, np.where(rng.uniform(size=complete.shape) < share, np.nan, complete), components


def condition(params, row, k):
    """Mean and covariance of a whole row in component k, given its observed values."""
    covariance, mean = dense(params)[k], params.means[k]
    seen, lost = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
    slopes = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, lost)]).T
    filled, spread = row.copy(), np.zeros_like(covariance)
    filled[lost] = mean[lost] + slopes @ (row[seen] - mean[seen])
    spread[np.ix_(lost, lost)] = covariance[np.ix_(lost, lost)] - slopes @ covariance[np.ix_(seen, lost)]
    return filled, spread


def plain_log_joint(params, x):
    out = np.tile(np.log(params.weights), (len(x), 1))
    for n, row in enumerate(x):
        seen = np.flatnonzero(~np.isnan(row))
        for k, covariance in enumerate(dense(params)):
            if len(seen):
                normal = multivariate_normal(params.means[k, seen], covariance[np.ix_(seen, seen)])
                out[n, k] += normal.logpdf(row[seen])
    return out


def plain_moments(params, x, shares):
    """Counts, sums of deviations from means and of their outer products (about the centre too), by rows."""
    k, d = params.means.shape
    first, second, whole = np.zeros((k, d)), np.zeros((k, d, d)), np.zeros((d, d))
    for n, row in enumerate(x):
        for j in range(k):
            filled, spread = condition(params, row, j)
            apart, central = filled - params.means[j], filled - params.weights @ params.means
            first[j] += shares[n, j] * apart
            second[j] += shares[n, j] * (np.outer(apart, apart) + spread)
            whole += shares[n, j] * (np.outer(central, central) + spread)
    return shares.sum(axis=0), first, second, whole


def fit(kind, x, start, iterations=8, rows=4096, threads=1, bounds=None, **options):
    model = MixtureModel(len(start.weights), kind, bounds=bounds or Bounds(), **options)
    corpus = Local(build_shards(x, rows=rows), threads)
    return run_em(model, corpus, start, EStep(kernel=model), stopping=Stopping(iterations, 0.0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_densities_are_those_of_the_observed_values(kind, share):
    params = make_params(kind)
    _, x, _ = draw(params, 300, share)
    np.testing.assert_allclose(log_joint(params, x), plain_log_joint(params, x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_moments_are_expected_over_the_missing_values(kind, share):
    params = make_params(kind)
    _, x, _ = draw(params, 300, share)
    shares = np.random.default_rng(1).uniform(size=(300, 3))
    stats = MixtureModel(3, kind).moments(params, build_shards(x)[0], shares)
    counts, first, second, whole = plain_moments(params, x, shares)
    wanted = {"full": np.tril(second), "tied": np.tril(whole)}.get(kind, np.diagonal(second, axis1=1, axis2=2))
    np.testing.assert_allclose(stats.counts, counts)
    np.testing.assert_allclose(stats.first, first, rtol=1e-9, atol=1e-9)
    received = np.tril(stats.second) if kind in ("full", "tied") else stats.second
    np.testing.assert_allclose(received, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_imputed_values_are_expected_ones(kind):
    params = make_params(kind)
    _, x, _ = draw(params, 200, 0.4)
    posteriors = np.random.default_rng(1).dirichlet(np.ones(3), 200)
    wanted = [
        sum(p * condition(params, row, k)[0] for k, p in enumerate(of)) for row, of in zip(x, posteriors, strict=True)
    ]
    imputed = impute(params, x, posteriors)
    np.testing.assert_allclose(imputed, wanted, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(imputed[~np.isnan(x)], x[~np.isnan(x)])


@pytest.mark.parametrize("kind", KINDS)
def test_many_features_and_patterns(kind):
    params = make_params(kind, k=2, d=70)
    _, x, _ = draw(params, 150, 0.3)
    np.testing.assert_allclose(log_joint(params, x), plain_log_joint(params, x), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_complete_rows_beside_others_keep_their_densities(kind):
    params = make_params(kind, d=6)
    complete, x, _ = draw(params, 500, 0.1)
    kept = ~np.isnan(x).any(axis=1)
    assert 0 < kept.sum() < 500
    # sums of the same terms, which the compiler may join to products otherwise where there are gaps
    np.testing.assert_array_max_ulp(log_joint(params, x)[kept], log_joint(params, complete)[kept], maxulp=8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
def test_compiled_path_is_the_general_one(kind, gamma):
    params = make_params(kind)
    _, x, _ = draw(params, 300, 0.3)
    rng = np.random.default_rng(3)
    labels = np.where(rng.uniform(size=300) < 0.1, rng.integers(3, size=300), -1)
    shards, model = build_shards(x, rng.uniform(0, 2, 300), labels, rows=90), MixtureModel(3, kind)
    compiled, general = by_kernel(model, params, gamma, shards), in_general(model, params, gamma, shards)
    for ours, theirs in zip(compiled, general, strict=True):
        np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-12)
        for name in ("counts", "first", "second"):
            np.testing.assert_allclose(getattr(ours.stats, name), getattr(theirs.stats, name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("bounded", [False, True])
def test_the_log_likelihood_never_falls(kind, share, bounded):
    params = make_params(kind)
    _, x, _ = draw(params, 400, share)
    bounds = Bounds(means=(np.full((3, 4), -2.0), np.full((3, 4), 2.0)), weights=(np.full(3, 0.2), np.ones(3)))
    start = replace(make_params(kind, seed=5), means=np.clip(params.means + 1.0, -2, 2), weights=np.full(3, 1 / 3))
    history = fit(kind, x, start, 20, bounds=bounds if bounded else None, reg_covar=0.0).history
    gains = np.diff([record.objective for record in history])
    assert (gains > -1e-9 * abs(history[-1].objective)).all()
    assert gains[0] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_is_recovered(kind):
    planted = make_params(kind, k=2, d=4, seed=3)
    planted = replace(planted, means=np.array([[-3.0, 0, 2, 1], [3.0, 1, -2, 0]]), weights=np.array([0.4, 0.6]))
    _, x, _ = draw(planted, 20_000, 0.3)
    start = replace(planted, means=planted.means / 2, weights=np.full(2, 0.5))
    learned = fit(kind, x, start, 60).params
    np.testing.assert_allclose(learned.weights, planted.weights, atol=0.02)
    np.testing.assert_allclose(learned.means, planted.means, atol=0.15)
    np.testing.assert_allclose(learned.covariances, planted.covariances, rtol=0.05, atol=0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_any_value_change_nothing(kind):
    """They belong to components by proportions and add what is there already: EM ends at the same parameters."""
    params = replace(make_params(kind, k=2, d=2), means=np.array([[-5.0, 1.0], [5.0, 0.0]]))
    _, x, _ = draw(params, 200, 0.2)
    more = np.concatenate([x, np.full((50, 2), np.nan)])
    np.testing.assert_allclose(log_joint(params, more)[200:], np.tile(np.log(params.weights), (50, 1)), rtol=1e-12)
    alone, beside = (fit(kind, rows, params, 100, reg_covar=0.0).params for rows in (x, more))
    for name in ("weights", "means", "covariances"):
        np.testing.assert_allclose(getattr(beside, name), getattr(alone, name), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exponent", [-150, 150])
def test_scales_of_the_data_change_nothing_else(kind, exponent):
    scale = 2.0 ** round(exponent / np.log10(2))
    _, x, _ = draw(make_params(kind), 300, 0.3)
    one = fit(kind, x, make_params(kind, seed=5), 5, reg_covar=0.0)
    other = fit(kind, scale * x, make_params(kind, seed=5, scale=scale), 5, reg_covar=0.0)
    np.testing.assert_allclose(other.params.means / scale, one.params.means, rtol=1e-9)
    np.testing.assert_allclose(other.params.covariances / scale / scale, one.params.covariances, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pattern_seen_once_and_an_entry_observed_alone(kind):
    params = make_params(kind)
    x = np.full((3, 4), np.nan)
    x[0, 2], x[1] = 1.5, [1.0, 2.0, np.nan, 0.0]
    np.testing.assert_allclose(log_joint(params, x), plain_log_joint(params, x), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_shards_and_threads_agree(kind):
    params = make_params(kind)
    _, x, _ = draw(params, 700, 0.3)
    start = make_params(kind, seed=5)
    one, threaded, whole = fit(kind, x, start, rows=100), fit(kind, x, start, rows=100, threads=2), fit(kind, x, start)
    np.testing.assert_array_equal(one.params.means, threaded.params.means)
    np.testing.assert_array_equal(one.params.covariances, threaded.params.covariances)
    np.testing.assert_allclose(whole.params.means, one.params.means, rtol=1e-8, atol=1e-10)
