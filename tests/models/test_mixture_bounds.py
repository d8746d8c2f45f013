"""Fixed and bounded parameters: the M-step is the constrained maximum, and EM never lowers the objective."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.mixture import (
    Bounds,
    MixtureModel,
    build_shards,
    from_covariances,
    from_posteriors,
    log_joint,
)

KINDS = ("full", "tied", "diag", "spherical")
K, D = 3, 2


def make_problem(kind, seed=0, n=60):
    """Rows, posteriors, and parameters to start from."""
    rng = np.random.default_rng(seed)
    x = 2 * rng.normal(size=(K, D))[rng.integers(K, size=n)] + rng.normal(size=(n, D)) @ rng.normal(size=(D, D))
    each = np.stack([matrix @ matrix.T + 0.5 * np.eye(D) for matrix in rng.normal(size=(K, D, D))])
    covariances = {"full": each, "tied": each[0], "diag": each[:, 0] ** 2 + 0.5, "spherical": each[:, 0, 0]}[kind]
    start = from_covariances(kind, rng.dirichlet(np.full(K, 3.0)), rng.normal(size=(K, D)), covariances)
    return x, rng.dirichlet(np.full(K, 0.5), n), start


def expected(params, x, posteriors):
    return float((posteriors * log_joint(params, x)).sum())


def variance_range(kind, low, high):
    shape = {"full": (K,), "tied": (), "diag": (K, D), "spherical": (K,)}[kind]
    return np.full(shape, low), np.full(shape, high)


def binding(kind):
    """Bounds of which each block has some that bind."""
    return Bounds(
        weights=(np.array([0.0, 0.5, 0.1]), np.array([0.2, 1.0, 1.0])),
        means=(np.full((K, D), [0.1, -np.inf]), np.array([[np.inf, -0.3], [0.4, np.inf], [np.inf, np.inf]])),
        variances=variance_range(kind, 0.9, 1.4),
    )


def step(model, start, x, posteriors):
    shard = build_shards(x)[0]
    return model.m_step(start, model.moments(start, shard, posteriors), None)


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_the_maximum_on_the_bounded_simplex(seed):
    rng = np.random.default_rng(seed)
    k = 6
    inside = rng.dirichlet(np.ones(k))
    low, high = inside * rng.uniform(0, 1, k), np.minimum(inside * rng.uniform(1, 2, k), 1.0)
    low[0] = high[0] = inside[0]
    counts = rng.gamma(0.3, 20.0, size=k)
    found = Bounds(weights=(low, high)).bound_weights(counts)
    np.testing.assert_allclose(found.sum(), 1.0, rtol=1e-14)
    assert ((found >= low) & (found <= high)).all()
    oracle = minimize(
        lambda w: -counts @ np.log(np.maximum(w, 1e-12)) / counts.sum(), inside, method="SLSQP",
        jac=lambda w: -counts / np.maximum(w, 1e-12) / counts.sum(),
        bounds=list(zip(low, high, strict=True)), options={"ftol": 1e-15, "maxiter": 500},
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(k)},
    )  # fmt: skip
    np.testing.assert_allclose(found, oracle.x, atol=1e-5)
    assert counts @ np.log(found) >= counts @ np.log(oracle.x) - 1e-6 * counts.sum()


def test_weights_of_components_without_rows():
    bounds = Bounds(weights=(np.array([0.1, 0.0, 0.0]), np.array([1.0, 0.6, 1.0])))
    np.testing.assert_allclose(bounds.bound_weights(np.array([0.0, 5.0, 5.0])), [0.1, 0.45, 0.45])
    np.testing.assert_allclose(bounds.bound_weights(np.array([0.0, 5.0, 0.0])), [0.2, 0.6, 0.2], rtol=1e-9)
    np.testing.assert_allclose(bounds.bound_weights(np.array([1.0, 8.0, 1.0])), [0.2, 0.6, 0.2])
    shut = Bounds(weights=(np.zeros(2), np.array([0.0, 1.0])))
    assert shut.bound_weights(np.array([3.0, 0.0])).tolist() == [0.0, 1.0]
    even = Bounds(weights=(np.full(2, 0.5), np.full(2, 0.5)))
    assert even.bound_weights(np.array([3.0, 1.0])).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
@pytest.mark.parametrize("kind", ["full", "tied"])
def test_means_are_the_maximum_in_the_box(kind, scale):
    x, posteriors, start = make_problem(kind)
    start = from_covariances(kind, start.weights, start.means * scale, start.covariances * scale**2)
    low, high = binding(kind).means
    low, high = low.copy() * scale, high.copy() * scale
    low[2] = high[2] = 0.3 * scale
    model = MixtureModel(K, kind, 0.0, Bounds(means=(low, high), fixed=frozenset({"weights", "covariances"})))
    found = step(model, start, x * scale, posteriors)
    free = (posteriors.T @ x) / posteriors.sum(axis=0)[:, None]
    assert ((free < low / scale) | (free > high / scale)).any(axis=1).sum() == 3
    np.testing.assert_array_equal(np.clip(found.means, low, high), found.means)
    for k in range(K):
        precision = start.precisions * scale**2 if kind == "tied" else start.precisions[k] * scale**2
        oracle = minimize(
            lambda m, k=k, p=precision: (m - free[k]) @ p @ (m - free[k]),
            found.means[k] / scale,
            jac=lambda m, k=k, p=precision: 2 * p @ (m - free[k]),
            bounds=list(zip(low[k] / scale, high[k] / scale, strict=True)), options={"ftol": 1e-15, "gtol": 1e-12},
        )  # fmt: skip
        np.testing.assert_allclose(found.means[k] / scale, oracle.x, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_are_the_maximum_between_the_bounds(kind):
    x, posteriors, start = make_problem(kind)

    def spread(params):
        return np.linalg.eigvalsh(params.covariances) if kind in ("full", "tied") else params.covariances

    values = spread(step(MixtureModel(K, kind, 0.0), start, x, posteriors))
    low, high = 0.7 * values.min() + 0.3 * values.max(), 0.3 * values.min() + 0.7 * values.max()
    model = MixtureModel(K, kind, 0.0, Bounds(variances=variance_range(kind, low, high)))
    found = step(model, start, x, posteriors)
    np.testing.assert_allclose(spread(found), np.clip(values, low, high), rtol=1e-12)
    np.testing.assert_allclose([spread(found).min(), spread(found).max()], [low, high], rtol=1e-12)
    factors = kind in ("full", "tied")

    counts, apart = posteriors.sum(axis=0), x[:, None] - found.means
    scatter = np.einsum("nk,nki,nkj->kij", posteriors, apart, apart)

    def matrices(free):
        if not factors:
            return np.stack([np.diag(own) for own in np.broadcast_to(free.reshape(K, -1), (K, D))])
        angle, ends = free.reshape(-1, 3)[:, 0], free.reshape(-1, 3)[:, 1:]
        turns = np.stack([np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angle])
        return np.broadcast_to((turns * ends[:, None, :]) @ np.swapaxes(turns, 1, 2), (K, D, D))

    def loss(made):
        return 0.5 * (counts @ np.linalg.slogdet(made)[1] + (np.linalg.inv(made) * scatter).sum())

    size = 3 * (K if kind == "full" else 1) if factors else found.covariances.size
    box = [(None, None), (low, high), (low, high)] * (size // 3) if factors else [(low, high)] * size
    guesses = np.random.default_rng(0).uniform(low, high, (4, size))
    best = min(minimize(lambda free: loss(matrices(free)), guess, bounds=box).fun for guess in guesses)
    ours = found.covariances if factors else matrices(found.covariances)
    np.testing.assert_allclose(loss(np.broadcast_to(ours, (K, D, D))), best, rtol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_within_the_bounds_is_better(kind, seed):
    x, posteriors, start = make_problem(kind, seed)
    bounds = binding(kind)
    if kind in ("full", "tied"):  # for these, each block is the maximum given the means that there are
        bounds = replace(bounds, means=None)
    model = MixtureModel(K, kind, 0.0, bounds)
    found = step(model, start, x, posteriors)
    top, rng = expected(found, x, posteriors), np.random.default_rng(seed)
    for size in (1e-1, 1e-3):
        for _ in range(30):
            noise = 1 + size * rng.normal(size=(D, D) if kind in ("full", "tied") else found.covariances.shape)
            noise = np.eye(D) + size * rng.normal(size=(D, D)) if kind in ("full", "tied") else noise
            covariances = noise @ found.covariances @ noise.T if kind in ("full", "tied") else found.covariances * noise
            other = from_covariances(
                kind,
                found.weights * (1 + size * rng.uniform(-1, 1, K)),
                found.means + size * rng.normal(size=(K, D)),
                covariances,
            )
            assert expected(bounds.project(other), x, posteriors) <= top + 1e-9 * abs(top)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blocks", [(), ("weights",), ("means",), ("covariances",), ("weights", "means")])
def test_the_objective_never_falls(kind, blocks):
    x, _, _ = make_problem(kind, seed=7, n=200)
    posteriors = np.eye(K)[np.searchsorted(np.quantile(x[:, 0], [0.2, 0.5]), x[:, 0])]
    for bounds in (Bounds(frozenset(blocks)), replace(binding(kind), fixed=frozenset(blocks))):
        model = MixtureModel(K, kind, 0.0, bounds)
        shards = build_shards(x, rows=90)
        start = from_posteriors(model, shards, posteriors)
        result = run_em(model, shards, start, EStep(kernel=model), stopping=Stopping(30, 0.0))
        objectives = [record.objective for record in result.history]
        assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(objectives))
        assert objectives[-1] > objectives[0] + 1e-3 or bounds.means is not None  # bounds may leave no room
        for block in blocks:
            np.testing.assert_array_equal(getattr(result.params, block), getattr(start, block))


@pytest.mark.parametrize("kind", KINDS)
def test_loose_bounds_change_nothing(kind):
    x, posteriors, start = make_problem(kind)
    loose = Bounds(
        weights=(np.zeros(K), np.ones(K)),
        means=(np.full((K, D), -np.inf), np.full((K, D), np.inf)),
        variances=variance_range(kind, 0.0, np.inf),
    )
    free, bounded = (step(MixtureModel(K, kind, 1e-3, bounds), start, x, posteriors) for bounds in (Bounds(), loose))
    for name in ("weights", "means", "covariances", "precisions_cholesky"):
        np.testing.assert_allclose(getattr(bounded, name), getattr(free, name), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_are_about_the_means_that_stay(kind):
    x, posteriors, start = make_problem(kind)
    found = step(MixtureModel(K, kind, 1e-3, Bounds(frozenset({"means"}))), start, x, posteriors)
    apart = x[:, None] - start.means
    full = np.einsum("nk,nki,nkj->kij", posteriors, apart, apart)
    each = full / posteriors.sum(axis=0)[:, None, None] + 1e-3 * np.eye(D)
    wanted = {
        "full": each,
        "tied": full.sum(axis=0) / len(x) + 1e-3 * np.eye(D),
        "diag": np.diagonal(each, axis1=1, axis2=2),
        "spherical": np.diagonal(each, axis1=1, axis2=2).mean(axis=1),
    }[kind]
    np.testing.assert_array_equal(found.means, start.means)
    np.testing.assert_allclose(found.covariances, wanted, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_components_without_rows_start_and_stay_within(kind):
    x, posteriors, _ = make_problem(kind)
    posteriors[:, 2] = 0.0
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    bounds = Bounds(
        weights=(np.full(K, 0.1), np.ones(K)),
        means=(np.full((K, D), 0.5), np.full((K, D), np.inf)),
        variances=variance_range(kind, 2.0, 3.0),
    )
    model = MixtureModel(K, kind, bounds=bounds)
    start = from_posteriors(model, build_shards(x), posteriors)
    np.testing.assert_allclose(start.weights[2], 0.1)
    assert start.means[2].tolist() == [0.5, 0.5]
    if kind != "tied":
        np.testing.assert_allclose(start.covariances[2], 2.0 * np.eye(D) if kind == "full" else 2.0)
    following = step(model, start, x, posteriors)
    np.testing.assert_array_equal(following.means[2], start.means[2])
    if kind != "tied":
        np.testing.assert_array_equal(following.covariances[2], start.covariances[2])
