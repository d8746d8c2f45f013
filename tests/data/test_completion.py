"""Trees completed at random, against all projective trees."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from spectrem.data.transfer import can_be_completed, complete_tree, complete_trees
from spectrem.exceptions import InvalidInputError


def is_projective_tree(heads):
    """Whether every word hangs below a single root, and between a word and its head stand only words below the head."""
    if heads.count(-1) != 1:
        return False

    def above(word):
        chain = []
        while heads[word] >= 0 and len(chain) <= len(heads):
            word = heads[word]
            chain.append(word)
        return chain

    if any(len(above(word)) > len(heads) for word in range(len(heads))):
        return False
    return all(
        head in above(between)
        for word, head in enumerate(heads)
        if head >= 0
        for between in range(min(word, head) + 1, max(word, head))
    )


@cache
def all_trees(n):
    return [heads for heads in product(range(-1, n), repeat=n) if is_projective_tree(heads)]


def test_the_oracle_counts_the_trees_as_known():
    assert [len(all_trees(n)) for n in range(1, 6)] == [1, 2, 7, 30, 143]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_what_can_be_completed_is_what_some_tree_has(n):
    partial = {
        tuple(head if kept else -2 for head, kept in zip(tree, keep, strict=True))
        for tree in all_trees(n)
        for keep in product([False, True], repeat=n)
    }
    for heads in product(range(-2, n), repeat=n):
        if all(word != head for word, head in enumerate(heads)):
            assert can_be_completed(list(heads)) == (heads in partial), heads


@pytest.mark.parametrize("seed", range(20))
def test_completed_trees_are_projective_and_keep_arcs_that_fit(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    heads = tuple(complete_tree(np.zeros((n, n), bool), rng).tolist())
    assert is_projective_tree(heads)
    kept = [word for word in range(n) if rng.random() < 0.6]
    arcs = np.zeros((n, n), bool)
    for word in kept:
        arcs[word, heads[word] if heads[word] >= 0 else word] = True
    again = complete_tree(arcs, rng).tolist()
    assert is_projective_tree(tuple(again))
    assert [again[word] for word in kept] == [heads[word] for word in kept]


def test_arcs_in_conflict_leave_a_tree_that_has_one_of_them():
    arcs = np.zeros((3, 3), bool)
    arcs[0, 2] = arcs[0, 1] = arcs[1, 0] = True
    found = {tuple(tree.tolist()) for tree in complete_trees([arcs] * 60, random_state=0)}
    assert all(tree[0] in (1, 2) or tree[1] == 0 for tree in found)
    assert {tree[0] for tree in found} >= {1, 2}


def test_every_tree_is_found_without_arcs():
    found = {tuple(tree.tolist()) for tree in complete_trees([np.zeros((3, 3), bool)] * 300, random_state=1)}
    assert found == set(all_trees(3))


def test_empty_and_wrong_input():
    assert complete_trees([np.zeros((0, 0), bool)])[0].shape == (0,)
    with pytest.raises(InvalidInputError, match=r"arcs must be a square matrix .*got shape \(2, 3\)"):
        complete_tree(np.zeros((2, 3), bool), np.random.default_rng(0))
