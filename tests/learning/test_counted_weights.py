"""Instances that count otherwise in constraints than in the objective."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from spectrem import E, part, project
from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep, Step, pose
from spectrem.models.loglinear import Features, LogLinearModel, Support, build_shards
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
