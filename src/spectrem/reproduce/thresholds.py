"""Minimum Bayes risk decoding of one direction: links of posterior above a threshold ([Ganchev2010] §5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem.data import Links
from spectrem.metrics import AlignmentScores, alignment_scores

GRID: NDArray[np.float64] = np.round(np.arange(0.025, 0.99, 0.025), 3)
"""Thresholds tried when tuning."""


@dataclass(frozen=True)
class Curve:
    """Scores at a range of thresholds, each array of shape (n_thresholds,)."""

    thresholds: NDArray[np.float64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    aer: NDArray[np.float64]

    @property
    def best_threshold(self) -> float:
        """The threshold of least AER; the middle one of several."""
        ties = np.flatnonzero(self.aer <= self.aer.min() + 1e-12)
        return float(self.thresholds[ties[len(ties) // 2]])


def links_above(posteriors: Sequence[NDArray[np.float64]], threshold: float) -> Links:
    """Links of more than ``threshold`` posterior probability.

    Parameters
    ----------
    posteriors : sequence of ndarray of shape (source length, target length)
        One direction's link posteriors of every sentence pair.
    threshold : float

    Examples
    --------
    >>> links_above([np.array([[0.9, 0.2], [0.0, 0.6]])], 0.5).pairs(0)
    [(0, 0), (1, 1)]
    """
    found = [np.nonzero(matrix > threshold) for matrix in posteriors]
    counts = [len(source) for source, _ in found]
    return Links.from_arrays(
        np.repeat(np.arange(len(found)), counts),
        np.concatenate([np.zeros(0, np.int64)] + [source for source, _ in found]),
        np.concatenate([np.zeros(0, np.int64)] + [target for _, target in found]),
        n_sentences=len(found),
    )


def score_at(posteriors: Sequence[NDArray[np.float64]], gold: Links, threshold: float) -> AlignmentScores:
    """Score the links above a threshold."""
    return alignment_scores(links_above(posteriors, threshold), gold)


def sweep(posteriors: Sequence[NDArray[np.float64]], gold: Links, thresholds: NDArray[np.float64] = GRID) -> Curve:
    """Precision, recall and AER at every threshold.

    Examples
    --------
    >>> gold = Links.from_pairs([[(0, 0)]])
    >>> sweep([np.array([[0.9, 0.2]])], gold, np.array([0.1, 0.5, 0.95])).precision.tolist()
    [0.5, 1.0, 1.0]
    """
    scores = [score_at(posteriors, gold, float(threshold)) for threshold in thresholds]
    return Curve(
        thresholds,
        np.array([score.precision for score in scores]),
        np.array([score.recall for score in scores]),
        np.array([score.aer for score in scores]),
    )
