"""Arcs conserved along links."""

import numpy as np
import pytest

from spectrem.data import Links
from spectrem.data.transfer import aligned_words, conserved_arcs, one_to_one
from spectrem.exceptions import InvalidInputError


def by_definition(heads, pairs, length):
    """[Ganchev2010] §7.1, word by word."""
    arcs = np.zeros((length, length), bool)
    for c, p in enumerate(heads):
        for i, c_target in pairs:
            if i != c:
                continue
            if p == -1:
                arcs[c_target, c_target] = True
            for j, p_target in pairs:
                if j == p and p_target != c_target:
                    arcs[c_target, p_target] = True
    return arcs


@pytest.mark.parametrize("seed", range(5))
def test_arcs_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    heads, pairs, lengths = [], [], []
    for _ in range(6):
        n, m = rng.integers(0, 7, 2)
        heads.append([int(rng.integers(-1, d)) if d else -1 for d in range(n)])
        pairs.append([(i, j) for i in range(n) for j in range(m) if rng.random() < 0.3])
        lengths.append(m)
    found = conserved_arcs(heads, Links.from_pairs(pairs), lengths)
    for own, tree, linked, length in zip(found, heads, pairs, lengths, strict=True):
        np.testing.assert_array_equal(own, by_definition(tree, linked, length))


def test_roots_are_left_out_on_request():
    links = Links.from_pairs([[(0, 0), (1, 1)]])
    assert conserved_arcs([[-1, 0]], links, [2], roots=False)[0].tolist() == [[False, False], [True, False]]


def test_one_to_one_keeps_sentences_apart():
    links = Links.from_pairs([[(0, 0), (1, 0), (2, 1)], [(0, 0), (1, 1), (1, 2)], []])
    kept = one_to_one(links)
    assert [kept.pairs(n) for n in range(3)] == [[(2, 1)], [(0, 0)], []]


def test_aligned_words_of_each_sentence():
    marks = aligned_words(Links.from_pairs([[(0, 2), (1, 2)], [], [(0, 0)]]), [3, 2, 1])
    assert [own.tolist() for own in marks] == [[False, False, True], [False, False], [True]]


def test_a_link_outside_its_pair_is_named_with_its_line():
    links = Links.from_pairs([[(0, 0)], [(1, 3)]])
    with pytest.raises(InvalidInputError, match=r"gold\.txt: link 1-3 of sentence pair 2 .* its 2 source and 3 target"):
        conserved_arcs([[-1], [-1, 0]], links, [1, 3], name="gold.txt")
    with pytest.raises(InvalidInputError, match=r"links: link 0-0 of sentence pair 1 .* its 0 source and 1 target"):
        links.check_inside([0, 2], [1, 4])


def test_numbers_of_lines_must_be_the_same():
    with pytest.raises(InvalidInputError, match="source and target sentences, 2 and 2, got 1; give the"):
        conserved_arcs([[-1], [-1]], Links.from_pairs([[]]), [1, 1])
