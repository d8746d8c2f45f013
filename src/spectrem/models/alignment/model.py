"""IBM Model 1, Model 2 and the HMM of word alignment, in both directions at once.

Jump widths are shared by all sentences. The probability of moving from source position p (-1 at the start) to i in a
sentence of I words is ``c[clip(i - p, -W, W)] / sum over i' of c[clip(i' - p, -W, W)]`` ([Vogel1996]; the clipped tails
are shared as in [Liang2006]). Because of the denominators the M-step of c has no closed form; `fit_jumps` maximises the
expected log-probability of the E-step's counts of jumps and departures exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._validate import as_bool
from spectrem.kernels.alignments import cells
from spectrem.models.alignment.pairs import BitextShard, ListedPairs, PairTable, TextShard
from spectrem.models.alignment.parameters import (
    AlignmentParameters,
    AlignmentStats,
    DirectionParameters,
    DirectionStats,
    KeptPlaces,
    Totals,
    as_single,
    with_floor,
)
from spectrem.models.priors import DirichletPrior, Prior
from spectrem.structures import Alignment, Parts, Product


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


@dataclass(frozen=True)
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
    forward_prior: Prior = DirichletPrior()  # noqa: RUF009
    backward_prior: Prior = DirichletPrior()  # noqa: RUF009
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
        """What `m_step` reads of parameters: all but the translation tables."""
        none = np.zeros(0)
        forward, backward = (replace(side, translation=none) for side in (params.forward, params.backward))
        return AlignmentParameters(forward, backward)

    def structure(self, shard: BitextShard | TextShard) -> Product:
        """Alignments of both directions side by side."""
        sources, targets, width = shard.source_lengths, shard.target_lengths, self.max_jump if self.chain else None
        forward, backward = Alignment(sources, targets, width), Alignment(targets, sources, width, reverse=True)
        return Product({"forward": forward, "backward": backward}, name="direction")

    def scores(self, params: AlignmentParameters, shard: BitextShard | TextShard) -> Parts:
        """Log-probabilities of the shard, as scores of both directions side by side."""
        shard = shard.index(self.table)
        forward = self._score(params.forward, shard, backward=False)
        backward = self._score(params.backward, shard, backward=True)
        unary = np.concatenate([forward.unary, backward.unary])
        if shard.anchors is not None:
            unary[~shard.anchors.allowed(shard.pairs)] = -np.inf
        return Parts(unary, forward.factors + backward.factors)

    def gather(self, params: AlignmentParameters, shard: BitextShard | TextShard, marginals: Parts) -> AlignmentStats:
        """Expected counts of a shard from the marginals of `scores`; counts of factors are weighted already."""
        shard = shard.index(self.table)
        one, other = self.structure(shard).split(marginals)
        forward = self._gather(params.forward, shard, one, backward=False)
        backward = self._gather(params.backward, shard, other, backward=True)
        return AlignmentStats(forward, backward, self.table.n_pairs + 1, shard.pair_ids)

    def given(self, shard: BitextShard | TextShard) -> Bools | None:
        """A mask of the pairs of which all links are given."""
        return None if shard.anchors is None else shard.anchors.complete

    def columns(self, shard: BitextShard | TextShard) -> Mapping[str, Bools]:
        """For constraints, "listed": whether a part is a link between two words that ``listed`` has together."""
        return {} if self.listed is None else {"listed": self.listed.marks(shard.index(self.table))}

    def cell_masses(self, shard: BitextShard, marginals: Parts) -> tuple[Floats, Floats]:
        """Mass of every link under the marginals of `scores`, forward and backward, by cell."""
        offsets, every = shard.pairs.cell_offsets, np.arange(len(shard.pairs.cells), dtype=np.int32)
        masses, weights = np.zeros((2, len(every))), np.ones(len(shard.weights))
        for backward, parts in enumerate(self.structure(shard).split(marginals)):
            steps, states, tokens = sides(shard, backward=bool(backward))
            others = np.zeros(len(tokens)), np.zeros(0), np.zeros((0, 0))
            cells.count_links(
                bool(backward), False, steps, states, offsets, every, weights, parts.unary, masses[backward], *others
            )
        return masses[0], masses[1]

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
        lengths = np.diff(states)
        with np.errstate(divide="ignore"):
            jump, end = np.log(params.jump), np.log(params.end)
        departures = log_departures(params, lengths)
        unary = np.empty(int(np.diff(steps) @ (lengths + 1)))
        cells.score_links(
            backward, not self.chain, steps, states, shard.pairs.cell_offsets, shard.pairs.cells,
            np.log(shard.of_entries(params.translation, backward=backward)),
            np.log(params.null_probability * params.null)[tokens], jump, departures, unary,
        )  # fmt: skip
        return Parts(unary, (jump, departures, end) if self.chain else ())

    def _gather(
        self, params: DirectionParameters, shard: BitextShard, marginals: Parts, *, backward: bool
    ) -> DirectionStats:
        steps, states, tokens = sides(shard, backward=backward)
        longest = int(np.diff(states).max(initial=0))
        stats = DirectionStats(
            np.zeros(len(shard.pair_ids)), np.zeros(len(tokens)), np.zeros(len(params.jump)),
            np.zeros((longest + 1, longest + 1)), np.zeros(len(params.end)),
        )  # fmt: skip
        cells.count_links(
            backward, not self.chain, steps, states, shard.pairs.cell_offsets, shard.pairs.cells, shard.pairs.weights,
            marginals.unary, stats.links, stats.null, stats.jumps, stats.departures,
        )  # fmt: skip
        places = marginals.factors if self.chain else (stats.jumps, stats.departures, stats.ends)
        null = np.bincount(tokens, stats.null, len(params.null) - 1).astype(np.float64)
        return DirectionStats(stats.links, null, *(place.copy() for place in places))

    def _added(self, params: DirectionParameters, way: int) -> KeptPlaces:
        """What is added to the counts of one direction: forward (0) or backward (1)."""
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
    own = pseudo_counts > 0
    with np.errstate(divide="ignore"):
        return float(pseudo_counts[own] @ np.log(probabilities[own]))
