"""Gamma of the aligner chosen without gold links, by several rules, beside the one that gold links choose.

* No paper's experiment: it asks whether a rule may choose gamma, as `spectrem.metrics.expected_f1_threshold` chooses
  the threshold.
* Every aligner is trained and decoded at one gamma, with the defaults otherwise; its threshold is the automatic one.
* Gold links are those of development alone: 37 sentences of the Hansards, the first 100 of Europarl's test, the first
  50 of each Golden Collection, which is trained on alone or with a part of another corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproductions.figures import curves
from reproductions.places import find_folder
from reproductions.records import group
from reproductions.report import Report, Table, bullets, listing, percent, tell
from spectrem.data import Bitext, Links, read_bitext, read_links
from spectrem.estimators import WordAligner
from spectrem.metrics import alignment_scores
from spectrem.plotting import Panel, draw_panels

QUICK = {"size": 300}
GAMMAS = (0.3, 0.5, 0.7, 1.0, 1.4)
SAMPLE = 500
"""Sentence pairs of the training text that the rules look at."""

HANSARDS, EUROPARL = "hansards-enfr", "europarl-enes"
SETS: dict[str, tuple[str | None, str, str, str, int]] = {
    "Hansards": (HANSARDS, HANSARDS, "dev", "fr", 37),
    "Europarl": (EUROPARL, EUROPARL, "test", "es", 100),
    "Golden En-Es with Europarl": (EUROPARL, "golden-enes", "test", "es", 50),
    "Golden En-Fr with the Hansards": (HANSARDS, "golden-enfr", "test", "fr", 50),
    "Golden En-Es": (None, "golden-enes", "test", "es", 50),
    "Golden En-Fr": (None, "golden-enfr", "test", "fr", 50),
    "Golden En-Pt": (None, "golden-enpt", "test", "pt", 50),
}
"""The corpus before the sentences with gold links, their folder and file, the other language, how many are for dev."""

FILES = tuple(
    dict.fromkeys(
        name
        for corpus, folder, part, language, _ in SETS.values()
        for name in (
            *((f"{corpus}/train.en.gz", f"{corpus}/train.{language}.gz") if corpus else ()),
            *(f"{folder}/{part}.{ending}" for ending in ("en", language, "align")),
        )
    )
)


class Tried(NamedTuple):
    """One gamma on one set: AER (a share) on dev, and what every rule says of it, greater being better."""

    set: str
    gamma: float
    threshold: float
    aer: float
    own_f1: float
    f1_at_gamma_1: float
    f1_of_all: float
    f1_held_out: float
    halves_agree: float


RULES = {
    "own_f1": "own",
    "f1_at_gamma_1": "gamma 1",
    "f1_of_all": "all gammas",
    "f1_held_out": "held out",
    "halves_agree": "halves agree",
}


class Text(NamedTuple):
    """A training text, and the sentences with gold links in it."""

    bitext: Bitext
    gold: Links
    first: int


def run(data: Path | None = None, size: int = 10_000, *, threads: int | None = None) -> Report:
    """Train at every gamma on every set, and on halves of it; ask every rule for the best gamma.

    Parameters
    ----------
    data : path, optional
        Folder of the corpora, or one that holds it as ``align``.
    size : int
        Pairs of the corpus that comes before sentences with gold links, at most.
    threads : int, optional
    """
    folder = find_folder(data, FILES, "align")
    tried: list[Tried] = []
    for name in SETS:
        tried += _try(name, _read(folder, name, size), threads)
        tell(f"{name}: best gamma {min(tried[-len(GAMMAS) :], key=lambda one: one.aer).gamma:g}")
    chosen = {rule: _chosen(tried, lambda one, rule=rule: getattr(one, rule)) for rule in RULES}
    gold = _chosen(tried, lambda one: -one.aer)
    fixed = {f"{gamma:g}": [one for one in tried if one.gamma == gamma] for gamma in GAMMAS}
    by_set = group(tried, "set")
    return Report(
        title=f"Gamma without gold links: AER on dev, up to {size:,} pairs of another corpus first",
        tables=[
            Table(
                "gamma that every rule chooses, and its AER (%)",
                ("set", "gold links", "AER", *(x for rule in RULES.values() for x in (rule, "AER"))),
                [
                    (name, *_cells(gold[k]), *(x for rule in RULES for x in _cells(chosen[rule][k])))
                    for k, name in enumerate(by_set)
                ],
            ),
            Table(
                "mean AER (%) of all sets",
                ("choice", "AER", "most above gold links' choice"),
                [
                    (choice, percent(_mean(own)), percent(max(a.aer - b.aer for a, b in zip(own, gold, strict=True))))
                    for choice, own in {
                        "gold links": gold,
                        **{f"rule: {RULES[rule]}": own for rule, own in chosen.items()},
                        **{f"always {gamma}": own for gamma, own in fixed.items()},
                    }.items()
                ],
            ),
        ],
        numbers=listing(tried),
        figure=_figure(tried),
        claims={
            f"The rule '{RULES[rule]}' is better than always 1, on the average": _mean(own) < _mean(fixed["1"])
            for rule, own in chosen.items()
        },
        notes=[
            *bullets(__doc__),
            "Rules: expected F1 of an aligner's links, under its own posteriors ('own'), under those of gamma 1, under "
            "the mean of those of all gammas, and under those of gamma 1 trained on the other half of the text ('held "
            "out'); F1 of the links of two aligners, each trained on a half ('halves agree').",
        ],
        headings=("Whether a rule is of use", "What it is"),
    )


def _read(folder: Path, name: str, size: int) -> Text:
    corpus, place, part, language, n_dev = SETS[name]
    dev = read_bitext(folder / place / f"{part}.en", folder / place / f"{part}.{language}")
    gold = read_links(folder / place / f"{part}.align", dev.n_pairs).take(np.arange(n_dev))
    if corpus is None:
        return Text(dev, gold, 0)
    before = read_bitext(*(folder / corpus / f"train.{ending}.gz" for ending in ("en", language)), limit=size)
    return Text(before.concat(dev), gold, before.n_pairs)


def _try(name: str, text: Text, threads: int | None) -> list[Tried]:
    n = text.bitext.n_pairs
    sample = np.unique(np.linspace(0, n - 1, min(SAMPLE, n)).round().astype(np.int64))
    looked_at = text.bitext.take(sample)
    dev = text.bitext.take(np.arange(text.first, text.first + text.gold.n_sentences))
    halves = [_words(text.bitext.take(np.arange(half, n, 2))) for half in (0, 1)]
    words = _words(looked_at)
    trained, found, own, agreement = [], [], [], []
    for gamma in GAMMAS:
        aligner = WordAligner(gamma=gamma, n_threads=threads).fit(text.bitext)
        posteriors = aligner.predict_proba(looked_at)
        both = zip(posteriors.forward, posteriors.backward, strict=True)
        trained.append((aligner, aligner.predict(looked_at), posteriors.average))
        own.append(_expected_f1(trained[-1][1], posteriors.average, [np.minimum(*pair) for pair in both]))
        parts = [WordAligner(gamma=gamma, n_threads=threads).fit(*half) for half in halves]
        agreement.append(alignment_scores(*(part.predict(*words) for part in parts)).f_measure)
        if gamma == 1:
            of_halves = [part.predict_proba(*words).average for part in parts]
            found = [of_halves[1 - number % 2][k] for k, number in enumerate(sample.tolist())]
    at_1 = trained[GAMMAS.index(1.0)][2]
    of_all = [sum(matrices) / len(GAMMAS) for matrices in zip(*(own for _, _, own in trained), strict=True)]
    return [
        Tried(
            name, gamma, aligner.threshold_, alignment_scores(aligner.predict(dev), text.gold).aer, own[k],
            _expected_f1(links, at_1), _expected_f1(links, of_all), _expected_f1(links, found), agreement[k],
        )
        for k, (gamma, (aligner, links, _)) in enumerate(zip(GAMMAS, trained, strict=True))
    ]  # fmt: skip


def _expected_f1(links: Links, posteriors: Sequence[Any], right: Sequence[Any] | None = None) -> float:
    """Expected F1 of links if ``right`` (by default the posteriors) says how often they are right."""
    shares = posteriors if right is None else right
    starts = links.offsets
    hits = sum(
        float(matrix[links.source[begin:end], links.target[begin:end]].sum())
        for matrix, begin, end in zip(shares, starts[:-1], starts[1:], strict=True)
    )
    return 2 * hits / max(links.n_links + sum(float(matrix.sum()) for matrix in posteriors), 1e-9)


def _words(bitext: Bitext) -> tuple[list[str], list[str]]:
    """The lines of a bitext, so that an aligner counts the words of these alone."""
    sides = (
        (bitext.source_vocabulary, bitext.source_tokens, bitext.source_offsets),
        (bitext.target_vocabulary, bitext.target_tokens, bitext.target_offsets),
    )
    source, target = (
        [" ".join(vocabulary.words[word] for word in line) for line in np.split(tokens, offsets[1:-1])]
        for vocabulary, tokens, offsets in sides
    )
    return source, target


def _chosen(tried: Sequence[Tried], quality: Callable[[Tried], float]) -> list[Tried]:
    """The best gamma of every set; of equally good ones the one nearest to 1."""
    return [max(own, key=lambda one: (quality(one), -abs(one.gamma - 1))) for own in group(tried, "set").values()]


def _cells(one: Tried) -> tuple[float, float]:
    return one.gamma, percent(one.aer)


def _mean(own: Sequence[Tried]) -> float:
    return sum(one.aer for one in own) / len(own)


def _figure(tried: Sequence[Tried]) -> Any:
    rules: Mapping[str, str] = {"aer": "AER (%)", "f1_held_out": "expected F1, held out (%)"}
    panels = [
        Panel(
            meaning,
            "gamma",
            meaning,
            curves(
                tried,
                lambda one: one.gamma,
                lambda one, field=field: 100 * getattr(one, field),
                label="{set}",
                colour="set",
            ),
        )
        for field, meaning in rules.items()
    ]
    return draw_panels(panels, title="Gamma of training and decoding", width=5.5, height=4.5)
