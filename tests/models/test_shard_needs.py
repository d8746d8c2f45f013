"""The compiled E-step of a shard in a table of the words and word pairs that occur in it."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from bitext_oracles import make_bitext, make_model, random_parameters

from spectrem.data import Links
from spectrem.models.alignment import Anchors, BitextShard, CoupledKernel, coupled, cut_text, pairs, tabulate_pairs
from spectrem.models.alignment.model import Needs

LENGTHS = [(3, 2), (1, 1), (2, 5), (6, 3), (0, 4), (4, 0), (2, 2), (3, 3), (5, 4), (1, 6), (2, 3)]


def make_shards(max_chance, kind, anchors=None):
    """A table, and shards of its text, each of which has some of its words."""
    rng = np.random.default_rng(3)
    bitext = make_bitext(LENGTHS, rng, n_source_words=40, n_target_words=50)
    table = tabulate_pairs(bitext, max_chance)
    shards = [shard.pack(table) for shard in cut_text(bitext, rng.uniform(0.5, 2.0, len(LENGTHS)), anchors)]
    assert len(shards) > 3
    return table, [shard.index(table) if kind == "cells" else shard for shard in shards]


def assert_same(found, expected, n_entries):
    assert (found.objective, found.free_objective) == (expected.objective, expected.free_objective)
    assert found.violation == expected.violation
    assert (found.stats.n_entries, found.stats.exact) == (n_entries, expected.stats.exact)
    for a, b in zip(found.stats.links, expected.stats.links, strict=True):
        assert a.tobytes() == b.tobytes()
    for side in ("forward", "backward"):
        one, other = getattr(found.stats, side), getattr(expected.stats, side)
        for name in ("null", "jumps", "departures", "ends"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 20)
    monkeypatch.setattr(pairs, "_MOST_CELLS", 20)


@pytest.mark.parametrize("kind", ["text", "cells"])
@pytest.mark.parametrize("max_chance", [None, 0.2], ids=["all pairs", "some pairs"])
@pytest.mark.parametrize(("model", "gamma"), [("ibm1", 1.0), ("hmm", 1.0), ("hmm", 0.5)])
@pytest.mark.parametrize("alone", [False, True], ids=["in groups", "one by one"])
def test_the_same_bits_in_a_small_table(monkeypatch, kind, max_chance, model, gamma, alone):
    if alone:
        monkeypatch.setattr(coupled, "_MOST_CELLS", 0)
    known = Links.from_pairs([[] for _ in LENGTHS[:-3]] + [[(0, 0)], [(0, 5)], []])
    table, shards = make_shards(max_chance, kind, Anchors(known, np.arange(len(LENGTHS)) == 9))
    params = random_parameters(model, table, np.random.default_rng(4))
    kernel = CoupledKernel(make_model(model, table), agreement=True, max_fertility=1.0)
    incomplete = total = 0
    for shard in shards:
        expected = kernel.prepare(params, gamma)(shard)
        needs = pickle.loads(pickle.dumps(kernel.needs(shard)))
        own, few = pickle.loads(pickle.dumps(kernel.restrict(params, needs)))
        n_entries = len(few.forward.translation) - 1
        met = shard.index(table).pair_ids
        assert n_entries == np.count_nonzero(met < table.n_pairs) < table.n_pairs
        incomplete += met[-1] == table.n_pairs if len(met) else False
        total += n_entries
        assert len(few.forward.null) < len(params.forward.null)
        found = own.prepare(few, gamma)(shard)
        assert len(found.stats.forward.links) == n_entries + 1
        assert_same(replace(found, stats=kernel.place(found.stats, needs)), expected, table.n_pairs + 1)
    assert (incomplete > 0) == (max_chance is not None)
    assert total > table.n_pairs / 2


def test_sums_of_shards_have_the_bits_of_the_whole_table():
    table, shards = make_shards(None, "text")
    params = random_parameters("hmm", table, np.random.default_rng(4))
    kernel = CoupledKernel(make_model("hmm", table))
    expected, found = None, None
    for shard in shards:
        needs = kernel.needs(shard)
        own, few = kernel.restrict(params, needs)
        whole, part = kernel.prepare(params, 1.0)(shard).stats, kernel.place(own.prepare(few, 1.0)(shard).stats, needs)
        expected, found = (whole, part) if expected is None else (expected + whole, part + found)
    assert expected.exact
    for a, b in zip(expected.links, found.links, strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_shard_without_its_entries_needs_the_whole_table():
    table, shards = make_shards(None, "text")
    params = random_parameters("hmm", table, np.random.default_rng(4))
    kernel = CoupledKernel(make_model("hmm", table))
    shard = replace(shards[0], packed=None)
    assert Needs.of(shard) is None
    own, same = kernel.restrict(params, None)
    assert (own, same) == (kernel, params)
    found = own.prepare(same, 1.0)(shard)
    found = replace(found, stats=kernel.place(found.stats, None))
    assert_same(found, kernel.prepare(params, 1.0)(shards[0]), table.n_pairs + 1)


def test_an_empty_shard_needs_nothing():
    rng = np.random.default_rng(0)
    table = tabulate_pairs(make_bitext([(2, 2)], rng))
    (shard,) = (own.index(table) for own in cut_text(make_bitext([], rng)))
    assert isinstance(shard, BitextShard)
    params = random_parameters("hmm", table, rng)
    kernel = CoupledKernel(make_model("hmm", table))
    own, few = kernel.restrict(params, kernel.needs(shard))
    found = own.prepare(few, 1.0)(shard)
    found = replace(found, stats=kernel.place(found.stats, kernel.needs(shard)))
    assert_same(found, kernel.prepare(params, 1.0)(shard), table.n_pairs + 1)
