"""The table of word pairs that occur together in some sentence pair, shards of a bitext, and pairs that are known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints, Reals
from spectrem._reprs import brief_dataclass
from spectrem.data import MAX_LENGTH, Bitext, Links
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.alignments import cooccurrence
from spectrem.kernels.alignments.bidirectional import Direction, Pairs
from spectrem.kernels.alignments.cells import place_parts
from spectrem.structures._ragged import offsets_of, ranges_of


@brief_dataclass(frozen=True, eq=False)
class Anchors:
    """The known links of some sentence pairs; a word that has any has no others, in both directions.

    A word with several anchors shares its mass among them in the direction in which it chooses. Words without an
    anchor are free, and choose among words without an anchor and NULL; where links are *complete*, they are NULL's.

    Attributes
    ----------
    links : Links
        Of every pair; none where nothing is known.
    complete : ndarray of shape (n_pairs,), bool
        Pairs of which all links are given. No constraint concerns them.
    """

    links: Links
    complete: Bools

    @property
    def held(self) -> Bools:
        """Whether any link of a pair is known, or all are, shape (n_pairs,)."""
        return (np.diff(self.links.offsets) > 0) | self.complete

    def take(self, chosen: NDArray[np.integer]) -> Anchors:
        """The anchors of the pairs with the given numbers, in that order."""
        return Anchors(self.links.take(chosen), self.complete[chosen])

    def excluded(self, pairs: Pairs) -> tuple[Bools, Bools, Bools]:
        """The cells that the anchors of a shard rule out in both directions, and the words that are not NULL's.

        Marks of cells, of source words and of target words.
        """
        sentence = self.links.sentence
        widths = np.diff(pairs.target_offsets)
        source = pairs.source_offsets[sentence] + self.links.source
        target = pairs.target_offsets[sentence] + self.links.target
        source_linked = np.zeros(int(pairs.source_offsets[-1]), np.bool_)
        target_linked = np.zeros(int(pairs.target_offsets[-1]), np.bool_)
        source_linked[source], target_linked[target] = True, True
        closed_source = source_linked | np.repeat(self.complete, np.diff(pairs.source_offsets))
        closed_target = target_linked | np.repeat(self.complete, widths)
        layout = Layout.of(pairs)
        cells = closed_source[layout.source] | closed_target[layout.target]
        cells[pairs.cell_offsets[sentence] + self.links.source * widths[sentence] + self.links.target] = False
        return cells, source_linked, target_linked

    def without_excluded(
        self, pairs: Pairs, forward: Direction, backward: Direction
    ) -> tuple[Pairs, Direction, Direction]:
        """A shard and potentials of its two directions, in which what the anchors rule out has potential 0.

        Cells of impossible links refer to an entry of their own, after all others.
        """
        excluded, source_linked, target_linked = self.excluded(pairs)
        cells = np.where(excluded, np.int32(len(forward.links)), pairs.cells)
        links = np.concatenate([forward.links, np.zeros((1, 2))])
        forward = forward._replace(links=links, null=np.where(target_linked, 0.0, forward.null))
        backward = backward._replace(links=links, null=np.where(source_linked, 0.0, backward.null))
        return pairs._replace(cells=cells), forward, backward

    def allowed(self, pairs: Pairs) -> Bools:
        """Unary parts that the anchors of a shard leave possible: those of the forward, then of the backward direction.

        They are laid out as in `spectrem.structures.Alignment`.
        """
        excluded, source_linked, target_linked = self.excluded(pairs)
        return Layout.of(pairs).spread(~excluded, ~target_linked, ~source_linked)

    def impose_on_masses(self, forward: Floats, backward: Floats) -> None:
        """Set the posteriors of one pair, both of shape (source words, target words), where it has anchors."""
        source, target = self.links.source, self.links.target
        for masses, places in ((forward, target), (backward, source)):
            masses[source] = 0.0
            masses[:, target] = 0.0
            masses[source, target] = 1.0 / np.bincount(places)[places]

    def impose(self, links: Links, begin: int) -> Links:
        """Links of the pairs from number ``begin`` on, without those of anchored words and with the anchors."""
        anchors = self.take(np.arange(begin, begin + links.n_sentences))
        known, sentence = anchors.links, links.sentence * MAX_LENGTH
        closed = np.isin(sentence + links.source, known.sentence * MAX_LENGTH + known.source)
        closed |= np.isin(sentence + links.target, known.sentence * MAX_LENGTH + known.target)
        left = links.where(~(closed | anchors.complete[links.sentence]))
        return Links.from_arrays(
            np.concatenate([left.sentence, known.sentence]),
            np.concatenate([left.source, known.source]),
            np.concatenate([left.target, known.target]),
            n_sentences=links.n_sentences,
        )


class Layout(NamedTuple):
    """Where the cells of a shard lie among its words, and among the unary parts of its two directions.

    Attributes
    ----------
    source, target : ndarray of shape (n_cells,)
        Source word and target word of every cell, counted in the shard.
    parts : (ndarray, ndarray)
        The unary part of every cell, forward and backward, as `Alignment` lays them out.
    nulls : (ndarray, ndarray)
        The unary part in which every target word (forward), every source word (backward) chooses NULL.
    """

    source: Ints
    target: Ints
    parts: tuple[Ints, Ints]
    nulls: tuple[Ints, Ints]

    @classmethod
    def of(cls, pairs: Pairs) -> Layout:
        sources, targets = np.diff(pairs.source_offsets), np.diff(pairs.target_offsets)
        source, target, forward, backward = np.empty((4, int(pairs.cell_offsets[-1])), np.int64)
        place_parts(pairs.source_offsets, pairs.target_offsets, source, target, forward, backward)
        nulls = np.repeat(sources + 1, targets).cumsum() - 1, np.repeat(targets + 1, sources).cumsum() - 1
        return cls(source, target, (forward, backward), nulls)

    def spread(self, cells: Bools, target_null: Bools, source_null: Bools) -> Bools:
        """Marks of unary parts, those of the forward, then of the backward direction, from marks of cells and NULLs.

        ``target_null`` is NULL as the choice of target words (forward), ``source_null`` as that of source words.
        """
        marks = []
        for parts, nulls, null in zip(self.parts, self.nulls, (target_null, source_null), strict=True):
            marks.append(np.empty(len(parts) + len(nulls), np.bool_))
            marks[-1][parts], marks[-1][nulls] = cells, null
        return np.concatenate(marks)


# A shard is closed after this many cells (source x target positions): a twelfth of the corpus, within bounds. Large
# shards hold more pairs of like lengths, which are solved together; small ones spread better over threads.
_SHARDS, _LEAST_CELLS, _MOST_CELLS = 12, 1 << 17, 1 << 18
# Up to so many cells are kept, in some 20 MB: they need not be found in every iteration.
_FEW_CELLS = 1 << 22

_AT_ONCE = 1 << 22  # tokens
_MOST_PAIRS = (1 << 31) - 1  # entries are numbered in 32 bits, and one more stands for pairs that are not in the table


@brief_dataclass(frozen=True)
class PairTable:
    """The word pairs that occur together in some sentence pair, source word by source word (compressed rows).

    Attributes
    ----------
    row_offsets : ndarray of shape (n_source_words + 1,), int64
    targets : ndarray of shape (n_pairs,), int32
        Target word of every pair; pairs of source word e are ``row_offsets[e]:row_offsets[e + 1]``, in increasing
        order of their target words.
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

    def find(self, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> Ints:
        """The entry of every pair of words, -1 where there is none or a word is unknown (-1).

        It is fastest when pairs of a source word follow each other.
        """
        entries = np.full(len(sources), -1)
        known = (sources >= 0) & (sources < self.n_source_words) & (targets >= 0) & (targets < self.n_target_words)
        of_known = np.empty(int(known.sum()), np.int64)
        words = sources[known], targets[known]
        cooccurrence.find_entries(self.row_offsets, self.targets, self.n_target_words, *words, of_known)
        entries[known] = of_known
        return entries

    @cached_property
    def target_sizes(self) -> Ints:
        """Number of pairs of every target word, shape (n_target_words,)."""
        return np.bincount(self.targets, minlength=self.n_target_words)


@brief_dataclass(frozen=True, eq=False)
class BitextShard:
    """A run of sentence pairs, and the entry of the pair table that each of its cells refers to.

    The cells may be found anew whenever they are needed (`index`), in a tenth of the time of an E-step and with a tenth
    of the memory: tokens are views of the bitext's.

    Attributes
    ----------
    begin, end : int
        The sentence pairs of the corpus that the shard holds.
    source_tokens, target_tokens : int32
        Words of the shard, -1 when unknown.
    pairs : Pairs
        Offsets, weights, and for each cell the index into ``pair_ids`` of its word pair, if it has been found.
    pair_ids : ndarray of int32
        Entries of the pair table that occur in the shard, ``n_pairs`` for pairs that are not in it; empty until the
        cells are found.
    packed : ndarray of uint8, or None
        The entries of the pair table that occur in the shard, packed, for `index`; None where it has to find them.
    anchors : Anchors, or None
        Known links of the pairs; None where no pair has any.
    unseen : (ndarray, ndarray), or None
        Probabilities, forward and backward, of the entries after those of ``pair_ids``: pairs of a new text that are
        not in the table.
    quantum : float
        Expected counts are rounded to multiples of this power of two, which is so small and so large that sums over
        the bitext have 51 bits and no rounding: they are the same in any order. 0 leaves them as they are.
    by_position : bool
        Whether it is one long pair, to be aligned by translation probabilities and the distance from the diagonal.
    """

    begin: int
    end: int
    source_tokens: NDArray[np.int32]
    target_tokens: NDArray[np.int32]
    pairs: Pairs
    pair_ids: NDArray[np.int32]
    packed: NDArray[np.uint8] | None = None
    anchors: Anchors | None = None
    unseen: tuple[Floats, Floats] | None = None
    quantum: float = 0.0
    by_position: bool = False

    @property
    def source_lengths(self) -> Ints:
        return np.diff(self.pairs.source_offsets)

    @property
    def target_lengths(self) -> Ints:
        return np.diff(self.pairs.target_offsets)

    @property
    def weights(self) -> Floats:
        return self.pairs.weights

    @property
    def is_indexed(self) -> bool:
        """Whether the cells are found."""
        return len(self.pairs.cells) == self.pairs.cell_offsets[-1]

    def is_seen(self, table: PairTable) -> bool:
        """Whether all word pairs of the shard are in the table."""
        return not len(self.pair_ids) or self.pair_ids[-1] < table.n_pairs

    def of_entries(self, translation: Reals, *, backward: bool) -> Floats:
        """Probability of every entry of the shard, of the pair table's in one direction."""
        known = translation[self.pair_ids].astype(np.float64)
        return known if self.unseen is None else np.concatenate([known, self.unseen[backward]])

    def select(self, chosen: NDArray[np.integer]) -> BitextShard:
        """A shard of some of the pairs (their numbers within this one), over the same ``pair_ids``."""
        sources, source_tokens = _take(self.pairs.source_offsets, self.source_tokens, chosen)
        targets, target_tokens = _take(self.pairs.target_offsets, self.target_tokens, chosen)
        cell_offsets, cells = _take(self.pairs.cell_offsets, self.pairs.cells, chosen)
        pairs = Pairs(sources, targets, cell_offsets, cells, self.pairs.weights[chosen])
        anchors = None if self.anchors is None else self.anchors.take(chosen)
        words = self.begin, self.begin + len(chosen), source_tokens, target_tokens
        return BitextShard(*words, pairs, self.pair_ids, anchors=anchors, unseen=self.unseen)

    def pack(self, table: PairTable) -> BitextShard:
        """The same shard with its entries of a table, so that `index` takes a third of the time."""
        return replace(self, packed=pack(self._find(table, self._postings(table))))

    def index(self, table: PairTable) -> BitextShard:
        """The shard with its cells, for a table that is the one of `pack` if the shard is packed."""
        if self.is_indexed:
            return self
        postings, pairs = self._postings(table), self.pairs
        entries = self._find(table, postings) if self.packed is None else unpack(self.packed)
        cells = np.empty(pairs.cell_offsets[-1], np.int32)
        incomplete = cooccurrence.place_cells(
            *postings, self.target_tokens, pairs.target_offsets, pairs.cell_offsets, table.row_offsets, table.targets,
            table.n_target_words, entries, cells,
        )  # fmt: skip
        if incomplete:
            entries = np.append(entries, np.int32(table.n_pairs))
        return replace(self, pairs=pairs._replace(cells=cells), pair_ids=entries, packed=None)

    def _postings(self, table: PairTable) -> tuple[Ints, NDArray[np.int32], NDArray[np.int32]]:
        tokens = self.source_tokens
        if len(tokens) and tokens.min() < 0:
            tokens = np.where(tokens < 0, np.int32(table.n_source_words), tokens)
        postings: tuple[Ints, NDArray[np.int32], NDArray[np.int32]] = cooccurrence.postings(
            tokens, self.pairs.source_offsets, table.n_source_words + 1
        )
        return postings

    def _find(self, table: PairTable, postings: tuple[Ints, NDArray[np.int32], NDArray[np.int32]]) -> NDArray[np.int32]:
        """The entries that occur, in increasing order."""
        entries = np.empty(int(self.pairs.cell_offsets[-1]) + 1, np.int32)
        n_entries = cooccurrence.list_entries(
            *postings[:2], self.target_tokens, self.pairs.target_offsets, table.row_offsets, table.targets,
            table.n_target_words, entries,
        )  # fmt: skip
        return entries[:n_entries].copy()


def _take(offsets: Ints, values: NDArray[np.int32], chosen: NDArray[np.integer]) -> tuple[Ints, NDArray[np.int32]]:
    """The chosen rows of values that lie row after row, with their own offsets."""
    lengths = offsets[chosen + 1] - offsets[chosen]
    return offsets_of(lengths), values[ranges_of(offsets[chosen], lengths)]


def pack(numbers: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Increasing numbers, at least 0, as the gaps between them in groups of seven bits."""
    packed = np.empty(5 * len(numbers), np.uint8)
    return packed[: cooccurrence.pack(numbers, packed)].copy()


def count_packed(packed: NDArray[np.uint8]) -> int:
    """Number of entries that `pack` packed: every one has one byte below 128."""
    return int(np.count_nonzero(packed < 128))


def unpack(packed: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The numbers that `pack` packed."""
    numbers = np.empty(count_packed(packed), np.int32)
    cooccurrence.unpack(packed, numbers)
    return numbers


def build_shards(
    bitext: Bitext, table: PairTable | None = None, weights: Floats | None = None, anchors: Anchors | None = None
) -> tuple[PairTable, list[BitextShard]]:
    """The shards of a bitext, see `iter_shards`, and their table, by default that of the bitext (`tabulate_pairs`)."""
    table = tabulate_pairs(bitext) if table is None else table
    return table, list(iter_shards(bitext, table, weights, anchors))


def tabulate_pairs(bitext: Bitext, max_chance: float | None = None) -> PairTable:
    """The word pairs that occur together in some sentence pair of a bitext without unknown words.

    Parameters
    ----------
    bitext : Bitext
    max_chance : float, optional
        Pairs that meet in a single sentence pair are left out where more than so many meetings are expected of words
        that have nothing to do with each other: the product of their tokens over the number of sentence pairs. At 0.1
        that is a third of the pairs of 100,000 sentence pairs, which hold 1.6 % of the expected links of training.

    Raises
    ------
    InvalidInputError
        If there are 2^31 - 1 word pairs or more.
    """
    n_source_words, n_target_words = len(bitext.source_vocabulary), len(bitext.target_vocabulary)
    offsets, sentences = cooccurrence.postings(bitext.target_tokens, bitext.target_offsets, n_target_words)[:2]
    text = offsets, sentences, bitext.source_tokens, bitext.source_offsets
    counts = count_words(bitext.source_tokens, n_source_words), count_words(bitext.target_tokens, n_target_words)
    limit = np.inf if max_chance is None else max_chance * bitext.n_pairs
    n_partners = np.zeros(n_source_words, np.int64)
    cooccurrence.list_partners(*text, *counts, limit, n_partners, np.empty(0, np.int32))
    row_offsets = offsets_of(n_partners)
    if row_offsets[-1] >= _MOST_PAIRS:
        raise InvalidInputError(
            f"the text must hold fewer than {_MOST_PAIRS:,} different word pairs, got {row_offsets[-1]:,}; set "
            "max_chance=0.1 or smaller, or cut the text"
        )
    targets = np.empty(row_offsets[-1], np.int32)
    cooccurrence.list_partners(*text, *counts, limit, row_offsets[:-1].copy(), targets)
    return PairTable(row_offsets, targets, n_target_words)


def count_words(tokens: NDArray[np.int32], n_words: int) -> Ints:
    """Occurrences of every word, shape (n_words,); some millions of tokens at a time, as each takes eight bytes."""
    counts = np.zeros(n_words, np.int64)
    for begin in range(0, len(tokens), _AT_ONCE):
        counts += np.bincount(tokens[begin : begin + _AT_ONCE], minlength=n_words)
    return counts


def shards_to_train(
    bitext: Bitext, table: PairTable, weights: Floats | None = None, anchors: Anchors | None = None
) -> Iterator[BitextShard]:
    """The shards of `cut_text` as training works on them over and over: with their cells while these are few.

    Pairs of weight 0 are in none.
    """
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
        bitext, weights, anchors = bitext.take(kept), weights[kept], None if anchors is None else anchors.take(kept)
    few = int(bitext.source_lengths @ bitext.target_lengths) <= _FEW_CELLS
    for shard in cut_text(bitext, weights, anchors):
        yield shard.index(table) if few else shard.pack(table)


def iter_shards(
    bitext: Bitext, table: PairTable, weights: Floats | None = None, anchors: Anchors | None = None
) -> Iterator[BitextShard]:
    """The shards of `cut_text` with their cells, each of which is made when the iterator comes to it."""
    for shard in cut_text(bitext, weights, anchors):
        yield shard.index(table)


def cut_text(bitext: Bitext, weights: Floats | None = None, anchors: Anchors | None = None) -> Iterator[BitextShard]:
    """Cut a bitext, trained on or new, into shards.

    Shards depend on the bitext only, never on the number of workers; a bitext without pairs is one empty shard.
    ``anchors`` holds the known links of every pair.
    """
    if weights is None:
        weights = np.ones(bitext.n_pairs)
    cell_offsets = offsets_of(bitext.source_lengths * bitext.target_lengths)
    shard_cells = int(np.clip(cell_offsets[-1] // _SHARDS, _LEAST_CELLS, _MOST_CELLS))
    total = float(weights @ np.maximum(bitext.source_lengths, bitext.target_lengths))
    quantum = 2.0 ** (math.frexp(total)[1] - 51)  # total is below 2 to the power of that exponent
    nothing, begin = np.empty(0, np.int32), 0
    while True:
        end = int(np.searchsorted(cell_offsets, cell_offsets[begin] + shard_cells, side="right")) - 1
        end = min(max(end, begin + 1), bitext.n_pairs)
        source, target, cells = (
            offsets[begin : end + 1] for offsets in (bitext.source_offsets, bitext.target_offsets, cell_offsets)
        )
        known = None if anchors is None else anchors.take(np.arange(begin, end))
        yield BitextShard(
            begin, end, bitext.source_tokens[source[0] : source[-1]], bitext.target_tokens[target[0] : target[-1]],
            Pairs(source - source[0], target - target[0], cells - cells[0], nothing, weights[begin:end]), nothing,
            anchors=known if known is not None and known.held.any() else None, quantum=quantum,
        )  # fmt: skip
        begin = end
        if begin >= bitext.n_pairs:
            return


@brief_dataclass(frozen=True, eq=False)
class ListedPairs:
    """A set of word pairs, whether they occur together or not.

    Attributes
    ----------
    keys : ndarray of shape (n_listed,), int64
        ``source * n_target_words + target`` of every pair, in increasing order.
    n_target_words : int
    """

    keys: Ints
    n_target_words: int

    @classmethod
    def of(cls, source: NDArray[np.integer], target: NDArray[np.integer], n_target_words: int) -> ListedPairs:
        """The pairs of the words with these numbers, each of shape (n,)."""
        return cls(np.unique(source.astype(np.int64) * n_target_words + target), n_target_words)

    def marks(self, shard: BitextShard) -> Bools:
        """Which unary parts of a shard are links between two words that are listed together, shape (n_unary,)."""
        layout = Layout.of(shard.pairs)
        source, target = shard.source_tokens[layout.source].astype(np.int64), shard.target_tokens[layout.target]
        cells = np.isin(source * self.n_target_words + target, self.keys) & (source >= 0) & (target >= 0)
        null = (np.zeros(len(tokens), np.bool_) for tokens in (shard.target_tokens, shard.source_tokens))
        return layout.spread(cells, *null)
