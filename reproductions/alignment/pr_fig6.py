"""[Ganchev2010] figure 6: precision against recall, constraints in training and in decoding told apart.

* The paper's curves stand in its figure only, so none stand beside ours; what its text says stands above, held
  against the least AER of each curve.
* Iterations: 5 of Model 1; of the HMM 4 without and 2 with constraints, after which the paper's stopped improving on
  dev.
* Projections take 5 gradient steps of size 1; the paper solved them by projected gradient and L-BFGS.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.alignment.hansards import read_hansards
from reproductions.alignment.thresholds import GRID, sweep
from reproductions.alignment.training import (
    BACKWARD,
    FORWARD,
    MAXIMUM_LIKELIHOOD,
    NOTES,
    posteriors,
    train,
    tune_and_score,
)
from reproductions.figures import curves
from reproductions.records import group
from reproductions.report import Report, Table, bullets, listing, percent, tell
from spectrem.estimators import WordAligner
from spectrem.plotting import Panel, draw_panels

QUICK = {"size": 1_000}
TRAININGS: dict[str, tuple[tuple[str, ...], int]] = {
    "Regular": ((), 4),
    "Bijective": (("fertility",), 2),
    "Symmetric": (("agreement",), 2),
}
"""Constraints and iterations of the HMM."""
DECODINGS: dict[str, tuple[str, ...]] = {"NP": (), "BP": ("fertility",), "SP": ("agreement",)}
DIRECTIONS = (FORWARD, BACKWARD)
# Dense near 0 and 1, where curves of confident models have their ends.
THRESHOLDS = np.union1d(GRID, 1.0 / (1.0 + np.exp(-np.linspace(-9.0, 9.0, 37))))

PUBLISHED_ENTROPY = {"Regular": "2.0-2.6", "Bijective": "0.6", "Symmetric": None}
"""Bits, [Ganchev2010] §5.2."""


class Place(NamedTuple):
    """One training, decoded in one way and direction, at one threshold; shares."""

    direction: str
    training: str
    decoding: str
    threshold: float
    precision: float
    recall: float
    aer: float


def run(data: Path | None = None, size: int = 100_000, *, threads: int | None = None) -> Report:
    """Train the HMM in three ways, decode each in three ways, and sweep the threshold.

    Parameters
    ----------
    data : path, optional
        See `read_hansards`.
    size : int
        Training pairs.
    threads : int, optional
    """
    corpus = read_hansards(data, size)
    rows: dict[str, list[tuple[Any, ...]]] = {direction: [] for direction in DIRECTIONS}
    places: list[Place] = []
    entropies: dict[str, tuple[float, float]] = {}
    for training, (constraints, iterations) in TRAININGS.items():
        aligner, _ = train(corpus, threads, constraints=constraints, max_iter=iterations, **MAXIMUM_LIKELIHOOD)
        entropies[training] = translation_entropies(aligner)
        for decoding, constraints in DECODINGS.items():
            aligner.set_params(constraints=constraints)
            dev, test = posteriors(aligner, corpus.dev), posteriors(aligner, corpus.test)
            for direction in DIRECTIONS:
                tuned = tune_and_score(dev[direction], corpus.dev_gold, test[direction], corpus.test_gold)
                curve = sweep(test[direction], corpus.test_gold, THRESHOLDS)
                least = percent(min(point.aer for point in curve))
                scores = (tuned.precision, tuned.recall, tuned.aer, tuned.threshold)
                rows[direction].append((training, decoding, *scores, least))
                places += [Place(direction, training, decoding, *point) for point in curve]
                tell(f"{training} training, {decoding} decoding, {direction}: AER {tuned.aer:.2f}")
    names = ("training", "decoding", "P", "R", "AER", "threshold", "least AER of the curve")
    how = "threshold tuned on dev (NP no, BP bijective, SP symmetric projection)"
    return Report(
        title=f"[Ganchev2010] figure 6: the HMM, {size:,} pairs of the Hansards",
        tables=[
            *(Table(f"{direction}, {how}", names, own) for direction, own in rows.items()),
            Table(
                "mean entropy of p(word | word) (bits)",
                ("training", "paper, depending on direction", *DIRECTIONS),
                [(training, PUBLISHED_ENTROPY[training], *own) for training, own in entropies.items()],
            ),
        ],
        numbers=listing(places),
        figure=_figure(places),
        claims=_claims(places, entropies),
        notes=[
            *bullets(__doc__),
            *corpus.differences,
            *NOTES,
        ],
    )


def translation_entropies(aligner: WordAligner) -> tuple[float, float]:
    """Entropy in bits of the translations of a word, averaged over words: from source words, from target words."""
    table, params = aligner.table_, aligner.params_
    forward, backward = (side.translation[:-1].astype(np.float64) for side in (params.forward, params.backward))
    return _row_entropies(forward, table.sources), _row_entropies(backward, table.targets)


def _row_entropies(probability: NDArray[np.float64], row: NDArray[np.integer]) -> float:
    entropies = np.bincount(row, -probability * np.log2(probability))
    return float(entropies[np.bincount(row) > 0].mean())


def _claims(places: Sequence[Place], entropies: dict[str, tuple[float, float]]) -> dict[str, bool]:
    curves_of = group(places, "direction", "training", "decoding")
    aer = {key: percent(min(place.aer for place in curve)) for key, curve in curves_of.items()}
    pairs = zip(entropies["Regular"], entropies["Bijective"], strict=True)
    return {
        "Training with either constraint improves each direction": all(
            aer[d, t, "NP"] < aer[d, "Regular", "NP"] for d in DIRECTIONS for t in ("Bijective", "Symmetric")
        ),
        "Projecting at decode time always helps": all(
            aer[d, t, p] < aer[d, t, "NP"] for d in DIRECTIONS for t in TRAININGS for p in ("BP", "SP")
        ),
        "Bijective constraints help more in training than at decode time alone": all(
            aer[d, "Bijective", "NP"] < aer[d, "Regular", "BP"] for d in DIRECTIONS
        ),
        "Symmetric constraints are stronger at decode time than in training alone": all(
            aer[d, "Regular", "SP"] < aer[d, "Symmetric", "NP"] for d in DIRECTIONS
        ),
        "Bijective training sharpens the translation table: at most half of the entropy": all(
            sharp < regular / 2 for regular, sharp in pairs
        ),
    }


def _figure(places: Sequence[Place]) -> Any:
    panels = []
    for direction, own in group(places, "direction").items():
        lines = curves(
            own,
            lambda place: 100 * place.recall,
            lambda place: 100 * place.precision,
            label="{training}, {decoding}",
            colour="training",
            style="decoding",
            marked=False,
        )
        panels.append(Panel(direction, "recall (%)", "precision (%)", lines, (60, 100), (60, 100)))
    return draw_panels(panels, title="Training constraint, projection at decode time", width=5.5, height=4.5)
