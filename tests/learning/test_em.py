"""The EM loop on a toy tagger: likelihood by enumeration, schedules, stopping, history, errors."""

import math

import numpy as np
import pytest
from toy_models import Tagger, TaggerStats, join, log_likelihood, random_params, random_shards

from spectrem.corpus import Local
from spectrem.exceptions import ConvergenceWarning, SpectremError
from spectrem.learning import Anneal, Constant, EStep, FitStatus, Quench, Record, Stepwise, Stopping, run_em
from spectrem.models.estep import EStepResult

MODEL = Tagger()


def problem(seed=0, **options):
    rng = np.random.default_rng(seed)
    return random_params(rng), random_shards(rng, **options)


def run(params, shards, **options):
    return run_em(MODEL, shards, params, **options)


@pytest.mark.parametrize("seed", range(3))
def test_em_climbs_the_likelihood(seed):
    params, shards = problem(seed)
    values = [log_likelihood(params, shards)]
    seen = []
    for _ in range(5):
        result = run(params, shards, stopping=Stopping(1))
        seen.append(result.history[0].free_objective)
        params = result.params
        values.append(log_likelihood(params, shards))
    np.testing.assert_allclose(seen, values[:-1], rtol=1e-12)
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    assert values[-1] > values[0] + 0.1


def test_shards_add_up_to_one_shard():
    params, shards = problem()
    several, one = run(params, shards), run(params, [join(shards)])
    for a, b in zip(several.params, one.params, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    np.testing.assert_allclose([r.objective for r in several.history], [r.objective for r in one.history], rtol=1e-12)


def test_threads_give_the_same_bits():
    params, shards = problem(n_shards=7)
    one = run(params, shards)
    for n_threads in (1, 2, 3, 7):
        other = run(params, Local(shards, n_threads))
        assert all(np.array_equal(a, b) for a, b in zip(one.params, other.params, strict=True))
        assert [r.objective for r in one.history] == [r.objective for r in other.history]


def test_defaults():
    params, shards = problem()
    result = run(params, shards)
    assert [r.gamma for r in result.history] == [1.0] * 5
    assert result.status is FitStatus.FIXED_ITERATIONS


@pytest.mark.parametrize("schedule", [Constant(0.5), Anneal(0.25, 1.0, 2.0), Quench(Constant(1.0), 0.0)], ids=str)
def test_every_gamma_gets_its_iterations(schedule):
    params, shards = problem()
    heard = []
    result = run(params, shards, schedule=schedule, stopping=Stopping(3), on_iteration=heard.append)
    assert [r.gamma for r in result.history] == [g for g in schedule.gammas() for _ in range(3)]
    assert heard == list(result.history)
    assert all(r.seconds >= 0 for r in heard)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 2.5])
def test_the_objective_never_falls_at_other_gammas(gamma):
    params, shards = problem(1)
    values = [r.objective for r in run(params, shards, schedule=Constant(gamma), stopping=Stopping(8)).history]
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()


def test_hard_em_of_both_kinds_is_the_same_without_constraints():
    params, shards = problem(2)
    relaxed, integer = (run(params, shards, schedule=Constant(gamma)) for gamma in (0.0, -math.inf))
    assert [r.objective for r in relaxed.history] == [r.objective for r in integer.history]


def test_converges_per_gamma():
    params, shards = problem()
    result = run(params, shards, schedule=Anneal(0.5, 1.0, 2.0), stopping=Stopping(500, tol=1e-6))
    assert result.status is FitStatus.CONVERGED
    for gamma in (2.0, 1.0):
        values = [r.objective for r in result.history if r.gamma == gamma]
        gains = np.abs(np.diff(values)) / np.abs(values[:-1])
        assert 2 <= len(values) < 500
        assert gains[-1] <= 1e-6
        assert (gains[:-1] > 1e-6).all()


def test_running_out_of_iterations_warns_once():
    params, shards = problem()
    with pytest.warns(ConvergenceWarning) as caught:
        result = run(params, shards, stopping=Stopping(2, tol=1e-12))
    assert result.status is FitStatus.MAX_ITERATIONS
    assert [str(w.message) for w in caught] == [
        "max_iter was reached before the objective's gain fell below tol: raise max_iter or tol"
    ]


def test_a_nan_objective_is_an_error():
    params, shards = problem()

    class Careless(Tagger):
        def log_prior(self, params):
            return np.nan

    with pytest.raises(SpectremError) as error:
        run_em(Careless(), shards, params)
    assert str(error.value) == (
        "the objective became NaN at iteration 1 (gamma = 1.0); check the scores for infinities and the "
        "constraints for contradictions"
    )


def test_nan_scores_are_refused():
    params, shards = problem()
    params.emission[0, 0] = np.nan
    with pytest.raises(SpectremError, match=r"scores.unary must hold finite scores in nats, or -inf .* got NaN"):
        run(params, shards)


def test_an_interrupted_run_stops_where_the_callback_raises():
    params, shards = problem()
    heard = []

    def stop(record):
        heard.append(record)
        if len(heard) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(params, Local(shards, 2), on_iteration=stop)
    assert len(heard) == 2


class Scripted:
    """A kernel whose results are written down: a shard is the number of its result."""

    def prepare(self, params, gamma):
        return self.result

    def result(self, number):
        stats = TaggerStats(np.zeros(2), np.zeros((2, 2)), np.zeros((2, 3)))
        return EStepResult(stats, 1.0 + number, 2.0, (0.2, 0.7, 0.1)[number])


def test_numbers_of_shards_add_up():
    params, _ = problem()

    class Likely(Tagger):
        def log_prior(self, params):
            return -0.5

    (record,) = run_em(Likely(), [0, 1, 2], params, EStep(kernel=Scripted()), stopping=Stopping(1)).history
    assert (record.objective, record.free_objective, record.violation) == (5.5, 6.0, 0.7)
    assert (record.log_prior, record.penalty) == (-0.5, 0.0)


@pytest.mark.parametrize(("scale", "gain"), [(None, 1e-3 * 50.0), (20.0, 1e-3 * 20.0)])
def test_gains_are_measured_against_the_objective_or_a_scale(scale, gain):
    stopping = Stopping(9, tol=1e-3, scale=scale)
    for step, expected in ((0.99 * gain, True), (1.01 * gain, False)):
        assert stopping.converged([Record(1.0, value, 0.0, 0.0, 0.0) for value in (-50.0, -50.0 + step)]) is expected


class LastTagger(Tagger):
    """Its last M-step forgets where sentences start."""

    def last_m_step(self, params, stats, corpus):
        return self.m_step(params, stats, corpus)._replace(start=np.full(len(params.start), 1.0 / len(params.start)))


@pytest.mark.parametrize(
    ("schedule", "stopping"),
    [
        (Constant(1.0), Stopping(3)),
        (Anneal(0.5, 2.0), Stopping(2)),
        (Constant(1.0), Stopping(50, 0.01)),
        (Stepwise(n_batches=2), Stopping(2)),
    ],
    ids=str,
)
def test_a_model_may_end_by_another_m_step(schedule, stopping, tmp_path):
    params, shards = problem(2, n_shards=3)
    plain = run_em(MODEL, shards, params, schedule=schedule, stopping=stopping)
    ended = run_em(LastTagger(), shards, params, schedule=schedule, stopping=stopping, checkpoint=tmp_path)
    assert [record.objective for record in ended.history] == [record.objective for record in plain.history]
    for again in (False, True):  # a run that is over is read from its checkpoint
        if again:
            ended = run_em(LastTagger(), shards, params, schedule=schedule, stopping=stopping, checkpoint=tmp_path)
        np.testing.assert_array_equal(ended.params.emission, plain.params.emission)
        np.testing.assert_array_equal(ended.params.start, 1.0 / len(params.start))
        assert np.ptp(plain.params.start) > 0


def test_batches_without_weight_leave_nothing_for_another_m_step():
    class Weightless(LastTagger):
        def weights(self, shard):
            return np.zeros(self.structure(shard).n_instances)

    params, shards = problem(2, n_shards=3)
    found = run_em(Weightless(), shards, params, schedule=Stepwise(n_batches=2), stopping=Stopping(1))
    assert found.params is params
