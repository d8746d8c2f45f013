"""A corpus of tokens cut into shards, whose borders depend on the data only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_integers, as_lengths, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.models.shards import Columns, cut
from spectrem.models.tagging.lexicon import Lexicon
from spectrem.structures._ragged import offsets_of, ranges_of

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
    if lengths.sum() != len(entries):
        raise InvalidInputError(
            f"lengths must add up to the number of entries, got {lengths.sum()} and {len(entries)}; give one entry per "
            "token"
        )
    outside = (entries < 0) | (entries >= lexicon.n_entries)
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidInputError(
            f"entries must be in 0..{lexicon.n_entries - 1}; got {entries[at]} at index {at}; use those that "
            "Lexicon.with_entries returned with this lexicon"
        )
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
