"""[SmithEisner2004] table 2: constituent-context models 1 and 2 by EM and annealing, from uniform and split starts.

* The paper does not give its smoothing. [KleinManning2002] published pseudo-counts for 7,519 sentences, 2 for
  constituents and 8 for distituents. Here they are scaled in proportion to the number of sentences, as the paper does
  with those of its taggers (footnote 9), and, in a second table, by held-out likelihood.
* Held-out likelihood is over the yields and contexts of all sentences, so that unseen ones have their pseudo-counts.
  Where they count as one more event each instead, as in `BracketingModel.score`, 0.125 and 0.5 win on the whole sample.
  Chosen for each model by itself, pseudo-counts may differ: the table has the likelihoods.
* Likelihoods of different sentences cannot be compared with the paper's. Ours include the probability of the tree.
* Scores are on the training sentences, as in the paper. F of the last column counts whole sentences, as
  [KleinManning2002] did; all others do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from reproductions.bracketing.training import (
    METHODS,
    PUBLISHED_SMOOTHING,
    SCHEDULE,
    Sample,
    Scores,
    Trained,
    held_out,
    proportional,
    read_sample,
    score,
    train,
    train_by,
)
from reproductions.figures import curves
from reproductions.report import Report, Table, beside_paper, bullets, tell
from spectrem.learning import Anneal
from spectrem.metrics import BracketingComparison, binary_ceiling, branching, compare_bracketings
from spectrem.plotting import Panel, draw_panels

PROPORTIONAL = "in proportion"
QUICK = {"n_sentences": 60, "schedule": Anneal(0.1, 1.0, 4.0), "max_iter": 15, "iterations": 4, "scales": (0.5, 1.0)}


class Numbers(NamedTuple):
    """One row of the table: bits per tag, percents, crossing brackets per sentence."""

    e_steps: int
    bits: float
    recall: float
    precision: float
    f: float
    crossing: float


class Point(NamedTuple):
    """A model on its way: F of both kinds after so many E-steps, from random splits."""

    smoothing: str
    model: int
    e_steps: int
    f: float
    f_whole: float


PUBLISHED = {
    "CCM 1, EM (uniform)": Numbers(146, 103.1654, 61.20, 45.62, 52.27, 1.69),
    "CCM 1, DA": Numbers(403, 103.1542, 55.13, 41.10, 47.09, 1.91),
    "CCM 1, EM (split)": Numbers(124, 103.1951, 78.14, 58.24, 66.74, 0.98),
    "CCM 1, SDA (split)": Numbers(339, 103.1651, 62.71, 46.75, 53.57, 1.62),
    "CCM 2, EM (uniform)": Numbers(26, 84.8106, 57.60, 42.94, 49.20, 1.86),
    "CCM 2, DA": Numbers(331, 84.7899, 40.81, 30.42, 34.86, 2.66),
    "CCM 2, EM (split)": Numbers(44, 84.8049, 78.56, 58.56, 67.10, 0.98),
    "CCM 2, SDA (split)": Numbers(290, 84.7940, 79.64, 59.37, 68.03, 0.93),
}


def run(
    data: Path | None = None,
    *,
    n_sentences: int | None = None,
    schedule: Anneal = SCHEDULE,
    max_iter: int = 2_000,
    iterations: int = 40,
    scales: Sequence[float] = (0.125, 0.25, 0.5, 1.0, 2.0),
    threads: int | None = None,
) -> Report:
    """Train both models in the four ways of the paper; then, by EM for a fixed time, with several pseudo-counts.

    Parameters
    ----------
    data : path, optional
        See `read_sample`.
    n_sentences : int, optional
        Only the first sentences.
    schedule : Anneal
    max_iter : int
        Iterations of EM, and of annealing at every beta, at most.
    iterations : int
        Of the models of the second table, fixed beforehand.
    scales : sequence of float
        Pseudo-counts of constituents tried by held-out likelihood; those of distituents are four times as large.
    threads : int, optional
    """
    sample = read_sample(data, n_sentences)
    smoothings = {
        "published": PUBLISHED_SMOOTHING,
        PROPORTIONAL: proportional(len(sample.tags)),
        **{f"{scale:g} and {4 * scale:g}": (scale, 4 * scale) for scale in scales if scale != PUBLISHED_SMOOTHING[0]},
    }
    likelihoods = {
        (name, number): held_out(number, sample, pair, iterations)
        for name, pair in smoothings.items()
        for number in (1, 2)
    }
    points = [point for name, pair in smoothings.items() for point in _course(name, sample, pair, iterations, threads)]
    chosen = _choose(likelihoods)
    settings = {"n_threads": threads, "max_iter": max_iter, "tol": 1e-9}
    runs = {
        name: _train_all(sample, schedule, name, smoothing=smoothings[name], **settings)
        for name in dict.fromkeys((PROPORTIONAL, chosen))
    }
    return Report(
        title=f"[SmithEisner2004] table 2: brackets of {len(sample.tags):,} sentences of at most ten words, "
        f"{sum(sample.lengths):,} tags, without trees",
        tables=[
            *(_table(name, trained) for name, trained in runs.items()),
            _smoothing_table(points, likelihoods, chosen, iterations),
            _baselines(sample),
            _tests_table(runs, sample),
        ],
        numbers=_numbers(runs, points, likelihoods),
        figure=_figure(points, chosen),
        claims={text: holds for name, own in runs.items() for text, holds in _claims(name, own, sample).items()},
        notes=[
            *bullets(__doc__),
            f"Sentences: those of at most ten words of the public tenth of the Penn Treebank, {len(sample.tags):,} in "
            "place of 7,519.",
        ],
    )


def _train_all(sample: Sample, schedule: Anneal, smoothing_name: str, **settings: Any) -> dict[str, Trained]:
    """Both models in the four ways of the paper."""
    trained: dict[str, Trained] = {}
    for number in (1, 2):
        for method in METHODS:
            name = f"CCM {number}, {method}"
            trained[name] = train_by(method, number, sample, schedule, **settings)
            own = trained[name]
            tell(f"{name}, pseudo-counts {smoothing_name}: F {own.scores.f:.2f} after {own.model.n_iter_} E-steps")
    return trained


def _course(
    name: str, sample: Sample, smoothing: tuple[float, float], iterations: int, threads: int | None
) -> Iterator[Point]:
    """Both models from random splits, E-step by E-step."""
    for number in (1, 2):
        init: Any = "split"
        for done in range(1, iterations + 1):
            found = train(number, sample, init=init, smoothing=smoothing, max_iter=1, tol=0.0, n_threads=threads)
            init = found.model
            yield Point(name, number, done, found.scores.f, found.scores.f_whole)


def _choose(likelihoods: Mapping[tuple[str, int], float]) -> str:
    """The smoothing that is best for both models together, as models are compared under the same one."""
    names = dict.fromkeys(name for name, _ in likelihoods)
    return max(names, key=lambda name: likelihoods[name, 1] + likelihoods[name, 2])


def _table(smoothing: str, trained: Mapping[str, Trained]) -> Table:
    columns = ("", "", "E-steps", "bits/tag", "recall", "precision", "F", "crossing", "F with whole sentences")
    published = {name: _spelled(own) for name, own in PUBLISHED.items()}
    ours = [(name, "ours", *_spelled(_row(own)), own.scores.f_whole) for name, own in trained.items()]
    title = f"Unlabelled brackets of the training sentences, %; pseudo-counts {smoothing}"
    return Table(title, columns, beside_paper(published, ours))


def _row(own: Trained) -> Numbers:
    return Numbers(own.model.n_iter_, own.bits, *own.scores[:4])


def _spelled(numbers: Numbers) -> tuple[Any, ...]:
    """Bits with four decimals, as printed in the paper."""
    return tuple(f"{value:.4f}" if name == "bits" else value for name, value in numbers._asdict().items())


def _smoothing_table(
    points: Sequence[Point], likelihoods: Mapping[tuple[str, int], float], chosen: str, iterations: int
) -> Table:
    rows: list[tuple[Any, ...]] = []
    for point in points:
        if point.e_steps == iterations:
            note = "chosen" if point.smoothing == chosen else ""
            nats = f"{likelihoods[point.smoothing, point.model]:.3f}"
            rows.append((point.smoothing, point.model, nats, point.f, point.f_whole, note))
    title = (
        f"EM from random splits, {iterations} E-steps fixed beforehand. Chosen without trees: the pseudo-counts under "
        f"which both models together give sentences left out the most likelihood, of {len(rows)} settings"
    )
    columns = ("pseudo-counts", "model", "held out, nats/tag", "F", "F with whole sentences", "")
    return Table(title, columns, rows)


def _baselines(sample: Sample) -> Table:
    trees = {
        "right-branching": branching(sample.lengths, "right"),
        "left-branching": branching(sample.lengths, "left"),
        "ceiling of binary trees": binary_ceiling(sample.gold, sample.lengths),
    }
    return Table(
        "Without learning", ("", *Scores._fields), [(name, *score(own, sample)) for name, own in trees.items()]
    )


def _tests_table(runs: Mapping[str, Mapping[str, Trained]], sample: Sample) -> Table:
    rows: list[tuple[Any, ...]] = []
    for smoothing, trained in runs.items():
        for number in (1, 2):
            found = _compare(trained, number, sample)
            for what, own in (("matches", found.matches), ("fewer crossing", found.crossing)):
                rows.append((smoothing, f"CCM {number}", what, own.n_first, own.n_second, f"{own.p_value:.1e}"))
    title = "Sign tests by sentence: where SDA (split) is better, where EM (split)"
    return Table(title, ("pseudo-counts", "", "by", "SDA", "EM", "p"), rows)


def _compare(trained: Mapping[str, Trained], number: int, sample: Sample) -> BracketingComparison:
    sda, em = (trained[f"CCM {number}, {method} (split)"].predicted for method in ("SDA", "EM"))
    return compare_bracketings(sda, em, sample.gold, sample.lengths)


def _numbers(
    runs: Mapping[str, Mapping[str, Trained]],
    points: Sequence[Point],
    likelihoods: Mapping[tuple[str, int], float],
) -> Table:
    columns = ("pseudo_counts", "name", *Numbers._fields, "f_whole", "held_out")
    rows: list[tuple[Any, ...]] = [
        (smoothing, name, *_row(own), own.scores.f_whole, None)
        for smoothing, trained in runs.items()
        for name, own in trained.items()
    ]
    for point in points:
        nats = likelihoods[point.smoothing, point.model]
        name = f"CCM {point.model}, EM (split), on the way"
        rows.append((point.smoothing, name, point.e_steps, None, None, None, point.f, None, point.f_whole, nats))
    return Table("", columns, rows)


def _claims(smoothing: str, trained: Mapping[str, Trained], sample: Sample) -> dict[str, bool]:
    f = {name: own.scores.f for name, own in trained.items()}
    likelihood = {name: own.model.log_likelihood_ for name, own in trained.items()}
    steps = {name: own.model.n_iter_ for name, own in trained.items()}
    tests = _compare(trained, 2, sample)
    claims = {
        "a uniform start is a bad idea: EM from random splits has the higher F, both models": all(
            f[f"CCM {k}, EM (split)"] > f[f"CCM {k}, EM (uniform)"] for k in (1, 2)
        ),
        "DA and SDA reach a higher likelihood than EM from the same start, both models": all(
            likelihood[f"CCM {k}, {cold}"] > likelihood[f"CCM {k}, {warm}"]
            for k in (1, 2)
            for cold, warm in (("DA", "EM (uniform)"), ("SDA (split)", "EM (split)"))
        ),
        "from random splits by EM, model 2 is not below model 1": f["CCM 2, EM (split)"] >= f["CCM 1, EM (split)"],
        "... and needs fewer E-steps": steps["CCM 2, EM (split)"] < steps["CCM 1, EM (split)"],
        "SDA makes model 1 worse": f["CCM 1, SDA (split)"] < f["CCM 1, EM (split)"],
        "SDA of model 2 is best of all": f["CCM 2, SDA (split)"] == max(f.values()),
        "... and better than EM by both tests (p < 1e-6)": all(
            own.p_value < 1e-6 and own.n_first > own.n_second for own in (tests.matches, tests.crossing)
        ),
    }
    return {f"Pseudo-counts {smoothing}: {text}": holds for text, holds in claims.items()}


def _figure(points: Sequence[Point], chosen: str) -> Figure:
    shown = [point for point in points if point.smoothing in ("published", PROPORTIONAL, chosen)]
    panels = []
    for title, field in (("as the paper counts", "f"), ("with whole sentences", "f_whole")):
        lines = curves(
            shown,
            attrgetter("e_steps"),
            attrgetter(field),
            label="{smoothing}, model {model}",
            colour="smoothing",
            style="model",
            marked=False,
        )
        panels.append(Panel(title, "E-steps", "F (%)", lines))
    return draw_panels(panels, title="EM from random splits, by pseudo-counts", width=4.6)
