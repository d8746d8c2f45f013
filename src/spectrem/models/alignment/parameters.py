"""Parameters and expected statistics of word aligners, both directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem.kernels.multinomials import add_at

# No word is impossible: a pair without any expected count is explained by NULL at the worst.
_FLOOR = 1e-12


def with_floor(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities, none of them 0."""
    return np.maximum(probability, _FLOOR)


@dataclass(frozen=True)
class DirectionParameters:
    """Parameters of one direction: how a chosen word (or NULL) produces a word, and where the choice moves next.

    "Forward" produces target words from source words, "backward" source words from target words.

    Attributes
    ----------
    translation : ndarray of shape (n_pairs + 1,)
        Probability of the produced word given the chosen one, by entry of the pair table; the last entry is
        for pairs never met.
    null : ndarray of shape (n_produced_words + 1,)
        Probability of every word given NULL; the last entry is for unknown words.
    jump : ndarray of shape (2 * max_jump + 1,)
        Potentials of the jump widths -max_jump .. max_jump, summing to 1; see `jumps`.
    end : ndarray of shape (max_jump + 1,)
        Probability that the last position used lies 0, 1, ... words before the last one; longer distances share the
        last entry. Read by the HMM only.
    null_probability : float
        Probability p0 that a word is produced by NULL, in (0, 1).
    """

    translation: NDArray[np.float64]
    null: NDArray[np.float64]
    jump: NDArray[np.float64]
    end: NDArray[np.float64]
    null_probability: float

    @property
    def max_jump(self) -> int:
        return (len(self.jump) - 1) // 2


@dataclass(frozen=True)
class AlignmentParameters:
    """Both directions; entries of the two translation tables are the same word pairs."""

    forward: DirectionParameters
    backward: DirectionParameters


@dataclass
class DirectionStats:
    """Expected counts of one direction: of a shard (by its ``pair_ids``) or of the corpus."""

    links: NDArray[np.float64]
    null: NDArray[np.float64]
    jumps: NDArray[np.float64]
    departures: NDArray[np.float64]
    ends: NDArray[np.float64]

    def add(self, other: DirectionStats, pair_ids: NDArray[np.int32] | None = None) -> None:
        """Add the counts of a shard (or of a part of one, over the same entries)."""
        if pair_ids is None:
            self.links += other.links
        else:
            add_at(self.links, pair_ids, other.links)
        self.null += other.null
        self.jumps += other.jumps
        n, m = other.departures.shape
        self.departures[:n, :m] += other.departures
        self.ends += other.ends


@dataclass
class AlignmentStats:
    """Expected counts of a corpus; ``+=`` takes the counts of one shard.

    Attributes
    ----------
    forward, backward : DirectionStats
        ``links`` by pair, ``null`` by produced word, ``jumps`` by clipped width, ``departures`` by length and
        position, ``ends`` by clipped distance.
    pair_ids : ndarray of int32, or None
        For a shard, the entries of the pair table that ``links`` counts; None for the corpus.
    """

    forward: DirectionStats
    backward: DirectionStats
    pair_ids: NDArray[np.int32] | None = None

    def __iadd__(self, shard: AlignmentStats) -> AlignmentStats:
        if shard.pair_ids is None:
            raise TypeError("only the statistics of a shard can be added to those of a corpus")
        self.forward.add(shard.forward, shard.pair_ids)
        self.backward.add(shard.backward, shard.pair_ids)
        return self
