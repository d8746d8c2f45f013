"""The K best labellings of a sentence by a beam search with penalties, and learning from them."""

import itertools

import numpy as np
import pytest

from reproductions.extraction.beam import Search, k_best, learn_k_best
from spectrem import RelationExtractor
from spectrem.data import RelationSentence

PAIRS = [(a, b) for a in range(3) for b in range(3) if a != b]
WANTED = np.array([[-1, -1], [0, 0], [0, 1]])


def enumerated(types, relations, penalty):
    """All labellings with their scores, best first."""
    found = []
    for kinds in itertools.product(range(2), repeat=3):
        for own in itertools.product(range(3), repeat=6):
            score = sum(types[n, kind] for n, kind in enumerate(kinds))
            for (first, second), r, scores in zip(PAIRS, own, relations, strict=True):
                wrong = sum(want >= 0 and kinds[m] != want for m, want in zip((first, second), WANTED[r], strict=True))
                score += scores[r] - penalty * wrong
            found.append((score, kinds, own))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("penalty", [0.0, 1.0, 50.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_finds_what_enumeration_finds(seed, penalty):
    rng = np.random.default_rng(seed)
    types, relations = rng.normal(size=(3, 2)), rng.normal(size=(6, 3))
    scores, kinds, found = k_best(types, relations, PAIRS, WANTED, Search(k=8, width=10**4, penalty=penalty))
    expected = enumerated(types, relations, penalty)[:8]
    np.testing.assert_allclose(scores, [score for score, _, _ in expected], atol=1e-12)
    assert [(tuple(a), tuple(b)) for a, b in zip(kinds.tolist(), found.tolist(), strict=True)] == [
        (kinds, own) for _, kinds, own in expected
    ]


def test_a_narrow_beam_gives_true_scores_that_are_no_better():
    rng = np.random.default_rng(5)
    types, relations = rng.normal(size=(3, 2)), rng.normal(size=(6, 3))
    expected = enumerated(types, relations, 3.0)
    scores, kinds, found = k_best(types, relations, PAIRS, WANTED, Search(k=3, width=3, penalty=3.0))
    known = {(kinds, own): score for score, kinds, own in expected}
    for score, own, pairs in zip(scores, kinds.tolist(), found.tolist(), strict=True):
        assert score == pytest.approx(known[tuple(own), tuple(pairs)])
    assert len(scores) == 3
    assert scores[0] <= expected[0][0]


def test_learning_finds_the_relations_of_sentences_without_labels():
    people, places = ["Ann", "Ben", "Cid", "Dora", "Eve", "Fay"], ["Rome", "Oslo", "Lima", "Bonn", "Kiel", "Nice"]
    made = [
        RelationSentence([who, verb, "in", where], [(0, 1), (3, 4)], ["Peop", "Loc"], {(0, 1): "Live_In"})
        for who, where in itertools.product(people, places)
        for verb in ("lives", "dwells")
    ]
    bare = [one.unlabelled() for one in made[4:]]

    def learn(k):
        return learn_k_best(
            lambda: RelationExtractor(types=["Peop", "Loc"], relations=["Live_In"]),
            made[:4], bare, {"Live_In": ("Peop", "Loc")}, margin=0.2, iterations=2, search=Search(k=k),
        ).predict(bare)  # fmt: skip

    assert learn(1) == made[4:]
    # Of sentences so small the second best labelling is a wrong one, and counts as much as the best.
    assert {frozenset(one.relations) for one in learn(2)} == {frozenset(), frozenset([(0, 1)])}
