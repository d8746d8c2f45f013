"""The E-step of word aligners in compiled code: forward-backward and fixed dual steps, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints import agreement, compile_constraints, fertility
from spectrem.constraints.rows import Rows
from spectrem.execution import Executor
from spectrem.inference import FixedStep, project
from spectrem.kernels.bidirectional import PAD, Direction, Duals, Expected, couple
from spectrem.models.alignment.model import AlignmentModel, log_departures
from spectrem.models.alignment.pairs import BitextShard
from spectrem.models.alignment.parameters import (
    AlignmentParameters,
    AlignmentStats,
    DirectionParameters,
    DirectionStats,
)
from spectrem.models.estep import EStepResult, EStepTask, Start
from spectrem.structures import Structure

# Below this, probabilities to the power of 1 / gamma leave the range of a double.
_LEAST_GAMMA = 0.1
# Pairs of more cells than this go through the generic path: a group of LANES of them would not stay in cache.
_MOST_CELLS = 1 << 14


@dataclass(frozen=True)
class CoupledEStep:
    """E-step with agreement and bounded fertility by fixed gradient steps ([Samdani2012] alg. 3, [Ganchev2010] §5).

    Equal, up to rounding, to `project` with the rows of `agreement()` and `fertility()` and the solver
    `FixedStep`, which also takes over for pairs that are very long or whose scores leave the range of a double; a
    test holds the two equal.

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
    """

    model: AlignmentModel
    agreement: bool = False
    max_fertility: float = np.inf
    steps: int = 5
    step_size: float = 1.0

    def prepare(
        self, params: AlignmentParameters, gamma: float, shards: Sequence[BitextShard], executor: Executor
    ) -> EStepTask[BitextShard, AlignmentStats]:
        """The E-step of one shard; nothing here spans the corpus."""
        return EStepTask(partial(self.run, params, gamma))

    def run(
        self, params: AlignmentParameters, gamma: float, index: int, shard: BitextShard, start: Start = None
    ) -> EStepResult[AlignmentStats]:
        """Expected counts of one shard; where links are known they stand, unconstrained."""
        if shard.known is not None:
            return self._project(params, shard, gamma)
        expected, numbers, rest = self._couple(params, shard, gamma, len(shard.pair_ids), by_cell=False)
        stats = AlignmentStats(
            _stats(expected[0], shard.target_tokens, len(params.forward.null) - 1, params.forward.max_jump),
            _stats(expected[1], shard.source_tokens, len(params.backward.null) - 1, params.backward.max_jump),
            shard.pair_ids,
        )
        weights = shard.pairs.weights.copy()
        weights[rest] = 0.0
        free_objective, objective = gamma * float(weights @ numbers[0]), gamma * float(weights @ numbers[1])
        violation = float(numbers[2].max(initial=0.0))
        if len(rest):
            slow = self._project(params, shard.select(rest), gamma)
            stats.forward.add(slow.stats.forward)
            stats.backward.add(slow.stats.backward)
            objective, free_objective = objective + slow.objective, free_objective + slow.free_objective
            violation = max(violation, slow.violation)
        return EStepResult(stats, objective, free_objective, violation)

    def posteriors(
        self, params: AlignmentParameters, shard: BitextShard, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Projected posteriors of every cell of the shard, forward and backward, each of shape (n_cells,)."""
        n_cells = len(shard.pairs.cells)
        unweighted = replace(shard, pairs=shard.pairs._replace(weights=np.ones(len(shard.pairs.weights))))
        expected, _, rest = self._couple(params, unweighted, gamma, n_cells, by_cell=True)
        forward, backward = expected[0].links, expected[1].links
        if len(rest):
            part = unweighted.select(rest)
            at = np.concatenate([np.arange(*shard.pairs.cell_offsets[n : n + 2]) for n in rest])
            structure, scores = self.model.scores(params, part)
            marginals = project(structure, scores, self._rows(structure), gamma, solver=self._solver()).marginals
            forward[at], backward[at] = self.model.cell_masses(part, marginals)
        return forward, backward

    def _project(self, params: AlignmentParameters, shard: BitextShard, gamma: float) -> EStepResult[AlignmentStats]:
        """The generic path."""
        structure, scores = self.model.scores(params, shard)
        weights = shard.pairs.weights
        rows = None if shard.known is not None else self._rows(structure)
        projection = project(structure, scores, rows, gamma, solver=self._solver(), weights=weights)
        free_values, _ = structure.smoothed_max(scores, gamma)
        return EStepResult(
            self.model.gather(params, shard, projection.marginals),
            float(weights @ projection.objectives),
            float(weights @ free_values),
            projection.violation,
        )

    def _rows(self, structure: Structure) -> Rows | None:
        constraints = [agreement()] if self.agreement else []
        if self.max_fertility < np.inf:
            constraints.append(fertility(self.max_fertility))
        return compile_constraints(constraints, structure) if constraints else None

    def _solver(self) -> FixedStep:
        return FixedStep(self.steps, self.step_size)

    def _couple(
        self, params: AlignmentParameters, shard: BitextShard, gamma: float, n_links: int, by_cell: bool
    ) -> tuple[tuple[Expected, Expected], NDArray[np.float64], NDArray[np.int64]]:
        """Expected counts; free value, dual value and violation of every pair; pairs left to the generic path."""
        sources, targets = shard.source_lengths, shard.target_lengths
        present = (sources > 0) | (targets > 0)
        grouped = (gamma >= _LEAST_GAMMA) & (sources > 0) & (targets > 0) & (sources * targets <= _MOST_CELLS)
        order = np.lexsort((targets, sources))
        order = order[grouped[order]]
        forward = _potentials(params.forward, shard.pair_ids, shard.target_tokens, sources, gamma)
        backward = _potentials(params.backward, shard.pair_ids, shard.source_tokens, targets, gamma)
        expected = (_empty(forward, n_links), _empty(backward, n_links))
        numbers = np.zeros((3, len(sources)))
        status = np.zeros(len(sources), np.int64)
        constrained = self.agreement or self.max_fertility < np.inf
        duals = Duals(
            self.steps if constrained else 0, self.step_size / gamma, self.agreement, float(self.max_fertility)
        )
        couple(
            self.model.chain, by_cell, order, shard.pairs, duals, forward, backward, expected[0], expected[1],
            numbers[0], numbers[1], numbers[2], status,
        )  # fmt: skip
        rest = np.flatnonzero((status != 0) | (present & ~grouped))
        numbers[:, rest] = 0.0
        return expected, numbers, rest


def _potentials(
    params: DirectionParameters,
    pair_ids: NDArray[np.int32],
    tokens: NDArray[np.int32],
    lengths: NDArray[np.int64],
    gamma: float,
) -> Direction:
    longest = int(lengths.max(initial=0))
    departures = np.exp(log_departures(params, longest))
    width = params.max_jump
    reach = longest + 1 + PAD
    distance = np.clip(np.arange(-reach, reach + 1), -width, width) + width
    tables = (
        params.translation[pair_ids],
        (params.null_probability * params.null)[tokens],
        params.jump[distance],
        departures,
        params.end[np.minimum(np.arange(longest + 1), width)],
    )
    # Departures may exceed 1: a total that overflows sends its pair down the generic path.
    with np.errstate(over="ignore"):
        return Direction(*(tables if gamma == 1 else (table ** (1 / gamma) for table in tables)))


def _empty(direction: Direction, n_links: int) -> Expected:
    return Expected(
        np.zeros(n_links),
        np.zeros(len(direction.null)),
        np.zeros(len(direction.moves)),
        np.zeros(direction.departures.shape),
        np.zeros(len(direction.ends)),
    )


def _stats(expected: Expected, tokens: NDArray[np.int32], n_words: int, max_jump: int) -> DirectionStats:
    middle = len(expected.jumps) // 2
    widths = np.clip(np.arange(-middle, middle + 1), -max_jump, max_jump) + max_jump
    return DirectionStats(
        expected.links,
        np.bincount(tokens, expected.null, n_words).astype(np.float64),
        np.bincount(widths, expected.jumps, 2 * max_jump + 1).astype(np.float64),
        expected.departures,
        np.bincount(np.minimum(np.arange(len(expected.ends)), max_jump), expected.ends, max_jump + 1).astype(
            np.float64
        ),
    )
