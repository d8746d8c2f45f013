"""The compiled E-step equals the general one, and the definition."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from esteps import by_kernel, in_general
from tagging_oracles import assert_same_tables, literal_counts, make_problem, random_parameters

from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal, Constant, EStep, Quench, Stopping, run_em
from spectrem.models import tagging as shard_module
from spectrem.models.tagging import HMMModel, Lexicon, TagKernel, TagShard, build_shards, uniform


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 0.3, 1.0, 3.0])
def test_equal_to_the_general_path(order, dense, gamma):
    model, shards, params = make_problem(order, seed=21, dense=dense, lengths=(5, 1, 0, 7, 2, 3))
    if not dense:
        shards += build_shards(model.lexicon, [2], [0, 3])
        assert shards[-1].known
    lengths, weights = np.array([0, 2, 0, 1]), np.array([1.0, 2, 3, 4])  # build_shards leaves empty sentences out
    shards.append(TagShard(lengths, np.array([1, 2, 1]), weights, False, np.arange(4)))
    pairs = zip(
        by_kernel(TagKernel(model), params, gamma, shards),
        in_general(model, params, gamma, shards),
        strict=True,
    )
    for shard, (ours, general) in zip(shards, pairs, strict=True):
        assert_same_tables(ours.stats, general.stats)
        assert ours.objective == pytest.approx(general.objective, rel=1e-12)
        assert ours.free_objective == ours.objective
        assert ours.violation == 0.0
        if gamma > 0:
            counts, value = literal_counts(model, params, shard, gamma)
            assert_same_tables(ours.stats, counts)
            assert ours.objective == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 1.5, 4.0])
def test_skewed_posteriors_are_geometric_means(order, gamma):
    model, shards, params = make_problem(order, seed=22)
    reference = random_parameters(model.lexicon, order, np.random.default_rng(23))
    skewed = by_kernel(TagKernel(model, reference), params, gamma, shards)
    general = in_general(model, params, gamma, shards, reference=lambda shard: model.scores(reference, shard))
    for shard, ours, other in zip(shards, skewed, general, strict=True):
        counts, value = literal_counts(model, params, shard, gamma, reference)
        assert_same_tables(ours.stats, counts)
        assert_same_tables(other.stats, counts)
        assert ours.objective == pytest.approx(value, rel=1e-12)
        assert other.objective == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_words_never_seen_are_counted_as_transitions_only(order):
    lexicon, entries = Lexicon.full(2, 2).with_entries([-1], [(0, 1)])
    model = HMMModel(lexicon, order)
    shards = build_shards(lexicon, [3], np.repeat(entries, 3))
    (result,) = by_kernel(TagKernel(model), uniform(model), 1.0, shards)
    assert result.stats.emission.tolist() == [0.0] * 4
    total = result.stats.transition.sum() + (result.stats.second.sum() if order == 2 else 0.0)
    assert total == pytest.approx(2.0)
    assert result.objective == pytest.approx(0.0, abs=1e-12)


def test_em_annealing_and_viterbi_run_through():
    model, shards, params = make_problem(1, seed=24, lengths=(6, 3, 5, 2))
    em = run_em(model, shards, params, EStep(kernel=TagKernel(model)), stopping=Stopping(30, tol=0.0))
    values = [record.objective for record in em.history]
    assert (np.diff(values) >= -1e-9).all()
    schedule = Quench(Anneal(0.25, 1.0, alpha=2.0))
    quenched = run_em(
        model,
        shards,
        params,
        EStep(kernel=TagKernel(model, params)),
        schedule=schedule,
        stopping=Stopping(500, tol=1e-6),
    )
    assert [record.gamma for record in quenched.history][-1] == 0.0
    hard = run_em(model, shards, params, EStep(kernel=TagKernel(model)), schedule=Constant(0.0), stopping=Stopping(50))
    assert (np.diff([record.objective for record in hard.history]) >= -1e-9).all()


def test_labelled_sentences_give_whole_counts_at_every_gamma():
    lexicon, entries = Lexicon.full(3, 2).with_entries([0, 1, 2, 0], [(0,), (1,), (1,), (0,)])
    model = HMMModel(lexicon, 1)
    (shard,) = build_shards(lexicon, [3, 1], entries, [2.0, 0.5])
    assert shard.known
    params = random_parameters(lexicon, 1, np.random.default_rng(25))
    for gamma in (0.2, 1.0, 5.0):
        (result,) = by_kernel(TagKernel(model), params, gamma, [shard])
        np.testing.assert_allclose(result.stats.initial, [2.5, 0.0])
        np.testing.assert_allclose(result.stats.transition, [[0.0, 2.0], [0.0, 2.0]])
        np.testing.assert_allclose(result.stats.emission, [2.5, 0, 0, 2.0, 0, 2.0])


def test_an_impossible_sentence_is_named_unless_it_has_no_weight():
    lexicon = Lexicon.full(2, 2)
    model = HMMModel(lexicon, 1)
    params = replace(uniform(model), emission=np.array([1.0, 1.0, 0.0, 0.0]))
    message = r"sentence 1 must have some possible sequence of states.*smooth the start parameters"
    with pytest.raises(InvalidInputError, match=message):
        by_kernel(TagKernel(model), params, 1.0, build_shards(lexicon, [1, 1], [0, 1]))
    (result,) = by_kernel(TagKernel(model), params, 1.0, build_shards(lexicon, [1, 1], [0, 1], [1.0, 0.0]))
    assert result.objective == pytest.approx(0.0)
    assert result.stats.emission.tolist() == [0.5, 0.5, 0.0, 0.0]


def test_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(shard_module, "_LEAST_PARTS", 8)
    model, shards, params = make_problem(1, seed=26, lengths=(3, 4, 2, 5, 6, 1, 2, 4))
    assert len(shards) > 3
    one, two = (
        run_em(model, corpus, params, EStep(kernel=TagKernel(model)), stopping=Stopping(3, tol=0.0))
        for corpus in (Local(shards), Local(shards, 2))
    )
    assert np.array_equal(one.params.emission, two.params.emission)
    assert [r.objective for r in one.history] == [r.objective for r in two.history]


def test_memory_does_not_grow_with_the_corpus():
    lexicon = Lexicon.full(20, 8)
    model = HMMModel(lexicon, 1)
    params = random_parameters(lexicon, 1, np.random.default_rng(27))
    peaks = []
    for n_sentences in (2_000, 40_000):
        entries = np.random.default_rng(28).integers(0, 20, n_sentences * 20)
        shards = build_shards(lexicon, np.full(n_sentences, 20), entries)
        run_em(model, shards[:1], params, EStep(kernel=TagKernel(model)), stopping=Stopping(1, tol=0.0))
        tracemalloc.start()
        run_em(model, shards, params, EStep(kernel=TagKernel(model)), stopping=Stopping(1, tol=0.0))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 40e6  # parts of the large corpus: 51 MB per array of float64
