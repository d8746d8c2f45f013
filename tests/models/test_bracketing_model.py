"""The constituent-context model against its definition, tree by tree."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from spectrem.constraints import E, part
from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep, Step, Stopping, pose, posterior, run_em
from spectrem.models.bracketing import (
    BracketShard,
    ConstituentContextModel,
    SpanParameters,
    SpanVocabulary,
    build_shards,
    start_from,
    tree_scores,
)
from spectrem.models.estep import Statistics
from spectrem.structures import Bracketings
from spectrem.testing import check_model, enumerate_structures

SENTENCES = [[0, 1, 2, 1], [2, 2], [], [1], [0, 1, 0, 1, 2], [2, 0, 1]]
LENGTHS = np.array([len(sentence) for sentence in SENTENCES])
TAGS = np.array([tag for sentence in SENTENCES for tag in sentence])


def problem(by_length=False, smoothing=(2.0, 8.0), seed=0):
    vocabulary, numbers = SpanVocabulary.learn(LENGTHS, TAGS, 3)
    model = ConstituentContextModel(vocabulary, by_length, smoothing, ("DT", "NN", "VB"))
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2.0, len(LENGTHS))
    shard = BracketShard(LENGTHS, TAGS, numbers.yields, numbers.contexts, weights, np.arange(len(LENGTHS)))
    return model, shard, random_parameters(model, rng)


def random_parameters(model, rng):
    vocabulary = model.vocabulary
    yields, contexts = (rng.uniform(0.1, 1, (2, n)) for n in (vocabulary.n_yields, vocabulary.n_contexts))
    counts = Statistics(yields=yields, contexts=contexts)
    return replace(model, smoothing=(0.0, 0.0)).normalise(counts)


def pick(shard, sentences):
    """Some of the sentences of the shard of `problem`, which follow each other."""
    spans, words = (np.concatenate([[0], np.cumsum(own)]) for own in (LENGTHS * (LENGTHS + 1) // 2, LENGTHS))
    own, tokens = (slice(at[sentences.start], at[sentences.stop]) for at in (spans, words))
    return BracketShard(
        shard.lengths[sentences], shard.tags[tokens], shard.yields[own], shard.contexts[own], shard.weights[sentences],
        np.arange(sentences.start, sentences.stop),
    )  # fmt: skip


def joined(shards):
    fields = ("lengths", "tags", "yields", "contexts", "weights", "instances")
    return BracketShard(*(np.concatenate([getattr(shard, name) for shard in shards]) for name in fields))


def spans_of(sentence):
    """Yield and context of every span of a sentence, by start and end; None beside the ends."""
    padded = [None, *sentence, None]
    for start in range(len(sentence)):
        for end in range(start + 1, len(sentence) + 1):
            yield tuple(sentence[start:end]), (padded[start], padded[end + 1])


def test_vocabulary_numbers_distinct_yields_and_contexts():
    vocabulary, numbers = SpanVocabulary.learn(LENGTHS, TAGS, 3)
    literal = [span for sentence in SENTENCES for span in spans_of(sentence)]
    assert len(numbers.yields) == len(literal)
    assert vocabulary.n_yields == len({own for own, _ in literal})
    assert vocabulary.n_contexts == len({context for _, context in literal})
    listed = vocabulary.yields()
    assert [listed[number] for number in numbers.yields] == [own for own, _ in literal]
    assert len(set(zip(numbers.contexts.tolist(), [c for _, c in literal], strict=True))) == vocabulary.n_contexts
    assert vocabulary.yield_lengths.tolist() == sorted(map(len, listed))
    again = vocabulary.number(LENGTHS, TAGS)
    assert np.array_equal(again.yields, numbers.yields)
    assert np.array_equal(again.contexts, numbers.contexts)


def test_unseen_spans_have_no_number_and_say_nothing():
    model, _, params = problem()
    numbers = model.vocabulary.number(np.array([3]), np.array([1, -1, 0]))
    assert (numbers.yields < 0).tolist() == [False, True, True, True, True, False]
    assert (numbers.contexts < 0).tolist() == [True, False, False, True, False, True]
    # what begins with an unseen yield is unseen
    assert (model.vocabulary.number(np.array([3]), np.array([1, 1, 0])).yields < 0).tolist() == [0, 1, 1, 0, 0, 0]
    [shard] = build_shards([3], [1, -1, 0], numbers)
    scores = model.scores(params, shard).unary.reshape(-1, 2)
    assert scores[[1, 3]].tolist() == [[np.log(params.contexts[k, numbers.contexts[1]]) for k in (0, 1)], [0.0, 0.0]]
    assert model.columns(shard)["first"][::2].tolist()[:2] == ["NN", "NN"]
    assert not isinstance(model.columns(shard)["last"][2], str)  # a tag that was never seen
    _, marginals = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
    assert model.gather(params, shard, marginals).yields.sum() == pytest.approx(2.0)


@pytest.mark.parametrize("by_length", [False, True])
def test_scores_are_log_probabilities_of_tags_and_tree(by_length):
    model, shard, params = problem(by_length)
    structure, scores = model.structure(shard), model.scores(params, shard)
    listed, contexts = model.vocabulary.yields(), model.vocabulary.context_keys.tolist()
    for n, sentence in enumerate(SENTENCES):
        trees = list(enumerate_structures(structure, n))
        spans = slice(structure.span_offsets[n], structure.span_offsets[n + 1])
        for tree in trees:
            expected = -math.log(len(trees))
            pairs = zip(spans_of(sentence), tree.unary.reshape(-1, 2)[spans, 1].astype(int).tolist(), strict=True)
            for (own, (before, after)), kind in pairs:
                context = 4 * (3 if before is None else before) + (3 if after is None else after)
                expected += math.log(params.yields[kind, listed.index(own)])
                expected += math.log(params.contexts[kind, contexts.index(context)])
            assert scores.dot(tree) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("by_length", [False, True])
def test_m_step_normalises_smoothed_counts(by_length):
    model, shard, params = problem(by_length)
    _, marginals = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
    counts = model.gather(params, shard, marginals)
    found = model.m_step(params, counts)
    for kind, added in ((0, 2.0), (1, 8.0)):
        np.testing.assert_allclose(
            found.contexts[kind], (counts.contexts[kind] + added) / (counts.contexts[kind] + added).sum()
        )
        groups = model.vocabulary.yield_lengths if by_length else np.ones(model.vocabulary.n_yields)
        for group in np.unique(groups):
            own = groups == group
            smoothed = counts.yields[kind][own] + added
            np.testing.assert_allclose(found.yields[kind][own], smoothed / smoothed.sum())


def cut_at_random(start, end):
    """Every tree over some words, as a set of its spans, with its probability."""
    if end - start == 1:
        return [({(start, end)}, 1.0)]
    return [
        ({(start, end)} | left | right, p * q / (end - start - 1))
        for cut in range(start + 1, end)
        for left, p in cut_at_random(start, cut)
        for right, q in cut_at_random(cut, end)
    ]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7])
def test_random_splits_against_enumeration_and_closed_form(n):
    trees = Bracketings([n])
    _, marginals = trees.smoothed_max(tree_scores(trees.lengths, "split"), 1.0)
    expected = Counter()
    for tree, probability in cut_at_random(0, n):
        expected.update(dict.fromkeys(tree, probability))
    for start, end, share in zip(*trees.spans, marginals.unary[::2], strict=True):
        size, ends = int(end - start), int(start == 0) + int(end == n)
        closed = {0: 2 / (size * (size + 1)), 1: 1 / size, 2: 1.0}[ends]
        assert share == pytest.approx(expected[start, end], rel=1e-12)
        assert share == pytest.approx(closed, rel=1e-12)


@pytest.mark.parametrize("start", ["split", "uniform"])
def test_start_is_the_m_step_of_expected_counts(start):
    model, shard, _ = problem()
    params = start_from(model, Local([shard]), start)
    counts, structure = np.full((2, model.vocabulary.n_yields), [[2.0], [8.0]]), model.structure(shard)
    for n, length in enumerate(LENGTHS):
        trees = cut_at_random(0, int(length)) if length else [(set(), 1.0)]
        if start == "uniform":
            trees = [(tree, 1 / len(trees)) for tree, _ in trees]
        first = int(structure.span_offsets[n])
        begin, end = (own[first : int(structure.span_offsets[n + 1])].tolist() for own in structure.spans)
        for tree, probability in trees:
            for k, span in enumerate(zip(begin, end, strict=True)):
                counts[int(span not in tree), shard.yields[first + k]] += shard.weights[n] * probability
    np.testing.assert_allclose(params.yields, counts / counts.sum(axis=1, keepdims=True), rtol=1e-12)


def test_uniform_start_is_the_first_step_from_uniform_parameters():
    model, shard, _ = problem()
    flat = SpanParameters(*(np.full((2, n), 1 / n) for n in (model.vocabulary.n_yields, model.vocabulary.n_contexts)))
    first = run_em(model, [shard], flat, stopping=Stopping(1)).params
    np.testing.assert_allclose(first.yields, start_from(model, Local([shard]), "uniform").yields, rtol=1e-12)


@pytest.mark.parametrize(("by_length", "smoothing"), [(False, (2.0, 8.0)), (True, (0.0, 0.0))])
def test_check_model(by_length, smoothing):
    model, shard, params = problem(by_length, smoothing)

    def perturb(params, rng):
        other = random_parameters(model, rng)
        return SpanParameters(0.9 * params.yields + 0.1 * other.yields, 0.9 * params.contexts + 0.1 * other.contexts)

    check_model(
        model,
        params,
        [pick(shard, slice(0, 3)), pick(shard, slice(3, 6))],
        np.random.default_rng(1),
        perturb=perturb,
        reweigh=lambda shard, weights: replace(shard, weights=weights),
        join=joined,
        iterations=4,
    )


def test_columns_name_the_tags_of_spans():
    model, shard, _ = problem()
    columns = model.columns(shard)
    own = slice(0, 20, 2)  # the first sentence, DT NN VB NN
    assert columns["yield"][own].tolist()[:4] == ["DT", "DT NN", "DT NN VB", "DT NN VB NN"]
    assert columns["first"][own].tolist() == ["DT"] * 4 + ["NN"] * 3 + ["VB"] * 2 + ["NN"]
    assert columns["last"][own].tolist() == ["DT", "NN", "VB", "NN", "NN", "VB", "NN", "VB", "NN", "NN"]
    before, after = columns["before"][own].tolist(), columns["after"][own].tolist()
    assert before[4:] == ["DT"] * 3 + ["NN"] * 2 + ["VB"]
    assert after[:3] == ["NN", "VB", "NN"]
    assert not any(isinstance(tag, str) for tag in [*before[:4], after[3]])
    assert columns["before"][20:26:2].tolist()[2] == "VB"  # the second sentence, VB VB
    assert not any(isinstance(tag, str) for tag in columns["before"][20:24].tolist())
    assert columns["sentence"].tolist() == [0, 1, 2, 3, 4, 5]


def test_constraints_on_tags_hold_in_expectation():
    model, shard, params = problem()
    own = part("yield") == "DT NN"
    rule = E[part("constituent") & own] >= 0.9 * E.count(own)
    estep = EStep([rule])
    step = Step(model, params, 1.0, estep)
    shards, step = pose(model, Local([shard]), estep).at_prices(step)
    [found] = shards.collect(posterior, step)
    there = np.flatnonzero(shard.yields == model.vocabulary.yields().index((0, 1)))
    weights = np.repeat(shard.weights, LENGTHS * (LENGTHS + 1) // 2)[there]
    assert weights @ found.marginals.unary[2 * there] == pytest.approx(0.9 * weights.sum(), rel=1e-6)
    free = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)[1].unary[2 * there]
    assert weights @ free < 0.8 * weights.sum()


def test_bad_arguments():
    with pytest.raises(InvalidInputError, match="must increase"):
        SpanVocabulary(3, np.array([1, 0]), np.array([0, 2]), np.array([0]))
    with pytest.raises(InvalidInputError, match="must end at the number of yields, 2; got 3"):
        SpanVocabulary(3, np.array([0, 1]), np.array([0, 3]), np.array([0]))


def test_shards_follow_the_data_alone():
    lengths = np.full(600, 10)
    tags = np.random.default_rng(0).integers(0, 3, lengths.sum())
    vocabulary, numbers = SpanVocabulary.learn(lengths, tags, 3)
    shards = build_shards(lengths, tags, numbers)
    assert len(shards) == 2
    assert np.concatenate([shard.instances for shard in shards]).tolist() == list(range(600))
    assert np.array_equal(np.concatenate([shard.yields for shard in shards]), numbers.yields)
    assert vocabulary.n_yields > 0
