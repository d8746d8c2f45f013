"""The table of word pairs that occur together in some sentence pair, and the shards of a bitext."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem.data import Bitext
from spectrem.kernels.alignments import cooccurrence
from spectrem.kernels.alignments.bidirectional import Pairs
from spectrem.models.alignment.anchors import Anchors
from spectrem.structures._ragged import offsets_of, ranges_of

# A shard is closed after this many cells (source x target positions): a twelfth of the corpus, within bounds. Large
# shards hold more pairs of like lengths, which are solved together; small ones spread better over threads.
_SHARDS, _LEAST_CELLS, _MOST_CELLS = 12, 1 << 17, 1 << 20


@dataclass(frozen=True)
class PairTable:
    """The word pairs that occur together in some sentence pair, source word by source word (compressed rows).

    Attributes
    ----------
    row_offsets : ndarray of shape (n_source_words + 1,), int64
    targets : ndarray of shape (n_pairs,), int32
        Target word of every pair; pairs of source word e are ``row_offsets[e]:row_offsets[e + 1]``.
    n_target_words : int
    """

    row_offsets: Ints
    targets: NDArray[np.int32]
    n_target_words: int

    @property
    def n_pairs(self) -> int:
        return len(self.targets)

    @property
    def n_source_words(self) -> int:
        return len(self.row_offsets) - 1

    @property
    def sources(self) -> NDArray[np.int32]:
        """Source word of every pair, shape (n_pairs,); made at each access, as it is as large as the table."""
        return np.repeat(np.arange(self.n_source_words, dtype=np.int32), np.diff(self.row_offsets))

    @cached_property
    def target_sizes(self) -> Ints:
        """Number of pairs of every target word, shape (n_target_words,)."""
        return np.bincount(self.targets, minlength=self.n_target_words)


@dataclass(frozen=True)
class BitextShard:
    """A run of sentence pairs, with the entry of the pair table that each of its cells refers to.

    Attributes
    ----------
    begin, end : int
        The sentence pairs of the corpus that the shard holds.
    source_tokens, target_tokens : int32
        Words of the shard, -1 when unknown.
    pairs : Pairs
        Offsets, weights, and for each cell the index into ``pair_ids`` of its word pair.
    pair_ids : ndarray of int32
        Entries of the pair table that occur in the shard; ``n_pairs`` stands for pairs that are not in it.
    anchors : Anchors, or None
        Known links of the pairs; None where no pair has any.
    unseen : (ndarray, ndarray), or None
        Probabilities, forward and backward, of the entries after those of ``pair_ids``: pairs of a new text that are
        not in the table.
    """

    begin: int
    end: int
    source_tokens: NDArray[np.int32]
    target_tokens: NDArray[np.int32]
    pairs: Pairs
    pair_ids: NDArray[np.int32]
    anchors: Anchors | None = None
    unseen: tuple[Floats, Floats] | None = None

    @property
    def source_lengths(self) -> Ints:
        return np.diff(self.pairs.source_offsets)

    @property
    def target_lengths(self) -> Ints:
        return np.diff(self.pairs.target_offsets)

    def is_seen(self, table: PairTable) -> bool:
        """Whether all word pairs of the shard are in the table."""
        return not len(self.pair_ids) or self.pair_ids[-1] < table.n_pairs

    def of_entries(self, translation: Floats, *, backward: bool) -> Floats:
        """Probability of every entry of the shard, of the pair table's in one direction."""
        known = translation[self.pair_ids]
        return known if self.unseen is None else np.concatenate([known, self.unseen[backward]])

    def select(self, chosen: NDArray[np.integer]) -> BitextShard:
        """A shard of some of the pairs (their numbers within this one), over the same ``pair_ids``."""
        sources, source_tokens = _take(self.pairs.source_offsets, self.source_tokens, chosen)
        targets, target_tokens = _take(self.pairs.target_offsets, self.target_tokens, chosen)
        cell_offsets, cells = _take(self.pairs.cell_offsets, self.pairs.cells, chosen)
        pairs = Pairs(sources, targets, cell_offsets, cells, self.pairs.weights[chosen])
        end = self.begin + len(chosen)
        anchors = None if self.anchors is None else self.anchors.take(chosen)
        return BitextShard(
            self.begin, end, source_tokens, target_tokens, pairs, self.pair_ids, anchors, unseen=self.unseen
        )


def _take(offsets: Ints, values: NDArray[np.int32], chosen: NDArray[np.integer]) -> tuple[Ints, NDArray[np.int32]]:
    """The chosen rows of values that lie row after row, with their own offsets."""
    lengths = offsets[chosen + 1] - offsets[chosen]
    return offsets_of(lengths), values[ranges_of(offsets[chosen], lengths)]


def build_shards(
    bitext: Bitext, table: PairTable | None = None, weights: Floats | None = None, anchors: Anchors | None = None
) -> tuple[PairTable, list[BitextShard]]:
    """The shards of a bitext, see `iter_shards`, and their table, by default that of the bitext (`tabulate_pairs`)."""
    table = tabulate_pairs(bitext) if table is None else table
    return table, list(iter_shards(bitext, table, weights, anchors))


def tabulate_pairs(bitext: Bitext) -> PairTable:
    """All word pairs that occur together in some sentence pair of a bitext without unknown words."""
    target_tokens, target_offsets = bitext.target_tokens, bitext.target_offsets
    n_target_words = len(bitext.target_vocabulary)
    offsets, sentences, _ = cooccurrence.postings(
        bitext.source_tokens, bitext.source_offsets, len(bitext.source_vocabulary)
    )
    counts = cooccurrence.count_partners(offsets, sentences, target_tokens, target_offsets, n_target_words)
    row_offsets = offsets_of(counts)
    targets = np.empty(row_offsets[-1], np.int32)
    cooccurrence.list_partners(offsets, sentences, target_tokens, target_offsets, row_offsets, n_target_words, targets)
    return PairTable(row_offsets, targets, n_target_words)


def iter_shards(
    bitext: Bitext, table: PairTable, weights: Floats | None = None, anchors: Anchors | None = None
) -> Iterator[BitextShard]:
    """Cut a bitext, trained on or new, into shards; the cells of each are made when the iterator comes to it.

    Shards depend on the bitext only, never on the number of workers; a bitext without pairs is one empty shard.
    ``anchors`` holds the known links of every pair.
    """
    if weights is None:
        weights = np.ones(bitext.n_pairs)
    cell_offsets = offsets_of(bitext.source_lengths * bitext.target_lengths)
    shard_cells = int(np.clip(cell_offsets[-1] // _SHARDS, _LEAST_CELLS, _MOST_CELLS))
    begin = 0
    while True:
        end = int(np.searchsorted(cell_offsets, cell_offsets[begin] + shard_cells, side="right")) - 1
        end = min(max(end, begin + 1), bitext.n_pairs)
        shard = _cut(bitext, begin, end, cell_offsets[begin : end + 1] - cell_offsets[begin], table, weights)
        own = None if anchors is None else anchors.take(np.arange(begin, end))
        yield shard if own is None or not own.held.any() else replace(shard, anchors=own)
        begin = end
        if begin >= bitext.n_pairs:
            return


def _cut(bitext: Bitext, begin: int, end: int, cell_offsets: Ints, table: PairTable, weights: Floats) -> BitextShard:
    source, target = bitext.source_offsets[begin : end + 1], bitext.target_offsets[begin : end + 1]
    source_tokens = bitext.source_tokens[source[0] : source[-1]]
    target_tokens = bitext.target_tokens[target[0] : target[-1]]
    source_offsets, target_offsets = source - source[0], target - target[0]
    cells = np.empty(cell_offsets[-1], np.int32)
    found = np.empty(len(cells) + 1, np.int32)
    numbers = np.where(source_tokens < 0, table.n_source_words, source_tokens)
    n_found = cooccurrence.index_cells(
        *cooccurrence.postings(numbers, source_offsets, table.n_source_words + 1), target_tokens, target_offsets,
        cell_offsets, table.row_offsets, table.targets, table.n_target_words, cells, found,
    )  # fmt: skip
    pairs = Pairs(source_offsets, target_offsets, cell_offsets, cells, weights[begin:end])
    return BitextShard(begin, end, source_tokens, target_tokens, pairs, pair_ids=found[:n_found].copy())
