"""The E-step of word aligners in compiled code: forward-backward and fixed dual steps, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.kernels.alignments.bidirectional import PAD, Direction, Duals, Expected, couple, side_by_side
from spectrem.kernels.alignments.cells import anchor, diagonal_pass
from spectrem.models.alignment.model import (
    AlignmentModel,
    AlignmentParameters,
    AlignmentStats,
    DirectionParameters,
    DirectionStats,
    Needs,
    log_departures,
    renumber,
    summed,
)
from spectrem.models.alignment.pairs import BitextShard, Layout, PairTable
from spectrem.models.estep import EStepResult
from spectrem.structures import Parts
from spectrem.structures._ragged import rows_of

# Below this, probabilities to the power of 1 / gamma leave the range of a double.
_LEAST_GAMMA = 0.1
# Pairs of more cells than this are solved one by one: a group of LANES of them would not stay in cache.
_MOST_CELLS = 1 << 14
# A word adds less than 2 to this power to the objective at gamma = 1: far more than the logarithm of the least
# probability.
_NATS_PER_WORD = 10


@brief_dataclass(frozen=True)
class CoupledKernel:
    """E-step with agreement and bounded fertility by fixed gradient steps ([Samdani2012] alg. 3, [Ganchev2010] §5).

    Equal, up to rounding, to `project_batch` with the rows of `agreement()` and `fertility()` and the solver
    `FixedStep`; a test holds the two equal. Pairs that are long, or whose scores leave the range of a double, take
    the same steps through the passes of `spectrem.structures.Alignment`, without a group and without rows.

    Use when gamma is positive and the bitext is large.

    Parameters
    ----------
    model : AlignmentModel
    agreement : bool
        Both directions put the same mass on every link.
    max_fertility : float
        Bound on the expected number of links of every chosen word; inf for none.
    steps : int
        Gradient steps R on the multipliers.
    step_size : float
        eta, in nats per unit of violation.
    words : (ndarray, ndarray), optional
        The source and target words of the one shard that the table has been restricted to, see `restrict`.
    """

    model: AlignmentModel
    agreement: bool = False
    max_fertility: float = np.inf
    steps: int = 5
    step_size: float = 1.0
    words: tuple[NDArray[np.uint8], NDArray[np.uint8]] | None = None

    def prepare(
        self, params: AlignmentParameters, gamma: float
    ) -> Callable[[BitextShard], EStepResult[AlignmentStats]]:
        """The E-step of a shard; priors, which it does not read, do not travel with it."""
        return partial(replace(self, model=self._bare(self.model.table))._run, params, gamma)

    def _bare(self, table: PairTable) -> AlignmentModel:
        """A model over a table without all that only the M-step and constraints read."""
        return AlignmentModel(table, self.model.max_jump, self.model.chain, self.model.learn_positions)

    @staticmethod
    def needs(shard: BitextShard) -> Needs | None:
        """See `spectrem.learning.Model`."""
        return Needs.of(shard)

    def restrict(self, params: AlignmentParameters, needs: Needs | None) -> tuple[Any, AlignmentParameters]:
        """The E-step of a shard with the words and word pairs that occur in it; all of them for one without needs."""
        if needs is None:
            return self, params
        table, restricted = needs.restrict(self.model.table, params)
        words = needs.source_words, needs.target_words
        return replace(self, model=self._bare(table), words=words), restricted

    def place(self, stats: AlignmentStats, needs: Needs | None) -> AlignmentStats:
        """Expected counts in the numbers of the whole table."""
        return stats if needs is None else needs.place(stats, self.model.table)

    def _run(self, params: AlignmentParameters, gamma: float, shard: BitextShard) -> EStepResult[AlignmentStats]:
        """Expected counts of one shard, rounded to its quantum; links that are all known are kept, not constrained."""
        if self.words is not None:
            shard = renumber(shard, *self.words)
        result = self._expect(params, gamma, shard.index(self.model.table))
        if shard.quantum > 0:
            result.stats.round(shard.quantum)
            quantum = shard.quantum * 2.0 ** (_NATS_PER_WORD + max(math.frexp(gamma)[1], 0))
            result.objective = float(np.rint(result.objective / quantum) * quantum)
            result.free_objective = float(np.rint(result.free_objective / quantum) * quantum)
        if self.words is not None:
            result.stats.hold_all()  # so that entries need not be sent back
        return result

    def _expect(self, params: AlignmentParameters, gamma: float, shard: BitextShard) -> EStepResult[AlignmentStats]:
        assert shard.unseen is None, "expected counts are those of training text"
        n_entries = len(shard.pair_ids)
        expected, numbers, rest = self._couple(params, shard, gamma, n_entries, by_cell=False)
        forward = _stats(expected[0], 0, n_entries, shard.target_tokens, params.forward)
        backward = _stats(expected[1], 1, n_entries, shard.source_tokens, params.backward)
        stats = AlignmentStats(forward, backward, self.model.table.n_pairs + 1, shard.pair_ids)
        weights = shard.pairs.weights.copy()
        weights[rest] = 0.0
        free_objective, objective = gamma * float(weights @ numbers[0]), gamma * float(weights @ numbers[1])
        result = EStepResult(stats, objective, free_objective, float(numbers[2].max(initial=0.0)))
        for kernel, chosen in self._alone(shard, rest):
            part = shard.select(chosen)
            (free, values, gaps), marginals = kernel._take_steps(params, part, gamma, part.weights)
            stats = self.model.gather(params, part, marginals)
            objectives = float(part.weights @ values), float(part.weights @ free)
            result += EStepResult(stats, *objectives, float(gaps.max(initial=0.0)))
        return result

    def posteriors(self, params: AlignmentParameters, shard: BitextShard, gamma: float) -> tuple[Floats, Floats]:
        """Projected posteriors of every cell of the shard, forward and backward, each of shape (n_cells,)."""
        n_cells = len(shard.pairs.cells)
        unweighted = replace(shard, pairs=shard.pairs._replace(weights=np.ones(len(shard.pairs.weights))))
        expected, _, rest = self._couple(params, unweighted, gamma, n_cells, by_cell=True)
        forward, backward = expected[0].links.T
        for kernel, chosen in self._alone(shard, rest):
            part = shard.select(chosen)
            at = np.concatenate([np.arange(*shard.pairs.cell_offsets[n : n + 2]) for n in chosen])
            _, marginals = kernel._take_steps(params, part, gamma, np.zeros(len(chosen)))
            forward[at], backward[at] = self.model.cell_masses(part, marginals)
        return forward, backward

    def _alone(self, shard: BitextShard, pairs: Ints) -> list[tuple[CoupledKernel, Ints]]:
        """The pairs that are solved one by one, and by which kernel: no constraint concerns those that are given."""
        complete = np.zeros(len(pairs), np.bool_) if shard.anchors is None else shard.anchors.complete[pairs]
        free = replace(self, agreement=False, max_fertility=np.inf)
        groups = (self, pairs[~complete]), (free, pairs[complete])
        return [group for group in groups if len(group[1])]

    def log_likelihoods(self, params: AlignmentParameters, shard: BitextShard) -> Floats:
        """Log-probability of the words of either side of every pair given the other, added up, in nats.

        Constraints play no part, nor do the weights of pairs; shape (n_pairs,).
        """
        free = replace(self, agreement=False, max_fertility=np.inf)
        unweighted = replace(shard, pairs=shard.pairs._replace(weights=np.ones(len(shard.pairs.weights))))
        _, numbers, rest = free._couple(params, unweighted, 1.0, len(shard.pairs.cells), by_cell=True)
        values = numbers[0]
        if len(rest):
            values[rest] = free._take_steps(params, shard.select(rest), 1.0, np.zeros(len(rest)))[0][0]
        return values

    def _take_steps(
        self, params: AlignmentParameters, shard: BitextShard, gamma: float, weights: Floats
    ) -> tuple[Floats, Parts]:
        """Free value, dual value and violation of every pair; marginals of both directions at the last multipliers."""
        structure, scores = self.model.structure(shard), self.model.scores(params, shard)
        n_pairs, most = len(weights), self.max_fertility
        *chosen, parts, _ = Layout.of(shard.pairs)
        owners = rows_of(shard.source_lengths), rows_of(shard.target_lengths)
        unary, limits = [part.unary for part in structure.split(scores)], [np.zeros(len(owner)) for owner in owners]
        free, n_steps = None, self.steps if self.agreement or most < np.inf else 0
        for step in range(n_steps + 1):
            last = step == n_steps
            values, marginals = structure.smoothed_max(scores, gamma, weights=weights if last else np.zeros(n_pairs))
            free = values if free is None else free
            masses = [part.unary[at] for part, at in zip(structure.split(marginals), parts, strict=True)]
            excesses = [
                summed(at, mass, len(owner)) - most
                for at, mass, owner in zip(chosen, masses, owners, strict=True)
                if most < np.inf
            ]
            gap = masses.pop(0)
            gap -= masses.pop()
            if last:
                break
            if self.agreement:
                gap *= self.step_size
                unary[0][parts[0]] -= gap
                unary[1][parts[1]] += gap
            for way, excess in enumerate(excesses):
                change = np.maximum(self.step_size * excess, -limits[way])
                limits[way] += change
                unary[way][parts[way]] -= change[chosen[way]]
        gaps, costs = np.zeros(n_pairs), np.zeros(n_pairs)
        if self.agreement:
            np.maximum.at(gaps, rows_of(np.diff(shard.pairs.cell_offsets)), np.abs(gap))
        for owner, excess, limit in zip(owners, excesses, limits, strict=False):
            np.maximum.at(gaps, owner, excess)
            np.add.at(costs, owner, most * limit)
        assert free is not None
        return np.array([free, values + costs, gaps]), marginals

    def _couple(
        self, params: AlignmentParameters, shard: BitextShard, gamma: float, n_links: int, by_cell: bool
    ) -> tuple[tuple[Expected, Expected], Floats, Ints]:
        """Expected counts; free value, dual value and violation of every pair; pairs that no group can hold."""
        sources, targets = shard.source_lengths, shard.target_lengths
        present = (sources > 0) | (targets > 0)
        grouped = (gamma >= _LEAST_GAMMA) & (sources > 0) & (targets > 0) & (sources * targets <= _MOST_CELLS)
        if shard.anchors is not None:
            grouped &= ~shard.anchors.complete
        order = np.lexsort((targets, sources))
        order = order[grouped[order]]
        links = _links(params, shard, gamma)
        forward = _potentials(params.forward, links, shard.target_tokens, sources[order], gamma)
        backward = _potentials(params.backward, links, shard.source_tokens, targets[order], gamma)
        pairs = shard.pairs
        if shard.anchors is not None:
            pairs, forward, backward = shard.anchors.without_excluded(pairs, forward, backward)
            n_links += not by_cell  # of links that are not possible
        # Counts of departures are large enough for the pairs that are solved one by one, too.
        counted = order if by_cell else np.arange(len(sources))
        masses = np.zeros((n_links, 2))
        expected = (_empty(forward, masses, sources[counted]), _empty(backward, masses, targets[counted]))
        numbers = np.zeros((3, len(sources)))
        status = np.zeros(len(sources), np.int64)
        constrained = self.agreement or self.max_fertility < np.inf
        n_steps = self.steps if constrained else 0
        duals = Duals(n_steps, self.step_size / gamma, self.agreement, float(self.max_fertility))
        couple(
            self.model.chain, by_cell, order, pairs, duals, forward, backward, expected[0], expected[1],
            numbers[0], numbers[1], numbers[2], status,
        )  # fmt: skip
        rest = np.flatnonzero((status != 0) | (present & ~grouped))
        numbers[:, rest] = 0.0
        return expected, numbers, rest


def _links(params: AlignmentParameters, shard: BitextShard, gamma: float) -> Floats:
    """Potentials of the shard's entries in both directions, shape (n_entries, 2)."""
    n_seen, unseen = len(shard.pair_ids), shard.unseen
    links = np.empty((n_seen + (0 if unseen is None else len(unseen[0])), 2))
    side_by_side(params.forward.translation, params.backward.translation, shard.pair_ids, links)
    if unseen is not None:
        links[n_seen:] = np.transpose(unseen)
    return links if gamma == 1 else links ** (1 / gamma)


def _potentials(
    params: DirectionParameters, links: Floats, tokens: NDArray[np.int32], lengths: Ints, gamma: float
) -> Direction:
    longest = int(lengths.max(initial=0))
    departures = np.exp(log_departures(params, lengths))
    width = params.max_jump
    reach = longest + 1 + PAD
    distance = np.clip(np.arange(-reach, reach + 1), -width, width) + width
    tables = (
        (params.null_probability * params.null)[tokens],
        params.jump[distance],
        departures,
        params.end[np.minimum(np.arange(longest + 1), width)],
    )
    # Departures may exceed 1: a pair whose total overflows is solved one by one.
    with np.errstate(over="ignore"):
        return Direction(links, *(tables if gamma == 1 else (table ** (1 / gamma) for table in tables)))


def _empty(direction: Direction, links: Floats, lengths: Ints) -> Expected:
    longest = int(lengths.max(initial=0))
    null, jumps, ends = (np.zeros(len(table)) for table in (direction.null, direction.moves, direction.ends))
    return Expected(links, null, jumps, np.zeros((longest + 1, longest + 1)), ends)


def _stats(
    expected: Expected, backward: int, n_entries: int, tokens: NDArray[np.int32], params: DirectionParameters
) -> DirectionStats:
    middle, max_jump = len(expected.jumps) // 2, params.max_jump
    widths = np.clip(np.arange(-middle, middle + 1), -max_jump, max_jump) + max_jump
    last = np.minimum(np.arange(len(expected.ends)), max_jump)
    return DirectionStats(
        expected.links[:n_entries, backward].copy(),
        np.bincount(tokens, expected.null, len(params.null) - 1).astype(np.float64),
        np.bincount(widths, expected.jumps, 2 * max_jump + 1).astype(np.float64),
        expected.departures,
        np.bincount(last, expected.ends, max_jump + 1).astype(np.float64),
    )


# A link d words from the diagonal has weight exp(-d / _DECAY) + _FAR. On sentences of the Hansards that were joined to
# lines of 310, 940 and 1,880 words these give 19.6, 22.8 and 24.6 % of alignment error, near the least of those tried;
# the jumps that an HMM has learned, taken for distances from the diagonal, 39 and 52 % on the first two.
_DECAY, _FAR = 10.0, 1e-5
_BLOCK_CELLS = 1 << 19


def diagonal_posteriors(
    params: AlignmentParameters, shard: BitextShard, gamma: float, steps: int, step_size: float
) -> Iterator[tuple[Floats, Floats]]:
    """Forward and backward posteriors of one sentence pair, in blocks of shape (some source words, target words).

    Parameters
    ----------
    shard : BitextShard
        A shard of one sentence pair, neither side of which is empty.
    gamma : float
        At least 0.1, so that no potential leaves the range of a double.
    steps, step_size : int, float
        Fixed gradient steps on the multipliers of agreement; 0 steps for none.
    """
    n_source, n_target = len(shard.source_tokens), len(shard.target_tokens)
    place = np.exp(-np.arange(max(n_source, n_target)) / _DECAY) + _FAR
    links, null, scale = _diagonal_potentials(params.forward, shard, place, shard.target_tokens, n_source, gamma)
    other_links, other_null, other_scale = _diagonal_potentials(
        params.backward, shard, place, shard.source_tokens, n_target, gamma
    )
    totals, other_totals = np.tile(null, (steps + 1, 1)), np.tile(other_null, (steps + 1, 1))
    cells = shard.pairs.cells.reshape(n_source, n_target)
    potentials = (links, other_links, place ** (1 / gamma), scale, other_scale, totals, other_totals)
    nothing = np.empty((0, n_target))
    for step in range(steps + 1):
        diagonal_pass(step_size / gamma, step, 0, cells, *potentials, nothing, nothing)
    rows = max(1, _BLOCK_CELLS // n_target)
    for first in range(0, n_source, rows):
        block = cells[first : first + rows]
        forward, backward = np.empty(block.shape), np.empty(block.shape)
        diagonal_pass(step_size / gamma, steps, first, block, *potentials, forward, backward)
        yield forward, backward


def _diagonal_potentials(
    params: DirectionParameters,
    shard: BitextShard,
    place: Floats,
    tokens: NDArray[np.int32],
    n_states: int,
    gamma: float,
) -> tuple[Floats, ...]:
    """Potentials by entry of the shard, of NULL by produced word, and the factor that normalises places, by word."""
    nearest = anchor.py_func(np.arange(len(tokens)), len(tokens), n_states)
    nearer = np.concatenate([[0.0], np.cumsum(place)])
    reached = nearer[nearest + 1] + nearer[n_states - nearest] - place[0]
    scale = (1 - params.null_probability) / reached
    links = params.translation[shard.pair_ids].astype(np.float64)
    tables = (links, (params.null_probability * params.null)[tokens], scale)
    links, null, scale = (table ** (1 / gamma) for table in tables)
    return links, null, scale
