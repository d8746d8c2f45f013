"""Thresholds of posterior decoding: the one expected to be best, and the one that gold links say is best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.data import Links
from spectrem.estimators.decode import concatenate_links, links_above
from spectrem.metrics import alignment_scores, expected_f1_threshold
from spectrem.models.alignment import BitextShard

_SAMPLE = 500  # sentence pairs: a few thousand links, at the cost of a small part of one E-step
_GRID = np.round(np.arange(0.05, 0.96, 0.025), 3)


def sample_pairs(weights: Floats) -> Ints:
    """Numbers of some hundreds of sentence pairs from all over the corpus, those of weight 0 left out."""
    counted = np.flatnonzero(weights > 0)
    return counted[np.unique(np.linspace(0, len(counted) - 1, min(_SAMPLE, len(counted))).round().astype(np.int64))]


def expected_threshold(shards: Sequence[BitextShard], masses: Sequence[Floats]) -> float:
    """The threshold of greatest expected F1, to four digits so that it can be said in full."""
    weights = [np.repeat(shard.pairs.weights, np.diff(shard.pairs.cell_offsets)) for shard in shards]
    nothing = [np.zeros(0)]
    probabilities = np.clip(np.concatenate([*masses, *nothing]), 0.0, 1.0)
    return round(expected_f1_threshold(probabilities, np.concatenate([*weights, *nothing])), 4)


def least_error_threshold(shards: Sequence[BitextShard], masses: Sequence[Floats], gold: Links) -> tuple[float, float]:
    """Least alignment error rate of a grid of thresholds, and the middle one of those that reach it."""
    errors = np.array([
        alignment_scores(
            concatenate_links([links_above(s, m, t) for s, m in zip(shards, masses, strict=True)]), gold
        ).aer
        for t in _GRID
    ])  # fmt: skip
    ties = np.flatnonzero(errors <= errors.min() + 1e-12)
    return float(errors.min()), float(_GRID[ties[len(ties) // 2]])
