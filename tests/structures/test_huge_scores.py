"""Scores of 1e12 nats and more: probabilities of every family stay probabilities, and agree with exact sums."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

from spectrem.structures import (
    Alignment,
    Bracketings,
    Categorical,
    Chain,
    Chain2,
    EdgeChain,
    NonProjectiveTrees,
    Parts,
    Product,
    ProjectiveTrees,
    SemiMarkovChain,
    ValenceTrees,
)
from spectrem.testing import enumerate_structures

STRUCTURES = {
    "categorical": Categorical([1, 4, 3]),
    "chain": Chain([1, 4, 3], 3),
    "chain2": Chain2([1, 2, 4], 2),
    "chain of edges": EdgeChain([1, 2, 4], 2),
    "alignment": Alignment([2, 3], [2, 3]),
    "alignment with jumps": Alignment([2, 3], [2, 3], max_jump=2),
    "alignment with clipped jumps": Alignment([3, 3], [2, 3], max_jump=1),
    "reverse alignment": Alignment([2, 3], [3, 2], max_jump=2, reverse=True),
    "bracketings": Bracketings([2, 3, 5]),
    "nonprojective trees": NonProjectiveTrees([2, 4]),
    "nonprojective trees, several roots": NonProjectiveTrees([2, 4], single_root=False),
    "projective trees": ProjectiveTrees([2, 4]),
    "projective trees, several roots": ProjectiveTrees([2, 4], single_root=False),
    "semi-Markov chain": SemiMarkovChain([1, 4, 3], 2, 3),
    "trees with valence": ValenceTrees([2, 4]),
    "trees with valence, several roots": ValenceTrees([2, 4], single_root=False),
    "product": Product({"forward": Alignment([2], [3], max_jump=1), "other": Chain([3], 2)}, name="side"),
}
# What scores are drawn from, with the largest number in them.
KINDS = {
    "all high": lambda rng, n, size: size + rng.integers(-2, 3, n),
    "all low": lambda rng, n, size: -size + rng.integers(-2, 3, n),
    "some low": lambda rng, n, size: rng.choice([0.0, -size], n),
    "some high": lambda rng, n, size: rng.choice([0.0, size], n),
    "of any sign": lambda rng, n, size: size * rng.choice([-1.0, 0.0, 1.0], n) + rng.integers(-2, 3, n),
    "far apart": lambda rng, n, size: size * rng.normal(size=n),
    "nearly all low": lambda rng, n, size: np.where(rng.random(n) < 0.9, -size, 0.0) + rng.integers(-2, 3, n),
    "mostly impossible": lambda rng, n, size: np.where(rng.random(n) < 0.3, -np.inf, rng.choice([0.0, -size], n)),
}


@functools.cache
def listed(family):
    """For every instance of a structure, how often each of its possible values has each part, shared ones last."""
    structure = STRUCTURES[family]
    return [
        [np.concatenate([h.unary, *(f.ravel() for f in h.factors)]) for h in enumerate_structures(structure, n)]
        for n in range(structure.n_instances)
    ]


def exact_marginals(family, scores, gamma):
    """Marginals of unary parts by enumeration; scores of whole structures are exact. None of impossible instances."""
    structure = STRUCTURES[family]
    every, marginals = [Fraction(score) if score > -np.inf else None for score in scores], np.zeros(structure.n_unary)
    for counts in listed(family):
        possible = [h for h in counts if all(every[k] is not None for k in np.flatnonzero(h))]
        totals = [sum(every[k] * Fraction(h[k]) for k in np.flatnonzero(h)) for h in possible]
        p = np.array([math.exp(max(float(total - max(totals)) / gamma, -1e4)) for total in totals])
        for share, h in zip(p / p.sum(), possible, strict=True):
            marginals += share * h[: structure.n_unary]
    return marginals


@pytest.mark.parametrize("family", STRUCTURES)
@pytest.mark.parametrize("size", [1e12, 1e15, 1e300, 1e307])
def test_probabilities_are_exact_where_doubles_tell_scores_apart(family, size):
    structure, rng = STRUCTURES[family], np.random.default_rng(0)
    n_shared = [int(np.prod(shape)) for shape in structure.factor_shapes]
    for draw in KINDS.values():
        for gamma in (1.0, 0.3):
            scores = draw(rng, structure.n_unary + sum(n_shared), size)
            unary, *factors = np.split(scores, np.cumsum([structure.n_unary, *n_shared[:-1]]) if n_shared else [])
            shared = [f.reshape(shape) for f, shape in zip(factors, structure.factor_shapes, strict=True)]
            values, marginals = structure.smoothed_max(Parts(unary, tuple(shared)), gamma)
            found = marginals.unary
            assert not np.isnan(values).any()
            assert ((found >= 0.0) & (found <= 1.0 + 1e-15)).all()
            expected = exact_marginals(family, scores, gamma)
            choice = np.unique(structure.choice, return_inverse=True)[1]
            np.testing.assert_allclose(np.bincount(choice, found), np.bincount(choice, expected), atol=1e-9)
            # sums of a dozen scores are rounded to doubles, which are this far apart
            resolution = 12 * np.spacing(size) / gamma
            if resolution < 1.0:
                np.testing.assert_allclose(found, expected, atol=1e-9 + resolution)


@pytest.mark.parametrize(
    "family", ["bracketings", *(name for name in STRUCTURES if name.startswith(("proj", "trees")))]
)
@pytest.mark.parametrize("size", [1e12, 1e15])
def test_equal_trees_with_impossible_words_are_equally_likely(family, size):
    """Nothing is rounded where all scores are 0 or the same large number, however many of these a tree has."""
    structure, rng = STRUCTURES[family], np.random.default_rng(1)
    for kind in ("some low", "some high", "mostly impossible"):
        for gamma in (1.0, 0.5):
            scores = KINDS[kind](rng, structure.n_unary, size)
            found = structure.smoothed_max(Parts(scores), gamma)[1].unary
            np.testing.assert_allclose(found, exact_marginals(family, scores, gamma), atol=1e-12)
