"""The states that may emit each word, those that each token may be in, and shards of such tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_count, as_integers, as_lengths, as_offsets, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.models.shards import Columns, check_numbers, check_total, cut
from spectrem.structures._ragged import offsets_of, ranges_of
from spectrem.structures.chains._tokens import check_states


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Cells, the (word, state) pairs that have an emission probability, and entries, to which tokens refer.

    An entry is a word with the states that the token may be in. Entry w < n_words is word w in any state that can emit
    it; `with_entries` adds words in fewer states (labels, sets of labels) and words never seen, whose emissions do not
    depend on the state.

    Attributes
    ----------
    n_states : int
    cell_offsets : ndarray of shape (n_words + 1,), int64
        Cells of word w are ``cell_offsets[w]:cell_offsets[w + 1]``.
    cell_states : ndarray of shape (n_cells,), int64
        State of every cell, increasing within a word.
    entry_offsets : ndarray of shape (n_entries + 1,), int64
    entry_states : ndarray of shape (n_entry_parts,), int64
        States of every entry, increasing within an entry.
    entry_cells : ndarray of shape (n_entry_parts,), int64
        Emission cell of each, or ``n_cells`` for a word never seen, whose score is 0 nats in every state.

    Examples
    --------
    >>> lexicon = Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=2)  # word 0: state 0; word 1: both
    >>> lexicon, entries = lexicon.with_entries([1, -1], [(1,), (0, 1)])  # word 1 labelled 1; a word never seen
    >>> entries.tolist(), lexicon.entry_states.tolist(), lexicon.entry_cells.tolist()
    ([2, 3], [0, 0, 1, 1, 0, 1], [0, 1, 2, 2, 3, 3])
    """

    n_states: int
    cell_offsets: Ints
    cell_states: Ints
    entry_offsets: Ints
    entry_states: Ints
    entry_cells: Ints

    @classmethod
    def full(cls, n_words: int, n_states: int) -> Lexicon:
        """Every state emits every word.

        Raises
        ------
        InvalidInputError
            If ``n_words`` < 0 or ``n_states`` < 1.
        """
        n_words, n_states = as_count(n_words, "n_words", minimum=0), as_count(n_states, "n_states", minimum=1)
        return cls.from_allowed(np.arange(n_words + 1) * n_states, np.tile(np.arange(n_states), n_words), n_states)

    @classmethod
    def from_allowed(cls, offsets: ArrayLike, states: ArrayLike, n_states: int) -> Lexicon:
        """The states ``states[offsets[w]:offsets[w + 1]]`` emit word w.

        Raises
        ------
        InvalidInputError
            If a word has no state, or its states are out of range or do not increase.
        """
        n_states = as_count(n_states, "n_states", minimum=1)
        offsets = as_integers(offsets, "offsets")
        offsets = as_offsets(offsets, "offsets", max(len(offsets) - 1, 0))
        states = check_states(offsets, states, n_states, "states", "word")
        empty = np.diff(offsets) == 0
        if empty.any():
            raise InvalidInputError(
                f"every word needs a state that can emit it; word {int(np.argmax(empty))} has none; give it every "
                "state to leave it free"
            )
        return cls(n_states, offsets, states, offsets, states, np.arange(len(states)))

    @property
    def n_words(self) -> int:
        return len(self.cell_offsets) - 1

    @property
    def n_cells(self) -> int:
        return len(self.cell_states)

    @property
    def n_entries(self) -> int:
        return len(self.entry_offsets) - 1

    @cached_property
    def dense(self) -> bool:
        """Whether every entry has all states."""
        return bool((np.diff(self.entry_offsets) == self.n_states).all())

    @cached_property
    def cell_words(self) -> Ints:
        """Word of every cell, shape (n_cells,)."""
        return np.repeat(np.arange(self.n_words), np.diff(self.cell_offsets))

    @cached_property
    def entry_words(self) -> Ints:
        """Word of every entry, shape (n_entries,); -1 for words never seen."""
        return np.append(self.cell_words, -1)[self.entry_cells[self.entry_offsets[:-1]]]

    @cached_property
    def state_sizes(self) -> Ints:
        """Number of words that each state can emit, shape (n_states,)."""
        return np.bincount(self.cell_states, minlength=self.n_states)

    def table(self, values: Floats) -> Floats:
        """Values by cell as a matrix of shape (n_states, n_words), zero where there is no cell."""
        table = np.zeros((self.n_states, self.n_words))
        table[self.cell_states, self.cell_words] = values
        return table

    def with_entries(self, words: ArrayLike, allowed: Sequence[Sequence[int]]) -> tuple[Lexicon, Ints]:
        """A lexicon in which words may also be restricted to some states, and where to find them.

        Parameters
        ----------
        words : array-like of shape (k,), int
            -1 stands for a word never seen: its entry says nothing about the states it may take.
        allowed : sequence of k sequences of int
            The states of each, increasing; all of a word's states give the word's own entry.

        Returns
        -------
        lexicon : Lexicon
            It has the same cells. Existing entries keep their numbers, each new one is stored once.
        entries : ndarray of shape (k,), int64

        Raises
        ------
        InvalidInputError
            If a word is out of range, or its states are none, out of range, falling or ones that cannot emit it.
        """
        words = as_integers(words, "words")
        if len(words) != len(allowed):
            raise InvalidInputError(
                f"words and allowed must be of one length, got {len(words)} and {len(allowed)}; give every word its "
                "states"
            )
        entry_of: dict[tuple[int, tuple[int, ...]], int] = {}
        for entry in range(self.n_words, self.n_entries):
            word_states = self.entry_states[self.entry_offsets[entry] : self.entry_offsets[entry + 1]]
            entry_of[int(self.entry_words[entry]), tuple(word_states.tolist())] = entry
        states: list[tuple[int, ...]] = []
        cells: list[Ints] = []
        entries = np.empty(len(words), np.int64)
        for k, key in enumerate(zip(words.tolist(), map(tuple, allowed), strict=True)):
            if key not in entry_of:
                word_cells = self._cells_of(*key)
                whole = key[0] >= 0 and len(word_cells) == self.cell_offsets[key[0] + 1] - self.cell_offsets[key[0]]
                entry_of[key] = key[0] if whole else self.n_entries + len(states)
                if not whole:
                    states.append(key[1])
                    cells.append(word_cells)
            entries[k] = entry_of[key]
        if not states:
            return self, entries
        sizes = np.cumsum([len(word_states) for word_states in states])
        return replace(
            self,
            entry_offsets=np.concatenate([self.entry_offsets, self.entry_offsets[-1] + sizes]),
            entry_states=np.append(self.entry_states, [state for word_states in states for state in word_states]),
            entry_cells=np.concatenate([self.entry_cells, *cells]),
        ), entries

    def _cells_of(self, word: int, states: tuple[int, ...]) -> Ints:
        """Cells of a word in some states, n_cells for a word never seen."""
        if not -1 <= word < self.n_words:
            raise InvalidInputError(
                f"words must be in 0..{self.n_words - 1}, or -1 for a word never seen; got {word}; number the words as "
                "the lexicon does"
            )
        rising = all(a < b for a, b in pairwise(states))
        if not states or not rising or states[0] < 0 or states[-1] >= self.n_states:
            raise InvalidInputError(
                f"allowed must hold increasing states in 0..{self.n_states - 1}, at least one for each word; got "
                f"{list(states)} for word {word}; sort them, or give every state to leave the word free"
            )
        if word < 0:
            return np.full(len(states), self.n_cells)
        start = self.cell_offsets[word]
        possible = self.cell_states[start : self.cell_offsets[word + 1]]
        at = np.searchsorted(possible, states)
        missing = np.append(possible, -1)[at] != states
        if missing.any():
            raise InvalidInputError(
                f"allowed must hold states that can emit their word; state {states[int(np.argmax(missing))]} cannot "
                f"emit word {word}, which has {possible.tolist()}; add the state to the word's in the lexicon or drop "
                "it here"
            )
        return start + at


# Pairs of a token and a state in a shard.
_LEAST_PARTS, _MOST_PARTS = 1 << 14, 1 << 21


@dataclass(frozen=True, eq=False)
class TagShard:
    """Some sentences of a corpus.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
        Tokens of every sentence.
    entries : ndarray of shape (n_tokens,), int64
        Entry of the lexicon of every token.
    weights : ndarray of shape (n_sentences,), float64
    known : bool
        Whether the states are given; constraints inside instances then do not apply.
    instances : ndarray of shape (n_sentences,), int64
        Numbers of the sentences in the corpus.
    columns : Columns
        More columns for constraints.
    """

    lengths: Ints
    entries: Ints
    weights: Floats
    known: bool
    instances: Ints
    columns: Columns = Columns()  # noqa: RUF009

    @property
    def n_tokens(self) -> int:
        return len(self.entries)


def build_shards(
    lexicon: Lexicon,
    lengths: ArrayLike,
    entries: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    known: ArrayLike | None = None,
    columns: Columns = Columns(),  # noqa: B008
) -> list[TagShard]:
    """Cut a corpus into shards: first sentences with unknown states, then those whose states are given.

    Within each of the two kinds sentences keep their order; `spectrem.models.shards.in_corpus_order` puts results back.
    Sentences of length 0, or of weight 0, are in no shard.

    Parameters
    ----------
    lexicon : Lexicon
    lengths : array-like of shape (n_sentences,), int
        Tokens of every sentence, >= 0.
    entries : array-like of shape (n_tokens,), int
        Entries of the lexicon, sentence after sentence.
    weights : array-like of shape (n_sentences,), optional
        Weight of every sentence, >= 0; default 1.
    known : array-like of shape (n_sentences,), bool, optional
        Sentences whose states are given; default those with a single state at every token.
    columns : Columns, optional
        More columns for constraints.

    Returns
    -------
    list of TagShard
        At least one, the same for every number of workers.

    Raises
    ------
    InvalidInputError
        If lengths do not add up to the number of entries, or an entry is not in the lexicon.

    Examples
    --------
    >>> lexicon = Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=2)
    >>> shards = build_shards(lexicon, [1, 2, 1], [0, 0, 1, 0])
    >>> [(shard.known, shard.instances.tolist(), shard.entries.tolist()) for shard in shards]
    [(False, [1], [0, 1]), (True, [0, 2], [0, 0])]
    """
    lengths, entries = as_lengths(lengths, "lengths"), as_integers(entries, "entries")
    check_total(lengths, len(entries), "entries", "give one entry per token")
    advice = "use those that Lexicon.with_entries returned with this lexicon"
    check_numbers(entries, lexicon.n_entries, "entries", advice)
    weights = as_weights(weights, len(lengths))
    offsets, widths = offsets_of(lengths), np.diff(lexicon.entry_offsets)[entries]
    part_offsets, open_offsets = offsets_of(widths)[offsets], offsets_of(widths > 1)[offsets]
    known = np.diff(open_offsets) == 0 if known is None else np.asarray(known, np.bool_)
    counted = weights > 0
    shards = []
    for sentences, given in cut(np.diff(part_offsets), [~known & counted, known & counted], _LEAST_PARTS, _MOST_PARTS):
        tokens = ranges_of(offsets[sentences], lengths[sentences])
        named = columns.take(sentences, lengths)
        shards.append(TagShard(lengths[sentences], entries[tokens], weights[sentences], bool(given), sentences, named))
    return shards
