"""Samples and n best structures of every family that has them, against enumeration."""

from collections import Counter

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.structures import (
    ROOT,
    Alignment,
    Bracketings,
    Categorical,
    Chain,
    Chain2,
    EdgeChain,
    NonProjectiveTrees,
    Parts,
    ProjectiveTrees,
    Segmentations,
    SemiMarkovChain,
    ValenceTrees,
    n_best,
    sample,
)
from spectrem.structures._ragged import no_parts
from spectrem.testing.check import random_scores

STRUCTURES = {
    "alignments": Alignment([2, 1, 3], [0, 2, 2], 1),
    "chains": Chain([0, 1, 3], 3),
    "chains of second order": Chain2([0, 1, 3], 3),
    "bracketings": Bracketings([0, 1, 2, 3, 5]),
    "projective trees": ProjectiveTrees([0, 1, 3, 4]),
    "projective trees of several roots": ProjectiveTrees([4], single_root=False),
    "crossing trees": NonProjectiveTrees([0, 1, 3, 4]),
    "crossing trees of several roots": NonProjectiveTrees([0, 1, 3], single_root=False),
    "trees with valence": ValenceTrees([0, 2, 4]),
    "chains of edges": EdgeChain([0, 1, 3], 3),
    "semi-Markov chains": SemiMarkovChain([0, 1, 4], 2, 3),
    "segmentations": Segmentations([0, 1, 4], 2, 2),
}
every = pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)


def only(structure, indicator):
    """What the structure decodes where one of its structures is possible."""
    possible = np.where(indicator.unary > 0.0, 0.0, -np.inf)
    return structure.decode(Parts(possible, tuple(np.zeros(shape) for shape in structure.factor_shapes)))


@every
@pytest.mark.parametrize("hidden", [0.0, 0.2])
def test_n_best_are_the_best_of_all(structure, hidden):
    scores, rng = random_scores(structure, np.random.default_rng(0)), np.random.default_rng(0)
    scores = Parts(np.where(rng.random(structure.n_unary) < hidden, -np.inf, scores.unary), scores.factors)
    values, best = n_best(structure, scores, 60)
    assert best.shape == (60, *structure.decode(scores).shape)
    assert np.array_equal(best[0], structure.decode(scores))
    for n in range(structure.n_instances):
        totals = sorted((scores.dot(one) for one in structure.enumerate(n)), reverse=True)
        possible = [total for total in totals if total > -np.inf][:60]
        np.testing.assert_allclose(values[n, : len(possible)], possible, rtol=1e-9, atol=1e-9)
        assert (values[n, len(possible) :] == -np.inf).all()


@every
def test_samples_have_the_probabilities_of_structures(structure):
    scores, last = random_scores(structure, np.random.default_rng(0)), structure.n_instances - 1
    listed = list(structure.enumerate(last))
    totals = np.array([scores.dot(one) for one in listed])
    p = np.exp((totals - totals.max()) / 0.8)
    p /= p.sum()
    drawn = sample(structure, scores, 3000, 0, gamma=0.8)
    forms = [only(structure, one) for one in listed]  # with all other instances impossible, -1 or so throughout
    here = np.any([form != only(structure, no_parts(structure)) for form in forms], axis=0)
    shares = np.mean([[np.array_equal(row[here], form[here]) for form in forms] for row in drawn], axis=0)
    same = [[np.array_equal(one[here], other[here]) for other in forms] for one in forms]
    p = np.array(same) @ p  # cuts inside a run of one state are not seen in its form
    assert (abs(shares - p) <= 6 * np.sqrt(p * (1 - p) / 3000) + 1e-3).all()


@every
def test_seeds_repeat_and_gamma_zero_is_the_best(structure):
    scores = random_scores(structure, np.random.default_rng(0))
    assert np.array_equal(sample(structure, scores, 4, 3), sample(structure, scores, 4, np.random.default_rng(3)))
    assert (sample(structure, scores, 3, gamma=0.0) == structure.decode(scores)).all()


def test_spans_that_must_be_constituents_are_in_every_tree():
    trees = Bracketings([5])
    scores = random_scores(trees, np.random.default_rng(0))
    start, end = trees.spans
    scores.unary[2 * np.flatnonzero((start == 1) & (end == 4)) + 1] = -np.inf
    assert all([1, 4] in tree.tolist() for tree in sample(trees, scores, 50, 0))
    values, best = n_best(trees, scores, 10)
    possible = best[values[0] > -np.inf]
    assert len(possible) == 4  # two ways to cut the span and two to cut the sentence around it
    assert all([1, 4] in tree.tolist() for tree in possible)


def frequencies_fit(trees, scores, n, seed):
    """Whether draws of the last sentence come as often as they should, up to 5 standard errors, and none never."""
    drawn = sample(trees, scores, n, seed)[:, trees.token_offsets[-2] :]
    size = int(trees.lengths[-1])
    totals, forms = [], []
    for one in trees.enumerate(trees.n_instances - 1):
        heads = one.unary[-size * size :].reshape(size, size).argmax(axis=1)
        totals.append(scores.dot(one))
        forms.append(tuple(np.where(heads == np.arange(size), ROOT, heads).tolist()))
    p = np.exp(np.array(totals) - max(totals))
    expected = dict(zip(forms, n * p / p.sum(), strict=True))
    counted = Counter(map(tuple, drawn.tolist()))
    assert counted.keys() <= {form for form, mean in expected.items() if mean > 0.0}
    for form, mean in expected.items():
        assert abs(counted[form] - mean) <= 5 * np.sqrt(mean * (1 - mean / n)) + 2


roots = pytest.mark.parametrize("single_root", [True, False], ids=["single root", "several roots"])


@roots
@pytest.mark.parametrize("seed", range(8))
def test_crossing_trees_with_forbidden_arcs_are_drawn_in_proportion(single_root, seed):
    rng = np.random.default_rng(seed)
    trees = NonProjectiveTrees([2, 4], single_root=single_root)
    while True:
        scores = Parts(np.where(rng.random(trees.n_unary) < 0.4, -np.inf, 2.0 * rng.normal(size=trees.n_unary)))
        if trees.smoothed_max(scores, 0.0)[0][1] > -np.inf:
            break
    frequencies_fit(trees, scores, 4000, seed)


@roots
@pytest.mark.parametrize("word", range(4))
@pytest.mark.parametrize("other", [None, 0, 3])
def test_a_word_that_must_be_the_root_is(single_root, word, other):
    # as it has no other arc, or only one to a word whose only arc is to it
    scores = np.random.default_rng(word).normal(size=(4, 4))
    scores[word, np.arange(4) != word] = -np.inf
    if other not in (None, word):
        scores[word, other] = 0.5
        scores[other, np.arange(4) != word] = -np.inf
    frequencies_fit(NonProjectiveTrees([4], single_root=single_root), Parts(scores.ravel()), 4000, word)


@roots
@pytest.mark.parametrize("depth", [60.0, 1e3, 1e5])
def test_words_that_want_each_other_are_drawn_in_proportion(single_root, depth):
    # in each pair of words both want the other, which a random walk would hardly ever leave
    scores = np.random.default_rng(0).normal(size=(4, 4)) - depth
    scores[[0, 1, 2, 3], [1, 0, 3, 2]] += depth
    frequencies_fit(NonProjectiveTrees([4], single_root=single_root), Parts(scores.ravel()), 4000, 0)


@roots
@pytest.mark.parametrize("deviation", [3.0, 60.0, 6000.0])
def test_the_mode_of_long_sentences_is_drawn_as_often_as_it_should(single_root, deviation):
    trees = NonProjectiveTrees([30] * 20, single_root=single_root)
    scores = Parts(deviation * np.random.default_rng(0).normal(size=trees.n_unary))
    p = np.minimum(np.exp(trees.smoothed_max(scores, 0.0)[0] - trees.smoothed_max(scores, 1.0)[0]), 1.0)
    mode, drawn = trees.decode(scores), sample(trees, scores, 400, 0)
    share = (drawn == mode).reshape(400, 20, 30).all(axis=2).mean(axis=0)
    assert (abs(share - p) <= 5 * np.sqrt(p * (1 - p) / 400) + 1e-8).all()
    assert p.max() > 0.999 or deviation < 6000.0
    assert (sample(trees, scores, 2, 0, gamma=1e-300) == mode).all()


@roots
def test_draws_and_best_of_a_sentence_do_not_depend_on_those_behind_it(single_root):
    trees, few = (NonProjectiveTrees(lengths, single_root=single_root) for lengths in ([3, 0, 12, 7, 1], [3, 0, 12]))
    scores = random_scores(trees, np.random.default_rng(1))
    first = Parts(scores.unary[: few.n_unary])
    assert np.array_equal(sample(trees, scores, 5, 2)[:, :15], sample(few, first, 5, 2))
    for whole, part in zip(n_best(trees, scores, 9), n_best(few, first, 9), strict=True):
        assert np.array_equal(whole[:3] if part.shape[0] == 3 else whole[:, :15], part)


@roots
def test_impossible_sentences_have_no_tree(single_root):
    trees = NonProjectiveTrees([3, 2, 0, 1], single_root=single_root)
    scores = random_scores(trees, np.random.default_rng(1))
    scores.unary[[0, 4, 8]] = -np.inf  # no root
    values, best = n_best(trees, scores, 2)
    assert values[0].tolist() == [-np.inf, -np.inf]
    assert values[2].tolist() == [0.0, -np.inf]
    for heads in (best, sample(trees, scores, 2, 0), sample(trees, scores, 2, 0, gamma=0.0)):
        assert (heads[:, :3] == -2).all()
        assert (heads[0, 3:] > -2).all()


def best_by_parts(trees, scores, n):
    """Heads of the n best trees of one sentence: those that are not listed are divided by where they first depart."""
    size = int(trees.lengths[0])
    listed, sets = [], [(scores.reshape(size, size), 0)]
    while sets and len(listed) < n:
        decoded = [trees.decode(Parts(part.ravel())) for part, _ in sets]
        values = [trees.smoothed_max(Parts(part.ravel()), 0.0)[0][0] for part, _ in sets]
        best = int(np.argmax(values))
        if values[best] == -np.inf:
            break
        part, start = sets.pop(best)
        listed.append(decoded[best].tolist())
        for word, head in enumerate(np.where(decoded[best] == ROOT, np.arange(size), decoded[best])):
            if word >= start:
                other = part.copy()
                other[word, head] = -np.inf
                sets.append((other, word))
            part = part.copy()
            part[word, np.arange(size) != head] = -np.inf
    return listed


@roots
@pytest.mark.parametrize("seed", range(3))
def test_equal_crossing_trees_are_all_listed_in_a_certain_order(single_root, seed):
    trees = NonProjectiveTrees([4], single_root=single_root)
    scores = np.random.default_rng(seed).integers(0, 2, 16).astype(float) if seed else np.zeros(16)
    n = sum(1 for _ in trees.enumerate(0))
    values, best = n_best(trees, Parts(scores), n + 1)
    assert (np.diff(values[0]) <= 0.0).all()
    assert np.isneginf(values[0]).sum() == 1
    assert best[:n].tolist() == best_by_parts(trees, scores, n)
    assert len(set(map(tuple, best.tolist()))) == n + 1
    for fewer in (1, 2, 5):
        assert np.array_equal(n_best(trees, Parts(scores), fewer)[1], best[:fewer])


@roots
def test_trees_that_are_equal_but_for_rounding_are_all_listed(single_root):
    trees = NonProjectiveTrees([4], single_root=single_root)
    n = sum(1 for _ in trees.enumerate(0))
    for seed in range(20):
        scores = np.random.default_rng(seed).integers(0, 3, 16) / 10
        values, best = n_best(trees, Parts(scores), n)
        assert (np.diff(values[0]) <= 0.0).all()
        assert len(set(map(tuple, best.tolist()))) == n


def test_what_is_not_derived_is_refused():
    structure = Categorical([2])
    for draw in (sample, n_best):
        with pytest.raises(InvalidInputError, match="not derived step by step"):
            draw(structure, random_scores(structure, np.random.default_rng(0)), 1)


def test_bad_input_is_named():
    trees = ProjectiveTrees([2])
    scores = random_scores(trees, np.random.default_rng(0))
    for draw in (sample, n_best):
        with pytest.raises(InvalidInputError, match="n must be"):
            draw(trees, scores, 0)
    with pytest.raises(InvalidInputError, match="gamma"):
        sample(trees, scores, 1, gamma=-1.0)
    with pytest.raises(InvalidInputError, match="edges"):
        n_best(trees, scores, 1, np.zeros((2, 2, 2)))
