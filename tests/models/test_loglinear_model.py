"""Log-linear models of rows and of chains: the promises of a model, and labels of all kinds against enumeration."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from spectrem.models.loglinear import Features, Labels, LogLinearModel, Support, WeightPrior, build_shards
from spectrem.models.loglinear.features import LogLinearShard
from spectrem.structures._ragged import offsets_of
from spectrem.testing import check_model

K = 3
KINDS = ("rows", "rows with intercept", "rows with intercept and reference", "chains", "chains with some transitions")


def model_of(kind, features, labels, packed=False, **changes):
    reference = kind.endswith("reference")
    if reference:
        support = Support.pairs(np.arange(5), np.arange(5) % 2, 7, 2) if packed else Support(7, 2)
    else:
        observed = Support.observed(features, labels.offsets, labels.labels, K)
        support = observed if packed else Support(features.n_features, K)
    some = np.array([0, 1, 4, 5, 6]) if kind.endswith("transitions") else None
    return LogLinearModel(
        support, kind.startswith("chain"), some, intercept="intercept" in kind, reference=reference, **changes
    )


def corpus_of(kind, seed=0, n_known=5, n_partial=4, n_free=3, n_features=7):
    """Features, lengths, labels of all kinds, which instances are known, weights."""
    rng = np.random.default_rng(seed)
    n = n_known + n_partial + n_free
    lengths = rng.integers(1, 4, n) if kind.startswith("chain") else None
    sizes = np.ones(n, int) if lengths is None else lengths
    matrix = rng.normal(size=(sizes.sum(), n_features)) * (rng.random((sizes.sum(), n_features)) < 0.4)
    sets, shares = [], []
    for which in np.repeat(np.arange(n), sizes):
        if which < n_known - 2:
            sets.append([rng.integers(K)])
            shares.append([1.0])
        elif which < n_known:
            sets.append(sorted(rng.choice(K, 2, replace=False)))
            shares.append([0.3, 0.7])
        else:
            sets.append(sorted(rng.choice(K, 2, replace=False)) if which < n_known + n_partial else list(range(K)))
            shares.append([1.0] * len(sets[-1]))
    offsets = offsets_of(np.array([len(own) for own in sets]))
    labels = Labels(offsets, np.concatenate(sets).astype(np.int64), np.concatenate(shares))
    return Features.of(matrix), lengths, labels, np.arange(n) < n_known, rng.uniform(0.5, 2.0, n)


@pytest.mark.usefixtures("process_kept")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_the_promises_of_a_model(kind, packed):
    features, lengths, labels, known, weights = corpus_of(kind)
    model = model_of(kind, features, labels, packed, prior=WeightPrior(l2=0.5))
    shards = build_shards(features, lengths, labels, known, weights, least=1)
    assert len(shards) > 3
    assert {shard.known for shard in shards} == {True, False}
    rng = np.random.default_rng(1)
    check_model(
        model, 0.1 * rng.normal(size=model.n_weights), shards, rng,
        perturb=lambda theta, rng: theta + 0.1 * rng.normal(size=theta.shape), reweigh=reweigh, iterations=3,
    )  # fmt: skip


def reweigh(shard, weights):
    return LogLinearShard(shard.features, shard.lengths, shard.labels, weights, shard.instances, shard.columns)


def brute_force(model, theta, shard):
    """Sum over instances of weight times log p(labels given), of known ones the expectation, by all labellings."""
    own = model.split(theta)
    table = shard.features.matrix @ model.support.table(own.features) + (own.intercept if model.intercept else 0.0)
    table = np.pad(table, ((0, 0), (K - table.shape[1], 0)))
    moves = np.zeros(K * K)
    if model.chain:
        moves[slice(None) if model.transitions is None else model.transitions] = own.transitions
    total, start = 0.0, 0
    for length, weight in zip(shard.sizes, shard.weights, strict=True):
        tokens = range(start, start + length)
        start += length
        scores, shares = {}, {}
        for path in itertools.product(range(K), repeat=length):
            scores[path] = sum(table[t, y] for t, y in zip(tokens, path, strict=True))
            scores[path] += sum(moves[a * K + b] for a, b in itertools.pairwise(path)) if model.chain else 0.0
            shares[path] = np.prod([share_of(shard, t, y) for t, y in zip(tokens, path, strict=True)])
        log_normaliser = logsumexp(list(scores.values()))
        if shard.known:
            inside = sum(shares[path] * scores[path] for path in scores)
        else:
            inside = logsumexp([scores[path] for path in scores if shares[path] > 0])
        total += weight * (inside - log_normaliser)
    return total


def share_of(shard, token, label):
    if shard.labels is None:
        return 1.0
    offsets, labels, shares = shard.labels
    for entry in range(offsets[token], offsets[token + 1]):
        if labels[entry] == label:
            return 1.0 if shares is None else shares[entry]
    return 0.0


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_objective_and_gradient_are_those_of_enumeration(kind, packed):
    features, lengths, labels, known, weights = corpus_of(kind, n_known=4, n_partial=2, n_free=1)
    model = model_of(kind, features, labels, packed)
    theta = np.random.default_rng(2).normal(size=model.n_weights)
    for shard in build_shards(features, lengths, labels, known, weights):
        structure, scores = model.structure(shard), model.scores(theta, shard)
        values, marginals = structure.smoothed_max(scores, 1.0, weights=shard.weights)
        objective = shard.weights @ values - model.log_normaliser(theta, shard)
        np.testing.assert_allclose(objective, brute_force(model, theta, shard), rtol=1e-10)
        found = model.moments(theta, shard)
        assert found.value == pytest.approx(model.log_normaliser(theta, shard), rel=1e-12)
        gradient = model.gather(theta, shard, marginals) - found.gradient
        for k in range(model.n_weights):
            there = [brute_force(model, theta + sign * 1e-5 * np.eye(len(theta))[k], shard) for sign in (1, -1)]
            assert gradient[k] == pytest.approx((there[0] - there[1]) / 2e-5, abs=1e-6)
