"""[Samdani2012] table 2: AER of EM, PR, CoDL and UEM on the Hansards, both directions.

* EM decodes each direction's own posterior; the others the posterior projected as in training (R = 5 steps of size 1
  on the multipliers; the paper gives R only). The threshold is tuned on dev for every cell.
* 'as published': maximum likelihood, 5 iterations of Model 1 and 5 of the HMM ([Graca2007] §5, whose code the paper
  used). 'defaults': spectrem's prior from stems and look-alikes, 3 iterations of the HMM.
* CoDL's hard projections are far from agreement after R = 5 steps; the last column takes more.
* The paper's Spanish half (EPPS links) is left out: that corpus is not at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from reproductions.alignment.hansards import Hansards, read_hansards
from reproductions.alignment.training import BACKWARD, BOTH, FORWARD, MAXIMUM_LIKELIHOOD, NOTES, Tuned, evaluate, train
from reproductions.figures import curves
from reproductions.records import group, where
from reproductions.report import Report, Table, beside_paper, bullets, percent, tell
from spectrem.plotting import Panel, draw_panels

METHODS = ("EM", "PR", "CoDL", "UEM")
LONGER, TUNED = "CoDL, R = 20", "UEM, tuned"
QUICK = {"sizes": (1_000,), "gammas": (0.5,)}

PUBLISHED: dict[str, dict[int, tuple[float, float, float, float]]] = {
    FORWARD: {
        10_000: (23.54, 10.63, 14.76, 9.10),
        50_000: (18.02, 8.30, 10.08, 7.34),
        100_000: (16.31, 8.16, 9.17, 7.05),
    },
    BACKWARD: {
        10_000: (19.63, 10.71, 14.68, 9.21),
        50_000: (16.17, 8.40, 10.09, 7.40),
        100_000: (15.03, 8.09, 8.93, 6.87),
    },
    BOTH: {},
}
"""AER in percent of `METHODS`, by direction and training pairs."""

SETTINGS: dict[str, dict[str, Any]] = {
    "ours, as published": {**MAXIMUM_LIKELIHOOD, "max_iter": 5},
    "ours, defaults": {},
}
_TITLES = {
    FORWARD: "AER (%), En-Fr",
    BACKWARD: "AER (%), Fr-En",
    BOTH: "AER (%), mean of both directions' posteriors (not in the paper)",
}


class Run(NamedTuple):
    """One trained aligner, decoded in one direction."""

    size: int
    setting: str
    method: str
    direction: str
    gamma: float
    tuned: Tuned
    seconds: float

    @property
    def aer(self) -> float:
        """Percent, on test."""
        return self.tuned.aer


def run(
    data: Path | None = None,
    sizes: Sequence[int] = (10_000, 50_000, 100_000),
    *,
    gammas: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    threads: int | None = None,
) -> Report:
    """Train and score every method at every size, in the paper's set-up and with the defaults of `WordAligner`.

    UEM's gamma is the one of least AER on dev, among ``gammas``, 0 (CoDL) and 1 (PR).

    Parameters
    ----------
    data : path, optional
        See `read_hansards`.
    sizes : sequence of int
        Training pairs.
    gammas : sequence of float
        In (0, 1).
    threads : int, optional
    """
    runs: list[Run] = []
    for size in sizes:
        corpus = read_hansards(data, size)
        for one in _runs(corpus, gammas, threads):
            runs.append(one)
            tell(f"{one.size} {one.setting} {one.method} gamma={one.gamma:g} {one.direction}: AER {one.aer:.2f}")
    constrained = sorted((one for one in runs if one.method in METHODS[1:]), key=attrgetter("gamma"))
    tuned = [
        min(own, key=lambda one: one.tuned.dev_aer)._replace(method=TUNED)
        for own in group(constrained, "size", "setting", "direction").values()
    ]
    runs += tuned
    return Report(
        title="[Samdani2012] table 2: word alignment of the Hansards",
        tables=[_table(runs, direction) for direction in _TITLES],
        numbers=_numbers(runs),
        figure=_figure(constrained),
        claims={text: holds for setting in SETTINGS for text, holds in _claims(runs, setting).items()},
        notes=[
            *bullets(__doc__),
            *corpus.differences,
            *NOTES,
        ],
    )


def _runs(corpus: Hansards, gammas: Sequence[float], threads: int | None) -> Iterator[Run]:
    plan: list[tuple[str, dict[str, Any]]] = [
        ("EM", {"gamma": 1.0, "constraints": ()}),
        ("PR", {"gamma": 1.0}),
        ("CoDL", {"gamma": 0.0}),
        (LONGER, {"gamma": 0.0, "dual_steps": 20}),
        *(("UEM", {"gamma": gamma}) for gamma in gammas),
    ]
    for setting, settings in SETTINGS.items():
        for method, own in plan:
            aligner, seconds = train(corpus, threads, **{"constraints": ("agreement",), **settings, **own})
            for direction, tuned in evaluate(aligner, corpus).items():
                yield Run(corpus.n_pairs, setting, method, direction, own["gamma"], tuned, seconds)


def _table(runs: Sequence[Run], direction: str) -> Table:
    ours = []
    for (size, setting), own in group(where(runs, direction=direction), "size", "setting").items():
        found = {one.method: one for one in own}
        aers = (found[method].aer for method in (*METHODS[:3], TUNED))
        ours.append((size, setting, *aers, found[TUNED].gamma, found[LONGER].aer))
    return Table(_TITLES[direction], ("pairs", "", *METHODS, "gamma", LONGER), beside_paper(PUBLISHED[direction], ours))


def _numbers(runs: Sequence[Run]) -> Table:
    columns = (
        "pairs", "setting", "direction", "method", "gamma", "threshold", "dev_aer", "test_aer", "test_precision",
        "test_recall", "seconds", "paper_aer",
    )  # fmt: skip
    rows = []
    for one in runs:
        published = dict(zip((*METHODS[:3], TUNED), PUBLISHED[one.direction].get(one.size, ()), strict=False))
        rows.append((
            one.size, one.setting, one.direction, one.method, one.gamma, one.tuned.threshold,
            percent(one.tuned.dev_aer), one.aer, one.tuned.precision, one.tuned.recall, one.seconds,
            published.get(one.method),
        ))  # fmt: skip
    return Table("all runs", columns, rows)


def _claims(runs: Sequence[Run], setting: str) -> dict[str, bool]:
    own = [one for one in where(runs, setting=setting) if one.direction != BOTH]
    aers = [{one.method: one.aer for one in cell} for cell in group(own, "size", "direction").values()]
    chosen = sorted(group(where(own, method=TUNED), "gamma"))
    listed = ", ".join(f"{gamma:g}" for gamma in chosen)
    return {
        f"{setting}: UEM has less error than EM, PR and CoDL at every size and in both directions": all(
            aer[TUNED] < min(aer[method] for method in METHODS[:3]) for aer in aers
        ),
        f"{setting}: the tuned gamma is 0.5 or 0.6 (here: {listed})": all(0.5 <= gamma <= 0.6 for gamma in chosen),
    }


def _figure(constrained: Sequence[Run]) -> Any:
    panels = []
    for setting, own in group(constrained, "setting").items():
        lines = curves(
            [one for one in own if one.direction != BOTH],
            attrgetter("gamma"),
            attrgetter("aer"),
            label="{direction}, {size:,} pairs",
            colour="size",
            style="direction",
        )
        panels.append(Panel(setting, "gamma (0: CoDL, 1: PR)", "test AER (%)", lines))
    return draw_panels(panels, title="Unified EM: error by gamma", width=5)
