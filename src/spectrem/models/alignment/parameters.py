"""Parameters and expected statistics of word aligners, both directions."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Reals
from spectrem.kernels.alignments import cooccurrence
from spectrem.kernels.unions import add_at, count_union, merge, spread
from spectrem.models.alignment.pairs import BitextShard, PairTable, TextShard, pack, unpack

Real = TypeVar("Real", NDArray[np.float64], NDArray[np.float32])

# Probabilities are at least this, so that no word is impossible: at worst NULL produces it.
_FLOOR = 1e-12
# Counts that would be listed for more than this share of the pair table are held for every entry instead: that is
# faster, and takes little more memory.
_MOST_LISTED = 0.25
_AT_ONCE = 1 << 16


def with_floor(probability: Real) -> Real:
    """The same array of probabilities, each raised to the least allowed one."""
    return np.maximum(probability, _FLOOR, out=probability)


def as_single(probability: Reals) -> NDArray[np.float32]:
    """Probabilities in single precision, written into their own memory where that can be made smaller.

    Tables of probabilities are half of the memory of training; counts and sums, which are the other half, stay double.
    """
    if probability.dtype == np.float32:
        return cast(NDArray[np.float32], probability)
    if not (probability.flags.owndata and probability.flags.c_contiguous):
        return probability.astype(np.float32)
    n = len(probability)
    single = probability.view(np.float32)[:n]
    for begin in range(0, n, _AT_ONCE):  # what is written lies before all that is still to be read
        single[begin : begin + _AT_ONCE] = probability[begin : begin + _AT_ONCE]
    del single
    probability.resize((n + 1) // 2, refcheck=False)
    return probability.view(np.float32)[:n]


@dataclass(frozen=True)
class Totals:
    """Expected counts, and pseudo-counts of the priors, behind the probabilities of one direction.

    A probability times its total is what later text is added to; see `spectrem.models.alignment.Continuation`.

    Attributes
    ----------
    words : ndarray of shape (n_chosen_words,)
        Links of every chosen word.
    null, jumps, ends : float
        Words produced by NULL, moves between positions, sentence ends; 0 for what the model does not learn.
    """

    words: Floats
    null: float
    jumps: float
    ends: float


@dataclass(frozen=True)
class KeptPlaces:
    """Counts of earlier text that one direction goes on from, besides those of links.

    Attributes
    ----------
    null : ndarray of shape (n_produced_words,)
        Words that NULL produced.
    null_rest : float
        Other words that NULL produced, which are not among these.
    jumps : ndarray of shape (2 * max_jump + 1,)
        Moves by width, as if every width had been possible for each of them.
    ends : ndarray of shape (max_jump + 1,)
    """

    null: Floats
    null_rest: float
    jumps: Floats
    ends: Floats


@dataclass(frozen=True)
class DirectionParameters:
    """Parameters of one direction: how a chosen word (or NULL) produces a word, and where the choice moves next.

    "Forward" produces target words from source words, "backward" source words from target words.

    Attributes
    ----------
    translation : ndarray of shape (n_pairs + 1,)
        Probability of the produced word given the chosen one, by entry of the pair table; the last entry is
        for word pairs that are not in it. An M-step leaves them in single precision (seven digits), with which
        E-steps compute in double precision.
    null : ndarray of shape (n_produced_words + 1,)
        Probability of every word given NULL; the last entry is for unknown words.
    jump : ndarray of shape (2 * max_jump + 1,)
        Potentials of the jump widths -max_jump .. max_jump, summing to 1; see `fit_jumps`.
    end : ndarray of shape (max_jump + 1,)
        Probability that the last position used lies 0, 1, ... words before the last one; longer distances share the
        last entry. Read by the HMM only.
    null_probability : float
        Probability p0 that a word is produced by NULL, in (0, 1).
    totals : Totals, optional
        What an M-step knows of the counts behind these probabilities: 0 before the first, None in files of earlier
        versions.
    """

    translation: Reals
    null: Floats
    jump: Floats
    end: Floats
    null_probability: float
    totals: Totals | None = None

    @property
    def max_jump(self) -> int:
        return (len(self.jump) - 1) // 2


@dataclass(frozen=True)
class AlignmentParameters:
    """Both directions; entries of the two translation tables are the same word pairs."""

    forward: DirectionParameters
    backward: DirectionParameters


@dataclass(eq=False)
class DirectionStats:
    """Expected counts of one direction; see `AlignmentStats`."""

    links: Floats
    null: Floats
    jumps: Floats
    departures: Floats
    ends: Floats

    def add_places(self, other: DirectionStats) -> None:
        """Add all counts of another direction's statistics in place, except those of links."""
        self.null += other.null
        self.jumps += other.jumps
        self.ends += other.ends
        size, wanted = len(self.departures), len(other.departures)
        if wanted > size:
            self.departures = np.pad(self.departures, (0, wanted - size))
        self.departures[:wanted, :wanted] += other.departures

    def round(self, quantum: float) -> None:
        """Round all counts to multiples of a power of two in place."""
        shift = 1.5 * 2.0**52 * quantum  # a double of this size has no room for smaller parts
        for own in vars(self).values():
            own += shift
            own -= shift

    def __rmul__(self, factor: float) -> DirectionStats:
        return DirectionStats(*(factor * own for own in vars(self).values()))


@dataclass(eq=False)
class AlignmentStats:
    """Expected counts of some sentence pairs: values with ``a + b`` and ``factor * a``; ``a += b`` and
    ``a *= factor`` change a.

    Counts of links are listed by ``pair_ids`` or, once they cover much of the pair table, held for all of it; sums
    are the same to the bit.

    Attributes
    ----------
    forward, backward : DirectionStats
        ``links`` by pair, ``null`` by produced word, ``jumps`` by clipped width, ``departures`` by length and
        position (as far as there are any), ``ends`` by clipped distance.
    n_entries : int
        Number of entries of the pair table, including the one for word pairs that are not in it.
    pair_ids : ndarray of int32, or None
        The entries that ``links`` counts, strictly increasing; None for all.
    exact : bool
        Whether all counts are multiples of one power of two, so large that sums over the corpus have no rounding.
    """

    forward: DirectionStats
    backward: DirectionStats
    n_entries: int
    pair_ids: NDArray[np.int32] | None
    exact: bool = False

    def round(self, quantum: float) -> None:
        """Round all counts to multiples of ``quantum``, a power of two with which sums over the corpus are exact."""
        self.forward.round(quantum)
        self.backward.round(quantum)
        self.exact = True

    def __iadd__(self, other: AlignmentStats) -> AlignmentStats:
        self._add_links(other)
        self.forward.add_places(other.forward)
        self.backward.add_places(other.backward)
        self.exact &= other.exact
        return self

    def __add__(self, other: AlignmentStats) -> AlignmentStats:
        total = deepcopy(self)
        total += other
        return total

    def __imul__(self, factor: float) -> AlignmentStats:
        for side in (self.forward, self.backward):
            for counts in vars(side).values():
                counts *= factor
        return self

    def __rmul__(self, factor: float) -> AlignmentStats:
        return replace(self, forward=factor * self.forward, backward=factor * self.backward, exact=False)

    @property
    def links(self) -> tuple[Floats, Floats]:
        """Counts of links of the whole pair table, forward and backward, each of shape (n_entries,)."""
        if self.pair_ids is None:
            return self.forward.links, self.backward.links
        forward, backward = np.zeros(self.n_entries), np.zeros(self.n_entries)
        forward[self.pair_ids], backward[self.pair_ids] = self.forward.links, self.backward.links
        return forward, backward

    def _add_links(self, other: AlignmentStats) -> None:
        """Add counts of links in place. Arrays are enlarged where they lie, as copies would double the memory."""
        own, its = self.pair_ids, other.pair_ids
        sides = (self.forward, other.forward.links), (self.backward, other.backward.links)
        if own is its or (own is not None and its is not None and np.array_equal(own, its)):
            for side, counts in sides:
                side.links += counts
            return
        size = self.n_entries if own is None or its is None else count_union(own, its)
        if size > _MOST_LISTED * self.n_entries:
            self.hold_all()
            for side, counts in sides:
                if its is None:
                    side.links += counts
                else:
                    add_at(side.links, its, counts)
            return
        self.pair_ids = np.empty(size, np.int32)
        for side, _ in sides:
            side.links = _lengthened(side.links, size)
        merge(own, *(side.links for side, _ in sides), its, *(counts for _, counts in sides), self.pair_ids)

    def hold_all(self) -> None:
        """Replace counts of listed entries by counts of all entries, 0 for those that were not listed."""
        if self.pair_ids is None:
            return
        for side in (self.forward, self.backward):
            side.links = _lengthened(side.links, self.n_entries)
            spread(self.pair_ids, side.links)
        self.pair_ids = None


@dataclass(frozen=True, eq=False)
class Needs:
    """Which words and which entries of the pair table occur in a shard of training text, each in increasing order.

    All words of the text must be known (no token is -1), as they are in the text that a table was made of.

    Attributes
    ----------
    entries, source_words, target_words : ndarray of uint8
        Numbers, packed as those of a `TextShard`.
    """

    entries: NDArray[np.uint8]
    source_words: NDArray[np.uint8]
    target_words: NDArray[np.uint8]

    @classmethod
    def of(cls, shard: BitextShard | TextShard) -> Needs | None:
        """What a shard needs; None if it does not list its entries, which only the whole table can then tell."""
        entries = shard.packed if isinstance(shard, TextShard) else pack(shard.pair_ids)
        if entries is None:
            return None
        return cls(entries, pack(np.unique(shard.source_tokens)), pack(np.unique(shard.target_tokens)))

    def restrict(self, table: PairTable, params: AlignmentParameters) -> tuple[PairTable, AlignmentParameters]:
        """The rows and columns of the table that occur, its entries that do, and their parameters."""
        entries, sources, targets = self._numbers(table)
        row_offsets = np.append(np.searchsorted(entries, table.row_offsets[sources]), len(entries))
        number = np.empty(table.n_target_words, np.int32)
        number[targets] = np.arange(len(targets), dtype=np.int32)
        forward, backward = (
            replace(
                side,
                translation=np.append(side.translation[entries], side.translation[-1]),
                null=np.append(side.null[words], side.null[-1]),
                totals=None,
            )
            for side, words in ((params.forward, targets), (params.backward, sources))
        )
        part = PairTable(row_offsets, number[table.targets[entries]], len(targets))
        return part, AlignmentParameters(forward, backward)

    def place(self, stats: AlignmentStats, table: PairTable) -> AlignmentStats:
        """The statistics in the numbers of the whole table."""
        entries, sources, targets = self._numbers(table)
        forward, backward = (
            replace(side, links=links, null=np.zeros(n_words))
            for side, links, n_words in zip(
                (stats.forward, stats.backward), stats.links, (table.n_target_words, table.n_source_words), strict=True
            )
        )
        forward.null[targets], backward.null[sources] = stats.forward.null, stats.backward.null
        listed = np.append(entries, np.int32(table.n_pairs))
        return AlignmentStats(forward, backward, table.n_pairs + 1, listed, stats.exact)

    def _numbers(self, table: PairTable) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        entries = unpack(self.entries)
        known = entries[: np.searchsorted(entries, table.n_pairs)]  # the last may stand for pairs that are not in it
        return known, unpack(self.source_words), unpack(self.target_words)


def renumber(
    shard: BitextShard | TextShard, source_words: NDArray[np.uint8], target_words: NDArray[np.uint8]
) -> BitextShard | TextShard:
    """A shard in the numbers of what `Needs.restrict` gives, from the words that it needs."""
    sources, targets = (
        np.searchsorted(unpack(words), tokens).astype(np.int32)
        for words, tokens in ((source_words, shard.source_tokens), (target_words, shard.target_tokens))
    )
    shard = replace(shard, source_tokens=sources, target_tokens=targets)
    if isinstance(shard, BitextShard):
        return replace(shard, pair_ids=np.arange(len(shard.pair_ids), dtype=np.int32))
    assert shard.packed is not None
    return replace(shard, packed=pack(np.arange(cooccurrence.count_packed(shard.packed), dtype=np.int32)))


def _lengthened(counts: Floats, size: int) -> Floats:
    """Counts with zeros appended, in place if the array owns its memory."""
    if not counts.flags.owndata:
        return np.concatenate([counts, np.zeros(size - len(counts))])
    counts.resize(size, refcheck=False)
    return counts
