"""EM with an M-step after every batch of shards."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from toy_models import Tagger, random_params, random_shards

from spectrem import E, GaussianMixture, HMMTagger, part
from spectrem.corpus import Local, OnDask, Spilled
from spectrem.datasets import make_tagged_corpus
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal, Constant, EStep, Stepwise, Stopping, posed_corpus, run_em
from spectrem.learning.estep import Step
from spectrem.learning.posed_corpus import pose

RNG = np.random.default_rng(5)
MODEL, PARAMS, SHARDS = Tagger(), random_params(RNG), random_shards(RNG, n_shards=7)
EACH = (E[part("tag") == 0] >= 0.5).per("sentence")


def run(shards=SHARDS, schedule=None, n=2, *, model=MODEL, estep=None, **options):
    schedule = schedule or Stepwise(n_batches=3)
    return run_em(model, shards, PARAMS, estep, schedule=schedule, stopping=Stopping(n), **options)


class Unweighing:
    """The tagger without its method `weights`: they are read off the shards."""

    def __getattr__(self, name):
        if name == "weights":
            raise AttributeError(name)
        return getattr(MODEL, name)


def outcome(result):
    records = [dataclasses.replace(record, seconds=0.0) for record in result.history]
    return [table.tobytes() for table in result.params], records, result.status


def by_hand(batches, power, n_passes, estep, start=None):
    """[LiangKlein2009] figure 2, with weights: parameters and the objective of every pass."""
    total = sum(shard.weights.sum() for shard in SHARDS)
    params, average, k, objectives = PARAMS, start, 0, []
    for number in range(n_passes):
        objective = 0.0
        for batch in batches(number):
            posed = pose(MODEL, Local([SHARDS[n] for n in batch]), estep)
            found, _ = posed.expect(Step(MODEL, params, 1.0, estep))
            objective += found.objective
            scaled = total / sum(SHARDS[n].weights.sum() for n in batch) * found.stats
            step = (k + 2) ** -power
            average = scaled if average is None else (1 - step) * average + step * scaled
            params, k = MODEL.m_step(params, average, None), k + 1
        objectives.append(objective)
    return params, objectives


@pytest.mark.parametrize("estep", [EStep(), EStep([EACH])], ids=["free", "constraints"])
@pytest.mark.parametrize("power", [0.6, 1.0])
def test_steps_are_those_of_the_formula(estep, power):
    found = run(schedule=Stepwise(n_batches=3, power=power, seed=None), estep=estep)
    params, objectives = by_hand(lambda number: [(0, 1, 2), (3, 4), (5, 6)], power, 2, estep)
    for mine, other in zip(found.params, params, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)
    np.testing.assert_allclose([record.objective for record in found.history], objectives, rtol=1e-12)


def test_shards_say_their_weights_where_the_model_does_not(monkeypatch):
    monkeypatch.setattr(posed_corpus, "_MOST_PARTS", 0)  # structures and rows are made anew in every E-step
    expected, found = run(estep=EStep([EACH])), run(estep=EStep([EACH]), model=Unweighing())
    assert outcome(found) == outcome(expected)


def test_every_pass_takes_all_shards_in_an_order_of_its_own():
    orders = []

    def batches(number):
        order = np.random.default_rng([4, number]).permutation(7)
        orders.append(order.tolist())
        return [np.sort(order[:4]), np.sort(order[4:])]

    found = run(schedule=Stepwise(n_batches=2, seed=4))
    params, _ = by_hand(batches, 0.9, 2, EStep())
    assert orders[0] != orders[1]
    for mine, other in zip(found.params, params, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


def test_a_model_may_give_the_first_statistics():
    start = pose(MODEL, Local(SHARDS[:1]), EStep()).expect(Step(MODEL, PARAMS, 1.0, EStep()))[0].stats

    @dataclass(frozen=True)
    class Begun(Tagger):
        def initial_stats(self, params):
            assert params is PARAMS
            return start

    found = run(model=Begun(), schedule=Stepwise(n_batches=2, seed=None))
    params, _ = by_hand(lambda number: [(0, 1, 2, 3), (4, 5, 6)], 0.9, 2, EStep(), start)
    for mine, other in zip(found.params, params, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


def test_one_batch_begins_as_em_does():
    whole, batch = run(schedule=Constant(), n=1), run(schedule=Stepwise(n_batches=1), n=1)
    assert outcome(batch) == outcome(whole)


def test_many_passes_of_a_mixture_come_to_the_optimum_of_em():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(centre, 1.0, (4000, 2)) for centre in (0.0, 5.0)])[rng.permutation(8000)]
    start = np.array([[0.0, 1.0], [4.0, 4.0]])
    best, found = (
        GaussianMixture(2, means_init=start, max_iter=30, schedule=schedule, tol=0.0).fit(rows)
        for schedule in (None, Stepwise(n_batches=4, power=0.6))
    )
    assert found.history_[0].objective > best.history_[0].objective
    assert abs(found.objective_ - best.objective_) < 2e-4 * len(rows)
    np.testing.assert_allclose(found.means_, best.means_, atol=0.03)


def test_one_pass_of_a_tagger_gains_more_and_many_come_to_the_optimum_of_em():
    """Also where the first batches lack words: their emissions must not become 0."""
    text = make_tagged_corpus(2500, seed=1)
    best, found = (
        HMMTagger(dictionary=text.dictionary, max_iter=15, tol=0.0, schedule=schedule).fit(text.words)
        for schedule in (None, Stepwise(n_batches=4, power=0.6))
    )
    assert found.history_[0].objective > best.history_[0].objective + 1000
    assert found.objective_ == pytest.approx(best.objective_, rel=5e-4)


@pytest.mark.parametrize("schedule", [Stepwise(n_batches=3), Stepwise(Anneal(0.5, 1.0, 2.0), n_batches=4)])
def test_the_same_bits_in_every_home(tmp_path, schedule, client):
    expected = outcome(run(schedule=schedule, estep=EStep([EACH])))
    for home in (Local(SHARDS, 2), Spilled(SHARDS, tmp_path), OnDask(SHARDS, client)):
        assert outcome(run(home, schedule, estep=EStep([EACH]))) == expected


def test_gammas_are_those_of_the_schedule_within():
    found = run(schedule=Stepwise(Anneal(0.5, 1.0, 2.0), n_batches=2))
    assert [record.gamma for record in found.history] == [2.0, 2.0, 1.0, 1.0]


def test_batches_without_weight_change_nothing():
    empty = SHARDS[1]._replace(weights=np.zeros_like(SHARDS[1].weights))
    schedule = Stepwise(n_batches=8, seed=None)
    with_empty = run([*SHARDS[:1], empty, *SHARDS[1:]], schedule, 1)
    assert np.isfinite(with_empty.history[0].objective)
    first = run([empty, *SHARDS], schedule, 1)
    for table in (*with_empty.params, *first.params):
        assert np.isfinite(table).all()


class StopError(Exception):
    """Ends a run."""


@pytest.mark.parametrize("n_steps", [0, 1, 2, 3, 4, 5, 6, 8])
def test_an_interrupted_run_goes_on_with_the_same_bits(tmp_path, n_steps, monkeypatch):
    schedule, estep = Stepwise(Anneal(0.5, 1.0, 2.0), n_batches=3), EStep([EACH])
    whole = run(schedule=schedule, estep=estep)

    def m_step(self, params, stats, corpus):
        if not left:
            raise StopError
        left.pop()
        return original(self, params, stats, corpus)

    original, left = Tagger.m_step, [None] * n_steps
    monkeypatch.setattr(Tagger, "m_step", m_step)
    with pytest.raises(StopError):
        run(schedule=schedule, estep=estep, checkpoint=tmp_path)
    taken = []

    def counted(self, params, stats, corpus):
        taken.append(1)
        return original(self, params, stats, corpus)

    monkeypatch.setattr(Tagger, "m_step", counted)
    assert outcome(run(schedule=schedule, estep=estep, checkpoint=tmp_path)) == outcome(whole)
    assert len(taken) == 12 - n_steps


def test_constraints_over_the_corpus_are_refused_by_name():
    ones = (E[part("tag") == 1] >= 0.4 * E.count(...)).named("ones")
    with pytest.raises(InvalidInputError) as error:
        run(estep=EStep([EACH, ones]))
    assert str(error.value) == (
        "constraints must lie inside instances where EM steps after every batch, got 'ones' over the corpus; leave it "
        "out, or train without Stepwise"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": 0.5}, "power must be above 0.5 and at most 1, got 0.5; steps must shrink, but not so fast"),
        ({"power": 1.1}, "power must be above 0.5 and at most 1, got 1.1"),
        ({"power": float("nan")}, "power must be above 0.5 and at most 1, got nan"),
        ({"n_batches": 0}, "n_batches must be an integer >= 1; got 0"),
        ({"seed": -1}, "seed must be an integer >= 0; got -1"),
    ],
)
def test_numbers_are_checked(options, message):
    with pytest.raises(InvalidInputError, match=message):
        Stepwise(**options)
