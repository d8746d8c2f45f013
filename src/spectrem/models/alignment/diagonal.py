"""IBM Model 2 for pairs that are too long for a chain: links near the diagonal are likely; no jumps are used."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats
from spectrem.kernels.alignments.diagonal import anchors, diagonal_pass
from spectrem.models.alignment.pairs import BitextShard
from spectrem.models.alignment.parameters import AlignmentParameters, DirectionParameters

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
    links, null, scale = _potentials(params.forward, shard, place, shard.target_tokens, n_source, gamma)
    other_links, other_null, other_scale = _potentials(
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


def _potentials(
    params: DirectionParameters,
    shard: BitextShard,
    place: Floats,
    tokens: NDArray[np.int32],
    n_states: int,
    gamma: float,
) -> tuple[Floats, ...]:
    """Potentials by entry of the shard, of NULL by produced word, and the factor that normalises places, by word."""
    anchor = anchors(len(tokens), n_states)
    nearer = np.concatenate([[0.0], np.cumsum(place)])
    reached = nearer[anchor + 1] + nearer[n_states - anchor] - place[0]
    scale = (1 - params.null_probability) / reached
    links = params.translation[shard.pair_ids].astype(np.float64)
    tables = (links, (params.null_probability * params.null)[tokens], scale)
    links, null, scale = (table ** (1 / gamma) for table in tables)
    return links, null, scale
