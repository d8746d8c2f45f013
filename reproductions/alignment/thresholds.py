"""Minimum Bayes risk decoding of one direction: links of posterior above a threshold ([Ganchev2010] §5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem.data import Links
from spectrem.metrics import alignment_scores

GRID: NDArray[np.float64] = np.round(np.arange(0.025, 0.99, 0.025), 3)
"""Thresholds tried when tuning."""


class Point(NamedTuple):
    """Scores at one threshold; shares."""

    threshold: float
    precision: float
    recall: float
    aer: float


def links_above(posteriors: Sequence[NDArray[np.float64]], threshold: float) -> Links:
    """Links of more than ``threshold`` posterior probability.

    Parameters
    ----------
    posteriors : sequence of ndarray of shape (source length, target length)
        One direction's link posteriors of every sentence pair, at least one.
    threshold : float

    Examples
    --------
    >>> links_above([np.array([[0.9, 0.2], [0.0, 0.6]])], 0.5).pairs(0)
    [(0, 0), (1, 1)]
    """
    cells = [np.argwhere(matrix > threshold) for matrix in posteriors]
    sentence = np.repeat(np.arange(len(cells)), list(map(len, cells)))
    return Links.from_arrays(sentence, *np.concatenate(cells).T, n_sentences=len(cells))


def score_at(posteriors: Sequence[NDArray[np.float64]], gold: Links, threshold: float) -> Point:
    """Score the links above a threshold."""
    scores = alignment_scores(links_above(posteriors, threshold), gold)
    return Point(threshold, scores.precision, scores.recall, scores.aer)


def sweep(
    posteriors: Sequence[NDArray[np.float64]], gold: Links, thresholds: NDArray[np.float64] = GRID
) -> list[Point]:
    """Precision, recall and AER at every threshold.

    Examples
    --------
    >>> gold = Links.from_pairs([[(0, 0)]])
    >>> [point.precision for point in sweep([np.array([[0.9, 0.2]])], gold, np.array([0.1, 0.5, 0.95]))]
    [0.5, 1.0, 1.0]
    """
    return [score_at(posteriors, gold, threshold) for threshold in thresholds.tolist()]


def best_point(curve: Sequence[Point]) -> Point:
    """The point of least AER; the middle one of several.

    Examples
    --------
    >>> best_point([Point(0.2, 0.5, 0.5, 0.5), Point(0.4, 0.8, 0.6, 0.3), Point(0.6, 0.9, 0.4, 0.4)]).threshold
    0.4
    """
    least = min(point.aer for point in curve)
    ties = [point for point in curve if point.aer <= least + 1e-12]
    return ties[len(ties) // 2]
