"""Training and decoding as the experiments do it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.data import Bitext, Links
from spectrem.estimators import WordAligner
from spectrem.metrics import AlignmentScores
from spectrem.reproduce.corpus import HansardsCorpus
from spectrem.reproduce.thresholds import score_at, sweep

MAXIMUM_LIKELIHOOD: Mapping[str, Any] = {"stem_strength": 0.0, "cognate_strength": 0.0}
"""Settings without the prior on translation tables, as in all the papers."""

FORWARD, BACKWARD, BOTH = "En-Fr", "Fr-En", "both"
"""Directions are named by the language that produces, then the one that is produced."""

NOTE_MODEL1 = (
    "Model 1, which comes first, is trained for 5 iterations under the same constraints at gamma = 1; the papers do "
    "not say whether theirs was constrained."
)
NOTE_NULL = "NULL has a fixed probability and keeps the last position ([OchNey2003]); the papers say nothing of theirs."


@dataclass(frozen=True)
class Tuned:
    """One direction's links, their threshold chosen on dev and scored on test."""

    threshold: float
    dev_aer: float
    test: AlignmentScores


def train(corpus: HansardsCorpus, n_threads: int | None = None, **settings: Any) -> tuple[WordAligner, float]:
    """A fitted aligner and the seconds it took."""
    started = time.perf_counter()
    aligner = WordAligner(n_threads=n_threads, **settings).fit(corpus.training)
    return aligner, time.perf_counter() - started


def posteriors(aligner: WordAligner, bitext: Bitext) -> dict[str, list[NDArray[np.float64]]]:
    """Link posteriors of each direction, and their average."""
    found = aligner.predict_proba(bitext)
    return {FORWARD: found.forward, BACKWARD: found.backward, BOTH: found.average}


def tune_and_score(
    dev: list[NDArray[np.float64]], dev_gold: Links, test: list[NDArray[np.float64]], test_gold: Links
) -> Tuned:
    """Choose the threshold of least AER on dev; score on test with it."""
    curve = sweep(dev, dev_gold)
    threshold = curve.best_threshold
    return Tuned(threshold, float(curve.aer.min()), score_at(test, test_gold, threshold))


def evaluate(aligner: WordAligner, corpus: HansardsCorpus) -> dict[str, Tuned]:
    """`tune_and_score` for each direction and for their average."""
    dev, test = posteriors(aligner, corpus.dev), posteriors(aligner, corpus.test)
    return {
        direction: tune_and_score(dev[direction], corpus.dev_gold, test[direction], corpus.test_gold)
        for direction in dev
    }
