"""Projective trees and those made of others, against all trees of few words."""

from itertools import product

import numpy as np
import pytest

from spectrem.data import is_projective, projectivise
from spectrem.data.treebank import describe_problem
from spectrem.exceptions import InvalidInputError


def descends(heads, word, over):
    while word != over and word >= 0:
        word = heads[word]
    return word == over


def projective(heads):
    """The definition: all words between a head and its dependent descend from the head."""
    return all(
        descends(heads, between, head)
        for word, head in enumerate(heads)
        for between in range(min(word, head) + 1, max(word, head))
    )


def trees(n):
    for heads in product(range(-1, n), repeat=n):
        if describe_problem(np.array(heads)) is None:
            yield heads


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_all_trees_of_few_words(n):
    found = list(trees(n))
    assert len(found) == (n + 1) ** (n - 1)  # Cayley: spanning trees on the words and the root
    for heads in found:
        assert is_projective(heads) == projective(heads)
        lifted = projectivise(heads)
        assert projective(lifted)
        assert not projective(heads) or lifted.tolist() == list(heads)
        assert (lifted == -1).sum() == 1 or heads.count(-1) > 1


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_all_parts_of_trees_of_few_words(n):
    every = np.array([heads for heads in trees(n) if projective(heads)])
    single = every[(every == -1).sum(axis=1) == 1]

    def fits(heads):
        allowed = every if (heads == -1).sum() > 1 else single
        return bool(((allowed == heads) | (heads == -2)).all(axis=1).any())

    for listed in product(range(-2, n), repeat=n):
        heads = np.array(listed)
        if -2 not in listed or describe_problem(heads) is not None:
            continue
        assert is_projective(heads) == fits(heads)
        lifted = projectivise(heads)
        assert fits(lifted)
        assert not fits(heads) or lifted.tolist() == list(listed)
        assert (lifted == -1).sum() == listed.count(-1)
        for word in np.flatnonzero(lifted != heads).tolist():
            assert lifted[word] == -2 or descends(listed, word, lifted[word])


def test_the_shortest_arc_is_lifted_first():
    # 1 -> 3 passes over the root word 2, and so does 0 -> 4, the longer of the two
    assert projectivise([2, 2, -1, 1, 0]).tolist() == [2, 2, -1, 2, 2]
    assert projectivise([1, -1, 1, 0]).tolist() == [1, -1, 1, 1]


def test_unknown_heads_cross_nothing():
    assert is_projective([2, -2, -2])
    assert not is_projective([2, -1, -2])


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([1, 0], "words 0 and 1 are heads of each other"),
        ([1, 0, -2], "words 0 and 1 are heads of each other"),
        ([3], "the words 0 to 0"),
    ],
)
def test_what_is_not_a_tree_is_not_lifted(heads, message):
    with pytest.raises(InvalidInputError, match=f"heads must fit a tree, but .*{message}"):
        projectivise(heads)
