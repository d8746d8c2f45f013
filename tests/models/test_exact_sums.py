"""Expected counts of shards are rounded so that their sums are exact: the same bits in any order."""

from dataclasses import replace
from functools import reduce
from operator import add, iadd

import numpy as np
import pytest
from bitext_oracles import assert_same_counts, corpus_counts, make_bitext, make_model, random_parameters

from spectrem.corpus import Local, fold
from spectrem.data import Links
from spectrem.models.alignment import Anchors, CoupledKernel, cut_text, iter_shards, pairs, tabulate_pairs


@pytest.fixture
def problem(monkeypatch):
    """Twelve small shards, one of known links, with weights that are no round numbers, and their E-step."""
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 12)
    monkeypatch.setattr(pairs, "_MOST_CELLS", 12)
    rng = np.random.default_rng(6)
    bitext = make_bitext([(int(a), int(b)) for a, b in rng.integers(1, 5, (26, 2))], rng)
    table = tabulate_pairs(bitext)
    kernel = CoupledKernel(make_model("hmm", table), agreement=True)
    estep = kernel.prepare(random_parameters("hmm", table, rng), 1.5)
    weights, links = rng.uniform(0.1, 3.0, 26), Links.from_pairs([[]] * 25 + [[(0, 0)]])
    links = Anchors(links, np.arange(26) == 25)
    shards = [shard.pack(table) for shard in cut_text(bitext, weights, links)]
    assert len(shards) > 9
    return estep, shards, list(iter_shards(bitext, table, weights, links)), table


def bits(result):
    counts = [*result.stats.links]
    for side in (result.stats.forward, result.stats.backward):
        longest = 9 - len(side.departures)
        counts += [side.null, side.jumps, side.ends, np.pad(side.departures, (0, longest)).ravel()]
    return [*np.concatenate(counts).tolist(), result.objective, result.free_objective]


def test_the_order_of_sums_is_not_seen(problem):
    estep, shards, _, _ = problem

    def values():
        return [estep(shard) for shard in shards]

    assert all(value.in_any_order for value in values())
    expected = bits(reduce(add, values()))
    total = reduce(add, values())
    assert total.in_any_order
    tree = values()
    while len(tree) > 1:
        tree = [sum(tree[k + 1 : k + 2], tree[k]) for k in range(0, len(tree), 2)]
    for other in (reduce(iadd, values()[::-1]), tree[0], fold(values()), Local(shards, 2).sum(estep)):
        assert bits(other) == expected


def test_rounding_is_below_the_quantum(problem):
    estep, shards, whole, table = problem
    (quantum,) = {shard.quantum for shard in shards}
    total = sum(float(shard.weights @ np.maximum(shard.source_lengths, shard.target_lengths)) for shard in shards)
    assert total < quantum * 2**51 <= 2 * total
    for shard, exact in zip(shards, whole, strict=True):
        rounded, plain = estep(shard), estep(replace(exact, quantum=0.0))
        assert not plain.in_any_order
        assert_same_counts(
            corpus_counts(rounded.stats, table), corpus_counts(plain.stats, table), rtol=0, atol=quantum / 2
        )
        assert rounded.objective == pytest.approx(plain.objective, abs=quantum * 2**11)
        assert set(np.mod(bits(rounded), quantum)) == {0.0}
