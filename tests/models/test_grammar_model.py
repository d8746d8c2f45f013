from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from spectrem.constraints import E, part
from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant, EStep, Quench, Stopping, run_em
from spectrem.models.estep import Statistics
from spectrem.models.grammar import (
    GrammarParameters,
    ValenceModel,
    build_shards,
    harmonic,
    random_counts,
    uniform,
)
from spectrem.models.priors import DirichletPrior, MeanFieldPrior
from spectrem.models.shards import in_corpus_order
from spectrem.structures import ROOT, Parts
from spectrem.testing import check_model, enumerate_structures

LENGTHS, TAGS = [3, 1, 4, 2], [0, 1, 2, 1, 2, 0, 1, 0, 2, 1]


def story_of(heads, tags, params, adjacency):
    """log p of tags and a tree, choice by choice."""
    total = 0.0
    for word, head in enumerate(heads):
        if head == ROOT:
            total += np.log(params.root[tags[word]])
        sides = (range(word - 1, -1, -1), range(word + 1, len(heads)))
        for side, others in enumerate(sides):
            children = [d for d in others if heads[d] == word]
            for number, child in enumerate(children):
                later = min(number, 1)
                row = params.choose[tags[word], side]
                total += np.log(params.stop[tags[word], side, later, 0])
                total += np.log((row[later] if adjacency else row)[tags[child]])
            total += np.log(params.stop[tags[word], side, min(len(children), 1), 1])
    return total


def perturb(params, rng):
    """Near-by probabilities; of weights of a mean-field prior, smaller ones."""

    def near(table):
        noisy = table * rng.uniform(0.8, 1.0, table.shape)
        return noisy if params.log_prior is not None else noisy / noisy.sum(axis=-1, keepdims=True)

    return GrammarParameters(near(params.root), near(params.choose), near(params.stop), params.log_prior)


@pytest.mark.parametrize("adjacency", [False, True])
@pytest.mark.parametrize("single_root", [False, True])
def test_scores_are_log_probabilities_of_stories(adjacency, single_root):
    model = ValenceModel(3, adjacency=adjacency, single_root=single_root)
    params = random_counts(model, np.random.default_rng(0))
    [shard] = build_shards(LENGTHS, TAGS, 3)
    trees, scores = model.structure(shard), model.scores(params, shard)
    for m, tags in enumerate(np.split(np.array(TAGS), np.cumsum(LENGTHS)[:-1])):
        for tree in enumerate_structures(trees, m):
            with np.errstate(divide="ignore"):
                heads = trees.decode(replace(tree, unary=np.log(tree.unary)))
            own = heads[trees.token_offsets[m] : trees.token_offsets[m + 1]]
            assert scores.dot(tree) == pytest.approx(story_of(own, tags, params, adjacency))


def test_all_sentences_of_a_length_do_not_exceed_probability_one():
    model = ValenceModel(2)
    params = random_counts(model, np.random.default_rng(0))
    sentences = [[a, b, c] for a in range(2) for b in range(2) for c in range(2)]
    [shard] = build_shards([3] * 8, np.ravel(sentences), 2)
    values, _ = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
    assert 0 < np.exp(values).sum() < 1


@pytest.mark.parametrize(("prior", "adjacency"), [(DirichletPrior(0.1), False), (MeanFieldPrior(0.25), True)])
@pytest.mark.usefixtures("process_kept")
def test_promises(prior, adjacency):
    model = ValenceModel(3, adjacency=adjacency, root_prior=prior, choose_prior=prior, stop_prior=prior)
    heads = np.array([1, ROOT, 1, ROOT, -2, -2, -2, -2, ROOT, 0])
    shards = build_shards(LENGTHS, TAGS, 3, heads=heads)
    assert [shard.known for shard in shards] == [False, True]
    start = random_counts(model, np.random.default_rng(1))
    if isinstance(prior, MeanFieldPrior):
        start = model.m_step(start, 3.0 * Statistics(root=start.root, choose=start.choose, stop=start.stop))

    def reweigh(shard, weights):
        return replace(shard, weights=weights)

    check_model(
        model, start, shards, np.random.default_rng(0), perturb=perturb, reweigh=reweigh, iterations=3, tol=1e-7
    )


def test_partial_heads_leave_only_trees_with_them():
    model = ValenceModel(3)
    [shard] = build_shards([4], [0, 1, 2, 1], 3, heads=[-2, -2, 1, -2])
    params = random_counts(model, np.random.default_rng(0))
    trees = model.structure(shard)
    _, marginals = trees.smoothed_max(model.scores(params, shard), 1.0)
    columns = trees.columns
    on_second = marginals.unary[(columns["dependent"] == 2) & (columns["head"] == 1)]
    assert on_second.sum() == pytest.approx(1.0)
    assert trees.decode(model.scores(params, shard))[2] == 1


def test_given_trees_that_are_not_projective_are_counted():
    model = ValenceModel(2)
    heads = [2, 3, ROOT, 2]
    shards = build_shards([4], [0, 0, 1, 1], 2, heads=heads)
    _, given = model.structure(shards[0]).smoothed_max(Parts(np.zeros(len(shards[0].cells))), 1.0)
    learnt = model.normalise(model.gather(None, shards[0], given), DirichletPrior(0.0))
    assert learnt.root.tolist() == [0.0, 1.0]
    assert learnt.choose[1, 0].tolist() == [1.0, 0.0]
    assert learnt.choose[1, 1].tolist() == [0.0, 1.0]
    # the word at 2 and that at 3 each took one child on their left: 2 children, 2 stops behind them
    assert learnt.stop[1, 0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert learnt.stop[1, 1].tolist() == [[0.5, 0.5], [0.0, 1.0]]


def test_the_harmonic_start_by_hand():
    model = ValenceModel(3, choose_prior=DirichletPrior(0.0))
    start = harmonic(model, Local(build_shards([3], [0, 1, 2], 3)))
    # Every word hangs on the root with 1/3; of the rest of the first word, 2/3 go to the second and 1/3 to the third.
    np.testing.assert_allclose(start.root, 1 / 3)
    counts = np.array([[0, 4 / 9, 0], [0, 0, 0], [0, 0, 0]])
    assert start.choose[1, 0, 0] == pytest.approx((4 / 9 + 0.01) / (4 / 9 + 0.03))
    assert counts[0, 1] == pytest.approx(4 / 9)
    right_of_first = 1 / 3 + 2 / 9  # children of the first word: half of 2/3 of the second, a third of 2/3 of the third
    assert start.stop[0, 1, 0, 0] == pytest.approx((right_of_first + 0.01) / 1.02)
    assert start.stop[0, 1, 1, 1] == pytest.approx((right_of_first + 0.01) / (right_of_first + 0.02))
    preferred = harmonic(model, Local(build_shards([3], [0, 1, 2], 3)), preferred=[(-1, 1)], factor=1e9)
    assert preferred.root[1] > 0.95


def test_the_harmonic_start_keeps_given_heads():
    model = ValenceModel(3)
    start = harmonic(model, Local(build_shards([3], [0, 1, 2], 3, heads=[-2, ROOT, -2])))
    # The others hang on the root with 1/3 each, as they would without it.
    np.testing.assert_allclose(start.root, [0.2, 0.6, 0.2], atol=0.01)


@pytest.mark.parametrize("schedule", [Constant(1.0), Constant(0.5), Constant(0.0), Quench(Constant(1.5), 1.0)])
def test_the_objective_never_falls(schedule):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 8, 30)
    corpus = Local(build_shards(lengths, rng.integers(0, 4, lengths.sum()), 4))
    model = ValenceModel(4, choose_prior=DirichletPrior(0.1), stop_prior=DirichletPrior(0.1))
    history = run_em(model, corpus, harmonic(model, corpus), schedule=schedule, stopping=Stopping(8)).history
    for before, after in pairwise(history):
        if before.gamma == after.gamma:
            assert after.objective >= before.objective - 1e-9 * abs(before.objective)


def test_constraints_see_tags_and_ends():
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 6, 12)
    shards = build_shards(lengths, rng.integers(0, 2, lengths.sum()), 2)
    model = ValenceModel(2, tags=("N", "V"))
    verbs = E[part("root") & (part("dependent_tag") == "V")] >= 0.7 * E.count(part("root"), each="sentence")
    no_noun_heads = (E[(part("head_tag") == "N") & (part("dependent_tag") == "V")] <= 0.2).per("sentence")
    for gamma in (0.0, 0.5, 1.0):
        result = run_em(
            model, shards, uniform(model), EStep([verbs, no_noun_heads]), schedule=Constant(gamma), stopping=Stopping(3)
        )
        assert result.history[-1].violation < 1e-4


def test_many_shards_say_what_one_says():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 21, 400)
    tags = rng.integers(0, 4, lengths.sum())
    shards = build_shards(lengths, tags, 4)
    assert len(shards) > 1
    assert in_corpus_order(shards, [shard.tags for shard in shards], lengths).tolist() == tags.tolist()


def test_wrong_input_is_named():
    with pytest.raises(InvalidInputError, match="tags must hold 2 names, as n_tags says; got 1"):
        ValenceModel(2, tags=("N",))
