"""Training and decoding aligners as the experiments do it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.alignment.hansards import Hansards
from reproductions.alignment.thresholds import best_point, score_at, sweep
from reproductions.report import percent
from spectrem.data import Bitext, Links
from spectrem.estimators import WordAligner

MAXIMUM_LIKELIHOOD: Mapping[str, Any] = {"stem_strength": 0.0, "cognate_strength": 0.0, "discount": 0.0}
"""Settings without the prior on translation tables, as in all the papers."""

FORWARD, BACKWARD, BOTH = "En-Fr", "Fr-En", "both"
"""Directions are named by the language that produces, then the one that is produced."""

NOTES = (
    "Model 1, which comes first, is trained for 5 iterations under the same constraints at gamma = 1; the papers do "
    "not say whether theirs was constrained.",
    "NULL has a fixed probability and keeps the last position ([OchNey2003]); the papers say nothing of theirs.",
)


class Tuned(NamedTuple):
    """One direction's links on test, their threshold chosen on dev; dev_aer is a share, the rest are percent."""

    precision: float
    recall: float
    aer: float
    threshold: float
    dev_aer: float


def train(corpus: Hansards, threads: int | None = None, **settings: Any) -> tuple[WordAligner, float]:
    """A fitted aligner and the seconds it took."""
    started = time.perf_counter()
    aligner = WordAligner(n_threads=threads, **settings).fit(corpus.training)
    return aligner, round(time.perf_counter() - started, 1)


def posteriors(aligner: WordAligner, bitext: Bitext) -> dict[str, list[NDArray[np.float64]]]:
    """Link posteriors of each direction, and their average."""
    found = aligner.predict_proba(bitext)
    return {FORWARD: found.forward, BACKWARD: found.backward, BOTH: found.average}


def tune_and_score(
    dev: list[NDArray[np.float64]], dev_gold: Links, test: list[NDArray[np.float64]], test_gold: Links
) -> Tuned:
    """Choose the threshold of least AER on dev; score on test with it."""
    curve = sweep(dev, dev_gold)
    scores = score_at(test, test_gold, best_point(curve).threshold)
    precision, recall, aer = map(percent, scores[1:])
    return Tuned(precision, recall, aer, scores.threshold, min(point.aer for point in curve))


def evaluate(aligner: WordAligner, corpus: Hansards) -> dict[str, Tuned]:
    """`tune_and_score` for each direction and for their average."""
    dev, test = posteriors(aligner, corpus.dev), posteriors(aligner, corpus.test)
    return {
        direction: tune_and_score(dev[direction], corpus.dev_gold, test[direction], corpus.test_gold)
        for direction in dev
    }
