"""Start parameters against their definitions."""

import numpy as np
import pytest
from tagging_oracles import assert_same_tables, events, literal_m_step, make_problem, no_counts, sentences, sequences

from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.models.priors import DirichletPrior
from spectrem.models.tagging import (
    HMMModel,
    Lexicon,
    build_shards,
    posterior_uniform,
    random_counts,
    supervised,
    unambiguous,
    uniform,
)


@pytest.mark.parametrize("order", [1, 2])
def test_uniform_is_uniform_over_what_a_state_can_emit(order):
    model, _, _ = make_problem(order, seed=31)
    start = uniform(model)
    assert np.unique(start.initial).tolist() == np.unique(start.transition).tolist() == [1 / 3]
    assert start.emission.tolist() == (1 / model.lexicon.state_sizes)[model.lexicon.cell_states].tolist()
    assert (start.second is None) == (order == 1)


def test_perturbation_is_slight_multiplicative_and_seeded():
    model, _, _ = make_problem(2, seed=32)
    base = uniform(model)
    start, again = (uniform(model, perturbation=0.01, rng=np.random.default_rng(5)) for _ in range(2))
    for table in ("initial", "transition", "second", "emission"):
        found = getattr(start, table)
        assert np.array_equal(found, getattr(again, table))
        ratio = found / getattr(base, table)
        assert 1 / 1.01 < ratio.min() < ratio.max() < 1.01
    assert len(np.unique(start.transition)) == 27
    np.testing.assert_allclose(start.transition.sum(axis=-1), 1.0)


@pytest.mark.parametrize("order", [1, 2])
def test_posterior_uniform_counts_every_sequence_alike(order):
    model, shards, _ = make_problem(order, seed=33, lengths=(3, 1, 0, 4, 2), weights=np.array([1.0, 2, 1, 0.5, 3]))
    counts = no_counts(model)
    for shard in shards:
        for entries, weight in zip(sentences(shard), shard.weights, strict=True):
            found = list(sequences(model.lexicon, entries))
            for sequence in found:
                for table, at in events(*sequence, model.lexicon.n_cells, order):
                    getattr(counts, table)[at] += weight / len(found)
    assert_same_tables(posterior_uniform(model, Local(shards)), literal_m_step(model.lexicon, counts))


def test_posterior_uniform_smooths_with_the_models_priors():
    model, shards, _ = make_problem(1, seed=34, transition_prior=DirichletPrior(1e6))
    np.testing.assert_allclose(posterior_uniform(model, Local(shards)).transition, 1 / 3, rtol=1e-4)


@pytest.mark.parametrize("order", [1, 2])
def test_random_counts_are_between_one_and_one_plus_spread(order):
    model, _, _ = make_problem(order, seed=35, transition_prior=DirichletPrior(0.5))
    start = random_counts(model, np.random.default_rng(6), spread=3.0)
    ratio = start.transition / start.transition.min(axis=-1, keepdims=True)
    assert 2.0 < ratio.max() < 4.5 / 1.5
    other = random_counts(model, np.random.default_rng(7), spread=3.0)
    assert not np.array_equal(start.emission, other.emission)
    assert np.array_equal(random_counts(model, np.random.default_rng(8), spread=0.0).initial, uniform(model).initial)


@pytest.mark.parametrize("order", [1, 2])
def test_supervised_is_smoothed_relative_frequencies(order):
    words, tags = [0, 1, 2, 1, 0], [0, 1, 1, 0, 0]
    lexicon, entries = Lexicon.full(4, 2).with_entries(words, [(tag,) for tag in tags])
    model = HMMModel(lexicon, order, emission_prior=DirichletPrior(100.0))
    free = [3, 3]
    shards = build_shards(lexicon, [2, 3, 2], [*entries, *free], [1.0, 2.0, 5.0])
    start = supervised(model, Local(shards), smoothing=0.5)
    np.testing.assert_allclose(start.initial, [1.5 / 4, 2.5 / 4])
    emission = lexicon.table(start.emission)
    np.testing.assert_allclose(emission[0], np.array([3.5, 2.5, 0.5, 0.5]) / 7)
    np.testing.assert_allclose(emission[1], np.array([0.5, 1.5, 2.5, 0.5]) / 5)
    if order == 1:
        np.testing.assert_allclose(start.transition, [[2.5 / 4, 1.5 / 4], [2.5 / 3, 0.5 / 3]])
    else:
        np.testing.assert_allclose(start.second, [[0.5 / 2, 1.5 / 2], [2.5 / 3, 0.5 / 3]])
        np.testing.assert_allclose(start.transition[1, 0], [2.5 / 3, 0.5 / 3])
        np.testing.assert_allclose(start.transition[0, 1], 0.5)


@pytest.mark.parametrize("order", [1, 2])
def test_unambiguous_counts_pairs_with_a_single_state_and_divides_tokens_among_theirs(order):
    lengths = (30, 1, 0, 25, 40, 2)
    model, shards, _ = make_problem(order, seed=36, lengths=lengths, weights=np.array([1.0, 2, 1, 0.5, 3, 4]))
    counts = no_counts(model)
    for shard in shards:
        for entries, weight in zip(sentences(shard), shard.weights, strict=True):
            spans = [range(*model.lexicon.entry_offsets[e : e + 2]) for e in entries]
            state = [int(model.lexicon.entry_states[span[0]]) if len(span) == 1 else None for span in spans]
            for t, span in enumerate(spans):
                for part in span:
                    if model.lexicon.entry_cells[part] < model.lexicon.n_cells:
                        counts.emission[model.lexicon.entry_cells[part]] += weight / len(span)
                if t == 0 and state[0] is not None:
                    counts.initial[state[0]] += weight
                elif t > 0 and None not in state[t - 1 : t + 1]:
                    counts.transition[..., state[t - 1], state[t]] += weight
    if order == 2:
        counts.second[:] = counts.transition[0]
    assert counts.transition.sum() > 0
    smoothing = {"initial": 0.5, "transition": 0.1, "emission": 2.0}
    for table in ("initial", "transition", "second", "emission"):
        if getattr(counts, table) is not None:
            added = getattr(counts, table)
            added += smoothing.get(table, 0.1)
    assert_same_tables(unambiguous(model, Local(shards), smoothing=smoothing), literal_m_step(model.lexicon, counts))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (lambda m, s: uniform(m, perturbation=-0.1), r"perturbation must be finite and at least 0, got -0.1"),
        (lambda m, s: uniform(m, perturbation=0.1), r"rng must be a generator where perturbation is 0.1; pass"),
        (lambda m, s: random_counts(m, np.random.default_rng(0), spread=-1), r"spread must be .* at least 0, got -1"),
        (lambda m, s: unambiguous(m, s, smoothing=0.0), r"smoothing must be positive.*got 0.0 for initial; without it"),
        (
            lambda m, s: unambiguous(m, s, smoothing={"initial": 1.0, "emission": 1.0}),
            r"smoothing must be positive and finite for each of initial, transition, emission; got None for transition",
        ),
        (lambda m, s: supervised(m, s), r"shards must hold sentences labelled throughout.*got none; label some"),
    ],
)
def test_bad_input(start, message):
    lexicon = Lexicon.full(2, 2)
    with pytest.raises(InvalidInputError, match=message):
        start(HMMModel(lexicon, 1), Local(build_shards(lexicon, [2], [0, 1])))
