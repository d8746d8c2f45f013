"""Sentence pairs that are too long for the model: which they are, and how they are aligned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem.data import Bitext, Links
from spectrem.estimators.alignment.decoding import merged_links, trusted_shares
from spectrem.estimators.alignment.esteps import is_coupled
from spectrem.estimators.alignment.parameters import rules_of
from spectrem.exceptions import warn
from spectrem.models.alignment import (
    Anchors,
    BitextShard,
    PairTable,
    TextShard,
    cut_text,
    diagonal_posteriors,
    iter_shards,
)

# A pair of 1,000 x 1,000 words takes two seconds and 140 MB. Tables of departures grow with the square of a side.
_MOST_CELLS, _MOST_WORDS = 1 << 20, 2000
# Where passes may have to run in log space, or constraints are rows of a matrix: a second to some ten, and 90 MB.
_MOST_CELLS_OF_ROWS = 1 << 18
# Where multipliers are found to a tolerance: 26 s for four times as many.
_MOST_CELLS_OF_SOLVES = 1 << 14
# Programs have a variable for every move. A linear one took 1 s for 30 x 30 words, 16 s for 45 x 45 and 51 s for
# 60 x 60; an integer one 8 s for 30 x 30 and minutes for 45 x 45.
_MOST_CELLS_OF_PROGRAMS = 1 << 10
# By translation and position alone, this length on both sides takes some seconds and 110 MB.
_LONGEST = 5000
_LEAST_GAMMA = 0.1


@dataclass(frozen=True)
class LongPairs:
    """Numbers of the sentence pairs, counted from 0, whose words the model's own chain does not align.

    Attributes
    ----------
    by_position : ndarray of int
        Aligned by translation probabilities and the distance from the diagonal.
    unaligned : ndarray of int
        More than 5,000 words on a side; left without links.
    """

    by_position: Ints
    unaligned: Ints


class LongShard(BitextShard):
    """One pair that is aligned by translation probabilities and the distance from the diagonal."""


@dataclass(frozen=True)
class LongPair:
    """A long pair among the shards; its cells are made when its turn comes, and not kept."""

    bitext: Bitext
    anchors: Anchors | None = None

    def load(self, table: PairTable) -> LongShard:
        (shard,) = iter_shards(self.bitext, table, anchors=self.anchors)
        return LongShard(**vars(shard))


def most_cells(aligner: Any, gamma: float) -> int:
    """Possible links of the longest pair that an E-step of a `WordAligner` at ``gamma`` takes."""
    if is_coupled(aligner, gamma):
        return _MOST_CELLS if gamma >= _LEAST_GAMMA else _MOST_CELLS_OF_ROWS
    solved = aligner.dual_steps == 0 and len(aligner.constraints) > 0
    if gamma == -np.inf or (gamma == 0 and solved):
        return _MOST_CELLS_OF_PROGRAMS
    return _MOST_CELLS_OF_SOLVES if solved else _MOST_CELLS_OF_ROWS


def find_long_pairs(bitext: Bitext, most_cells: int) -> LongPairs:
    """Pairs of more cells, or more than 2,000 words on one side and any on the other."""
    cells = bitext.source_lengths * bitext.target_lengths
    longest = np.maximum(bitext.source_lengths, bitext.target_lengths)
    long = (cells > most_cells) | ((cells > 0) & (longest > _MOST_WORDS))
    return LongPairs(np.flatnonzero(long & (longest <= _LONGEST)), np.flatnonzero(longest > _LONGEST))


def find_untrainable(bitext: Bitext, most_cells: int) -> Ints:
    """Pairs to leave out of training, with a warning that names them."""
    found = find_long_pairs(bitext, most_cells)
    long = np.union1d(found.by_position, found.unaligned)
    _warn(long, "too long to be trained on, skipped")
    return long


def cut_shards(bitext: Bitext, most_cells: int, anchors: Anchors | None = None) -> Iterator[TextShard | LongPair]:
    """Shards to decode, one after another and in order; warns of long pairs, each of which stands alone.

    Nothing that belongs to a long pair is held while others are aligned. One that is left unaligned is empty here.
    """
    long = find_long_pairs(bitext, most_cells)
    if not len(long.by_position) + len(long.unaligned):
        return cut_text(bitext, anchors=anchors)
    _warn(long.by_position, "too long for the model, aligned by translation and position alone")
    _warn(long.unaligned, f"more than {_LONGEST:,} words on a side, left without links")
    if anchors is not None:
        anchors = anchors.without(long.unaligned)
    return _cut_apart(_blank(bitext, long.unaligned), long.by_position.tolist(), anchors)


def _cut_apart(bitext: Bitext, long: list[int], anchors: Anchors | None) -> Iterator[TextShard | LongPair]:
    def own(chosen: Ints) -> Anchors | None:
        return None if anchors is None else anchors.take(chosen)

    begin = 0
    for n in [*long, bitext.n_pairs]:
        between = np.arange(begin, n)
        for shard in cut_text(bitext.take(between), anchors=own(between)):
            yield replace(shard, begin=shard.begin + begin, end=shard.end + begin)
        if n < bitext.n_pairs:
            yield LongPair(bitext.take([n]), own(np.array([n])))
        begin = n + 1


def long_blocks(aligner: Any, shard: LongShard, gamma: float) -> Iterator[tuple[Floats, Floats]]:
    """Forward and backward posteriors of a long pair, some source words at a time."""
    agree = aligner.project_at_predict and any(getattr(one, "name", "") == "agreement" for one in rules_of(aligner))
    steps = (aligner.dual_steps or 5) if agree else 0
    return diagonal_posteriors(aligner.params_, shard, max(gamma, _LEAST_GAMMA), steps, aligner.step_size)


def long_posteriors(aligner: Any, shard: LongShard, gamma: float) -> tuple[Floats, Floats]:
    """Forward and backward posteriors of a long pair, two arrays of shape (n_cells,)."""
    both = np.empty((2, len(shard.pairs.cells)))
    at = 0
    for blocks in long_blocks(aligner, shard, gamma):
        both[:, at : at + blocks[0].size] = [block.ravel() for block in blocks]
        at += blocks[0].size
    if shard.anchors is not None:
        shape = len(shard.source_tokens), len(shard.target_tokens)
        shard.anchors.impose_on_masses(both[0].reshape(shape), both[1].reshape(shape))
    return both[0], both[1]


def long_links(aligner: Any, shard: LongShard) -> Links:
    """Links of a long pair as the aligner decodes."""
    if aligner.decode != "posterior":
        return _best_links(shard, diagonal_posteriors(aligner.params_, shard, 1.0, 0, 1.0), aligner.decode)
    sources, targets, first = [], [], 0
    source_shares, target_shares = trusted_shares(aligner, shard)
    for forward, backward in long_blocks(aligner, shard, aligner.gamma_):
        shares = np.minimum.outer(source_shares[first : first + len(forward)], target_shares)
        rows, columns = np.nonzero((forward + backward) / 2 * shares > aligner.threshold_)
        sources.append(rows + first)
        targets.append(columns)
        first += len(forward)
    source, target = np.concatenate(sources), np.concatenate(targets)
    return Links.from_arrays(np.zeros(len(source), np.int64), source, target, n_sentences=1)


def _best_links(shard: LongShard, blocks: Iterator[tuple[Floats, Floats]], decode: str) -> Links:
    """The likeliest link of every word, or NULL, under each direction alone."""
    n_source, n_target = len(shard.source_tokens), len(shard.target_tokens)
    best, linked = np.zeros(n_target), np.zeros(n_target)
    choice, other_choice = np.full(n_target, -1), np.full(n_source, -1)
    first = 0
    for forward, backward in blocks:
        choice = np.where(forward.max(axis=0) > best, forward.argmax(axis=0) + first, choice)
        best, linked = np.maximum(best, forward.max(axis=0)), linked + forward.sum(axis=0)
        likely = backward.max(axis=1) > 1 - backward.sum(axis=1)
        other_choice[first : first + len(backward)] = np.where(likely, backward.argmax(axis=1), -1)
        first += len(forward)
    choice[best <= 1 - linked] = -1
    return merged_links(shard.source_lengths, shard.target_lengths, choice, other_choice, decode)


def _blank(bitext: Bitext, numbers: Ints) -> Bitext:
    """The same pairs, some of them without words."""
    kept = np.ones(bitext.n_pairs, np.bool_)
    kept[numbers] = False

    def side(tokens: NDArray[np.int32], lengths: Ints) -> tuple[NDArray[np.int32], Ints]:
        return tokens[np.repeat(kept, lengths)], np.append(0, np.cumsum(np.where(kept, lengths, 0)))

    return Bitext(
        *side(bitext.source_tokens, bitext.source_lengths),
        *side(bitext.target_tokens, bitext.target_lengths),
        bitext.source_vocabulary,
        bitext.target_vocabulary,
    )


def _warn(numbers: Ints, fate: str) -> None:
    """One line that names pairs as lines of a file are counted."""
    if len(numbers):
        shown = ", ".join(str(n + 1) for n in numbers[:10].tolist())
        more = f" and {len(numbers) - 10} more" * (len(numbers) > 10)
        pairs = "sentence pairs" if len(numbers) > 1 else "sentence pair"
        warn(f"{fate}: {pairs} {shown}{more}, counted from 1; split long lines into sentences")
