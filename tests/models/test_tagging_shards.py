"""Shards cover the corpus once, by the data alone, and keep labelled sentences apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem import E, part
from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep, Step, Stopping, pose, posterior, run_em
from spectrem.models import tagging as module
from spectrem.models.shards import Columns, in_corpus_order
from spectrem.models.tagging import HMMModel, Lexicon, build_shards, uniform


def lexicon():
    return Lexicon.from_allowed([0, 1, 3, 6], [1, 0, 2, 0, 1, 2], n_states=3)


@given(st.lists(st.integers(0, 6), max_size=30), st.integers(1, 40), st.integers(0, 2**31))
def test_shards_cover_the_corpus_once(lengths, most, seed):
    rng = np.random.default_rng(seed)
    entries = rng.choice(3, sum(lengths), p=[0.8, 0.1, 0.1])
    weights = rng.uniform(0, 1, len(lengths))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEAST_PARTS", most)
        patch.setattr(module, "_MOST_PARTS", most)
        shards = build_shards(lexicon(), lengths, entries, weights)
    assert sorted(np.concatenate([s.instances for s in shards]).tolist()) == np.flatnonzero(lengths).tolist()
    assert len(shards) == 1 or all(s.n_tokens for s in shards)
    split = np.split(entries, np.cumsum(lengths)[:-1])
    for shard in shards:
        assert np.array_equal(shard.weights, weights[shard.instances])
        assert np.array_equal(shard.lengths, np.array(lengths, np.int64)[shard.instances])
        assert np.array_equal(shard.entries, np.concatenate([[], *(split[n] for n in shard.instances)]))
        assert (np.diff(shard.instances) > 0).all()
        for n in shard.instances:
            assert shard.known == (not split[n].any())
    assert [s.known for s in shards] == sorted(s.known for s in shards)
    assert np.array_equal(in_corpus_order(shards, [s.entries for s in shards], np.array(lengths, np.int64)), entries)


def test_shards_are_of_equal_size_within_bounds(monkeypatch):
    monkeypatch.setattr(module, "_LEAST_PARTS", 600)
    shards = build_shards(lexicon(), [10] * 100, np.full(1000, 2))
    assert [len(s.lengths) for s in shards] == [20] * 5


def test_a_corpus_of_labelled_sentences_or_of_none():
    known = build_shards(lexicon(), [2, 1], [0, 0, 0])
    assert [s.known for s in known] == [True]
    for lengths in ([], [0, 0]):
        empty = build_shards(lexicon(), lengths, [])
        assert [(s.n_tokens, len(s.lengths)) for s in empty] == [(0, 0)]
        assert in_corpus_order(empty, [np.zeros((0, 3))], np.array(lengths, np.int64)).shape == (0, 3)


@pytest.mark.parametrize(
    ("lengths", "entries", "weights", "message"),
    [
        ([2, 2], [0, 0, 0], None, r"lengths must add up to the number of entries, got 4 and 3; give one entry"),
        ([2], [0, 3], None, r"entries must be in 0\.\.2; got 3 at index 1; use those that Lexicon.with_entries"),
        ([2], [0, -1], None, r"entries must be in 0\.\.2; got -1 at index 1"),
        ([-1], [], None, r"lengths must not be negative; got -1"),
        ([2], [0, 1], [1.0, 2.0], r"weights must have shape \(1,\)"),
    ],
)
def test_bad_input(lengths, entries, weights, message):
    with pytest.raises(InvalidInputError, match=message):
        build_shards(lexicon(), lengths, np.array(entries, np.int64), weights)


def test_constraints_name_columns_of_sentences_and_of_words():
    lengths, entries = [2, 0, 1, 3], [1, 2, 2, 2, 1, 2]
    kinds = np.array(["letter", "none", "note", "note"])
    columns = Columns({"kind": kinds}, {"capital": np.array([True, False, True, False, False, True])})
    model, shards = HMMModel(lexicon(), 1), build_shards(lexicon(), lengths, entries, columns=columns)
    rule = (E[part("capital") & (part("tag") == 2)] >= 0.5).per("kind").named("capitals")
    result = run_em(model, shards, uniform(model), EStep(rule), stopping=Stopping(2))
    assert result.history[-1].violation < 1e-6
    step = Step(model, result.params, 1.0, EStep(rule))
    posed, step = pose(model, Local(shards), EStep(rule)).at_prices(step)
    (marginals,) = (found.marginals.unary for found in posed.collect(posterior, step))
    (shard,) = shards
    assert shard.instances.tolist() == [0, 2, 3]
    layout = model.layout(shard)
    chosen = np.repeat(columns.of_words["capital"], np.diff(layout.offsets)) & (layout.states == 2)
    kind = np.repeat(np.repeat(kinds[shard.instances], shard.lengths), np.diff(layout.offsets))
    for name in ("letter", "note"):
        assert marginals[chosen & (kind == name)].sum() >= 0.5 - 1e-6
