"""EM of mixtures: against scikit-learn's, against the general E-step, and what weights, labels and gamma do."""

from dataclasses import replace

import numpy as np
import pytest
from esteps import by_kernel, in_general
from sklearn.mixture import GaussianMixture as Peer

from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant, EStep, Stopping, run_em
from spectrem.models.mixture import (
    MixtureModel,
    build_shards,
    from_covariances,
    from_posteriors,
    from_precisions,
)
from spectrem.testing import check_model

KINDS = ("full", "tied", "diag", "spherical")


def make_data(n=700, k=3, d=4, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 2, (k, d))
    return centres[rng.integers(k, size=n)] + rng.normal(size=(n, d)) @ rng.normal(size=(d, d)), centres


def unit_precisions(kind, k, d):
    return {
        "full": np.repeat(np.eye(d)[None], k, axis=0),
        "tied": np.eye(d),
        "diag": np.ones((k, d)),
        "spherical": np.ones(k),
    }[kind]


def make_start(kind, k=3, d=4, seed=0):
    _, centres = make_data(k=k, d=d, seed=seed)
    rng = np.random.default_rng(seed + 1)
    means = centres + rng.normal(size=centres.shape)
    return from_precisions(kind, rng.dirichlet(np.full(k, 5.0)), means, unit_precisions(kind, k, d))


def arrays(params):
    return params.weights, params.means, params.covariances, params.precisions_cholesky


def run(kind, shards, start, iterations=5):
    model = MixtureModel(3, kind)
    return run_em(model, shards, start, EStep(kernel=model), stopping=Stopping(iterations, 0.0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_iterations_are_those_of_scikit_learn(kind, seed):
    x, _ = make_data(n=300, seed=seed)
    start = make_start(kind, seed=seed)
    peer = Peer(
        3, covariance_type=kind, tol=0, max_iter=10, weights_init=start.weights, means_init=start.means,
        precisions_init=start.precisions,
    ).fit(x)  # fmt: skip
    found = run(kind, build_shards(x, rows=100), start, 10)
    bounds = np.array([record.objective for record in found.history]) / len(x)
    np.testing.assert_allclose(bounds, peer.lower_bounds_, rtol=1e-10)
    wanted = peer.weights_, peer.means_, peer.covariances_, peer.precisions_cholesky_
    for ours, theirs in zip(arrays(found.params), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 0.5, 1.0, 3.0])
def test_compiled_path_is_the_general_one(kind, gamma):
    x, _ = make_data(n=300)
    rng = np.random.default_rng(3)
    labels = np.where(rng.uniform(size=300) < 0.1, rng.integers(3, size=300), -1)
    shards = build_shards(x, rng.uniform(0, 2, 300), labels, rows=90)
    model, start = MixtureModel(3, kind), make_start(kind)
    compiled, general = by_kernel(model, start, gamma, shards), in_general(model, start, gamma, shards)
    for ours, theirs in zip(compiled, general, strict=True):
        np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-12)
        for name in ("counts", "first", "second"):
            np.testing.assert_allclose(getattr(ours.stats, name), getattr(theirs.stats, name), rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("process_kept")
@pytest.mark.parametrize("kind", KINDS)
def test_promises_of_a_model(kind):
    x, _ = make_data(n=60)

    def perturb(params, rng):
        k, d = params.means.shape
        weights = params.weights * rng.uniform(0.9, 1.1, k)
        size = {"tied": 1.0, "full": rng.uniform(0.9, 1.1, (k, 1, 1)), "spherical": rng.uniform(0.9, 1.1, k)}
        noise = size.get(kind, rng.uniform(0.9, 1.1, (k, d)))
        if kind == "tied":
            noise = rng.uniform(0.9, 1.1)
        return from_covariances(
            kind, weights / weights.sum(), params.means + 0.05 * rng.normal(size=(k, d)), params.covariances * noise
        )

    check_model(
        MixtureModel(3, kind, reg_covar=0.0),
        make_start(kind),
        build_shards(x, rows=25),
        np.random.default_rng(0),
        perturb=perturb,
        iterations=2,
        reweigh=lambda shard, weights: shard._replace(weights=weights),
        join=lambda shards: build_shards(np.concatenate([shard.x for shard in shards]))[0],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_weights_stand_for_repeated_rows(kind):
    x, _ = make_data(n=200)
    times = np.random.default_rng(4).integers(0, 3, 200)
    weighted = run(kind, build_shards(x, times.astype(float)), make_start(kind))
    repeated = run(kind, build_shards(np.repeat(x, times, axis=0)), make_start(kind))
    np.testing.assert_allclose(weighted.history[-1].objective, repeated.history[-1].objective, rtol=1e-12)
    for ours, theirs in zip(arrays(weighted.params), arrays(repeated.params), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


def test_threads_change_no_bit():
    x, _ = make_data()
    shards = build_shards(x, rows=64)
    one = run("full", shards, make_start("full"))
    two = run("full", Local(shards, 2), make_start("full"))
    assert all(np.array_equal(a, b) for a, b in zip(arrays(one.params), arrays(two.params), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_with_known_components_stay_there(kind):
    x, _ = make_data(n=90)
    labels = np.arange(90) % 3
    known = run(kind, build_shards(x, labels=labels), make_start(kind), 1).params
    np.testing.assert_allclose(known.weights, 1 / 3)
    np.testing.assert_allclose(known.means, [x[labels == k].mean(axis=0) for k in range(3)])


def test_hard_em_is_assignment_to_the_best():
    x = np.array([[0.0], [1.0], [9.0], [11.0]])
    start = from_covariances("spherical", np.full(2, 0.5), np.array([[0.0], [10.0]]), np.ones(2))
    model = MixtureModel(2, "spherical", reg_covar=0.0)
    found = run_em(model, build_shards(x), start, EStep(kernel=model), schedule=Constant(0.0))
    assert found.params.means.ravel().tolist() == [0.5, 10.0]
    np.testing.assert_allclose(found.params.covariances, [0.25, 1.0], rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_component_without_rows_keeps_its_place(kind):
    x, _ = make_data(n=50)
    model, start = MixtureModel(3, kind), make_start(kind)
    shares = np.zeros((50, 3))
    shares[:, 0] = 1.0
    following = model.m_step(start, model.moments(start, build_shards(x)[0], shares), None)
    np.testing.assert_array_equal(following.means[1:], start.means[1:])
    assert following.weights[1:].max() < 1e-15
    if kind != "tied":
        np.testing.assert_array_equal(following.covariances[1:], start.covariances[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_start_from_posteriors_is_the_m_step(kind):
    x, _ = make_data(n=120)
    x += 1000.0
    posteriors = np.random.default_rng(5).dirichlet(np.ones(2), 120)
    params = from_posteriors(MixtureModel(3, kind), build_shards(x, rows=50), posteriors)
    means = (posteriors.T @ x) / posteriors.sum(axis=0)[:, None]
    apart = x[:, None] - means
    full = np.einsum("nk,nkj,nki->kji", posteriors, apart, apart)
    each = full / posteriors.sum(axis=0)[:, None, None] + 1e-6 * np.eye(4)
    wanted = {
        "full": each,
        "tied": full.sum(axis=0) / 120 + 1e-6 * np.eye(4),
        "diag": np.diagonal(each, axis1=1, axis2=2),
        "spherical": np.diagonal(each, axis1=1, axis2=2).mean(axis=1),
    }[kind]
    np.testing.assert_allclose(params.means, means)
    np.testing.assert_allclose(params.covariances, wanted, rtol=1e-9, atol=1e-9)


def error_of(call):
    with pytest.raises(InvalidInputError) as error:
        call()
    return str(error.value)


def test_singular_covariances_are_refused():
    tail = "; raise reg_covar, scale the data or ask for fewer components"
    message = error_of(lambda: from_covariances("diag", np.ones(1), np.zeros((1, 2)), np.array([[1.0, 0.0]])))
    assert message == "the covariance of component 0 must be positive definite, got a variance of 0" + tail
    matrices = np.stack([np.eye(2), np.diag([1.0, -2.0])])
    message = error_of(lambda: from_covariances("full", np.ones(2) / 2, np.zeros((2, 2)), matrices))
    assert message == "the covariance of component 1 must be positive definite, got a lowest eigenvalue of -2" + tail
    almost = np.array([[1.0, 1.0], [1.0, np.nextafter(1.0, 2.0)]])  # has a Cholesky factor, of rounding errors
    message = error_of(lambda: from_covariances("tied", np.ones(1), np.zeros((1, 2)), almost))
    assert message.startswith("the covariance of all components must be positive definite, got a lowest eigenvalue of ")
    from_covariances("tied", np.ones(1), np.zeros((1, 2)), np.diag([1e-30, 1e30]))  # units of features are no matter


def test_impossible_rows_are_named():
    start = from_covariances("spherical", np.array([1.0, 0.0]), np.zeros((2, 1)), np.ones(2))
    shards = build_shards(np.zeros((3, 1)), labels=np.array([-1, 1, 0]))
    message = error_of(lambda: run("spherical", shards, start))
    assert message == (
        "row 1 must be possible in some component, got a log-density of -inf; scale the data, or give the components "
        "of known rows a positive proportion"
    )


def test_columns_count_rows_on_over_shards():
    shards = build_shards(np.zeros((5, 1)), rows=3)
    assert {name: values.tolist() for name, values in MixtureModel(2).columns(shards[1]).items()} == {"row": [3, 4]}
    assert replace(MixtureModel(2, "diag"), reg_covar=0.0).covariance_type == "diag"
