"""IBM Model 1, Model 2 and the HMM of word alignment, in both directions: parameters, statistics and the model.

Jump widths are shared by all sentences. The probability of moving from source position p (-1 at the start) to i in a
sentence of I words is ``c[clip(i - p, -W, W)] / sum over i' of c[clip(i' - p, -W, W)]`` ([Vogel1996]; the clipped tails
are shared as in [Liang2006]). Because of the denominators the M-step of c has no closed form; `fit_jumps` maximises the
expected log-probability of the E-step's counts of jumps and departures exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints, Reals
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_bool
from spectrem.kernels.alignments.cells import anchor, score_links
from spectrem.kernels.unions import add_at, count_union, merge, spread
from spectrem.models.alignment.pairs import (
    BitextShard,
    Layout,
    ListedPairs,
    PairTable,
    count_packed,
    pack,
    unpack,
)
from spectrem.models.priors import DirichletPrior, Prior
from spectrem.structures import Alignment, Parts, Product
from spectrem.structures._ragged import positions_of, rows_of

Real = TypeVar("Real", Floats, NDArray[np.float32])

# Probabilities are at least this, so that no word is impossible: at worst NULL produces it.
_FLOOR = 1e-12
# Counts that would be listed for more than this share of the pair table are held for every entry instead: that is
# faster, and takes little more memory.
_MOST_LISTED = 0.25
_AT_ONCE = 1 << 16


def with_floor(probability: Real) -> Real:
    """Raise probabilities to at least 1e-12, in place."""
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


@brief_dataclass(frozen=True)
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


@brief_dataclass(frozen=True)
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


@brief_dataclass(frozen=True)
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


@brief_dataclass(frozen=True)
class AlignmentParameters:
    """Both directions; entries of the two translation tables are the same word pairs."""

    forward: DirectionParameters
    backward: DirectionParameters


@brief_dataclass(eq=False)
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
        for counts in vars(self).values():
            counts += shift
            counts -= shift

    def __rmul__(self, factor: float) -> DirectionStats:
        return DirectionStats(*(factor * counts for counts in vars(self).values()))


@brief_dataclass(eq=False)
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
        here, there = self.pair_ids, other.pair_ids
        sides = (self.forward, other.forward.links), (self.backward, other.backward.links)
        if here is there or (here is not None and there is not None and np.array_equal(here, there)):
            for side, counts in sides:
                side.links += counts
            return
        size = self.n_entries if here is None or there is None else count_union(here, there)
        if size > _MOST_LISTED * self.n_entries:
            self.hold_all()
            for side, counts in sides:
                if there is None:
                    side.links += counts
                else:
                    add_at(side.links, there, counts)
            return
        self.pair_ids = np.empty(size, np.int32)
        for side, _ in sides:
            side.links = _lengthened(side.links, size)
        merge(here, *(side.links for side, _ in sides), there, *(counts for _, counts in sides), self.pair_ids)

    def hold_all(self) -> None:
        """Replace counts of listed entries by counts of all entries, 0 for those that were not listed."""
        if self.pair_ids is None:
            return
        for side in (self.forward, self.backward):
            side.links = _lengthened(side.links, self.n_entries)
            spread(self.pair_ids, side.links)
        self.pair_ids = None


@brief_dataclass(frozen=True, eq=False)
class Needs:
    """Which words and which entries of the pair table occur in a shard of training text, each in increasing order.

    All words of the text must be known (no token is -1), as they are in the text that a table was made of.

    Attributes
    ----------
    entries, source_words, target_words : ndarray of uint8
        Numbers, packed as those of a `BitextShard`.
    """

    entries: NDArray[np.uint8]
    source_words: NDArray[np.uint8]
    target_words: NDArray[np.uint8]

    @classmethod
    def of(cls, shard: BitextShard) -> Needs | None:
        """The needs of a shard; None if it does not list its entries, which only the whole table can then tell."""
        if shard.packed is None and not shard.is_indexed:
            return None
        entries = pack(shard.pair_ids) if shard.packed is None else shard.packed
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


def renumber(shard: BitextShard, source_words: NDArray[np.uint8], target_words: NDArray[np.uint8]) -> BitextShard:
    """A shard in the numbers of what `Needs.restrict` gives, from the words that it needs."""
    sources, targets = (
        np.searchsorted(unpack(words), tokens).astype(np.int32)
        for words, tokens in ((source_words, shard.source_tokens), (target_words, shard.target_tokens))
    )
    shard = replace(shard, source_tokens=sources, target_tokens=targets)
    if shard.packed is None:
        return replace(shard, pair_ids=np.arange(len(shard.pair_ids), dtype=np.int32))
    return replace(shard, packed=pack(np.arange(count_packed(shard.packed), dtype=np.int32)))


def _lengthened(counts: Floats, size: int) -> Floats:
    """Counts with zeros appended, in place if the array owns its memory."""
    if not counts.flags.owndata:
        return np.concatenate([counts, np.zeros(size - len(counts))])
    counts.resize(size, refcheck=False)
    return counts


def normalisers(jump: Floats, lengths: NDArray[np.integer]) -> Floats:
    """Sum of potentials over the positions of a sentence of ``lengths[k]`` words, seen from p.

    Shape (n_lengths, longest + 1), entry [k, p + 1]; 0 where p lies outside the sentence.
    """
    max_jump = (len(jump) - 1) // 2
    longest = int(lengths.max(initial=0))
    spread = jump[np.clip(np.arange(-longest, longest + 1), -max_jump, max_jump) + max_jump]
    cumulative = np.concatenate([[0.0], np.cumsum(spread)])
    p = np.arange(-1, longest)
    sums = cumulative[np.maximum(lengths[:, None] - p, -longest) + longest] - cumulative[longest - p]
    return np.where(p < lengths[:, None], sums, 0.0)


def fit_jumps(
    jump: Floats,
    jump_counts: Floats,
    departures: Floats,
    lengths: NDArray[np.integer],
    *,
    pseudo_count: float | Floats,
    tol: float = 1e-10,
    max_iter: int = 200,
) -> Floats:
    """Potentials that maximise ``sum_d n_d log c_d - sum_{I,p} m_{I,p} log Z_{I,p}``, scaled to sum to 1.

    Every round replaces log Z by its tangent, whose maximum is closed and never decreases the objective
    (minorise-maximise). ``pseudo_count``, one number or one per width, is added to the count of every width.

    Parameters
    ----------
    jump : ndarray of shape (2 * max_jump + 1,)
        Potentials to start from; positive.
    jump_counts : ndarray of shape (2 * max_jump + 1,)
        Expected number of links at each clipped distance.
    departures : ndarray of shape (n_lengths, longest + 1)
        Expected number of links made from p, by sentence length.
    lengths : ndarray of shape (n_lengths,)
        The sentence lengths of the rows of ``departures``.
    """
    added = np.broadcast_to(pseudo_count, jump.shape)
    counts = jump_counts + added
    max_jump = (len(jump) - 1) // 2
    longest = int(lengths.max(initial=0))
    k, p = np.nonzero(departures > 0)
    nearest, beyond = 1 - p + longest, lengths[k] + 1 - p + longest
    clipped = np.clip(np.arange(-longest, longest + 1), -max_jump, max_jump) + max_jump
    counted = departures[k, p]
    jump = np.maximum(jump / jump.sum(), 1e-300)
    for _ in range(max_iter):
        cumulative = np.concatenate([[0.0], np.cumsum(jump[clipped])])
        rate = counted / (cumulative[beyond] - cumulative[nearest])
        # From p every distance between the first and the last position is reached once: a range, not a list.
        ends = np.bincount(nearest, rate, 2 * longest + 2) - np.bincount(beyond, rate, 2 * longest + 2)
        expected = np.bincount(clipped, np.cumsum(ends)[:-1], len(jump)).astype(np.float64)
        # The pseudo-counts are links of a sentence in which every width is reached once.
        expected += added.sum()
        new = np.divide(counts, expected, out=np.zeros_like(counts), where=counts > 0)
        new /= new.sum()
        if np.abs(new - jump).max() < tol:
            return new
        jump = new
    return jump


# Tokens of every word, and of NULL, that stepwise EM begins with.
_FIRST_COUNTS = 20.0


@brief_dataclass(frozen=True)
class AlignmentModel:
    """A pair of directional aligners over one table of word pairs.

    Every produced word comes from NULL with probability p0, else from the word at a position that depends on
    nothing (IBM Model 1), on the relative place in the sentence (Model 2, tied to the distance from the diagonal as
    in [OchNey2003]) or on the last position used (HMM, [Vogel1996]; NULL keeps it, [OchNey2003]).

    Parameters
    ----------
    table : PairTable
    max_jump : int
        Widest jump with a potential of its own, at least 1; wider ones share that of the widest.
    chain : bool
        Whether positions depend on the last one (HMM).
    learn_positions : bool
        False keeps positions uniform (Model 1).
    forward_prior, backward_prior : Prior
        On the rows of the two translation tables.
    jump_pseudo_count, end_pseudo_count : float
        Added to the expected count of every jump width and of every distance from the end.
    last_priors : (Prior, Prior), optional
        In place of these two, for the M-step of the last iteration.
    kept : (KeptPlaces, KeptPlaces), optional
        Counts of earlier text, forward and backward, added in place of these two numbers.
    listed : ListedPairs, optional
        Word pairs of a dictionary, for constraints.
    """

    table: PairTable
    max_jump: int
    chain: bool
    learn_positions: bool
    forward_prior: Prior = DirichletPrior()
    backward_prior: Prior = DirichletPrior()
    jump_pseudo_count: float = 0.5
    end_pseudo_count: float = 0.5
    last_priors: tuple[Prior, Prior] | None = None
    kept: tuple[KeptPlaces, KeptPlaces] | None = None
    listed: ListedPairs | None = None

    def __post_init__(self) -> None:
        as_bool(self.chain, "chain")
        as_bool(self.learn_positions, "learn_positions")

    def initial(self, null_probability: float) -> AlignmentParameters:
        """Uniform translation over the words that occur beside each word, uniform NULL words, uniform jumps."""
        table, max_jump = self.table, self.max_jump
        jump = np.full(2 * max_jump + 1, 1.0 / (2 * max_jump + 1))
        end = np.full(max_jump + 1, 1.0 / (max_jump + 1))
        rows = np.diff(table.row_offsets)
        # In single precision from the start, see `DirectionParameters`.
        shares = [(1.0 / np.maximum(sizes, 1)).astype(np.float32) for sizes in (rows, table.target_sizes)]
        forward, backward = np.zeros((2, table.n_pairs + 1), np.float32)
        forward[:-1], backward[:-1] = np.repeat(shares[0], rows), shares[1][table.targets]
        null = [np.full(n + 1, 1.0 / max(n, 1)) for n in (table.n_target_words, table.n_source_words)]
        # The shapes of what an M-step gives, so that a checkpoint can be read into them.
        totals = [Totals(np.zeros(n), 0.0, 0.0, 0.0) for n in (table.n_source_words, table.n_target_words)]
        return AlignmentParameters(
            DirectionParameters(with_floor(forward), null[0], jump, end, null_probability, totals[0]),
            DirectionParameters(with_floor(backward), null[1], jump, end, null_probability, totals[1]),
        )

    def initial_stats(self, params: AlignmentParameters) -> AlignmentStats:
        """Counts of which the M-step makes about these translation probabilities: a few for every word.

        Stepwise EM begins with them, so that words that the first sentences lack have any translation, and not none.
        """
        forward, backward = (
            DirectionStats(
                _FIRST_COUNTS * side.translation.astype(np.float64), _FIRST_COUNTS * side.null[:-1],
                np.zeros(len(side.jump)), np.zeros((1, 1)), np.zeros(len(side.end)),
            )
            for side in (params.forward, params.backward)
        )  # fmt: skip
        return AlignmentStats(forward, backward, self.table.n_pairs + 1, None)

    def small_part(self, params: AlignmentParameters) -> AlignmentParameters:
        """The parameters that `m_step` reads: all but the translation tables."""
        none = np.zeros(0)
        forward, backward = (replace(side, translation=none) for side in (params.forward, params.backward))
        return AlignmentParameters(forward, backward)

    def structure(self, shard: BitextShard) -> Product:
        """Alignments of both directions side by side."""
        sources, targets, width = shard.source_lengths, shard.target_lengths, self.max_jump if self.chain else None
        forward, backward = Alignment(sources, targets, width), Alignment(targets, sources, width, reverse=True)
        return Product({"forward": forward, "backward": backward}, name="direction")

    def scores(self, params: AlignmentParameters, shard: BitextShard) -> Parts:
        """Log-probabilities of the shard, as scores of both directions side by side."""
        shard = shard.index(self.table)
        forward = self._score(params.forward, shard, backward=False)
        backward = self._score(params.backward, shard, backward=True)
        unary = np.concatenate([forward.unary, backward.unary])
        if shard.anchors is not None:
            unary[~shard.anchors.allowed(shard.pairs)] = -np.inf
        return Parts(unary, forward.factors + backward.factors)

    def gather(self, params: AlignmentParameters, shard: BitextShard, marginals: Parts) -> AlignmentStats:
        """Expected counts of a shard from the marginals of `scores`; counts of factors are weighted already."""
        shard = shard.index(self.table)
        layout, (one, other) = Layout.of(shard.pairs), self.structure(shard).split(marginals)
        forward = self._gather(params.forward, shard, layout, one, backward=False)
        backward = self._gather(params.backward, shard, layout, other, backward=True)
        return AlignmentStats(forward, backward, self.table.n_pairs + 1, shard.pair_ids)

    def given(self, shard: BitextShard) -> Bools | None:
        """A mask of the pairs of which all links are given."""
        return None if shard.anchors is None else shard.anchors.complete

    def columns(self, shard: BitextShard) -> Mapping[str, Bools]:
        """For constraints, "listed": whether a part is a link between two words that ``listed`` has together."""
        return {} if self.listed is None else {"listed": self.listed.marks(shard.index(self.table))}

    def cell_masses(self, shard: BitextShard, marginals: Parts) -> tuple[Floats, Floats]:
        """Mass of every link under the marginals of `scores`, forward and backward, by cell."""
        one, other = self.structure(shard).split(marginals)
        forward, backward = Layout.of(shard.pairs).parts
        return one.unary[forward], other.unary[backward]

    def m_step(self, params: AlignmentParameters, stats: AlignmentStats, corpus: object = None) -> AlignmentParameters:
        """Parameters that maximise the expected log-probability plus the log-prior.

        They are written into the arrays of the statistics; ``corpus`` is not read.
        """
        (forward, backward), table = stats.links, self.table
        sizes = np.diff(table.row_offsets)
        words = np.empty(table.n_source_words), np.empty(table.n_target_words)
        self.forward_prior.normalise(forward[:-1], _sources(table, self.forward_prior), sizes, forward[:-1], words[0])
        self.backward_prior.normalise(backward[:-1], table.targets, table.target_sizes, backward[:-1], words[1])
        forward[-1] = backward[-1] = 0.0  # word pairs that are not in the table
        return AlignmentParameters(
            self._fit(params.forward, stats.forward, forward, words[0], self._added(params.forward, 0)),
            self._fit(params.backward, stats.backward, backward, words[1], self._added(params.backward, 1)),
        )

    def last_m_step(
        self, params: AlignmentParameters, stats: AlignmentStats, corpus: object = None
    ) -> AlignmentParameters:
        """The M-step of the last iteration, as `m_step` but with ``last_priors`` where there are any."""
        if self.last_priors is None:
            return self.m_step(params, stats, corpus)
        forward, backward = self.last_priors
        return replace(self, forward_prior=forward, backward_prior=backward).m_step(params, stats, corpus)

    def log_prior(self, params: AlignmentParameters) -> float:
        """Log-density of the parameters, nats, up to a constant; the M-step adds it to the expected log-probability.

        Priors compute it from the probabilities alone; `LexicalPrior.log_density` leaves a part of it out.
        """
        forward, backward, table = params.forward, params.backward, self.table
        sizes = np.diff(table.row_offsets)
        rows = _sources(table, self.forward_prior)
        total = self.forward_prior.log_density(forward.translation[:-1], rows, sizes)
        del rows
        total += self.backward_prior.log_density(backward.translation[:-1], table.targets, table.target_sizes)
        for way, side in enumerate((forward, backward)):
            added = self._added(side, way)
            total += _log_density(added.null, side.null[:-1])
            if added.null_rest > 0:
                total += added.null_rest * np.log(max(1.0 - side.null[:-1].sum(), np.finfo(np.float64).tiny))
            if self.learn_positions:
                total += _log_density(added.jumps, side.jump)
            if self.chain:
                total += _log_density(added.ends, side.end)
        return total

    def _score(self, params: DirectionParameters, shard: BitextShard, *, backward: bool) -> Parts:
        steps, states, tokens = sides(shard, backward=backward)
        departures = log_departures(params, np.diff(states))
        with np.errstate(divide="ignore"):
            jump, end = np.log(params.jump), np.log(params.end)
        unary = np.empty(int(shard.pairs.cell_offsets[-1]) + len(tokens))
        score_links(
            backward, not self.chain, steps, states, shard.pairs.cell_offsets, shard.pairs.cells,
            np.log(shard.of_entries(params.translation, backward=backward)),
            np.log(params.null_probability * params.null)[tokens], jump, departures, unary,
        )  # fmt: skip
        return Parts(unary, (jump, departures, end) if self.chain else ())

    def _gather(
        self, params: DirectionParameters, shard: BitextShard, layout: Layout, marginals: Parts, *, backward: bool
    ) -> DirectionStats:
        steps, states, tokens = sides(shard, backward=backward)
        links = np.repeat(shard.weights, np.diff(shard.pairs.cell_offsets)) * marginals.unary[layout.parts[backward]]
        null = np.repeat(shard.weights, np.diff(steps)) * marginals.unary[layout.nulls[backward]]
        if self.chain:
            places = [place.copy() for place in marginals.factors]
        else:
            chooser, jumps, left = _places(params, shard, layout, backward=backward)
            longest = int(np.diff(states).max(initial=0))
            departures = np.zeros((longest + 1, longest + 1))
            np.add.at(departures, left, summed(chooser, links, len(tokens)))
            places = [summed(jumps, links, len(params.jump)), departures, np.zeros(len(params.end))]
        return DirectionStats(
            summed(shard.pairs.cells, links, len(shard.pair_ids)), summed(tokens, null, len(params.null) - 1), *places
        )

    def _added(self, params: DirectionParameters, way: int) -> KeptPlaces:
        """Pseudo-counts of one direction: forward (0) or backward (1)."""
        if self.kept is not None:
            return self.kept[way]
        jumps, ends = np.full(len(params.jump), self.jump_pseudo_count), np.full(len(params.end), self.end_pseudo_count)
        return KeptPlaces(np.zeros(len(params.null) - 1), 0.0, jumps, ends)

    def _fit(
        self, params: DirectionParameters, stats: DirectionStats, translation: Floats, words: Floats, added: KeptPlaces
    ) -> DirectionParameters:
        counts = stats.null + added.null
        null_total, n_words = float(counts.sum()) + added.null_rest, len(counts)
        null = DirichletPrior().normalise(counts, np.zeros(n_words, np.int64), np.array([n_words]))
        if added.null_rest > 0:
            null *= 1.0 - added.null_rest / null_total
        jump, end, jumps, ends = params.jump, params.end, 0.0, 0.0
        if self.chain:
            end = stats.ends + added.ends
            ends = float(end.sum())
            end /= ends
        if self.learn_positions:
            lengths = np.arange(stats.departures.shape[0])
            jump = fit_jumps(jump, stats.jumps, stats.departures, lengths, pseudo_count=added.jumps)
            jumps = float((stats.jumps + added.jumps).sum())
        floored = as_single(with_floor(translation)), with_floor(np.append(null, 0.0))
        totals = Totals(words, null_total, jumps, ends)
        return DirectionParameters(*floored, jump, end, params.null_probability, totals)


def sides(shard: BitextShard, *, backward: bool) -> tuple[Ints, Ints, NDArray[np.int32]]:
    """Offsets of the words produced, offsets of the words chosen from, and the words produced."""
    if backward:
        return shard.pairs.source_offsets, shard.pairs.target_offsets, shard.source_tokens
    return shard.pairs.target_offsets, shard.pairs.source_offsets, shard.target_tokens


def summed(places: NDArray[np.integer], values: Floats, size: int) -> Floats:
    """The sum of the values of every place, shape (size,)."""
    return np.bincount(places, values, size).astype(np.float64)


def _places(
    params: DirectionParameters, shard: BitextShard, layout: Layout, *, backward: bool
) -> tuple[Ints, Ints, tuple[Ints, Ints]]:
    """The jumps of Models 1 and 2.

    Of every cell the word produced and the clipped width of the jump; of every word produced how many words it chooses
    from, and behind which one of them, as `log_departures` counts.
    """
    (steps, states, _), width = sides(shard, backward=backward), params.max_jump
    chooser, choice = (layout.source, layout.target) if backward else (layout.target, layout.source)
    n_steps = np.diff(steps)
    n = rows_of(n_steps)
    lengths = np.diff(states)[n]
    p = anchor.py_func(positions_of(n_steps), n_steps[n], lengths)
    jumps = np.clip(choice - (states[n] + p)[chooser], -width, width) + width
    return chooser, jumps, (lengths, np.where(lengths > 0, p + 1, 0))


def log_departures(params: DirectionParameters, lengths: Ints) -> Floats:
    """Log of (1 - p0) over the normaliser of the jumps from p, in sentences of the given lengths.

    Shape (longest + 1, longest + 1); -inf outside a sentence and for other lengths.
    """
    longest = int(lengths.max(initial=0))
    present = np.unique(lengths)
    sums = normalisers(params.jump, present)
    departures = np.full((longest + 1, longest + 1), -np.inf)
    with np.errstate(divide="ignore"):
        departures[present] = np.where(sums > 0, np.log1p(-params.null_probability) - np.log(sums), -np.inf)
    return departures


def _sources(table: PairTable, prior: Prior) -> NDArray[np.int32]:
    """Source word of every pair, for priors that read it: it is as large as the table."""
    return table.sources if getattr(prior, "reads_rows", True) else np.empty(0, np.int32)


def _log_density(pseudo_counts: Floats, probabilities: Floats) -> float:
    """``pseudo_counts @ log(probabilities)``, where those that are 0 do not count."""
    counted = pseudo_counts > 0
    with np.errstate(divide="ignore"):
        return float(pseudo_counts[counted] @ np.log(probabilities[counted]))
