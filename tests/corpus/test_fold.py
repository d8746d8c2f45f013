"""The tree in which results are added."""

import operator

import numpy as np
import pytest

from spectrem.corpus import fold
from spectrem.corpus.corpus import sums_of_neighbours
from spectrem.exceptions import InvalidInputError


def tree(items, add=operator.add):
    """The definition: neighbours first, then neighbours of those."""
    while len(items) > 1:
        items = [add(*items[k : k + 2]) if k + 1 < len(items) else items[k] for k in range(0, len(items), 2)]
    return items[0]


@pytest.mark.parametrize("n", range(1, 70))
def test_fold_is_the_tree(n):
    names = [f"{k}," for k in range(n)]
    add = "({}{})".format
    assert fold(names, add) == tree(names, add)


@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 24, 37])
def test_sums_of_neighbours_add_up_to_the_same_tree(n, size):
    class Term(str):
        def __add__(self, other):
            return Term(f"({self!s}{other!s})")

    terms = [Term(f"{k},") for k in range(n)]
    parts = list(sums_of_neighbours(iter(terms), size))
    assert len(parts) == -(-n // size)
    assert fold(parts) == fold(terms)


def test_bits_are_those_of_the_tree_and_not_of_a_left_fold():
    rng = np.random.default_rng(0)
    values = [rng.normal(size=50) * 10.0 ** rng.integers(-8, 8) for _ in range(37)]
    left = sum(values[1:], values[0])
    expected = tree(values)
    assert not np.array_equal(expected, left)
    assert np.array_equal(fold([value.copy() for value in values]), expected)
    assert np.array_equal(fold(values, operator.add), expected)


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 1000])
def test_one_partial_sum_per_level_is_held(n):
    alive, most = 0, 0

    class Value:
        def __init__(self):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __iadd__(self, other):
            return self

        def __del__(self):
            nonlocal alive
            alive -= 1

    fold(Value() for _ in range(n))
    assert most <= n.bit_length() + 1


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33])
def test_sums_that_are_exact_are_made_one_after_another(n):
    class Exact(str):
        in_any_order = True

    names = [Exact(k) for k in range(n)]
    alone = [Exact("ends"), *names]  # one sum waits, of whatever size
    assert fold(iter(alone), lambda a, b: Exact(f"{a},{b}")) == ",".join(alone)
    waiting = []

    def wait(total, size):
        waiting.append(size)
        return lambda: total

    fold(names, lambda a, b: Exact(f"{a},{b}"), wait)
    assert waiting == [1] * n


def test_sums_are_made_in_place_only_where_asked():
    values = [np.array([float(k)]) for k in range(5)]
    assert fold(values, operator.add) == 10
    assert [float(value[0]) for value in values] == [0, 1, 2, 3, 4]
    total = fold(values)
    assert total is values[0]


def test_nothing_has_no_sum():
    with pytest.raises(InvalidInputError) as error:
        fold([])
    assert str(error.value) == "a corpus without shards has no sum; make it of at least one shard"
