"""Labels from weak votes: crowds, rules and spans, beside majority vote and the label models of other packages.

* No paper prints these numbers together. Crowds (bluebird, RTE, dog, TREC) are learnt from whole and judged on the
  items whose truth is known. Rules are those of the WRENCH benchmark (youtube, SMS, TREC questions), and so are
  dictionaries and patterns that mark spans (WikiGold, LaptopReview, NCBI-Disease): votes of the training part are
  learnt from, labels of no part are.
* Ours are the defaults, the same for all sets. They were chosen by the likelihood of votes left out (crowds, some 60
  settings) and on validation parts (rules some 180, features some 200, spans some 120, CRFs some 75); test figures of
  rules were looked at twice, of features four times, of spans five times, of CRFs four times on the way, three of them
  with C = 10 (57.0, 60.5 and 73.3 by ours; 52.2, 60.0 and 71.4 by majority).
* A method that ties k classes is right by 1/k where the truth is among them; where it says nothing, by one over the
  number of classes. Majority vote ties often, its share of ties is shown. Of the tags of a token that tie, those with I
  are taken, or those with B, and then the first type by name.
* Packages run with their defaults. Those of crowd-kit label only what they learn from and get the votes of all parts.
  Methods with random starts are run with each seed, and shown as mean and standard deviation.
* Features: words, punctuation and pairs of them, TF-IDF with logarithmic counts, logistic regression with C = 10 on
  the training items that have a vote. Majority labels are hard, and a tie is shared; posteriors are soft labels, those
  of a class weighted by the square root of a ratio: of half its share and half an even one, over its share.
  "Spectrem" is the classifier that `LabelModel` trains on the same features in one call.
* Spans are right where tokens and type are, as conlleval counts them, and figures are F1 of all sentences of a part.
  Steps are those of EM; the default is 5. CRFs are `CRFTagger("words", scheme="bio")`, which sees text alone,
  trained on the posteriors of ours and on the tags of the others.
* Pairs are compared by a sign test over items with truth, which is McNemar's exact test where nothing is shared; of
  spans over the F1 of sentences, 1 where there are no spans and none are found. The best peer is the one that is best
  on the very items, by its first seed.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.figures import BarPanel, draw_bars
from reproductions.records import Spread, group, spread, where
from reproductions.report import Report, Table, bullets, listing, percent, tell
from reproductions.votes import peers as peers_script
from reproductions.votes.methods import (
    Floats,
    Taggings,
    classify,
    label_sentences,
    learn_with_features,
    majority,
    majority_tags,
    posteriors,
    train_tagger,
)
from reproductions.votes.sets import SentenceSet, VoteSet, read_crowd, read_rules, read_sentences
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import SignTest, chunk_scores, sign_test

CROWDS = ("crowd-bluebird", "crowd-rte", "crowd-dog", "crowd-trec")
RULES = ("youtube", "sms", "trec")
SENTENCES = ("wikigold", "LaptopReview", "NCBI-Disease")
QUICK = {"sets": (*CROWDS[:1], *RULES[:1], *SENTENCES[1:2]), "seeds": 1}
MAJORITY, OURS, OURS_LOGISTIC = "majority", "Spectrem", "Spectrem, logistic regression"
TIES_TO_B, TIES_TO_I = "majority, ties to B", "majority, ties to I"
STEPS = (2, 15)
VOTES, FEATURES, SPANS, CRF = "votes", "features", "votes for spans", "CRF"
TITLES = {
    **{VOTES: "Votes alone: accuracy, %", FEATURES: "With features: accuracy, % (SMS: F1)"},
    **{SPANS: "Votes for spans alone: F1, %", CRF: "CRFs of text alone: F1 of spans, %"},
}
GOALS = {
    **{("crowd-bluebird", "all", VOTES): (88.9, 90.5), ("crowd-rte", "all", VOTES): (92.8, 93.1)},
    **{("crowd-dog", "all", VOTES): (84.0, 84.5), ("crowd-trec", "all", VOTES): (70.4, 71.2)},
    **{("youtube", "test", VOTES): (84.0, 87.0), ("trec", "valid", VOTES): (54.0, 58.0)},
    **{("trec", "test", VOTES): (62.0, 66.0), ("wikigold", "test", SPANS): (57.0, 62.0)},
    **{("LaptopReview", "test", SPANS): (72.5, 74.0), ("NCBI-Disease", "test", SPANS): (77.0, 79.0)},
}
"""Figures that are to be reached at least, and those that were hoped for, in per cent."""
GAINS = {"youtube": (2.0, 4.0), "sms": (1.0, 5.0), "trec": (1.0, 6.0)}
"""The same of features, over logistic regression on majority labels."""
CRF_GAIN, CRF_AIMS = 1.0, {"wikigold": 60.0, "LaptopReview": 66.0, "NCBI-Disease": 76.0}
"""What a CRF is to gain at least over the same on majority tags, ties to I, and what was hoped for."""


class Outcome(NamedTuple):
    """One method on one part of a set; ``figure`` is accuracy, or F1 of SMS with features and of spans, in per cent.

    ``items`` are sentences where spans are marked, of which ``tied`` says nothing.
    """

    set: str
    part: str
    by: str
    method: str
    seed: int
    items: int
    figure: float
    tied: float | None = None


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
    sets: Sequence[str] = (*CROWDS, *RULES, *SENTENCES),
    seeds: int = 5,
    peers: str | Path | None = None,
    threads: int | None = None,
) -> Report:
    """Label all sets in all ways, and compare.

    Parameters
    ----------
    data : path, optional
        See `find_folder`.
    sets : sequence of str
        Folders in ``weak``.
    seeds : int
        Of methods with random starts.
    peers : path, optional
        The Python of an environment that has other packages; by default what the environment variable SPECTREM_PEERS
        names. They are left out where there is none.
    threads : int, optional
    """
    known = (*CROWDS, *RULES, *SENTENCES)
    if wrong := [name for name in sets if name not in known]:
        raise InvalidInputError(f"sets must be among {', '.join(known)}, got {', '.join(wrong)}")
    items = [
        (read_crowd if name in CROWDS else read_rules)(data, name) for name in known if name in {*sets} - {*SENTENCES}
    ]
    sentences = [read_sentences(data, name) for name in SENTENCES if name in sets]
    python = peers or os.environ.get("SPECTREM_PEERS")
    theirs, about = ({}, {}) if python is None else run_peers([*items, *sentences], Path(python), seeds)
    outcomes: list[Outcome] = []
    compared: list[Compared] = []
    seconds: dict[tuple[str, str], float] = {
        tuple(name.split("/")): value for name, value in about.get("seconds", {}).items()
    }
    for one in items:
        of_peers = {key[1:]: table for key, table in theirs.items() if key[0] == one.name}
        seconds[one.name, OURS] = _label_items(one, of_peers, threads, outcomes, compared)
    for each in sentences:
        taggings = {key[1]: tags for key, tags in theirs.items() if key[0] == each.name}
        seconds[each.name, OURS] = _label_sentences(each, taggings, threads, outcomes, compared)
    return Report(
        title="Labels from weak votes: crowds, rules and spans",
        tables=[
            *(_figures(title, outcomes, by) for by, title in TITLES.items() if where(outcomes, by=by)),
            *(_tests(compared), _goals(outcomes)),
            *([_ties(outcomes)] if items else []),
            *_about(about, seconds),
        ],
        numbers=listing(outcomes),
        figure=_figure(outcomes),
        claims=_claims(outcomes, compared),
        notes=bullets(__doc__),
        headings=("What was asked", "How it was measured"),
    )


def _label_items(
    one: VoteSet,
    theirs: Mapping[tuple[str, int], Floats],
    threads: int | None,
    outcomes: list[Outcome],
    compared: list[Compared],
) -> float:
    """Add outcomes and tests of a crowd or of rules; processor seconds of our label model."""
    tables = {(MAJORITY, 0): majority(one.votes, one.n_classes)}
    started = time.process_time()
    tables[OURS, 0] = posteriors(one, threads)
    used = round(time.process_time() - started, 1)
    tables |= {key: _filled(table) for key, table in theirs.items()}
    credits = {key: _judge(one, VOTES, *key, table, outcomes) for key, table in tables.items()}
    _compare(one.name, VOTES, credits, outcomes, compared)
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
        _compare(one.name, FEATURES, credits, outcomes, compared)
        tell(f"{one.name}: labelled by features")
    return used


def _label_sentences(
    one: SentenceSet,
    theirs: Mapping[str, Mapping[str, Taggings]],
    threads: int | None,
    outcomes: list[Outcome],
    compared: list[Compared],
) -> float:
    """Add outcomes and tests of spans; processor seconds of our label model."""
    started = time.process_time()
    ours = label_sentences(one, threads)
    used = round(time.process_time() - started, 1)
    models = {OURS: ours}
    models |= {f"{OURS}, {steps} steps": label_sentences(one, threads, max_iter=steps) for steps in STEPS}
    taggings = {
        name: {part: majority_tags(part_of, ours.tags_, first) for part, part_of in one.parts.items()}
        for name, first in ((TIES_TO_I, "I"), (TIES_TO_B, "B"))
    }
    for name, model in models.items():
        taggings[name] = {part: model.predict(some.words, some.votes) for part, some in one.parts.items()}
    taggings |= {name: dict(tags) for name, tags in theirs.items()}
    credits = {(name, 0): _judge_spans(one, SPANS, name, tags, outcomes) for name, tags in taggings.items()}
    _compare(one.name, SPANS, credits, outcomes, compared)
    tell(f"{one.name}: labelled by votes")
    credits = {}
    for name, tags in taggings.items():
        if name == OURS or name not in models:
            labels = ours.label_distributions_ if name == OURS else tags["train"]
            tagger = train_tagger(one, labels, ours.tags_, threads)
            found: Any = {part: tagger.predict(some.words) for part, some in one.parts.items() if part != "train"}
            credits[name, 0] = _judge_spans(one, CRF, name, found, outcomes)
    _compare(one.name, CRF, credits, outcomes, compared)
    tell(f"{one.name}: labelled by CRFs")
    return used


# ---- other packages -------------------------------------------------------------------------------------------------


def run_peers(
    sets: Sequence[VoteSet | SentenceSet], python: Path, seeds: int
) -> tuple[dict[tuple[str, str, int], Any], dict[str, Any]]:
    """Labels of other packages by set, method and seed, and what was run: see `reproductions.votes.peers`.

    Labels of items are posteriors; of sentences they are tags by part.
    """
    if not python.is_file():
        raise InvalidInputError(f"peers must be the Python of an environment with other packages, got {python}")
    with tempfile.TemporaryDirectory() as folder:
        votes, labels = (os.path.join(folder, f"{name}.npz") for name in ("votes", "labels"))
        arrays: dict[str, Any] = {}
        for one in sets:
            of_set = {"votes": one.votes, "n_fit": len(one.fitted.votes)} if isinstance(one, VoteSet) else encode(one)
            arrays |= {f"{one.name}/{name}": np.array(value) for name, value in of_set.items()}
        np.savez_compressed(votes, **arrays)
        command = [str(python), str(peers_script.__file__), votes, labels, str(seeds)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        answers = {}
        for name, table in np.load(labels).items():
            of_set, method, seed = name.split("/")
            one = next(one for one in sets if one.name == of_set)
            answers[of_set, method, int(seed)] = table if isinstance(one, VoteSet) else decode(one, table)
        return answers, json.loads(done.stdout.splitlines()[-1])


def encode(one: SentenceSet) -> dict[str, Any]:
    """Votes on all tokens as `reproductions.votes.peers` takes them."""
    tables = [table for part in one.parts.values() for table in part.votes]
    number = {None: -1, "O": -1} | {tag: k for k, tag in enumerate(one.tags) if tag != "O"}
    return {
        "votes": np.vectorize(number.__getitem__, otypes=[np.int16])(np.concatenate(tables)),
        "n_fit": len(one.fitted.words),
        "lengths": [len(table) for table in tables],
        "tags": one.tags,
        "sources": one.fitted.sources,
    }


def decode(one: SentenceSet, numbers: NDArray[np.int64]) -> dict[str, Taggings]:
    """Tags by part, from their numbers on all tokens."""
    remaining = iter(np.array(one.tags, object)[numbers])
    return {part: [list(islice(remaining, len(words))) for words in some.words] for part, some in one.parts.items()}


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


def _judge_spans(
    one: SentenceSet, by: str, method: str, taggings: Mapping[str, Taggings], outcomes: list[Outcome]
) -> dict[str, Floats]:
    """Add the outcomes on every part that is judged; F1 of sentences, by part."""
    credits = {}
    for part, some in one.parts.items():
        if part != "train":
            gold = [tags or [] for tags in some.tags]
            each = [chunk_scores([tags], [right]).f1 for tags, right in zip(taggings[part], gold, strict=True)]
            credits[part] = np.nan_to_num(each, nan=1.0)
            figure = percent(chunk_scores(taggings[part], gold).f1)
            outcomes.append(Outcome(one.name, part, by, method, 0, len(gold), figure))
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
    of_set: str,
    by: str,
    credits: Mapping[tuple[str, int], Mapping[str, Floats]],
    outcomes: Sequence[Outcome],
    compared: list[Compared],
) -> None:
    """Add the tests of ours against majority, and against the best peer."""
    for part in credits[OURS, 0]:
        others = [
            outcome
            for outcome in where(outcomes, set=of_set, part=part, by=by, seed=0)
            if not outcome.method.startswith((MAJORITY, OURS))
        ]
        names = [name for name, _ in credits if name.startswith(MAJORITY)]
        names += [max(others, key=lambda outcome: outcome.figure).method] if others else []
        for other in names:
            test = sign_test(credits[OURS, 0][part], credits[other, 0][part])
            compared.append(Compared(of_set, part, by, other, test))


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
    if by not in (FEATURES, CRF) or part != "test":
        return GOALS.get((of_set, part, by))
    method = MAJORITY if by == FEATURES else TIES_TO_I
    base = where(outcomes, set=of_set, part=part, by=by, method=method)[0].figure
    if by == CRF:
        return base + CRF_GAIN, CRF_AIMS[of_set]
    return base + GAINS[of_set][0], base + GAINS[of_set][1]


def _tests(compared: Sequence[Compared]) -> Table:
    rows = [
        (
            *(f"{one.set.removeprefix('crowd-')} {one.part}", one.by, one.other),
            *(one.test.n_first, one.test.n_second, float(f"{one.test.p_value:.2g}")),
        )
        for one in compared
    ]
    columns = ("", "by", "against", "ours better, times", "other better, times", "p")
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
        if one.other.startswith(MAJORITY) and one.test.n_first < one.test.n_second and one.test.p_value < 0.05
    ]
    listed = ", ".join(f"{one.set} {one.part} by {one.by}" for one in worse) or "nowhere"
    claims[f"Never below majority vote beyond noise (p < .05: {listed})"] = not worse
    return claims


def _figure(outcomes: Sequence[Outcome]) -> Any:
    panels = []
    for by, title in TITLES.items():
        here = [outcome for outcome in where(outcomes, by=by) if outcome.part != "valid"]
        if here:
            names, bars = list(group(here, "set")), {}
            for method in group(here, "method"):
                runs = [where(here, set=name, method=method) for name in names]
                each = [spread(some, "figure", ddof=1) if some else Spread(math.nan, 0.0) for some in runs]
                bars[method] = ([one.mean for one in each], [one.deviation for one in each])
            name, _, unit = title.partition(": ")
            panels.append(BarPanel(name, unit, names, bars))
    return draw_bars(panels, title="Labels from weak votes", n_columns=1, width=11.5)
