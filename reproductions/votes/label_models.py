"""Labels from weak votes: crowds and rules, beside majority vote and the label models of other packages.

* No paper prints these numbers together. Crowds (bluebird, RTE, dog, TREC) are learnt from whole and judged on the
  items whose truth is known. Rules are those of the WRENCH benchmark (youtube, SMS, TREC questions): votes of the
  training part are learnt from, labels of no part are.
* Ours are the defaults, the same for all sets. They were chosen by the likelihood of votes left out (crowds, some 60
  settings) and on validation parts (rules some 180, features some 200); test figures of rules were looked at twice, of
  features four times on the way.
* A method that ties k classes is right by 1/k where the truth is among them; where it says nothing, by one over the
  number of classes. Majority vote ties often, its share of ties is shown.
* Packages run with their defaults. Those of crowd-kit label only what they learn from and get the votes of all parts.
  Methods with random starts are run with each seed, and shown as mean and standard deviation.
* Features: words, punctuation and pairs of them, TF-IDF with logarithmic counts, logistic regression with C = 10 on
  the training items that have a vote. Majority labels are hard, and a tie is shared; posteriors are soft labels, those
  of a class weighted by the square root of a ratio: of half its share and half an even one, over its share.
  "Spectrem" is the classifier that `LabelModel` trains on the same features in one call.
* Pairs are compared by a sign test over items with truth, which is McNemar's exact test where nothing is shared. The
  best peer is the one that is best on the very items, by its first seed.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from reproductions.figures import BarPanel, draw_bars
from reproductions.records import group, spread, where
from reproductions.report import Report, Table, bullets, listing, percent, tell
from reproductions.votes import peers as peers_script
from reproductions.votes.sets import VoteSet, read_crowd, read_rules
from spectrem import LabelModel
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import SignTest, sign_test

CROWDS = ("crowd-bluebird", "crowd-rte", "crowd-dog", "crowd-trec")
RULES = ("youtube", "sms", "trec")
QUICK = {"crowds": CROWDS[:1], "rules": RULES[:1], "seeds": 1}
MAJORITY, OURS, OURS_LOGISTIC = "majority", "Spectrem", "Spectrem, logistic regression"
VOTES, FEATURES = "votes", "features"
GOALS = {
    **{("crowd-bluebird", "all", VOTES): (88.9, 90.5), ("crowd-rte", "all", VOTES): (92.8, 93.1)},
    **{("crowd-dog", "all", VOTES): (84.0, 84.5), ("crowd-trec", "all", VOTES): (70.4, 71.2)},
    **{("youtube", "test", VOTES): (84.0, 87.0), ("trec", "valid", VOTES): (54.0, 58.0)},
    ("trec", "test", VOTES): (62.0, 66.0),
}
"""Figures that are to be reached at least, and those that were hoped for, in per cent."""
GAINS = {"youtube": (2.0, 4.0), "sms": (1.0, 5.0), "trec": (1.0, 6.0)}
"""The same of features, over logistic regression on majority labels."""

Floats = NDArray[np.float64]


class Outcome(NamedTuple):
    """One method on one part of a set; ``figure`` is accuracy, or F1 of SMS with features, in per cent."""

    set: str
    part: str
    by: str
    method: str
    seed: int
    items: int
    figure: float
    tied: float


class Compared(NamedTuple):
    """Ours against another method, item by item."""

    set: str
    part: str
    by: str
    other: str
    test: SignTest


def run(
    data: str | Path | None = None,
    *,
    crowds: Sequence[str] = CROWDS,
    rules: Sequence[str] = RULES,
    seeds: int = 5,
    peers: str | Path | None = None,
    threads: int | None = None,
) -> Report:
    """Label all sets in all ways, and compare.

    Parameters
    ----------
    data : path, optional
        See `find_folder`.
    crowds, rules : sequence of str
        Folders in ``weak``.
    seeds : int
        Of methods with random starts.
    peers : path, optional
        The Python of an environment that has other packages; by default what the environment variable SPECTREM_PEERS
        names. They are left out where there is none.
    threads : int, optional
    """
    sets = [*(read_crowd(data, name) for name in crowds), *(read_rules(data, name) for name in rules)]
    python = peers or os.environ.get("SPECTREM_PEERS")
    theirs, about = ({}, {}) if python is None else run_peers(sets, Path(python), seeds)
    outcomes: list[Outcome] = []
    compared: list[Compared] = []
    seconds: dict[tuple[str, str], float] = {
        tuple(name.split("/")): value for name, value in about.get("seconds", {}).items()
    }
    for one in sets:
        tables = {(MAJORITY, 0): majority(one.votes, one.n_classes)}
        started = time.process_time()
        tables[OURS, 0] = posteriors(one, threads)
        seconds[one.name, OURS] = round(time.process_time() - started, 1)
        tables |= {key[1:]: _filled(table) for key, table in theirs.items() if key[0] == one.name}
        credits = {key: _judge(one, VOTES, *key, table, outcomes) for key, table in tables.items()}
        _compare(one, VOTES, credits, outcomes, compared)
        tell(f"{one.name}: labelled by votes")
        if one.fitted.texts:
            credits = {}
            for (method, seed), table in tables.items():
                if seed == 0:
                    labels = np.eye(one.n_classes)[classify(one, table, hard=method == MAJORITY)]
                    name = OURS_LOGISTIC if method == OURS else method
                    credits[name, 0] = _judge(one, FEATURES, name, 0, labels, outcomes)
            labels = np.eye(one.n_classes)[learn_with_features(one, threads)]
            credits[OURS, 0] = _judge(one, FEATURES, OURS, 0, labels, outcomes)
            _compare(one, FEATURES, credits, outcomes, compared)
            tell(f"{one.name}: labelled by features")
    return Report(
        title="Labels from weak votes: crowds and rules",
        tables=[
            _figures("Votes alone: accuracy, %", outcomes, VOTES),
            *([_figures("With features: accuracy, % (SMS: F1)", outcomes, FEATURES)] if rules else []),
            _tests(compared),
            _goals(outcomes),
            _ties(outcomes),
            *_about(about, seconds),
        ],
        numbers=listing(outcomes),
        figure=_figure(outcomes),
        claims=_claims(outcomes, compared),
        notes=bullets(__doc__),
        headings=("What was asked", "How it was measured"),
    )


# ---- methods --------------------------------------------------------------------------------------------------------


def majority(votes: NDArray[np.int16], n_classes: int) -> Floats:
    """The classes with most votes, which share 1 where they tie; an item without votes is of all.

    Examples
    --------
    >>> majority(np.array([[0, 0, 1], [0, 1, -1], [-1, -1, -1]], np.int16), 2).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]
    """
    counts = (votes[:, :, None] == np.arange(n_classes)).sum(axis=1)
    best = counts == counts.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def posteriors(one: VoteSet, threads: int | None = None) -> Floats:
    """Ours, of the items of all parts."""
    model = LabelModel(classes=range(one.n_classes), n_threads=threads).fit(one.fitted.votes)
    return np.asarray(model.predict_proba(one.votes))


def learn_with_features(one: VoteSet, threads: int | None = None) -> NDArray[np.int64]:
    """Classes of the texts of all parts, by the classifier that our label model trains in the same call."""
    x, n = features(one), len(one.fitted.y)
    model = LabelModel(classes=range(one.n_classes), n_threads=threads).fit(one.fitted.votes, X=x[:n])
    return np.asarray(model.predict(X=x))


def features(one: VoteSet) -> Any:
    """Words, punctuation and pairs of them in the texts of all parts, those that the training part has."""
    texts = [text for items in one.parts.values() for text in items.texts]
    words = TfidfVectorizer(token_pattern=r"\w+|[^\w\s]+", ngram_range=(1, 2), sublinear_tf=True)
    return words.fit(one.fitted.texts).transform(texts)


def classify(one: VoteSet, table: Floats, *, hard: bool) -> NDArray[np.int64]:
    """Classes of the texts of all parts, by a logistic regression on the labels of the training part.

    Parameters
    ----------
    one : VoteSet
    table : ndarray of shape (n_items, n_classes)
        Probabilities of classes, of which those of the training part are learnt from.
    hard : bool
        Whether they are labels, with 1/k where k tie, and are not weighted.
    """
    rows, x = np.flatnonzero((one.fitted.votes >= 0).any(axis=1)), features(one)
    weights = table[rows]
    if not hard:
        mean = weights.mean(axis=0)
        weights = weights * np.sqrt((0.5 * mean + 0.5 / one.n_classes) / np.maximum(mean, 1e-12))
    row, label = np.nonzero(weights > 1e-3)
    model = LogisticRegression(C=10.0, max_iter=2000)
    return np.asarray(model.fit(x[rows[row]], label, weights[row, label]).predict(x))


def run_peers(
    sets: Sequence[VoteSet], python: Path, seeds: int
) -> tuple[dict[tuple[Any, ...], Floats], dict[str, Any]]:
    """Posteriors of other packages by set, method and seed, and what was run: see `reproductions.votes.peers`."""
    if not python.is_file():
        raise InvalidInputError(f"peers must be the Python of an environment with other packages, got {python}")
    with tempfile.TemporaryDirectory() as folder:
        votes, found = (os.path.join(folder, f"{name}.npz") for name in ("votes", "posteriors"))
        arrays = {f"{one.name}/votes": one.votes for one in sets}
        arrays |= {f"{one.name}/n_fit": np.array(len(one.fitted.votes)) for one in sets}
        np.savez_compressed(votes, **arrays)  # type: ignore[arg-type]
        command = [str(python), str(peers_script.__file__), votes, found, str(seeds)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        tables = {}
        for name, table in np.load(found).items():
            of_set, method, seed = name.split("/")
            tables[of_set, method, int(seed)] = table
        return tables, json.loads(done.stdout.splitlines()[-1])


def _filled(table: Floats) -> Floats:
    """With even probabilities where a package has no answer, and none for classes it never saw."""
    nothing = np.isnan(table).all(axis=1, keepdims=True)
    return np.where(nothing, 1.0 / table.shape[1], np.nan_to_num(table))


# ---- judgement ------------------------------------------------------------------------------------------------------


def credit(table: Floats, y: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
    """How right every item is, 1 / k where k classes tie, and whether some do.

    Examples
    --------
    >>> credit(np.array([[0.5, 0.5], [0.9, 0.1], [0.9, 0.1]]), np.array([1, 0, 1]))[0].tolist()
    [0.5, 1.0, 0.0]
    """
    top = table >= table.max(axis=1, keepdims=True) - 1e-12
    return top[np.arange(len(y)), y] / top.sum(axis=1), top.sum(axis=1) > 1


def _judge(one: VoteSet, by: str, method: str, seed: int, table: Floats, outcomes: list[Outcome]) -> dict[str, Floats]:
    """Add the outcomes on every part that is judged; how right items are, by part."""
    credits, first = {}, 0
    for part, items in one.parts.items():
        here, first = table[first : first + len(items.y)], first + len(items.y)
        if part == "train":
            continue
        known = items.y >= 0
        credits[part], tied = credit(here[known], items.y[known])
        figure = f1(here.argmax(axis=1) == 1, items.y == 1) if (one.name, by) == ("sms", FEATURES) else None
        share = float(credits[part].mean()) if figure is None else figure
        outcomes.append(
            Outcome(one.name, part, by, method, seed, int(known.sum()), percent(share), percent(float(tied.mean())))
        )
    return credits


def f1(found: NDArray[np.bool_], gold: NDArray[np.bool_]) -> float:
    """Twice the right ones over those found and those there are.

    Examples
    --------
    >>> f1(np.array([True, True, False]), np.array([True, False, False]))
    0.6666666666666666
    """
    return float(2 * (found & gold).sum() / max(1, found.sum() + gold.sum()))


def _compare(
    one: VoteSet,
    by: str,
    credits: Mapping[tuple[str, int], Mapping[str, Floats]],
    outcomes: Sequence[Outcome],
    compared: list[Compared],
) -> None:
    """Add the tests of ours against majority, and against the best peer."""
    for part in credits[OURS, 0]:
        mine = where(outcomes, set=one.name, part=part, by=by, seed=0)
        others = [outcome for outcome in mine if outcome.method not in (MAJORITY, OURS, OURS_LOGISTIC)]
        names = [MAJORITY, *([max(others, key=lambda outcome: outcome.figure).method] if others else [])]
        for other in names:
            test = sign_test(credits[OURS, 0][part], credits[other, 0][part])
            compared.append(Compared(one.name, part, by, other, test))


# ---- the report -----------------------------------------------------------------------------------------------------


def _figures(title: str, outcomes: Sequence[Outcome], by: str) -> Table:
    """A row for every method, a column for every part."""
    here = where(outcomes, by=by)
    columns = list(group(here, "set", "part"))
    rows: list[tuple[Any, ...]] = []
    for method in group(here, "method"):
        cells = []
        for of_set, part in columns:
            runs = where(here, set=of_set, part=part, method=method)
            mean, deviation = spread(runs, "figure", ddof=1) if runs else (None, 0.0)
            cells.append("" if mean is None else f"{mean:.1f}" + (f" ± {deviation:.1f}" if len(runs) > 1 else ""))
        rows.append((method, *cells))
    for number, name in enumerate(("must", "aim")):
        goals = [_goal(outcomes, of_set, part, by) for of_set, part in columns]
        rows.append((name, *("" if goal is None else f"{goal[number]:.1f}" for goal in goals)))
    return Table(title, ("method", *(f"{of_set.removeprefix('crowd-')} {part}" for of_set, part in columns)), rows)


def _goal(outcomes: Sequence[Outcome], of_set: str, part: str, by: str) -> tuple[float, float] | None:
    if by == VOTES or part != "test" or of_set not in GAINS:
        return GOALS.get((of_set, part, by))
    base = where(outcomes, set=of_set, part=part, by=by, method=MAJORITY)[0].figure
    return base + GAINS[of_set][0], base + GAINS[of_set][1]


def _tests(compared: Sequence[Compared]) -> Table:
    rows = [
        (
            *(f"{one.set.removeprefix('crowd-')} {one.part}", one.by, one.other),
            *(one.test.n_first, one.test.n_second, float(f"{one.test.p_value:.2g}")),
        )
        for one in compared
    ]
    columns = ("", "by", "against", "ours better, items", "other better, items", "p")
    return Table("Spectrem against majority and the best peer", columns, rows)


def _goals(outcomes: Sequence[Outcome]) -> Table:
    rows = []
    for of_set, part, by in group(outcomes, "set", "part", "by"):
        goal = _goal(outcomes, of_set, part, by)
        if goal is not None:
            mine = where(outcomes, set=of_set, part=part, by=by, method=OURS)[0].figure
            least = [f"{mine - one:+.1f}" for one in goal]
            rows.append((f"{of_set.removeprefix('crowd-')} {part}", by, f"{mine:.1f}", *least))
    return Table("Spectrem and what was asked", ("", "by", "ours", "over must", "over aim"), rows)


def _ties(outcomes: Sequence[Outcome]) -> Table:
    here = where(outcomes, by=VOTES, seed=0)
    rows = [
        (f"{of_set.removeprefix('crowd-')} {part}", runs[0].items, runs[0].tied, runs[1].tied)
        for (of_set, part), runs in group(here, "set", "part").items()
    ]
    return Table("Items with truth, and per cent of them tied", ("", "items", MAJORITY, OURS), rows)


def _about(about: Mapping[str, Any], seconds: Mapping[tuple[str, str], float]) -> list[Table]:
    """Times, and what is known of packages."""
    names = list(dict.fromkeys(of_set for of_set, _ in seconds))
    methods = list(dict.fromkeys(method for _, method in seconds))
    rows = [(method, *(seconds.get((name, method)) for name in names)) for method in methods]
    tables = [Table("Processor seconds, all seeds", ("method", *names), rows)]
    packages = [(*one, "") for one in about.get("versions", {}).items()]
    packages += [(name, "", why) for name, why in about.get("failures", {}).items()]
    if packages:
        tables.append(Table("Other packages", ("package", "version", "not run since"), packages))
    return tables


def _claims(outcomes: Sequence[Outcome], compared: Sequence[Compared]) -> dict[str, bool]:
    claims = {}
    for of_set, part, by in group(outcomes, "set", "part", "by"):
        goal = _goal(outcomes, of_set, part, by)
        if goal is not None:
            mine = where(outcomes, set=of_set, part=part, by=by, method=OURS)[0].figure
            claims[f"{of_set}, {part}, {by}: at least {goal[0]:.1f} ({mine:.1f})"] = mine >= round(goal[0], 1) - 0.05
    worse = [
        one
        for one in compared
        if one.other == MAJORITY and one.test.n_first < one.test.n_second and one.test.p_value < 0.05
    ]
    listed = ", ".join(f"{one.set} {one.part} by {one.by}" for one in worse) or "nowhere"
    claims[f"Never below majority vote beyond noise (p < .05: {listed})"] = not worse
    return claims


def _figure(outcomes: Sequence[Outcome]) -> Any:
    panels = []
    for by, title in ((VOTES, "Votes alone"), (FEATURES, "With features")):
        here = [outcome for outcome in where(outcomes, by=by) if outcome.part != "valid"]
        if here:
            names, bars = list(group(here, "set")), {}
            for method in group(here, "method"):
                each = [spread(where(here, set=name, method=method), "figure", ddof=1) for name in names]
                bars[method] = ([one.mean for one in each], [one.deviation for one in each])
            groups = [name.removeprefix("crowd-") for name in names]
            panels.append(BarPanel(title, "accuracy, % (SMS with features: F1)", groups, bars))
    return draw_bars(panels, title="Labels from weak votes", n_columns=1, width=9)
