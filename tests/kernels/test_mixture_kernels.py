"""Log-densities and moments of Gaussians against sums written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from spectrem.kernels import gaussian
from spectrem.models.mixture import MixtureParameters, from_covariances, from_precisions, log_joint

KINDS = ("full", "tied", "diag", "spherical")


def random_params(kind, k, d, rng):
    roots = rng.normal(size=(k, d, d))
    matrices = roots @ np.swapaxes(roots, 1, 2) + 0.3 * np.eye(d)
    covariances = {
        "full": matrices,
        "tied": matrices[0],
        "diag": rng.uniform(0.2, 3.0, (k, d)),
        "spherical": rng.uniform(0.2, 3.0, k),
    }[kind]
    return from_covariances(kind, rng.dirichlet(np.ones(k)), rng.normal(0, 3, (k, d)), covariances)


def dense(params):
    """Covariances as matrices, shape (n_components, d, d)."""
    k, d = params.means.shape
    return {
        "full": lambda c: c,
        "tied": lambda c: np.repeat(c[None], k, axis=0),
        "diag": lambda c: np.stack([np.diag(own) for own in c]),
        "spherical": lambda c: c[:, None, None] * np.eye(d),
    }[params.covariance_type](params.covariances)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "k", "d"), [(1, 1, 1), (3, 2, 5), (128, 3, 4), (129, 4, 7)])
def test_log_joint_is_that_of_scipy(kind, n, k, d):
    rng = np.random.default_rng(n + d)
    params, x = random_params(kind, k, d, rng), rng.normal(0, 3, (n, d))
    wanted = np.stack(
        [
            np.log(params.weights[j]) + np.atleast_1d(multivariate_normal(params.means[j], dense(params)[j]).logpdf(x))
            for j in range(k)
        ],
        axis=1,
    )
    np.testing.assert_allclose(log_joint(params, x), wanted, rtol=1e-11, atol=1e-11)


@given(st.integers(1, 300), st.integers(1, 4), st.integers(1, 9), st.integers(0, 10**6))
def test_moments_are_the_sums(n, k, d, seed):
    rng = np.random.default_rng(seed)
    x, shares, means = rng.normal(size=(n, d)), rng.uniform(size=(n, k)), rng.normal(size=(k, d))
    apart = x[:, None] - means
    first = np.einsum("nk,nkj->kj", shares, apart)
    second = np.einsum("nk,nkj,nki->kji", shares, apart, apart)
    full = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    gaussian.full_moments(x, shares, means, *full)
    np.testing.assert_allclose(full[0], shares.sum(axis=0))
    np.testing.assert_allclose(full[1], first, atol=1e-11)
    np.testing.assert_allclose(np.tril(full[2]), np.tril(second), atol=1e-11)
    diagonal = np.zeros(k), np.zeros((k, d)), np.zeros((k, d))
    gaussian.diagonal_moments(x, shares, means, False, means, *diagonal)
    np.testing.assert_allclose(diagonal[0], shares.sum(axis=0))
    np.testing.assert_allclose(diagonal[1], first, atol=1e-11)
    np.testing.assert_allclose(diagonal[2], np.diagonal(second, axis1=1, axis2=2), atol=1e-11)


def test_data_far_from_the_origin_lose_no_digits():
    rng = np.random.default_rng(0)
    x, params = rng.integers(-8, 8, (50, 3)) / 4.0, random_params("tied", 2, 3, rng)
    means = np.round(params.means * 4) / 4
    near = MixtureParameters("tied", np.full(2, 0.5), means, params.covariances, params.precisions_cholesky)
    far = MixtureParameters("tied", np.full(2, 0.5), means + 2.0**40, params.covariances, params.precisions_cholesky)
    np.testing.assert_allclose(log_joint(far, x + 2.0**40), log_joint(near, x), rtol=1e-12)


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.5])
def test_soft_pass(gamma):
    rng = np.random.default_rng(1)
    scores, weights, values = rng.normal(size=(6, 3)) * 500, rng.uniform(size=6), np.empty(6)
    scores[0, 1] = scores[5] = -np.inf
    given = scores.copy()
    gaussian.soft_pass(scores, gamma, weights, values)
    tops = given[:5].max(axis=1, keepdims=True)
    odds = np.exp((given[:5] - tops) / gamma)
    np.testing.assert_allclose(values[:5], tops[:, 0] + gamma * np.log(odds.sum(axis=1)))
    np.testing.assert_allclose(scores[:5], weights[:5, None] * odds / odds.sum(axis=1, keepdims=True))
    assert values[5] == -np.inf
    assert not scores[5].any()


def test_hard_pass_takes_the_first_best():
    scores, values = np.array([[1.0, 2.0, 2.0], [-np.inf] * 3]), np.empty(2)
    gaussian.hard_pass(scores, np.array([3.0, 1.0]), values)
    assert scores.tolist() == [[0.0, 3.0, 0.0], [0.0] * 3]
    assert values.tolist() == [2.0, -np.inf]


@pytest.mark.parametrize("kind", KINDS)
def test_precisions_and_covariances_are_inverse(kind):
    params = random_params(kind, 3, 4, np.random.default_rng(2))
    back = from_precisions(kind, params.weights, params.means, params.precisions)
    np.testing.assert_allclose(back.covariances, params.covariances, rtol=1e-9)
    np.testing.assert_allclose(back.precisions_cholesky, params.precisions_cholesky, rtol=1e-9, atol=1e-12)
