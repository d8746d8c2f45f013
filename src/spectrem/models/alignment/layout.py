"""Cells of a shard, by their sentence pairs and words, and as unary parts of both directions."""

from __future__ import annotations

import numpy as np

from spectrem._arrays import Bools, Ints
from spectrem.kernels.alignments.bidirectional import Pairs
from spectrem.structures._ragged import offsets_of, positions_of, rows_of


def places_of(pairs: Pairs) -> tuple[Ints, Ints, Ints]:
    """Sentence pair, source position and target position of every cell of a shard, each of shape (n_cells,)."""
    n = rows_of(np.diff(pairs.cell_offsets))
    i, j = np.divmod(np.arange(len(n)) - pairs.cell_offsets[n], np.diff(pairs.target_offsets)[n])
    return n, i, j


def parts_of(pairs: Pairs, cells: Bools, target_null: Bools, source_null: Bools) -> Bools:
    """Marks of unary parts, those of the forward, then of the backward direction, as `Alignment` lays them out.

    Parameters
    ----------
    pairs : Pairs
    cells : ndarray of shape (n_cells,), bool
        Marks of links, the same in both directions.
    target_null, source_null : ndarray of shape (n_tokens,), bool
        Marks of NULL as the choice of target words (forward) and of source words (backward).
    """
    n, i, j = places_of(pairs)
    parts = []
    for offsets, others, chooser, choice, null in (
        (pairs.target_offsets, pairs.source_offsets, j, i, target_null),
        (pairs.source_offsets, pairs.target_offsets, i, j, source_null),
    ):
        steps, widths = np.diff(offsets), np.diff(others) + 1
        begins, step = offsets_of(steps * widths), rows_of(steps)
        own = np.empty(int(begins[-1]), np.bool_)
        own[begins[n] + chooser * widths[n] + choice] = cells
        own[begins[step] + (positions_of(steps) + 1) * widths[step] - 1] = null
        parts.append(own)
    return np.concatenate(parts)
