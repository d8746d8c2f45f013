"""[SmithEisner2004] table 3: EM and skewed annealing from random splits on parts of the corpus, and jack-knifed.

* The paper does not give its smoothing. Pseudo-counts are proportional to the sentences of each training: those
  published for 7,519 sentences, and those of da-table2 by held-out likelihood (0.5 and 2 for 555 sentences).
* The sample is small: a tenth of it are some 55 sentences in place of 752.
* Deviations are those of the trials, divided by one less than their number; the paper does not say which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from reproductions.bracketing.training import (
    SCHEDULE,
    Brackets,
    Sample,
    proportional,
    read_sample,
    train_by,
)
from reproductions.figures import BarPanel, draw_bars
from reproductions.records import group, spread, where
from reproductions.report import Report, Table, beside_paper, bullets, listing, tell
from spectrem.learning import Anneal
from spectrem.metrics import SignTest, compare_bracketings

QUICK = {"n_sentences": 60, "schedule": Anneal(0.1, 1.0, 4.0), "max_iter": 10, "trials": 3}
METHODS = {"EM": "EM (split)", "SDA": "SDA (split)"}
SHARES = ("10%", "90%")
HELD_OUT_PER_SENTENCE = 0.5 / 555


class Trial(NamedTuple):
    """F of one training, in percent, as the paper counts, and with whole sentences."""

    smoothing: str
    model: int
    method: str
    share: str
    trial: int
    e_steps: int
    f: float
    f_whole: float


class Published(NamedTuple):
    """Mean and deviation of F on tenths of the corpus, and with a tenth left out."""

    mean_10: float
    deviation_10: float
    mean_90: float
    deviation_90: float


PUBLISHED = {
    "CCM 1, EM": Published(65.00, 1.091, 66.12, 0.6643),
    "CCM 1, SDA": Published(63.00, 4.689, 53.53, 0.2135),
    "CCM 2, EM": Published(66.74, 1.402, 67.24, 0.7077),
    "CCM 2, SDA": Published(66.77, 1.034, 68.07, 0.1193),
}


def run(
    data: Path | None = None,
    *,
    n_sentences: int | None = None,
    trials: int = 10,
    schedule: Anneal = SCHEDULE,
    max_iter: int = 2_000,
    seed: int = 0,
    threads: int | None = None,
) -> Report:
    """Cut the corpus into parts at random; train on each of them, and on all but each of them.

    Parameters
    ----------
    data : path, optional
        See `read_sample`.
    n_sentences : int, optional
        Only the first sentences.
    trials : int
        Parts of equal size.
    schedule : Anneal
    max_iter : int
        Iterations of EM, and of annealing at every beta, at most.
    seed : int
    threads : int, optional
    """
    sample = read_sample(data, n_sentences)
    found: list[Trial] = []
    tests: dict[tuple[str, int], list[SignTest]] = {}
    for smoothing in ("published", "held out"):
        for number in (1, 2):
            for share, trial, part in _parts(sample, trials, seed):
                predicted: dict[str, Brackets] = {}
                for method, name in METHODS.items():
                    own = train_by(
                        name, number, part, schedule, smoothing=_pseudo_counts(smoothing, len(part.tags)),
                        max_iter=max_iter, tol=1e-9, n_threads=threads,
                    )  # fmt: skip
                    predicted[method] = own.predicted
                    scores = own.scores
                    found.append(
                        Trial(smoothing, number, method, share, trial, own.model.n_iter_, scores.f, scores.f_whole)
                    )
                if share == SHARES[1]:
                    compared = compare_bracketings(predicted["SDA"], predicted["EM"], part.gold, part.lengths)
                    tests.setdefault((smoothing, number), []).append(compared.matches)
            tell(f"CCM {number}, pseudo-counts {smoothing}: {trials} trials of each kind")
    return Report(
        title=f"[SmithEisner2004] table 3: brackets of parts of {len(sample.tags):,} sentences, {trials} trials",
        tables=[*(_table(name, own) for name, own in group(found, "smoothing").items()), _tests_table(tests)],
        numbers=listing(found),
        figure=_figure(found),
        claims={
            text: holds
            for name, own in group(found, "smoothing").items()
            for text, holds in _claims(name, own, tests[name, 2]).items()
        },
        notes=bullets(__doc__),
    )


def _parts(sample: Sample, trials: int, seed: int) -> Iterator[tuple[str, int, Sample]]:
    """Every part of the corpus, and the corpus without it."""
    order = np.random.default_rng(seed).permutation(len(sample.tags))
    for trial, part in enumerate(np.array_split(order, trials)):
        rest = np.setdiff1d(order, part)
        yield SHARES[0], trial, sample.pick(sorted(part.tolist()))
        yield SHARES[1], trial, sample.pick(rest.tolist())


def _pseudo_counts(smoothing: str, n_sentences: int) -> tuple[float, float]:
    if smoothing == "published":
        return proportional(n_sentences)
    return HELD_OUT_PER_SENTENCE * n_sentences, 4 * HELD_OUT_PER_SENTENCE * n_sentences


def _table(smoothing: str, trials: Sequence[Trial]) -> Table:
    ours = []
    for (number, method), own in group(trials, "model", "method").items():
        numbers = [spread(where(own, share=share), "f", ddof=1) for share in SHARES]
        whole = spread(where(own, share=SHARES[1]), "f_whole", ddof=1)
        cells = (round(value, 3) for pair in (*numbers, whole) for value in pair)
        ours.append((f"CCM {number}, {method}", "ours", *cells))
    columns = ("", "", "10%, mean F", "deviation", "90%, mean F", "deviation ", "90%, with whole", "deviation  ")
    return Table(f"Pseudo-counts in proportion, {smoothing}", columns, beside_paper(PUBLISHED, ours))


def _tests_table(tests: Mapping[tuple[str, int], Sequence[SignTest]]) -> Table:
    rows = [
        (smoothing, f"CCM {number}", _significant(own), _significant(own, reverse=True), len(own))
        for (smoothing, number), own in tests.items()
    ]
    title = "Jack-knifed trials where one has significantly more brackets right by sentence (sign test, p < 0.05)"
    return Table(title, ("pseudo-counts", "", "SDA", "EM", "of"), rows)


def _significant(tests: Sequence[SignTest], *, reverse: bool = False) -> int:
    """Trials in which SDA (EM, if ``reverse``) wins."""
    return sum(own.p_value < 0.05 and (own.n_first > own.n_second) != reverse for own in tests)


def _claims(smoothing: str, trials: Sequence[Trial], tests: Sequence[SignTest]) -> dict[str, bool]:
    def of(number: int, method: str, share: str) -> list[Trial]:
        return where(trials, model=number, method=method, share=share)

    pairs = zip(of(2, "SDA", SHARES[1]), of(2, "EM", SHARES[1]), strict=True)
    small, large = (spread(of(2, "EM", share), "f").mean for share in SHARES)
    deviations = [spread(of(2, method, SHARES[1]), "f", ddof=1).deviation for method in METHODS]
    claims = {
        "with model 2, SDA is better than EM in every jack-knifed trial": all(a.f > b.f for a, b in pairs),
        "... significantly in most (paper: 8 of 10)": 2 * _significant(tests) > len(tests),
        "... and varies less": deviations[1] < deviations[0],
        "with model 1, SDA is worse than EM on 90%": (
            spread(of(1, "SDA", SHARES[1]), "f").mean < spread(of(1, "EM", SHARES[1]), "f").mean
        ),
        "a tenth of the corpus does nearly as well, model 2 by EM (held if within 2 points)": large - small <= 2.0,
    }
    return {f"Pseudo-counts {smoothing}: {text}": holds for text, holds in claims.items()}


def _figure(trials: Sequence[Trial]) -> Figure:
    panels = []
    for smoothing, own in group(trials, "smoothing").items():
        groups = [f"CCM {number}, {share}" for number in (1, 2) for share in SHARES]
        bars = {}
        for method in METHODS:
            spreads = [
                spread(where(own, model=number, share=share, method=method), "f", ddof=1)
                for number in (1, 2)
                for share in SHARES
            ]
            bars[method] = ([found.mean for found in spreads], [found.deviation for found in spreads])
        panels.append(BarPanel(f"pseudo-counts {smoothing}", "F (%)", groups, bars))
    return draw_bars(panels, title="EM and skewed annealing (SDA) on parts of the corpus")
