"""[Graca2007] figure 3: learning curves of Model 2 and the HMM, unconstrained and constrained.

* The paper's numbers stand in its figure only, so none stand beside ours; what its text says does.
* All models train for 5 iterations, as in the paper. Links: posterior above a threshold tuned on dev, the constraint
  holding when decoding too (of which the paper says nothing).
* Positions in Model 2 depend on the distance from the diagonal ([OchNey2003]), not on a full table.
* EPPS, the paper's second corpus, is not at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from reproductions.alignment.hansards import read_hansards
from reproductions.alignment.training import FORWARD, MAXIMUM_LIKELIHOOD, NOTES, evaluate, train
from reproductions.figures import curves
from reproductions.records import group, where
from reproductions.report import Report, Table, bullets, listing, tell
from spectrem.plotting import Panel, draw_panels

QUICK = {"sizes": (1_000,)}
MODELS = {"ibm2": "Model 2", "hmm": "HMM"}
CONSTRAINTS: dict[str, tuple[str, ...]] = {"Baseline": (), "Substochastic": ("fertility",), "Agreement": ("agreement",)}
_MEASURES = {"precision": "precision", "recall": "recall", "aer": "AER"}


class Point(NamedTuple):
    """Scores on test of one trained model, English as source, in percent."""

    model: str
    training: str
    size: int
    precision: float
    recall: float
    aer: float
    threshold: float
    seconds: float


def run(
    data: Path | None = None,
    sizes: Sequence[int] = (1_000, 5_000, 10_000, 20_000, 50_000, 100_000),
    *,
    threads: int | None = None,
) -> Report:
    """Train both models under each constraint at every size and score the English-source direction.

    Parameters
    ----------
    data : path, optional
        See `read_hansards`.
    sizes : sequence of int
        Training pairs, increasing.
    threads : int, optional
    """
    points: list[Point] = []
    for size in sizes:
        corpus = read_hansards(data, size)
        for model, spelled in MODELS.items():
            for name, constraints in CONSTRAINTS.items():
                settings: dict[str, Any] = {**MAXIMUM_LIKELIHOOD, "constraints": constraints, "max_iter": 5}
                aligner, seconds = train(corpus, threads, model=model, **settings)
                found = evaluate(aligner, corpus)[FORWARD]
                scores = (found.precision, found.recall, found.aer, found.threshold)
                points.append(Point(model, name, size, *scores, seconds))
                tell(f"{size} {spelled} {name}: AER {found.aer:.2f}")
    return Report(
        title="[Graca2007] figure 3 (Hansards): learning curves, English as source",
        tables=[_table(points, model) for model in MODELS],
        numbers=listing(points),
        figure=_figure(points),
        claims=_claims(points),
        notes=[
            *bullets(__doc__),
            *corpus.differences,
            *NOTES,
        ],
    )


def _table(points: Sequence[Point], model: str) -> Table:
    columns = ("pairs", *(f"{measure} {name}" for measure in ("P", "R", "AER") for name in CONSTRAINTS))
    rows = [
        (size, *(getattr(point, measure) for measure in _MEASURES for point in own))
        for size, own in group(where(points, model=model), "size").items()
    ]
    return Table(f"{MODELS[model]}: precision, recall and AER on test (%)", columns, rows)


def _claims(points: Sequence[Point]) -> dict[str, bool]:
    pairs = [
        (baseline, constrained)
        for baseline, *others in group(points, "model", "size").values()
        for constrained in others
    ]
    claims = {
        f"Both constraints improve the {spelled} of both models at every size": all(
            sign * (getattr(after, measure) - getattr(before, measure)) > 0 for before, after in pairs
        )
        for (measure, spelled), sign in zip(_MEASURES.items(), (1, 1, -1), strict=True)
    }
    gains = {(after.model, after.training, after.size): before.aer - after.aer for before, after in pairs}
    sizes = list(group(points, "size"))
    if len(sizes) > 1:
        claims["They improve most where the corpus is smallest (gain in AER, against the largest)"] = all(
            gain > gains[model, training, max(sizes)]
            for (model, training, size), gain in gains.items()
            if size == min(sizes)
        )
    return claims


def _figure(points: Sequence[Point]) -> Any:
    panels = []
    for model, measures in (("ibm2", ("precision", "recall")), ("hmm", ("precision", "recall")), ("hmm", ("aer",))):
        own, lines = where(points, model=model), []
        for measure in measures:
            label, style = f"{_MEASURES[measure]}, {{training}}", list(_MEASURES).index(measure)
            lines += curves(
                own, lambda point: point.size / 1000, attrgetter(measure), label=label, colour="training", style=style
            )
        what = " / ".join(_MEASURES[measure] for measure in measures)
        panels.append(Panel(f"{MODELS[model]}: {what}", "training pairs (thousands)", "%", lines))
    return draw_panels(panels, title="Hansards, English as source")
