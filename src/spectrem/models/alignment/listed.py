"""Word pairs that a dictionary lists, as a column for constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Ints
from spectrem.models.alignment.layout import parts_of, places_of

if TYPE_CHECKING:
    from spectrem.models.alignment.pairs import BitextShard


@dataclass(frozen=True, eq=False)
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
        n, i, j = places_of(shard.pairs)
        source = shard.source_tokens[shard.pairs.source_offsets[n] + i].astype(np.int64)
        target = shard.target_tokens[shard.pairs.target_offsets[n] + j]
        cells = np.isin(source * self.n_target_words + target, self.keys) & (source >= 0) & (target >= 0)
        return parts_of(
            shard.pairs,
            cells,
            np.zeros(len(shard.target_tokens), np.bool_),
            np.zeros(len(shard.source_tokens), np.bool_),
        )
