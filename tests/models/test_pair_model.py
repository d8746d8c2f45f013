"""Shards of a bitext: tables, cells, cuts, known links, unknown words."""

from collections import Counter

import numpy as np
import pytest
from bitext_oracles import make_bitext, make_model, random_parameters, sentences

from spectrem import datasets
from spectrem.data import Links, encode_bitext
from spectrem.exceptions import InvalidInputError
from spectrem.models.alignment import (
    Anchors,
    CoupledKernel,
    build_shards,
    cut_text,
    iter_shards,
    pairs,
    shards_to_train,
    tabulate_pairs,
)

LENGTHS = [(3, 2), (0, 4), (1, 1), (4, 0), (2, 5), (6, 3), (2, 2)]


def cell_words(shard, table):
    """(source word, target word) of the table entry of every cell, None for pairs never met."""
    words = [*zip(table.sources.tolist(), table.targets.tolist(), strict=True), None]
    return [words[shard.pair_ids[c]] for c in shard.pairs.cells]


@pytest.mark.parametrize("most_cells", [1, 7, 1 << 18])
def test_shards_hold_the_bitext_in_order(monkeypatch, most_cells):
    monkeypatch.setattr(pairs, "_LEAST_CELLS", most_cells)
    monkeypatch.setattr(pairs, "_MOST_CELLS", most_cells)
    bitext = make_bitext(LENGTHS, np.random.default_rng(0))
    weights = np.arange(1.0, 8.0)
    table, shards = build_shards(bitext, weights=weights)
    assert [shard.begin for shard in shards] == [0] + [shard.end for shard in shards[:-1]]
    assert shards[-1].end == bitext.n_pairs
    np.testing.assert_array_equal(np.concatenate([shard.pairs.weights for shard in shards]), weights)
    texts = [pair for shard in shards for pair in sentences(shard)]
    for n, (source, target) in enumerate(texts):
        assert source == bitext.source_tokens[slice(*bitext.source_offsets[n : n + 2])].tolist()
        assert target == bitext.target_tokens[slice(*bitext.target_offsets[n : n + 2])].tolist()
    for shard in shards:
        assert cell_words(shard, table) == [
            (e, f) for source, target in sentences(shard) for e in source for f in target
        ]
        assert len(set(shard.pair_ids.tolist())) == len(shard.pair_ids)
        assert len(shard.pairs.cells) <= most_cells or shard.end - shard.begin == 1
    if most_cells == 7:
        assert len(shards) > 3


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("most_cells", [7, 1 << 18])
def test_cells_that_are_found_again_are_those_of_the_shard(monkeypatch, packed, most_cells):
    monkeypatch.setattr(pairs, "_LEAST_CELLS", most_cells)
    monkeypatch.setattr(pairs, "_MOST_CELLS", most_cells)
    bitext = make_bitext(LENGTHS, np.random.default_rng(4))
    bitext.source_tokens[3] = bitext.target_tokens[5] = -1
    table, _ = build_shards(make_bitext(LENGTHS, np.random.default_rng(5)))
    known = Links.from_pairs([[] for _ in LENGTHS[:-2]] + [[(0, 0)], []])
    held = Anchors(known, np.zeros(len(LENGTHS), np.bool_))
    for shard, whole in zip(cut_text(bitext, anchors=held), iter_shards(bitext, table, anchors=held), strict=True):
        assert shard.weights.base is not None  # a view
        found = (shard.pack(table) if packed else shard).index(table)
        for a, b in zip([*found.pairs, found.pair_ids], [*whole.pairs, whole.pair_ids], strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        assert (found.anchors is None) == (whole.anchors is None)
        assert found.anchors is None or found.anchors.links == whole.anchors.links
        assert whole.index(table) is whole
        assert (found.begin, found.end) == (shard.begin, shard.end)


def test_few_cells_are_kept_in_training(monkeypatch):
    """With the same bits: the E-step reads the same numbers."""
    bitext = make_bitext(LENGTHS, np.random.default_rng(7))
    table, _ = build_shards(bitext)
    (kept,) = shards_to_train(bitext, table)
    monkeypatch.setattr(pairs, "_FEW_CELLS", len(kept.pairs.cells) - 1)
    (found,) = shards_to_train(bitext, table)
    assert (kept.is_indexed, found.is_indexed) == (True, False)
    assert kept.quantum == found.quantum > 0
    rng = np.random.default_rng(8)
    estep = CoupledKernel(make_model("hmm", table)).prepare(random_parameters("hmm", table, rng), 1.0)
    a, b = estep(kept), estep(found)
    np.testing.assert_array_equal(a.stats.links, b.stats.links)
    assert a.objective == b.objective


def test_table_is_the_set_of_meetings():
    bitext = make_bitext(LENGTHS, np.random.default_rng(1))
    table, shards = build_shards(bitext)
    met = {(e, f) for shard in shards for source, target in sentences(shard) for e in source for f in target}
    assert set(zip(table.sources.tolist(), table.targets.tolist(), strict=True)) == met
    assert table.n_pairs == len(met)
    np.testing.assert_array_equal(table.target_sizes, [sum(f == w for _, f in met) for w in range(5)])


def test_new_text_finds_known_pairs_only():
    old = encode_bitext(["a b", "c"], ["x y", "y"])
    table, _ = build_shards(old)
    new = encode_bitext(
        ["b q", "", "a c q"], ["y z", "x", "z x y"], vocabularies=(old.source_vocabulary, old.target_vocabulary)
    )
    again, (shard,) = build_shards(new, table)
    assert again is table
    names = (*old.source_vocabulary.words, "?"), (*old.target_vocabulary.words, "?")
    met = {("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"), ("c", "y")}
    found = [None if pair is None else (names[0][pair[0]], names[1][pair[1]]) for pair in cell_words(shard, table)]
    cells = [(e, f) for s, t in (("b q", "y z"), ("", "x"), ("a c q", "z x y")) for e in s.split() for f in t.split()]
    assert found == [pair if pair in met else None for pair in cells]


def test_shards_have_the_known_links_of_their_pairs(monkeypatch):
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 12)
    monkeypatch.setattr(pairs, "_MOST_CELLS", 12)
    bitext = make_bitext([(2, 2), (3, 2), (2, 3), (1, 0)], np.random.default_rng(2))
    known = Links.from_pairs([[], [], [(0, 1), (1, 1), (1, 2)], []])
    _, shards = build_shards(bitext, anchors=Anchors(known, np.array([False, False, True, True])))
    assert [(shard.begin, shard.end, shard.anchors is not None) for shard in shards] == [(0, 2, False), (2, 4, True)]
    # forward: target words 0, 1, 2 choose from source 0, 1 and NULL; then backward: source words choose
    forward = [[0, 0, 1], [1, 1, 0], [0, 1, 0]]
    backward = [[0, 1, 0, 0], [0, 1, 1, 0], [1]]
    allowed = shards[1].anchors.allowed(shards[1].pairs)
    assert allowed.astype(int).tolist() == [x for row in forward + backward for x in row]


def test_select_takes_pairs_in_the_order_asked():
    bitext = make_bitext(LENGTHS, np.random.default_rng(3))
    table, (shard,) = build_shards(bitext, weights=np.arange(7.0))
    chosen = np.array([5, 1, 2])
    part = shard.select(chosen)
    assert sentences(part) == [sentences(shard)[n] for n in chosen]
    assert part.pairs.weights.tolist() == [5.0, 1.0, 2.0]
    assert cell_words(part, table) == [(e, f) for source, target in sentences(part) for e in source for f in target]


def test_no_pairs_at_all_are_one_empty_shard():
    bitext = make_bitext([], np.random.default_rng(0))
    table, (shard,) = build_shards(bitext)
    assert table.n_pairs == 0
    assert (shard.begin, shard.end, len(shard.pairs.weights)) == (0, 0, 0)


@pytest.mark.parametrize("max_chance", [0.05, 0.3, 1.0, 1e9])
def test_pairs_that_meet_once_as_by_chance_are_left_out(max_chance):
    text = datasets.make_bitext(300, seed=4)
    bitext = encode_bitext(text.source, text.target)
    meetings, sources, targets = Counter(), Counter(), Counter()
    for source, target in zip(text.source, text.target, strict=True):
        words, others = source.split(), target.split()
        sources.update(words)
        targets.update(others)
        meetings.update({(e, f) for e in words for f in others})
    expected = {
        (e, f) for (e, f), n in meetings.items() if n > 1 or sources[e] * targets[f] <= max_chance * bitext.n_pairs
    }
    table = tabulate_pairs(bitext, max_chance)
    found = [
        (bitext.source_vocabulary.words[e], bitext.target_vocabulary.words[f])
        for e, f in zip(table.sources.tolist(), table.targets.tolist(), strict=True)
    ]
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert (max_chance > 1e8) == (len(expected) == len(meetings))
    for e in range(table.n_source_words):
        row = table.targets[table.row_offsets[e] : table.row_offsets[e + 1]]
        assert (np.diff(row) > 0).all()


def test_more_word_pairs_than_numbers_are_refused(monkeypatch):
    bitext = encode_bitext(["a b", "a"], ["x y", "x z"])
    monkeypatch.setattr(pairs, "_MOST_PAIRS", 6)
    assert tabulate_pairs(bitext).n_pairs == 5
    monkeypatch.setattr(pairs, "_MOST_PAIRS", 5)
    with pytest.raises(InvalidInputError, match=r"fewer than 5 different word pairs, got 5; set max_chance=0\.1"):
        tabulate_pairs(bitext)
