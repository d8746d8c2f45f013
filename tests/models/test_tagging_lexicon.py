"""Lexicons: cells, entries, and what they refuse."""

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.models.tagging import Lexicon


def small():
    return Lexicon.from_allowed([0, 1, 4, 6], [2, 0, 1, 2, 0, 2], n_states=3)


def entry(lexicon, number):
    span = slice(lexicon.entry_offsets[number], lexicon.entry_offsets[number + 1])
    return lexicon.entry_states[span].tolist(), lexicon.entry_cells[span].tolist()


def test_full_lexicon():
    lexicon = Lexicon.full(n_words=2, n_states=3)
    assert (lexicon.n_words, lexicon.n_cells, lexicon.n_entries, lexicon.dense) == (2, 6, 2, True)
    assert entry(lexicon, 1) == ([0, 1, 2], [3, 4, 5])
    assert lexicon.state_sizes.tolist() == [2, 2, 2]
    assert lexicon.table(np.arange(6.0)).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_allowed_states():
    lexicon = small()
    assert (lexicon.n_words, lexicon.n_cells, lexicon.n_entries, lexicon.dense) == (3, 6, 3, False)
    assert entry(lexicon, 2) == ([0, 2], [4, 5])
    assert lexicon.state_sizes.tolist() == [2, 1, 3]
    assert lexicon.cell_words.tolist() == [0, 1, 1, 1, 2, 2]
    assert lexicon.table(np.arange(1.0, 7.0)).tolist() == [[0, 2, 5], [0, 3, 0], [1, 4, 6]]


def test_entries_are_stored_once_and_keep_their_numbers():
    lexicon, entries = small().with_entries([1, 1, 0, 1, -1, -1], [(0, 2), (0, 1, 2), (2,), (0, 2), (1,), (0, 1, 2)])
    assert entries.tolist() == [3, 1, 0, 3, 4, 5]
    assert entry(lexicon, 3) == ([0, 2], [1, 3])
    assert entry(lexicon, 4) == ([1], [6])
    assert entry(lexicon, 5) == ([0, 1, 2], [6, 6, 6])
    assert lexicon.entry_words.tolist() == [0, 1, 2, 1, -1, -1]
    assert np.array_equal(lexicon.cell_states, small().cell_states)
    again, more = lexicon.with_entries([-1, 2, 1], [(1,), (0,), (0, 2)])
    assert more.tolist() == [4, 6, 3]
    assert again.n_entries == 7
    same, none = lexicon.with_entries(np.array([], np.int64), [])
    assert same is lexicon
    assert len(none) == 0


def test_a_restricted_entry_makes_a_full_lexicon_ragged():
    lexicon = Lexicon.full(2, 2)
    assert lexicon.with_entries([-1], [(0, 1)])[0].dense
    assert not lexicon.with_entries([1], [(0,)])[0].dense


def test_more_states_than_words_and_one_state():
    lexicon = Lexicon.from_allowed([0, 1], [4], n_states=6)
    assert lexicon.state_sizes.tolist() == [0, 0, 0, 0, 1, 0]
    assert Lexicon.full(3, 1).dense


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Lexicon.full(2, 0), r"n_states must be an integer >= 1; got 0"),
        (lambda: Lexicon.from_allowed([0, 1, 1], [0], 2), r"every word needs a state.*word 1 has none; give it every"),
        (lambda: Lexicon.from_allowed([0, 1], [2], 2), r"states must be in 0\.\.1; got 2 at index 0; raise n_states"),
        (lambda: Lexicon.from_allowed([0, 1], [-1], 2), r"states must be in 0\.\.1; got -1 at index 0"),
        (lambda: Lexicon.from_allowed([0, 2], [1, 0], 2), r"increase within a word; got 0 after 1 at index 1; sort"),
        (lambda: Lexicon.from_allowed([0, 2], [1, 1], 2), r"increase within a word; got 1 after 1 at index 1"),
        (lambda: Lexicon.from_allowed([0, 3], [0, 1], 2), r"states must have 3 entries, as its offsets say; got 2"),
        (lambda: Lexicon.from_allowed([1, 2], [0, 1], 2), r"offsets must start at 0 and never fall"),
        (lambda: small().with_entries([3], [(0,)]), r"words must be in 0\.\.2, or -1.*got 3; number the words"),
        (lambda: small().with_entries([0], [()]), r"allowed must hold increasing states.*got \[\] for word 0; sort"),
        (lambda: small().with_entries([1], [(1, 0)]), r"allowed must hold increasing states.*got \[1, 0\] for word 1"),
        (lambda: small().with_entries([-1], [(3,)]), r"increasing states in 0\.\.2.*got \[3\] for word -1"),
        (lambda: small().with_entries([2], [(0, 1)]), r"state 1 cannot emit word 2, which has \[0, 2\]; add the state"),
        (lambda: small().with_entries([1, 2], [(0,)]), r"words and allowed must be of one length, got 2 and 1"),
    ],
)
def test_bad_input(build, message):
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_words_may_follow_each_other_with_any_states():
    assert Lexicon.from_allowed([0, 1, 2, 4], [1, 0, 0, 1], 2).n_cells == 4
