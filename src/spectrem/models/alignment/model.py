"""IBM Model 1, Model 2 and the HMM of word alignment, in both directions at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem.models.alignment.jumps import fit_jumps
from spectrem.models.alignment.pairs import BitextShard, PairTable
from spectrem.models.alignment.parameters import (
    AlignmentParameters,
    AlignmentStats,
    DirectionParameters,
    DirectionStats,
)
from spectrem.models.priors import MeanFieldPrior, Prior


@dataclass(frozen=True)
class AlignmentModel:
    """A pair of directional aligners over one table of word pairs.

    Every produced word comes from NULL with probability p0, else from the word at a position that depends on
    nothing (IBM Model 1), on the relative place in the sentence (Model 2, tied to the distance from the diagonal as
    in [OchNey2003]) or on the last position used (HMM, [Vogel1996]; NULL keeps it, [OchNey2003]).

    Parameters
    ----------
    table : PairTable
    chain : bool
        Whether positions depend on the last one (HMM).
    learn_positions : bool
        False keeps positions uniform (Model 1).
    translation_prior, null_prior : Prior
    jump_pseudo_count : float
        Added to the expected count of every jump width.
    """

    table: PairTable
    chain: bool
    learn_positions: bool
    translation_prior: Prior = MeanFieldPrior(0.01)
    null_prior: Prior = MeanFieldPrior(0.01)
    jump_pseudo_count: float = 1.0

    def initial(self, max_jump: int, null_probability: float) -> AlignmentParameters:
        """Uniform translation over the words met, uniform NULL words, uniform jumps."""
        table = self.table
        jump = np.full(2 * max_jump + 1, 1.0 / (2 * max_jump + 1))
        rows = np.diff(table.row_offsets)
        forward = np.append(np.repeat(1.0 / np.maximum(rows, 1), rows), 0.0)
        backward = np.append((1.0 / np.maximum(table.target_sizes, 1))[table.targets], 0.0)
        n_sources, n_targets = table.n_source_words, table.n_target_words
        null = [np.full(n + 1, 1.0 / max(n, 1)) for n in (n_targets, n_sources)]
        return AlignmentParameters(
            DirectionParameters(_with_floor(forward), null[0], jump, null_probability),
            DirectionParameters(_with_floor(backward), null[1], jump, null_probability),
        )

    def zero_stats(self, params: AlignmentParameters, shards: list[BitextShard]) -> AlignmentStats:
        """Empty statistics of a corpus, to add those of its shards to."""
        longest_source = max((int(shard.source_lengths.max(initial=0)) for shard in shards), default=0)
        longest_target = max((int(shard.target_lengths.max(initial=0)) for shard in shards), default=0)
        table = self.table
        return AlignmentStats(
            _zeros(table.n_pairs, table.n_target_words, params.forward.max_jump, longest_source),
            _zeros(table.n_pairs, table.n_source_words, params.backward.max_jump, longest_target),
        )

    def m_step(self, params: AlignmentParameters, stats: AlignmentStats) -> AlignmentParameters:
        """Parameters that maximise the expected log-probability plus the log-prior."""
        table = self.table
        return AlignmentParameters(
            self._fit(params.forward, stats.forward, table.sources, np.diff(table.row_offsets)),
            self._fit(params.backward, stats.backward, table.targets, table.target_sizes),
        )

    def _fit(
        self, params: DirectionParameters, stats: DirectionStats, row: NDArray[np.int32], row_sizes: NDArray[np.int64]
    ) -> DirectionParameters:
        n_words = len(stats.null)
        translation = self.translation_prior.normalise(stats.links, row, row_sizes)
        null = self.null_prior.normalise(stats.null, np.zeros(n_words, np.int64), np.array([n_words]))
        jump = params.jump
        if self.learn_positions:
            lengths = np.arange(stats.departures.shape[0])
            jump = fit_jumps(jump, stats.jumps, stats.departures, lengths, pseudo_count=self.jump_pseudo_count)
        return DirectionParameters(
            _with_floor(np.append(translation, 0.0)), _with_floor(np.append(null, 0.0)), jump, params.null_probability
        )


# No word is impossible: a pair never met, or without any expected count, is explained by NULL at the worst.
_FLOOR = 1e-12


def _with_floor(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(probability, _FLOOR)


def _zeros(n_pairs: int, n_words: int, max_jump: int, longest: int) -> DirectionStats:
    return DirectionStats(
        np.zeros(n_pairs), np.zeros(n_words), np.zeros(2 * max_jump + 1), np.zeros((longest + 1, longest + 1))
    )
