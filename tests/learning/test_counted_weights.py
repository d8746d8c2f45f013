"""Instances that count otherwise in constraints than in the objective."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, linprog
from scipy.special import logsumexp

from spectrem import E, part, project
from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep, Step, pose
from spectrem.models.loglinear import Features, Labels, LogLinearModel, Support, build_shards
from spectrem.structures import Parts

ROWS, LABELS = 12, 3
RULES = [
    E[part("label") == 0] == "50%",
    (E[part("label") == 1] <= 0.4).per("row").slack(penalty=0.3, norm="l1"),
    (E[part("label") == 2] >= 1).slack(penalty=0.2, norm="l1"),
]


@dataclass(frozen=True)
class Counted:
    """A log-linear model whose rows weigh ``weight`` times what they count."""

    model: LogLinearModel
    weight: float

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)

    def counts(self, shard):
        return shard.weights / self.weight


def corpus(weights, cuts):
    features = Features.of(np.random.default_rng(0).normal(size=(ROWS, 2)))
    shards = build_shards(features, weights=weights, n_labels=LABELS, least=ROWS * 7 // cuts)
    assert len(shards) == cuts
    return shards


@pytest.mark.parametrize("gamma", [0.5, 1.0])
@pytest.mark.parametrize("cuts", [1, 2])
@pytest.mark.parametrize("constraints", [RULES, ()])
def test_constraints_count_rows_and_their_cost_is_weighed(constraints, cuts, gamma):
    rng = np.random.default_rng(1)
    counts, weight = rng.uniform(0.5, 2, ROWS), 0.3
    model = Counted(LogLinearModel(Support(2, LABELS)), weight)
    shards, theta = corpus(weight * counts, cuts), rng.normal(size=model.n_weights)
    estep = EStep(constraints, weight=weight, tol=1e-10)
    step = Step(model, theta, gamma, estep)
    found, _ = pose(model, Local(shards), estep).expect(step)
    scores = np.concatenate([model.scores(theta, own).unary for own in shards]).reshape(ROWS, LABELS)
    table = project(scores, constraints, gamma, scores="log", sample_weight=counts, tol=1e-10)
    values = gamma * np.log(np.exp(scores / gamma).sum(axis=1))
    normaliser = weight * counts @ np.log(np.exp(scores).sum(axis=1))
    cost = counts @ values - table.objective
    assert found.free_objective == pytest.approx(weight * counts @ values - normaliser, rel=1e-9)
    assert found.objective == pytest.approx(weight * counts @ values - normaliser - weight * cost, rel=1e-7)
    gathered = sum(
        model.gather(theta, own, Parts(table.proba[own.instances].ravel())) for own in shards
    )  # by weight, not by count
    np.testing.assert_allclose(found.stats, gathered, atol=1e-6)


def test_a_weight_is_at_least_0():
    with pytest.raises(InvalidInputError, match="weight must be finite and at least 0, got -1; 1 counts costs in full"):
        EStep(weight=-1)


TOKENS, FIRST = np.array([3, 2, 2]), E[part("tag") == 0]  # the last sentence is labelled


def taggings(length):
    return np.array(list(itertools.product(range(2), repeat=length)))


def features_of(model, features, sentence, tags):
    """The features of a sentence under tags that are given."""
    tokens = np.arange(TOKENS[sentence]) + TOKENS[:sentence].sum()
    labels = Labels(np.arange(len(tags) + 1), np.array(tags), np.ones(len(tags)))
    (shard,) = build_shards(features.take(tokens), TOKENS[[sentence]], labels, [True])
    theta = model.initial()
    structure, scores = model.structure(shard), model.scores(theta, shard)
    return model.gather(theta, shard, structure.smoothed_max(scores, 1.0, weights=shard.weights)[1])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weight", [1.0, 0.2, 0.01])
def test_transitions_of_sentences_are_weighed_and_not_counted(weight, gamma):
    """All taggings of three sentences, of which the constraint sees expected numbers of tags."""
    rng = np.random.default_rng(2)
    model, counts, gold = LogLinearModel(Support(2, 2), chain=True), np.array([1.5, 1.0, 2.0]), (0, 1)
    features = Features.of(rng.normal(size=(TOKENS.sum(), 2)))
    theta, known = rng.normal(size=model.n_weights), np.array([False, False, True])
    weights = counts * np.where(known, 1.0, weight)
    sizes = np.array([2] * 5 + [1] * 2)
    labels = Labels(np.append(0, np.cumsum(sizes)), np.array([0, 1] * 5 + list(gold)), np.repeat(1.0 / sizes, sizes))
    shards = build_shards(features, TOKENS, labels, known, weights, counts=counts, n_labels=2)
    estep = EStep(FIRST == 6.5, weight=weight, tol=1e-10)
    found, _ = pose(model, Local(shards), estep).expect(Step(model, theta, gamma, estep))

    every = [taggings(length) for length in TOKENS]
    phi = [np.array([features_of(model, features, n, tags) for tags in own]) for n, own in enumerate(every)]
    numbers, scores = [(own == 0).sum(axis=1) for own in every], [own @ theta for own in phi]
    place = int(np.flatnonzero((every[2] == gold).all(axis=1))[0])
    bound = 6.5 - counts[2] * numbers[2][place]
    if gamma:

        def q(price):
            tilted = [(s - price * u) / gamma for s, u in zip(scores[:2], numbers, strict=False)]
            return [np.exp(own - logsumexp(own)) for own in tilted]

        def excess(price):
            return sum(c * p @ u for c, p, u in zip(counts, q(price), numbers, strict=False)) - bound

        posteriors = q(brentq(excess, -100, 100, xtol=1e-13))
    else:
        costs = np.concatenate([-c * own for c, own in zip(counts, scores[:2], strict=False)])
        sums = np.zeros((2, len(costs)))
        sums[0, : len(every[0])] = sums[1, len(every[0]) :] = 1
        row = np.concatenate([c * u for c, u in zip(counts, numbers[:2], strict=False)])
        flat = linprog(costs, A_eq=np.vstack([sums, row]), b_eq=[1, 1, bound]).x
        posteriors = [flat[: len(every[0])], flat[len(every[0]) :]]
    posteriors.append(np.eye(4)[place])
    stats = sum(w * p @ own for w, p, own in zip(weights, posteriors, phi, strict=True))
    entropies = [-(p * np.log(np.maximum(p, 1e-300))).sum() for p in posteriors]
    objective = sum(
        w * (p @ s + gamma * h - logsumexp(s))
        for w, p, s, h in zip(weights, posteriors, scores, entropies, strict=True)
    )
    np.testing.assert_allclose(found.stats, stats, atol=1e-6)
    assert found.objective == pytest.approx(objective, abs=1e-7)
