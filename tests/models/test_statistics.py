"""Statistics are values: sums are those of dense tables whatever the order, and leave their terms alone."""

from copy import deepcopy
from functools import reduce
from operator import add, iadd

import numpy as np
import pytest

from spectrem.models.alignment import AlignmentStats
from spectrem.models.alignment import model as parameters
from spectrem.models.alignment.model import DirectionStats
from spectrem.models.estep import Statistics


def alignment(rng, n_entries=40):
    ids = np.flatnonzero(rng.random(n_entries) < rng.choice([0.0, 0.1, 0.4, 1.0])).astype(np.int32)
    longest = int(rng.integers(0, 6))

    def direction(n_words):
        return DirectionStats(
            rng.uniform(0.1, 2.0, len(ids)),
            rng.uniform(size=n_words),
            rng.uniform(size=5),
            rng.uniform(size=(longest + 1, longest + 1)),
            rng.uniform(size=3),
        )

    return AlignmentStats(direction(7), direction(9), n_entries, ids)


def named(rng):
    counts, first = rng.uniform(size=2), rng.uniform(size=(2, 3))
    return Statistics(counts=counts, first=first, second=None, value=float(rng.uniform()))


def tables(stats):
    """All numbers, in the largest shapes that there may be."""
    if isinstance(stats, AlignmentStats):
        sides = [(side.null, side.jumps, side.ends) for side in (stats.forward, stats.backward)]
        departures = [side.departures for side in (stats.forward, stats.backward)]
        padded = [np.pad(own, (0, 8 - len(own))) for own in departures]
        return np.concatenate([*stats.links, *sides[0], *sides[1], *(own.ravel() for own in padded)])
    return np.concatenate([np.ravel(value) for value in vars(stats).values() if value is not None])


@pytest.mark.parametrize("make", [alignment, named])
@pytest.mark.parametrize("seed", range(20))
def test_sums_and_multiples_are_those_of_tables(make, seed):
    rng = np.random.default_rng(seed)
    parts = [make(rng) for _ in range(6)]
    kept = deepcopy(parts)
    expected = sum(tables(part) for part in parts)
    left, right = reduce(add, parts), reduce(lambda a, b: b + a, parts[::-1])
    tree = (parts[0] + parts[1]) + (parts[2] + parts[3]) + (parts[4] + parts[5])
    for total in (left, right, tree, reduce(iadd, deepcopy(parts))):
        np.testing.assert_allclose(tables(total), expected, rtol=1e-12)
    np.testing.assert_array_equal(tables(2.5 * left), 2.5 * tables(left))
    total = parts[0] + parts[1]
    total += parts[2]  # a fresh value: its terms are not touched
    for part, other in zip(parts, kept, strict=True):
        np.testing.assert_array_equal(tables(part), tables(other))


@pytest.mark.parametrize("seed", range(10))
def test_sums_are_the_same_to_the_bit_whether_listed_or_not(seed, monkeypatch):
    def total(most_listed, fold):
        monkeypatch.setattr(parameters, "_MOST_LISTED", most_listed)
        rng = np.random.default_rng(seed)
        return fold([alignment(rng) for _ in range(7)])

    def tree(parts):
        return (parts[0] + parts[1]) + (parts[2] + (parts[3] + parts[4])) + (parts[5] + parts[6])

    for fold in (tree, lambda parts: reduce(iadd, parts)):
        always, never, usual = (total(most, fold) for most in (10.0, -1.0, 0.25))
        assert always.pair_ids is not None
        assert never.pair_ids is None
        np.testing.assert_array_equal(tables(always), tables(never))
        np.testing.assert_array_equal(tables(usual), tables(never))


def test_pairs_never_met_have_an_entry_of_their_own():
    rng = np.random.default_rng(0)
    a, b = alignment(rng), alignment(rng)
    for stats in (a, b):
        stats.pair_ids = np.array([3, 39], np.int32)
        stats.forward.links, stats.backward.links = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    b.pair_ids = np.arange(38, 40, dtype=np.int32)
    assert np.flatnonzero((a + b).links[0]).tolist() == [3, 38, 39]
    assert (a + b).links[1][[3, 38, 39]].tolist() == [3.0, 3.0, 8.0]


def test_sums_lengthen_counts_that_lie_in_memory_of_others():
    rng = np.random.default_rng(1)
    a, b = alignment(rng), alignment(rng)
    a.pair_ids, b.pair_ids = np.array([3, 9], np.int32), np.array([2, 9], np.int32)
    for stats in (a, b):
        memory = np.ones(2).tobytes()
        stats.forward.links, stats.backward.links = np.frombuffer(memory), np.frombuffer(memory)
    a += b
    assert a.pair_ids.tolist() == [2, 3, 9]
    assert a.forward.links.tolist() == a.backward.links.tolist() == [1, 1, 2]
