"""The E-step of word aligners in compiled code: forward-backward and fixed dual steps, sentence pair by sentence pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem.kernels.bidirectional import Direction, Duals, Expected, couple
from spectrem.models.alignment.jumps import normalisers
from spectrem.models.alignment.pairs import BitextShard
from spectrem.models.alignment.parameters import (
    AlignmentParameters,
    AlignmentStats,
    DirectionParameters,
    DirectionStats,
)
from spectrem.models.estep import EStepResult


@dataclass(frozen=True)
class CoupledEStep:
    """E-step with agreement and limited fertility by fixed gradient steps ([Samdani2012] alg. 3, [Ganchev2010] section 5).

    Equal, up to rounding, to `project` with the rows of `agreement()` and `fertility()` and the solver
    `FixedStep`; a test holds them equal.

    Parameters
    ----------
    chain : bool
        HMM, or positions on their own (Models 1 and 2).
    agreement : bool
        Both directions put the same mass on every link.
    max_fertility : float
        Bound on the expected number of links of every chosen word; inf for none.
    steps : int
        Gradient steps R on the multipliers.
    step_size : float
        eta, in nats per unit of violation.
    """

    chain: bool
    agreement: bool = False
    max_fertility: float = np.inf
    steps: int = 5
    step_size: float = 1.0

    def __call__(self, params: AlignmentParameters, shard: BitextShard, gamma: float) -> EStepResult[AlignmentStats]:
        n_cells = len(shard.pair_ids)
        expected, first, last, gap, _ = self._run(params, shard, gamma, n_cells, by_cell=False)
        stats = AlignmentStats(
            _stats(expected[0], shard.target_tokens, len(params.forward.null) - 1, params.forward.max_jump),
            _stats(expected[1], shard.source_tokens, len(params.backward.null) - 1, params.backward.max_jump),
            shard.pair_ids,
        )
        weights = shard.pairs.weights
        return EStepResult(
            stats, gamma * float(weights @ last), gamma * float(weights @ first), float(gap.max(initial=0.0))
        )

    def posteriors(
        self, params: AlignmentParameters, shard: BitextShard, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Projected posteriors of every cell of the shard, forward and backward, each of shape (n_cells,)."""
        expected, *_ = self._run(params, shard, gamma, len(shard.pairs.cells), by_cell=True)
        return expected[0].links, expected[1].links

    def _run(
        self, params: AlignmentParameters, shard: BitextShard, gamma: float, n_links: int, by_cell: bool
    ) -> tuple[tuple[Expected, Expected], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray]:
        sources, targets = shard.source_lengths, shard.target_lengths
        order = np.lexsort((targets, sources))
        order = order[(sources[order] > 0) & (targets[order] > 0)]
        forward = _potentials(params.forward, shard.pair_ids, shard.target_tokens, sources, gamma)
        backward = _potentials(params.backward, shard.pair_ids, shard.source_tokens, targets, gamma)
        expected = (_empty(forward, n_links), _empty(backward, n_links))
        n = len(sources)
        first, last, gap, status = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
        constrained = self.agreement or self.max_fertility < np.inf
        duals = Duals(
            self.steps if constrained else 0, self.step_size / gamma, self.agreement, float(self.max_fertility)
        )
        couple(
            self.chain, by_cell, order, shard.pairs, duals, forward, backward, expected[0], expected[1],
            first, last, gap, status,
        )  # fmt: skip
        return expected, first, last, gap, status


def _potentials(
    params: DirectionParameters,
    pair_ids: NDArray[np.int32],
    tokens: NDArray[np.int32],
    lengths: NDArray[np.int64],
    gamma: float,
) -> Direction:
    longest = int(lengths.max(initial=0))
    sums = normalisers(params.jump, np.arange(longest + 1))
    departures = np.divide(1.0 - params.null_probability, sums, out=np.zeros_like(sums), where=sums > 0)
    width = params.max_jump
    distance = np.clip(np.arange(-longest - 1, longest + 2), -width, width) + width
    tables = (
        params.translation[pair_ids],
        (params.null_probability * params.null)[tokens],
        params.jump[distance],
        departures,
    )
    return Direction(*(tables if gamma == 1 else (table ** (1 / gamma) for table in tables)))


def _empty(direction: Direction, n_links: int) -> Expected:
    return Expected(
        np.zeros(n_links),
        np.zeros(len(direction.null)),
        np.zeros(len(direction.moves)),
        np.zeros(direction.departures.shape),
    )


def _stats(expected: Expected, tokens: NDArray[np.int32], n_words: int, max_jump: int) -> DirectionStats:
    middle = len(expected.jumps) // 2
    widths = np.clip(np.arange(-middle, middle + 1), -max_jump, max_jump) + max_jump
    return DirectionStats(
        expected.links,
        np.bincount(tokens, expected.null, n_words),
        np.bincount(widths, expected.jumps, 2 * max_jump + 1),
        expected.departures,
    )
