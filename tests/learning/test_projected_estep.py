"""The E-step of any model: what constraints, alpha, corpus scope and known instances do to EM."""

import numpy as np
import pytest
from estep_helpers import of_corpus, of_shards
from toy_models import Tagger, join, random_params, random_shards

from spectrem.constraints import E, compile_constraints, part
from spectrem.corpus import Local
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference import FixedStep, project_batch
from spectrem.learning import Constant, EStep, Step, Stopping, pose, run_em
from spectrem.learning.estep import multipliers_of

MODEL = Tagger()
ONE = E[part("tag") == 1]
ONCE = (ONE >= 0.4).per("sentence")
RARELY = ONE <= 6.0  # corpus scope; two shards of four sentences have a weight of about 10


def problem(seed=0, **options):
    rng = np.random.default_rng(seed)
    return random_params(rng), random_shards(rng, **options)


def run(params, shards, constraints=(), *, gamma=1.0, iterations=6, **options):
    estep = EStep(constraints, **options)
    result = run_em(MODEL, shards, params, estep, schedule=Constant(gamma), stopping=Stopping(iterations))
    return result, [r.objective for r in result.history]


def assert_never_falls(values, tolerance=1e-8):
    assert (np.diff(values) >= -tolerance * np.abs(values[1:])).all(), np.diff(values)


def same(a, b, **tolerance):
    for left, right in zip(a.params, b.params, strict=True):
        np.testing.assert_allclose(left, right, **tolerance)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("constraints", [[ONCE], [RARELY], [ONCE, RARELY]], ids=["instance", "corpus", "both"])
def test_f_never_falls_under_constraints(gamma, constraints):
    params, shards = problem(9)
    result, values = run(params, shards, constraints, gamma=gamma)
    assert_never_falls(values)
    assert all(r.violation < 1e-6 for r in result.history)
    assert all(r.penalty >= -1e-9 for r in result.history)
    assert result.history[0].penalty > 1e-3


def test_one_shard_is_project_and_gather():
    params, shards = problem(2, n_shards=1)
    structure, scores = MODEL.structure(shards[0]), MODEL.scores(params, shards[0])
    projection = project_batch(structure, scores, compile_constraints([ONCE], structure), weights=shards[0].weights)
    stats = MODEL.gather(params, shards[0], projection.marginals)
    result = of_corpus(MODEL, EStep([ONCE]), shards, params)
    for name in ("start", "transition", "emission"):
        np.testing.assert_allclose(getattr(result.stats, name), getattr(stats, name), rtol=1e-7)
    free_values, _ = structure.smoothed_max(scores, 1.0)
    assert result.free_objective == pytest.approx(float(shards[0].weights @ free_values), rel=1e-12)
    lengths = shards[0].lengths
    entropy_and_score = []
    begin = 0
    for n, length in enumerate(lengths):  # each sentence alone, without weight
        alone = shards[0]._replace(
            tokens=shards[0].tokens[begin : begin + length], lengths=lengths[n : n + 1], weights=np.ones(1)
        )
        begin += length
        one, one_scores = MODEL.structure(alone), MODEL.scores(params, alone)
        entropy_and_score.append(project_batch(one, one_scores, compile_constraints([ONCE], one)).primal_value)
    assert result.objective == pytest.approx(float(shards[0].weights @ entropy_and_score), rel=1e-7)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.5])
def test_corpus_rows_over_several_shards_are_those_of_one(gamma):
    params, shards = problem(3, n_shards=4)
    several, many = run(params, shards, [ONCE, ONE <= 11.0], gamma=gamma)
    one, single = run(params, [join(shards)], [ONCE, ONE <= 11.0], gamma=gamma)
    assert many[0] < run(params, shards, [ONCE], gamma=gamma)[1][0] - 0.1
    np.testing.assert_allclose(many, single, rtol=1e-6)
    same(several, one, rtol=1e-4, atol=1e-6)


def test_corpus_rows_hold_with_weights_and_bind():
    params, shards = problem(3, n_shards=3)

    class Listening(Tagger):
        def gather(self, params, shard, marginals):
            return float(np.repeat(shard.weights, shard.lengths) @ marginals.unary.reshape(-1, 2)[:, 1])

    assert of_corpus(Listening(), EStep(), shards, params).stats > 7.0
    assert of_corpus(Listening(), EStep([RARELY]), shards, params).stats == pytest.approx(6.0, abs=1e-5)


@pytest.mark.parametrize("constraints", [[ONCE], [ONCE, RARELY]], ids=["instance", "corpus"])
def test_a_warm_start_changes_the_work_only(constraints):
    params, shards = problem(4)
    cold, before = run(params, shards, constraints, warm_start=False)
    warm, after = run(params, shards, constraints, warm_start=True)
    np.testing.assert_allclose(after, before, rtol=1e-7)
    same(warm, cold, rtol=1e-4, atol=1e-6)


def test_a_warm_start_hands_multipliers_on():
    params, shards = problem(4)

    def twice(**options):
        posed = pose(MODEL, Local(shards), EStep([ONCE], **options))
        first, posed = posed.expect(Step(MODEL, params, 1.0, EStep([ONCE], **options)))
        frozen = EStep([ONCE], solver=FixedStep(0))
        return first, list(posed.shards.collect(multipliers_of)), posed.expect(Step(MODEL, params, 1.0, frozen))[0]

    first, kept, again = twice(warm_start=True)
    assert all(multipliers.any() for multipliers in kept)
    assert again.objective == pytest.approx(first.objective, rel=1e-7)
    _, kept, again = twice()
    assert kept == [None, None]
    assert again.violation > 0.01


def test_threads_give_the_same_bits_with_corpus_rows():
    params, shards = problem(5, n_shards=5)
    constraints = [ONCE, ONE <= 15.0]
    one, values = run(params, shards, constraints, iterations=2)
    for n_threads in (1, 2, 3, 7):
        other, also = run(params, Local(shards, n_threads), constraints, iterations=2)
        assert values == also
        assert all(np.array_equal(a, b) for a, b in zip(one.params, other.params, strict=True))


def test_alpha_zero_is_em_and_alpha_one_is_pr():
    params, shards = problem(6)
    em, free = run(params, shards)
    zero, values = run(params, shards, [ONCE], alpha=0.0)
    np.testing.assert_allclose(values, free, rtol=1e-9)
    same(zero, em, rtol=1e-9, atol=1e-12)
    pr, _ = run(params, shards, [ONCE])
    one, _ = run(params, shards, [ONCE], alpha=1.0)
    same(one, pr, rtol=0)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("constraints", [[ONCE], [ONCE, RARELY]], ids=["instance", "corpus"])
def test_the_weighted_objective_never_falls(alpha, constraints):
    params, shards = problem(7)
    _, values = run(params, shards, constraints, alpha=alpha)
    assert_never_falls(values)
    _, em = run(params, shards, iterations=1)
    _, pr = run(params, shards, constraints, iterations=1)
    assert values[0] == pytest.approx((1 - alpha) * em[0] + alpha * pr[0], rel=1e-8)


def test_alpha_mixes_the_counts():
    params, shards = problem(7, n_shards=1)

    def counts(constraints, alpha):
        return of_corpus(MODEL, EStep(constraints, alpha=alpha), shards, params).stats

    free, projected, mixed = counts([], 1.0), counts([ONCE], 1.0), counts([ONCE], 0.3)
    for name in ("start", "transition", "emission"):
        expected = 0.7 * getattr(free, name) + 0.3 * getattr(projected, name)
        np.testing.assert_allclose(getattr(mixed, name), expected, rtol=1e-6)


def test_alpha_is_checked():
    for alpha in (-0.1, 1.5, np.nan):
        with pytest.raises(InvalidInputError) as error:
            EStep([ONCE], alpha=alpha)
        assert str(error.value) == (f"alpha must lie in [0, 1], got {alpha}; 1 is posterior regularisation, 0 plain EM")


@pytest.mark.parametrize("constraints", [[], [ONCE], [ONCE, RARELY]], ids=["none", "instance", "corpus"])
def test_known_shards_keep_their_structures(constraints):
    params, (known, free) = problem(4)
    states = np.zeros(len(known.tokens), np.int64)  # breaks ONCE, which must not matter
    known = known._replace(known=states)
    result, other = of_shards(MODEL, EStep(constraints), [known, free], params)
    assert result.violation == 0.0
    emission = np.zeros((2, 3))
    np.add.at(emission[0], known.tokens, np.repeat(known.weights, known.lengths))
    np.testing.assert_allclose(result.stats.emission, emission, rtol=1e-12, atol=1e-14)
    if constraints:
        assert other.violation < 1e-6
        assert other.objective < other.free_objective


def test_corpus_rows_that_cannot_hold_are_an_error():
    params, shards = problem(1)
    total = sum(shard.weights @ shard.lengths for shard in shards)
    bounds = np.array([0.99, 1.01]) * total
    run(params, shards, [ONE >= bounds[0]], iterations=1)  # noqa: SIM300
    with pytest.raises(InfeasibleConstraintError, match="no feasible q over the corpus"):
        run(params, shards, [ONE >= bounds[1]], iterations=1)  # noqa: SIM300


@pytest.mark.parametrize("gamma", [0.3, 1.0])
@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
def test_corpus_rows_that_clash_with_instance_rows_are_found(n_shards, gamma):
    params, shards = problem(1, n_shards=n_shards)
    n = float(sum(shard.weights.sum() for shard in shards))
    low, high = 0.7 * n, 0.9 * n
    most, least = (E[part("tag") == 1] <= low).named("most"), (ONE >= 0.8).per("sentence").named("least")
    with pytest.raises(
        InfeasibleConstraintError,
        match=r"'most': no feasible q over the corpus \(<= .*, and it can be .* at least\); the price of row 0 gr",
    ):
        run(params, shards, [least, most], gamma=gamma, iterations=1)
    # what slack allows is no conflict
    run(params, shards, [least.slack(bound=0.2), most], gamma=gamma, iterations=1)
    result, _ = run(params, shards, [least, (E[part("tag") == 1] <= high).named("most")], gamma=gamma, iterations=1)
    assert result.history[0].violation < 1e-6


@pytest.mark.parametrize("names", [("few", "many"), ("many", "few")])
def test_corpus_rows_that_clash_are_named(names):
    params, shards = problem(1)
    rules = {"few": ONE <= 3, "many": ONE >= 3.5}
    idle = (E[part("tag") == 0] <= 1000).named("idle")
    with pytest.raises(
        InfeasibleConstraintError, match=r"'(few|many)': .* corpus; it conflicts with '(few|many)'; the"
    ):
        run(params, shards, [idle, *(rules[name].named(name) for name in names)], iterations=1)


def test_gamma_zero_and_minus_infinity_use_best_structures():
    params, shards = problem(9, n_shards=1)
    for gamma in (0.0, -np.inf):
        result, values = run(params, shards, [(ONE >= 1).per("sentence")], gamma=gamma, iterations=3)
        assert_never_falls(values)
        assert result.history[0].violation <= 1e-9
