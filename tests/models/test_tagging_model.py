"""Scores, counts and M-steps of HMMs against their definition, state sequence by state sequence."""

from dataclasses import replace

import numpy as np
import pytest
from esteps import in_general
from tagging_oracles import (
    assert_same_tables,
    literal_counts,
    literal_m_step,
    log_probability,
    make_problem,
    no_counts,
    random_parameters,
    sentences,
    sequences,
)

from spectrem.constraints import E, part
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Stopping, run_em
from spectrem.models.priors import DirichletPrior, MeanFieldPrior
from spectrem.models.tagging import (
    HMMModel,
    HMMParameters,
    Lexicon,
    Names,
    TagShard,
    build_shards,
    uniform,
)
from spectrem.testing import check_model, enumerate_structures

ORDERS = (1, 2)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dense", [False, True])
def test_scores_are_log_probabilities_of_every_sequence(order, dense):
    model, shards, params = make_problem(order, seed=0, dense=dense)
    for shard in shards:
        structure, scores = model.structure(shard), model.scores(params, shard)
        for n, entries in enumerate(sentences(shard)):
            found = sequences(model.lexicon, entries)
            for indicator, sequence in zip(enumerate_structures(structure, n), found, strict=True):
                assert scores.dot(indicator) == pytest.approx(log_probability(params, *sequence), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.5])
def test_gather_is_weighted_expected_counts(order, dense, gamma):
    model, shards, params = make_problem(order, seed=1, dense=dense)
    for shard in shards:
        structure, scores = model.structure(shard), model.scores(params, shard)
        values, marginals = structure.smoothed_max(scores, gamma, weights=shard.weights)
        expected, value = literal_counts(model, params, shard, gamma)
        assert_same_tables(model.gather(params, shard, marginals), expected)
        assert shard.weights @ values == pytest.approx(value, rel=1e-12)


def perturb(lexicon, order, changed=("initial", "transition", "second", "emission")):
    def perturbed(params, rng):
        other = random_parameters(lexicon, order, rng)
        tables = {}
        for name in changed:
            own = getattr(params, name)
            tables[name] = None if own is None else 0.9 * own + 0.1 * getattr(other, name)
        return replace(params, **tables)

    return perturbed


def joined(shards):
    lengths, entries, weights, numbers = (
        np.concatenate([getattr(shard, name) for shard in shards])
        for name in ("lengths", "entries", "weights", "instances")
    )
    return TagShard(lengths, entries, weights, False, numbers)


@pytest.mark.usefixtures("process_kept")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dense", [False, True])
def test_check_model(order, dense):
    model, shards, params = make_problem(order, seed=2, dense=dense)
    rng = np.random.default_rng(3)
    check_model(
        model,
        params,
        shards,
        rng,
        perturb=perturb(model.lexicon, order),
        reweigh=lambda shard, weights: replace(shard, weights=weights),
        join=joined,
        iterations=4,
    )


@pytest.mark.usefixtures("process_kept")
@pytest.mark.parametrize("order", ORDERS)
def test_check_model_with_pseudo_counts(order):
    prior = DirichletPrior(4.0)
    model, shards, params = make_problem(
        order, seed=4, initial_prior=prior, transition_prior=prior, emission_prior=prior
    )
    check_model(
        model,
        params,
        shards,
        np.random.default_rng(5),
        perturb=perturb(model.lexicon, order),
        iterations=4,
    )


@pytest.mark.parametrize("order", ORDERS)
def test_em_raises_the_literal_log_likelihood(order):
    model, shards, params = make_problem(order, seed=6)
    values = []
    for _ in range(8):
        expected = [literal_counts(model, params, shard) for shard in shards]
        values.append(sum(value for _, value in expected))
        counts = expected[0][0]
        for other, _ in expected[1:]:
            counts += other
        result = run_em(model, shards, params, stopping=Stopping(1))
        assert result.history[0].free_objective == pytest.approx(values[-1], rel=1e-12)
        assert_same_tables(result.params, literal_m_step(model.lexicon, counts))
        params = result.params
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    assert values[-1] > values[0] + 0.5


def test_m_step_is_each_prior_row_by_row():
    lexicon = Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=3)  # nothing for state 2
    model = HMMModel(
        lexicon,
        1,
        initial_prior=DirichletPrior(0.0),
        transition_prior=DirichletPrior(2.0),
        emission_prior=MeanFieldPrior(0.5),
    )
    counts = no_counts(model)
    counts.initial[:] = [3, 1, 0]
    counts.transition[:] = [[1, 2, 0], [0, 0, 0], [0, 0, 0]]
    counts.emission[:] = [4, 2, 5]
    params = model.m_step(None, counts, None)
    assert params.initial.tolist() == [0.75, 0.25, 0.0]
    np.testing.assert_allclose(params.transition, [[3 / 9, 4 / 9, 2 / 9], [1 / 3] * 3, [1 / 3] * 3])
    expected = MeanFieldPrior(0.5).normalise(np.array([4.0, 2.0]), np.zeros(2, int), np.array([2]))
    np.testing.assert_allclose(params.emission[:2], expected)
    assert params.second is None


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("n_states", "n_words"), [(1, 3), (5, 2)])
def test_one_state_and_more_states_than_words(order, n_states, n_words):
    lexicon = Lexicon.full(n_words, n_states)
    model = HMMModel(lexicon, order)
    params = random_parameters(lexicon, order, np.random.default_rng(7))
    shards = build_shards(lexicon, [4, 0, 1], np.arange(5) % n_words)
    result = run_em(model, shards, params, stopping=Stopping(20, tol=0.0))
    values = [record.objective for record in result.history]
    assert (np.diff(values) >= -1e-9).all()
    for table in (result.params.initial, result.params.transition, result.params.emission):
        assert np.isfinite(table).all()
    np.testing.assert_allclose(result.params.transition.sum(axis=-1), 1.0)


def test_sentences_all_alike_and_states_without_words():
    lexicon = Lexicon.from_allowed([0, 2], [1, 3], n_states=4)  # states 0 and 2 emit nothing
    model = HMMModel(lexicon, 1, transition_prior=DirichletPrior(0.1))
    shards = build_shards(lexicon, [3] * 5, np.zeros(15, int))
    start = random_parameters(lexicon, 1, np.random.default_rng(8))
    result = run_em(model, shards, start, stopping=Stopping(5, tol=0.0))
    assert result.params.emission.tolist() == [1.0, 1.0]
    assert result.params.initial[[0, 2]].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(result.params.transition[[0, 2]], 0.25)
    assert np.isfinite([record.objective for record in result.history]).all()


def test_columns():
    lexicon, entries = Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=2).with_entries(
        [1, -1, -1], [(1,), (0, 1), (0,)]
    )
    (shard,) = build_shards(lexicon, [3, 2], [0, 1, *entries])
    assert HMMModel(lexicon, 1).columns(shard)["word"].tolist() == [0, 1, 1, -1, -1]
    assert set(HMMModel(lexicon, 1).columns(shard)) == {"sentence", "word"}
    assert HMMModel(lexicon, 1).columns(shard)["sentence"].tolist() == [0, 1]
    columns = HMMModel(lexicon, 1, names=Names(("N", "VERB"), ("the", "runs"), "?")).columns(shard)
    assert columns["word"].tolist() == ["the", "runs", "runs", "?", "?"]
    assert columns["tag"].tolist() == ["N", "N", "VERB", "VERB", "N", "VERB", "N"]


def test_restrict_gives_distributions():
    lexicon = Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=2)
    rule = np.array([[0.0, np.nan], [np.nan, np.nan]])
    model = HMMModel(lexicon, 1, restrictions={"transition": rule})
    params = model.restrict(HMMParameters(np.array([2.0, 6.0]), np.array([[3.0, 0.0], [1.0, 3.0]]), None, np.ones(3)))
    assert params.initial.tolist() == [0.25, 0.75]
    assert params.transition.tolist() == [[0.0, 1.0], [0.25, 0.75]]
    assert params.emission.tolist() == [0.5, 0.5, 1.0]


def table(**changed):
    tables = {"initial": np.ones(2), "transition": np.ones((2, 2)), "second": None, "emission": np.ones(4), **changed}
    return HMMParameters(**tables)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (table(initial=np.ones(3)), r"params.initial must have shape \(2,\); got \(3,\); make it for this order"),
        (table(transition=np.ones((2, 2, 2))), r"params.transition must have shape \(2, 2\); got \(2, 2, 2\)"),
        (table(second=np.ones((2, 2))), r"params.second must have shape None; got \(2, 2\)"),
        (table(emission=np.ones((2, 2))), r"params.emission must have shape \(4,\); got \(2, 2\); .*emission by cell"),
        (table(emission=np.array([1, -1, 1, 1.0])), r"params.emission must hold finite probabilities >= 0; got -1.0"),
        (table(initial=np.array([np.nan, 1])), r"params.initial must hold finite probabilities >= 0; got nan; look"),
    ],
)
def test_bad_start_parameters(params, message):
    with pytest.raises(InvalidInputError, match=message):
        HMMModel(Lexicon.full(2, 2), 1).restrict(params)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 3}, r"order must be 1 or 2, got 3; use 1 for bigrams"),
        ({"order": 1, "names": Names(tags=("N",))}, r"names.tags must hold 2 names.*got 1; name every one or none"),
        ({"order": 1, "names": Names(words=("a", "b", "c"))}, r"names.words must hold 2 names.*got 3"),
    ],
)
def test_bad_models(options, message):
    with pytest.raises(InvalidInputError, match=message):
        HMMModel(Lexicon.full(2, 2), **options)


@pytest.mark.parametrize("order", ORDERS)
def test_constraints_name_tags_and_words(order):
    names = Names(("NOUN", "VERB"), ("dogs", "bark", "cats"))
    lexicon, (verb,) = Lexicon.full(3, 2).with_entries([1], [(1,)])
    model = HMMModel(lexicon, order, names=names)
    params = model.restrict(
        replace(random_parameters(lexicon, order, np.random.default_rng(9)), emission=np.array([9, 1, 1, 1, 9, 1.0]))
    )
    shards = build_shards(lexicon, [2, 3, 1], [0, 1, 2, 0, 1, verb], [1.0, 2.0, 1.0])
    one_verb = (E[part("tag") == "VERB"] == 1).per("sentence")
    no_dog = (E[(part("word") == "dogs") & (part("tag") == "VERB")] <= 0.05).per("sentence")
    open_shard, known = in_general(model, params, 1.0, shards, one_verb, no_dog)
    table = lexicon.table(open_shard.stats.emission)
    assert table[1].sum() == pytest.approx(3.0, abs=1e-5)
    assert table[1, 0] <= 0.15 + 1e-6
    assert open_shard.objective < open_shard.free_objective - 0.1
    assert known.objective == known.free_objective


@pytest.mark.parametrize("lengths", [[2, 0], [0, 1, 1], [1, 0, 0, 0], [1, 1, 1, 0]])
def test_word_columns_are_never_taken_for_columns_of_sentences(lengths):
    lexicon = Lexicon.from_allowed([0, 1, 3, 4], [0, 0, 1, 1], n_states=2)
    model = HMMModel(lexicon, 1, names=Names(words=("a", "b", "c")))
    shards = build_shards(lexicon, lengths, [1, 0, 2][: sum(lengths)])
    rule = (E[(part("word") == "b") & (part("tag") == 1)] <= 0.1).per("sentence")
    assert in_general(model, uniform(model), 1.0, shards, rule)[0].stats.emission[2] <= 0.1 + 1e-6
