"""Posterior regularisation beside its relatives: expectation criteria, label regularisation, measurements.

* [Ganchev2010] §4 compares by argument; no paper prints these numbers. Rules are the same for all: ten words that
  praise and ten that blame (0.9 of the reviews with one), half of the reviews positive; four kinds of tokens by parts
  of speech (0.9 of each has its tag). All are about what has no label. Words, kinds and shares are those first thought
  of.
* PR has a penalty on the l2 norm of what a rule is missed by, by turns of EM. Measurements are [Liang2009]'s: noise in
  a box around every count, which is PR with bounded slack, climbed by gradient. GE has half of the squares, or a
  divergence, of the model's own expectations. Label regularisation knows the shares of labels alone: half and half, or
  those of the labelled sentences.
* Strengths are chosen from three each by one draw of kitchen reviews and by 300 training sentences that nothing else
  reads. Test figures are of the other domains and of the test set of CoNLL-2000. Before the three strengths were set
  down, one draw of each had been looked at to see that everything runs, test figures included.
* Reviews: presence of words and pairs of words; some 1,360 to learn from and 600 to be tested on, drawn anew; copies
  are left out. Noun phrases: the labelled and 300 other sentences, drawn anew, features of CRFsuite's tutorial.
* Times are of the processor, one thread. The cost of many constraints is measured with the true shares of frequent
  words, two rules each, as knowledge of an oracle.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproductions.records import group, spread, where
from reproductions.relatives.tasks import (
    DOMAINS,
    Rule,
    Task,
    chunk_task,
    presence_of,
    read_chunks,
    review_task,
)
from reproductions.report import Report, Table, bullets, listing, tell
from reproductions.views.sentiment import read_reviews
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError
from spectrem.learning import Expectations, Posteriors
from spectrem.plotting import Line, Panel, draw_panels

QUICK = {"draws": 1, "domains": DOMAINS[:2], "n_words": (2, 8), "n_unlabelled": 30, "n_test": 1700, "n_sentences": 50}
REVIEWS, CHUNKS = "reviews, accuracy", "noun phrases, F1"
LABELLED = {REVIEWS: (0, 40), CHUNKS: (10, 50)}
ALONE, PR, BOX, MEASUREMENTS = "labels alone", "PR", "PR, box", "measurements"
SQUARES, DIVERGENCE, REGULARISED = "GE, squares", "GE, divergence", "label regularisation"
MANY = "many constraints"


class Method(NamedTuple):
    """How settings are made of rules and a strength, and which strengths there are to choose from."""

    name: str
    build: Callable[[Sequence[Rule], float], dict[str, Any]]
    strengths: tuple[float, ...]


def _plain(rules: Sequence[Rule]) -> list[Any]:
    return [rule.constraint for rule in rules]


def _penalty(rules: Sequence[Rule], strength: float) -> dict[str, Any]:
    return {"constraints": [rule.constraint.slack(penalty=strength, norm="l2") for rule in rules]}


def _box(rules: Sequence[Rule], width: float) -> dict[str, Any]:
    return {"constraints": [rule.constraint.slack(bound=max(width * rule.size, 1.0), norm="linf") for rule in rules]}


def _measured(rules: Sequence[Rule], width: float) -> dict[str, Any]:
    return {**_box(rules, width), "criterion": Posteriors()}


def _squares(rules: Sequence[Rule], strength: float) -> dict[str, Any]:
    return {"constraints": _plain(rules), "criterion": Expectations(strength)}


def _divergence(rules: Sequence[Rule], strength: float) -> dict[str, Any]:
    return {"constraints": _plain(rules), "criterion": Expectations(strength, "divergence")}


METHODS = (
    Method(ALONE, lambda rules, _: {}, (0.0,)),
    Method(REGULARISED, _divergence, (0.1, 1.0, 10.0)),
    Method(PR, _penalty, (0.1, 1.0, 10.0)),
    Method(BOX, _box, (0.05, 0.1, 0.2)),
    Method(MEASUREMENTS, _measured, (0.05, 0.1, 0.2)),
    Method(SQUARES, _squares, (0.01, 0.1, 1.0)),
    Method(DIVERGENCE, _divergence, (0.1, 1.0, 10.0)),
)
NAMES = tuple(method.name for method in METHODS)


class Fit(NamedTuple):
    """One training; ``score`` is percent right, or F1. ``draw`` is -1 where a strength is chosen."""

    task: str
    data: str
    labelled: int
    draw: int
    method: str
    strength: float
    rules: int
    score: float
    seconds: float
    iterations: int
    objective: float


def run(
    data: Path | None = None,
    *,
    draws: int = 3,
    domains: Sequence[str] = DOMAINS,
    n_words: Sequence[int] = (10, 100, 1000),
    n_unlabelled: int = 300,
    n_test: int = 600,
    n_sentences: int | None = None,
    seed: int = 0,
) -> Report:
    """Train all methods on both tasks.

    Parameters
    ----------
    data : path, optional
        The folder that holds ``sentiment`` and ``chunk``.
    draws : int
        Of what is learnt from, by number of labels.
    domains : sequence of str
        Of reviews; strengths are chosen on the first, the others are tested on.
    n_words : sequence of int
        Whose true shares are constraints, where their cost is measured.
    n_unlabelled : int
        Sentences.
    n_test : int
        Reviews of a domain that are not learnt from.
    n_sentences : int, optional
        To be tested on; by default all.
    seed : int
    """
    reviews = {domain: presence_of(own) for domain, own in read_reviews(data, domains).items()}
    train, test = read_chunks(data)
    dev, rest, test = train[-300:][:n_sentences], train[:-300], test[:n_sentences]

    def sentences(n: int, draw: int, tested: Any, words: int | None = None) -> Task:
        order = np.random.default_rng((seed, draw)).permutation(len(rest))[: n + n_unlabelled]
        return chunk_task([rest[k] for k in order.tolist()], n, tested, words)

    fits: list[Fit] = []
    for n in LABELLED[REVIEWS]:
        task = review_task(reviews[domains[0]], n, n_test, (seed, draws))
        fits += _fit_all(REVIEWS, domains[0], task, -1, None)
    for n in LABELLED[CHUNKS]:
        fits += _fit_all(CHUNKS, "development", sentences(n, draws, dev), -1, None)
    chosen = choose(fits)
    for draw in range(draws):
        for domain in domains[1:]:
            for n in LABELLED[REVIEWS]:
                task = review_task(reviews[domain], n, n_test, (seed, draw))
                fits += _fit_all(REVIEWS, domain, task, draw, chosen[REVIEWS])
        for n in LABELLED[CHUNKS]:
            fits += _fit_all(CHUNKS, "test", sentences(n, draw, test), draw, chosen[CHUNKS])
        tell(f"draw {draw}: {sum(fit.seconds for fit in where(fits, draw=draw)):.0f} s")
    for words in n_words:
        task = sentences(10, 0, dev, words)
        fits += _fit_all(MANY, f"{words} words", task, 0, chosen[CHUNKS], (PR, MEASUREMENTS, SQUARES, DIVERGENCE))
        tell(f"{words} words: {sum(fit.seconds for fit in where(fits, data=f'{words} words')):.0f} s")
    return Report(
        title=f"Relatives of posterior regularisation: test figures, mean of {draws} draws",
        tables=[_scores(fits, REVIEWS), _scores(fits, CHUNKS), _times(fits), _many(fits)],
        numbers=listing(fits),
        figure=_figure(fits),
        claims=claims(fits),
        notes=[*bullets(__doc__), *_choices(chosen)],
        headings=("What the paper says, and what one would expect", "How it was measured"),
    )


def _fit_all(
    name: str,
    data: str,
    task: Task,
    draw: int,
    chosen: dict[str, float] | None,
    methods: Sequence[str] = NAMES,
) -> list[Fit]:
    """Train every method at the strength chosen, or at each of its own."""
    found = []
    for method in METHODS:
        if method.name not in methods or (not task.n_labelled and method.name in (ALONE, REGULARISED)):
            continue  # without a label neither can be told which class is which
        rules = task.balance if method.name == REGULARISED else task.rules
        for strength in method.strengths if chosen is None else (chosen[method.name],):
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # iterations are among the numbers
                try:
                    model = task.make(**method.build(rules, strength)).fit(task.X, task.y, columns=task.columns)
                except InfeasibleConstraintError as error:
                    tell(f"{data}, {task.n_labelled} labels, {method.name} {strength:g}: {error}")
                    continue
            seconds = time.process_time() - began
            measured = task.score(model), seconds, model.n_iter_, float(model.objective_)
            found.append(Fit(name, data, task.n_labelled, draw, method.name, strength, len(rules), *measured))
    return found


def choose(fits: Sequence[Fit]) -> dict[str, dict[str, float]]:
    """By task and method the strength with the best mean score where strengths are chosen."""
    chosen: dict[str, dict[str, float]] = {}
    for (task, method), own in group(where(fits, draw=-1), "task", "method").items():
        means = {strength: spread(each, "score").mean for strength, each in group(own, "strength").items()}
        chosen.setdefault(task, {})[method] = max(means, key=means.__getitem__)
    return chosen


def _tested(fits: Sequence[Fit], task: str) -> list[Fit]:
    return [fit for fit in where(fits, task=task) if fit.draw >= 0]


def _scores(fits: Sequence[Fit], task: str) -> Table:
    own = _tested(fits, task)
    columns = list(group(own, "data", "labelled"))
    rows = []
    for method in NAMES:
        cells = group(where(own, method=method), "data", "labelled")
        spelled = [_spell(cells[column]) if column in cells else None for column in columns]
        rows.append((method, *spelled))
    return Table(task, ("method", *(f"{data}, {n} labels" for data, n in columns)), rows)


def _spell(fits: Sequence[Fit]) -> str:
    mean, deviation = spread(fits, "score")
    return f"{mean:.1f} ±{deviation:.1f}"


def _times(fits: Sequence[Fit]) -> Table:
    rows = []
    for method in NAMES:
        cells: list[Any] = []
        for task in (REVIEWS, CHUNKS):
            own = where(_tested(fits, task), method=method)
            cells += [float(np.median([fit.seconds for fit in own])), int(np.median([fit.iterations for fit in own]))]
        rows.append((method, *cells))
    columns = ("method", "reviews, seconds", "iterations", "noun phrases, seconds", "iterations")
    return Table("One training, median", columns, rows)


def _many(fits: Sequence[Fit]) -> Table:
    rows = [
        (fit.rules, fit.method, fit.score, fit.seconds, fit.iterations, fit.seconds / fit.iterations)
        for fit in where(fits, task=MANY)
    ]
    columns = ("constraints", "method", "F1 (development)", "seconds", "iterations", "seconds each")
    return Table("True shares of frequent words, 10 labelled sentences", columns, rows)


def _mean(fits: Sequence[Fit], task: str, method: str, field: str = "score", **fields: Any) -> float:
    return spread(where(_tested(fits, task), method=method, **fields), field).mean


def claims(fits: Sequence[Fit]) -> dict[str, bool]:
    """What §4 says or asks, each with the numbers that decide."""
    many = where(fits, task=MANY)
    most = max(fit.rules for fit in many)
    slow = {fit.method: fit.seconds for fit in where(many, rules=most)}
    found = {}
    spelled = ", ".join(f"{method} {seconds:.1f} s" for method, seconds in slow.items())
    found[f"GE is much slower than PR when there are many constraint features ({most}: {spelled})"] = (
        min(slow[SQUARES], slow[DIVERGENCE]) > 2 * slow[PR]
    )
    drops = []
    for task, sizes in LABELLED.items():
        for n in sizes:
            best, own = (
                max(_mean(fits, task, method, labelled=n) for method in methods)
                for methods in ((SQUARES, DIVERGENCE), (PR, BOX))
            )
            drops.append((task, n, best - own))
    spelled = ", ".join(f"{task.partition(',')[0]} {n}: {gain:+.1f}" for task, n, gain in drops)
    found[f"PR loses little against GE, each the better of its two ({spelled})"] = all(own[2] < 1 for own in drops)
    gains = {
        task: _mean(fits, task, PR, labelled=sizes[1]) - _mean(fits, task, ALONE, labelled=sizes[1])
        for task, sizes in LABELLED.items()
    }
    spelled = ", ".join(f"{task.partition(',')[0]} {gain:+.1f}" for task, gain in gains.items())
    found[f"Constraints beat the labels alone, at the larger number of labels ({spelled})"] = min(gains.values()) > 0
    pairs = [
        (turns, climbed)
        for own in group(
            [fit for fit in fits if fit.draw >= 0 and fit.task != MANY], "data", "labelled", "draw"
        ).values()
        for turns in where(own, method=BOX)
        for climbed in where(own, method=MEASUREMENTS)
        if turns.strength == climbed.strength
    ]
    if pairs:
        behind = max((turns.objective - climbed.objective) / abs(turns.objective) for turns, climbed in pairs)
        faster = float(np.median([turns.seconds / climbed.seconds for turns, climbed in pairs]))
        found[
            f"Climbing by gradient ends no lower than turns (at worst {behind:.1e} of the objective) and takes less "
            f"time (median ratio {faster:.1f})"
        ] = behind < 1e-3 and faster > 1
    return found


def _choices(chosen: dict[str, dict[str, float]]) -> list[str]:
    return [
        f"Chosen for {task}: "
        + ", ".join(f"{name} {strength:g}" for name, strength in own.items() if name != ALONE)
        + "."
        for task, own in chosen.items()
    ]


def _figure(fits: Sequence[Fit]) -> Any:
    many = where(fits, task=MANY)
    names = list(group(many, "method"))
    seconds = [
        Line(name, [fit.rules for fit in own], [fit.seconds for fit in own], colour=k, style=k)
        for k, (name, own) in enumerate(group(many, "method").items())
    ]
    panels = [Panel("Noun phrases: cost of constraints", "constraints", "seconds of processor", seconds)]
    for task, sizes in LABELLED.items():
        lines = []
        for k, name in enumerate(names):
            lines.append(Line(name, sizes, [_mean(fits, task, name, labelled=n) for n in sizes], colour=k, style=k))
        panels.append(Panel(task, "labelled", "test", lines))
    figure = draw_panels(panels, title="Posterior regularisation and its relatives")
    figure.axes[0].set_xscale("log")
    figure.axes[0].set_yscale("log")
    return figure
