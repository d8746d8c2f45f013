"""Variables of the M-step: one point for every weights, gradients of the same function, spreads that add up."""

import numpy as np
import pytest

from spectrem.models.loglinear import Features, LogLinearModel, Support, build_shards
from spectrem.models.loglinear.optimise import Coordinates, Spread


def draw(rng, n=40):
    X = rng.normal(size=(n, 4)) * [1.0, 1e3, 1e-3, 1.0] + [0.0, 1e5, 0.0, 2.0]
    return np.where(rng.random(X.shape) < 0.2, 0.0, X), rng.choice([0.0, 0.5, 2.0], n)


def test_the_spread_of_features_is_that_of_numpy_in_any_shards():
    X, weights = draw(np.random.default_rng(0))
    model = LogLinearModel(Support(4, 3), intercept=True)
    whole = model.spread(build_shards(Features.of(X), weights=weights, n_labels=3)[0])
    mean = weights @ X / weights.sum()
    np.testing.assert_allclose(whole.mean, mean)
    np.testing.assert_allclose(whole.square, weights @ (X - mean) ** 2)
    np.testing.assert_allclose(whole.present, weights @ (X != 0))
    assert whole.curvature == pytest.approx(weights.sum() * 2 / 9)
    parts = [Features.of(X[:5]), Features.of(X[5:6]), Features.of(X[6:])]
    cuts = (weights[:5], weights[5:6], weights[6:])
    added = sum((Spread.of(w, np.ones(len(w), int), 3, own) for w, own in zip(cuts, parts, strict=True)), Spread())
    for name in ("n_instances", "instance_weight", "choice_weight", "curvature", "present", "mean", "square"):
        np.testing.assert_allclose(getattr(added, name), getattr(whole, name), rtol=1e-12)


def test_features_far_from_0_keep_their_spread():
    spread = Spread.of(np.ones(2), np.ones(2, int), 2, Features.of([[1.7e9], [1.7e9 + 1.0]]))
    assert spread.square == pytest.approx([0.5])


@pytest.mark.parametrize("support", [Support(4, 3), Support.pairs([0, 1, 1, 3], [0, 1, 2, 0], 4, 3)])
@pytest.mark.parametrize("centred", [False, True])
def test_points_and_weights_are_one_to_one_and_gradients_follow(support, centred):
    rng = np.random.default_rng(1)
    n = support.n_weights + 3 * centred
    scale, mean = rng.uniform(0.1, 10.0, n), rng.normal(size=4)
    scale[support.n_weights :] = 1.0
    there = Coordinates(scale, support, mean if centred else None)
    weights, slope = rng.normal(size=n), rng.normal(size=n)
    np.testing.assert_allclose(there.weights(there.point(weights)), weights)
    # of the linear function slope . weights(u)
    expected = [slope @ there.weights(step) for step in np.eye(n)]
    np.testing.assert_allclose(there.gradient(slope.copy()), expected)


def test_scales_of_tables_are_those_of_features_and_those_of_words_are_nearly_one():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 100)) * np.geomspace(1e-3, 1e3, 100)
    table = Spread.of(np.ones(500), np.ones(500, int), 2, Features.of(X))
    features, _ = table.scales(1e-9, centred=True)
    np.testing.assert_allclose(features * X.std(axis=0), 1.0, rtol=1e-3)
    counts = rng.poisson(0.05 * rng.uniform(0, 3, 1000), (500, 1000)).astype(float)
    counts[:, 0] = 1e6 * rng.normal(size=500)
    words = Spread.of(np.ones(500), np.ones(500, int), 2, Features.of(counts))
    features, _ = words.scales(1.0, centred=True)
    assert features[1:].max() < 1.5 * features[1:].min()
    assert features[0] * 1e6 < 10.0
