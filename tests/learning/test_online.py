"""Learning in small steps: every step by its definition, the mean of the weights, and constraints inside batches."""

from dataclasses import replace

import numpy as np
import pytest

from spectrem.constraints import E, part
from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep, FitStatus, SmallSteps, Step, pose, run_online
from spectrem.models.loglinear import WeightPrior
from spectrem.models.parsing import FREE, GIVEN, EdgeFactoredModel, ParsingText
from spectrem.structures import Known, Parts


def batches(rng, kinds=(GIVEN, GIVEN, FREE)):
    lengths = np.array([3, 2, 4])
    heads = np.array([1, -1, 1, -1, 0, -2, 0, -2, -2])
    atoms = rng.integers(1, 4, (9, 3)).astype(np.uint32)
    text = ParsingText(lengths, atoms, heads, np.array(kinds), {}, np.array([1.0, 2.0, 1.0]))
    return [text.take(np.array([n])) for n in range(3)]


def gradient(model, theta, shard):
    """Expected features of the trees that are known, less those of all trees."""
    structure, scores = model.structure(shard), model.scores(theta, shard)
    wanted = structure.smoothed_max(scores, 1.0)[1]
    _, expected = model.free_structure(shard).smoothed_max(model.free_scores(theta, shard), 1.0)
    return model.gather(theta, shard, wanted) - model.gather(theta, shard, expected)


@pytest.mark.parametrize("C", [1e9, 0.5, 1e-3])
@pytest.mark.parametrize("average", [True, False])
def test_steps_by_definition(C, average):
    rng = np.random.default_rng(0)
    shards = batches(rng)
    model = EdgeFactoredModel(bits=4, prior=WeightPrior(1 / C))
    start = rng.normal(size=model.n_weights).astype(np.float32).astype(np.float64)
    found = run_online(model, shards, start, how=SmallSteps(3, 0.2, 0.5, average), random_state=7)

    theta, total, n_steps = start.copy(), np.zeros_like(start), 0
    order = np.random.default_rng(7)
    for number in range(3):
        rate = 0.2 / (1 + 0.5 * number)
        for place in order.permutation(3):
            step = gradient(model, theta, shards[place])
            theta /= 1 + rate / C / 3
            theta += rate * step
            total, n_steps = total + theta, n_steps + 1
    # shares of less than 1e-4 are left out, and weights are of single precision
    np.testing.assert_allclose(found.params, total / n_steps if average else theta, atol=2e-3)
    assert found.status is FitStatus.FIXED_ITERATIONS
    assert len(found.history) == 3


def test_the_likelihood_rises_from_pass_to_pass():
    model = EdgeFactoredModel(bits=6, prior=WeightPrior(0.01))
    seen = []
    shards = batches(np.random.default_rng(1))
    run_online(model, shards, model.initial(), how=SmallSteps(6), on_iteration=seen.append)
    assert len(seen) == 6
    assert seen[-1].free_objective > seen[0].free_objective
    assert all(record.free_objective < 0 for record in seen)
    assert seen[0].objective == pytest.approx(seen[0].free_objective + seen[0].log_prior)


def test_constraints_inside_sentences_are_learned():
    rng = np.random.default_rng(2)
    shards = batches(rng, (FREE, FREE, FREE))
    model = EdgeFactoredModel(bits=8, prior=WeightPrior(0.01))
    rule = (E[part("direction") == "left"] <= 0.1).per("sentence")
    free = [shard for shard in shards if shard.instances[0] != 1]
    found = run_online(model, [free[1]], model.initial(), EStep(rule), how=SmallSteps(30, 1.0))
    record = found.history[0]
    assert record.objective < record.free_objective
    structure, scores = model.free_structure(free[1]), model.free_scores(found.params, free[1])
    _, marginals = structure.smoothed_max(Parts(scores.unary), 1.0)
    left = np.array([one == "left" for one in structure.columns["direction"].tolist()])
    assert marginals.unary[left].sum() < 0.3
    again = run_online(model, [free[1]], model.initial(), EStep(rule), how=SmallSteps(30, 1.0))
    assert np.array_equal(found.params, again.params)


def test_the_record_weighs_sentences_that_count_otherwise_in_constraints():
    rng, rule = np.random.default_rng(3), (E[part("direction") == "left"] <= 0.1).per("sentence")
    model, shard = EdgeFactoredModel(bits=8, prior=WeightPrior(0.01)), batches(rng, (FREE, FREE, FREE))[2]
    shard, estep = replace(shard, weights=np.array([0.2]), counts=np.array([1.0])), EStep(rule, weight=0.2)
    theta = rng.normal(size=model.n_weights).astype(np.float32).astype(np.float64)
    (record,) = run_online(model, [shard], theta, estep, how=SmallSteps(1, 1e-9)).history
    found, _ = pose(model, Local([shard]), estep).expect(Step(model, theta, 1.0, estep))
    assert record.free_objective == pytest.approx(found.free_objective, rel=1e-6)
    assert record.objective - record.log_prior == pytest.approx(found.objective, rel=1e-6)


def test_known_batches_are_left_alone_by_constraints():
    shards = batches(np.random.default_rng(3))[:2]
    model = EdgeFactoredModel(bits=5)
    rule = (E[part("direction") == "right"] <= 0.1).per("sentence")
    plain, constrained = (run_online(model, shards, model.initial(), EStep(c)).params for c in ((), rule))
    assert np.array_equal(plain, constrained)
    assert isinstance(model.structure(shards[0]), Known)


@pytest.mark.parametrize(
    ("prior", "constraints", "message"),
    [
        (WeightPrior(1.0), E[part("direction") == "left"] <= 1, "constraints must lie inside sentences .* in batch"),
        (WeightPrior(1.0, 0.5), (), "prior must be Gaussian to learn in small steps, got l1=0.5"),
    ],
)
def test_what_small_steps_cannot_do(prior, constraints, message):
    model = EdgeFactoredModel(bits=4, prior=prior)
    with pytest.raises(InvalidInputError, match=message):
        run_online(model, batches(np.random.default_rng(4)), model.initial(), EStep(constraints))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"passes": 0}, "passes must be an integer >= 1; got 0"),
        ({"rate": 0.0}, r"rate must be finite and above 0, got 0\.0; the default is 0\.04"),
        ({"decay": -1.0}, r"decay must be finite and at least 0, got -1\.0; the default is 0\.3"),
    ],
)
def test_settings_out_of_range_are_named(setting, message):
    with pytest.raises(InvalidInputError, match=message):
        SmallSteps(**setting)
