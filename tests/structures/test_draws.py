"""Samples and n best structures of every family that is derived step by step, against enumeration."""

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.structures import (
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


@pytest.mark.parametrize("structure", [NonProjectiveTrees([2]), Categorical([2])])
def test_what_is_not_derived_is_refused(structure):
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
