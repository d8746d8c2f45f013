"""[Naseem2010]: some 30 universal rules of grammar, as a start of EM and as constraints in training, on UD treebanks.

* Text: sentences of at most 10 words after words tagged PUNCT and SYM are left out, as universal tags; a word under
  such a word is moved up to the next one that stays. One root. English: the test part of EWT; Bulgarian: both parts
  of BTB that there are; Spanish: both of GSD; German: the test part of PUD. Models are trained and judged on the same
  sentences, without their trees. The paper has the Penn treebank and others, and a richer model.
* Rules: 31 of heads and children, for universal tags as the treebanks' guidelines use them; the paper has 13 for tags
  of its own. They were written down beforehand and revised once on the development part of English (verbs no longer
  head prepositions, adjectives may head subjects). That part, and those of Bulgarian and Spanish, which are among the
  sentences judged here, also chose penalty, prior and start, among some 100 settings; German had no say.
* "At least 80 %" is the paper's constraint. "All, at 4 nats" asks that all arcs follow the rules and lets each that
  does not cost 4 nats, since how many can differs by language: many short English sentences have no verb to be their
  root.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.figures import BarPanel, draw_bars
from reproductions.records import group
from reproductions.report import Report, Table, bullets, listing, tell
from reproductions.treebanks import read_ud
from spectrem.constraints import UNIVERSAL_RULES, universal_rules
from spectrem.corpus import Local
from spectrem.data import ParsedSentence
from spectrem.estimators import DependencyModel
from spectrem.exceptions import ConvergenceWarning, InvalidInputError
from spectrem.metrics import attachment_scores, head_is_next
from spectrem.models.grammar import GrammarParameters, ValenceModel, build_shards, harmonic, in_corpus_order
from spectrem.models.priors import MeanFieldPrior

QUICK = {"languages": ("es",), "max_iter": 3}
PARTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "en": (("en_ewt", "test"),),
    "bg": (("bg_btb", "dev"), ("bg_btb", "test")),
    "es": (("es_gsd", "dev"), ("es_gsd", "test")),
    "de": (("de_pud", "test"),),
}
RULES = {head: children for head, children in UNIVERSAL_RULES.items() if head is not None}
ROOTS = UNIVERSAL_RULES[None]
PRICE, PREFERENCE, LONGEST, LEFT_OUT = 4.0, 100.0, 10, frozenset({"PUNCT", "SYM"})
METHODS = (
    "harmonic start",
    "harmonic start, EM",
    "rules as start",
    "rules as start, EM",
    "at least 80 %",
    "all, at 4 nats",
)


class Run(NamedTuple):
    """A model in one language; percent of words with the right head."""

    language: str
    method: str
    directed: float
    undirected: float
    following: float
    e_steps: int


class Text(NamedTuple):
    """Sentences of tags with their gold heads."""

    tags: list[tuple[str, ...]]
    heads: list[NDArray[np.int64]]


def run(
    data: Path | None = None,
    *,
    languages: Sequence[str] = ("en", "bg", "es", "de"),
    max_iter: int = 60,
    threads: int | None = None,
) -> Report:
    """Train with rules as a start and as constraints, and without any.

    Parameters
    ----------
    data : path, optional
        The folder with ``ud``.
    languages : sequence of str
        Of en, bg, es, de.
    max_iter : int
        At most, for each training.
    threads : int, optional
    """
    unknown = [language for language in languages if language not in PARTS]
    if unknown:
        raise InvalidInputError(f"languages must be among {', '.join(PARTS)}, got {', '.join(unknown)}")
    runs: list[Run] = []
    for language in languages:
        parts = (read_ud(data, *part) for part in PARTS[language])
        text = without([sentence for part in parts for sentence in part], LEFT_OUT, LONGEST)
        baseline = head_is_next([len(tags) for tags in text.tags])
        runs += [_judged(language, "head is the next word", text, baseline, 0)]
        runs += [_trained(language, method, text, max_iter, threads) for method in METHODS]
        tell(
            f"{language}: " + ", ".join(f"{run.method} {run.directed:.1f}" for run in runs if run.language == language)
        )
    table = [
        (run.language, run.method, round(run.directed, 1), round(run.undirected, 1), round(run.following, 1))
        for run in runs
    ]
    columns = ("", "method", "directed", "undirected", "arcs by rules")
    return Report(
        title="Dependency model with valence under universal rules, Universal Dependencies, at most 10 words",
        tables=[Table("Attachment, and arcs that follow rules (%)", columns, table)],
        numbers=listing(runs),
        figure=_figure(runs),
        claims=claims(runs),
        notes=bullets(__doc__),
        headings=("What is expected", "What differs from the paper"),
    )


def claims(runs: Sequence[Run]) -> dict[str, bool]:
    """What one expects of rules in training, and whether it is so."""
    found = {(run.language, run.method): run.directed for run in runs}
    languages = list(dict.fromkeys(run.language for run in runs))

    def everywhere(better: str, worse: str) -> bool:
        return all(found[language, better] >= found[language, worse] for language in languages)

    return {
        "EM pulls a start from rules down": everywhere("rules as start", "rules as start, EM"),
        "Rules in training keep what the start from rules knows": everywhere("all, at 4 nats", "rules as start"),
        "... and are above heads that are the next word": everywhere("all, at 4 nats", "head is the next word"),
    }


def without(sentences: Sequence[ParsedSentence], tags: frozenset[str], longest: int) -> Text:
    """Sentences without words of some tags, those of at most ``longest`` words that are left.

    Examples
    --------
    >>> sentence = ParsedSentence(("a", ",", "b"), ("X", "PUNCT", "VERB"), ("_",) * 3, np.array([1, 2, -1]))
    >>> text = without([sentence], frozenset({"PUNCT"}), 10)
    >>> text.tags, text.heads[0].tolist()
    ([('X', 'VERB')], [1, -1])
    """
    kept = Text([], [])
    for sentence in sentences:
        assert sentence.heads is not None
        stays = np.array([tag not in tags for tag in sentence.upos])
        place = np.append(np.cumsum(stays) - 1, -1)  # the last one is that of the root
        heads = []
        for head in sentence.heads[stays].tolist():
            while head >= 0 and not stays[head]:
                head = int(sentence.heads[head])
            heads.append(place[head])
        if 0 < len(heads) <= longest:
            kept.tags.append(tuple(tag for tag, stay in zip(sentence.upos, stays, strict=True) if stay))
            kept.heads.append(np.array(heads, np.int64))
    return kept


class Start(NamedTuple):
    """Parameters to start from, and the heads that they give."""

    params: GrammarParameters
    heads: list[NDArray[np.int64]]


def make_start(text: Text, factor: float) -> Start:
    """The harmonic start in which arcs that follow the rules count so many times."""
    names = sorted({tag for tags in text.tags for tag in tags})
    number = {tag: n for n, tag in enumerate(names)}
    pairs = [(-1, number[tag]) for tag in ROOTS if tag in number]
    pairs += [(number[head], number[tag]) for head in RULES if head in number for tag in RULES[head] if tag in number]
    flat = [number[tag] for tags in text.tags for tag in tags]
    lengths = np.array([len(tags) for tags in text.tags])
    model, shards = ValenceModel(len(names)), build_shards(lengths, flat, len(names))
    params = harmonic(model, Local(shards), preferred=pairs, factor=factor)
    heads = [model.structure(shard).decode(model.scores(params, shard)) for shard in shards]
    return Start(params, np.split(in_corpus_order(shards, heads, lengths), np.cumsum(lengths)[:-1]))


def _trained(language: str, method: str, text: Text, max_iter: int, threads: int | None) -> Run:
    start = make_start(text, 1.0 if method in ("harmonic start", "harmonic start, EM") else PREFERENCE)
    if method in ("harmonic start", "rules as start"):
        return _judged(language, method, text, start.heads, 0)
    constraints: list[Any] = []
    if method == "at least 80 %":
        constraints = [universal_rules(0.8, penalty=None)]
    if method == "all, at 4 nats":
        constraints = [universal_rules(penalty=PRICE)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # trainings may be cut short
        model = DependencyModel(
            prior=MeanFieldPrior(0.25),
            constraints=constraints,
            init=start.params,
            tol=1e-5,
            max_iter=max_iter,
            n_threads=threads,
        ).fit(text.tags)
    return _judged(language, method, text, model.predict(text.tags), model.n_iter_)


def _judged(language: str, method: str, text: Text, predicted: Sequence[NDArray[np.int64]], e_steps: int) -> Run:
    scores = attachment_scores(text.heads, predicted)
    follows = [
        tags[word] in (ROOTS if head < 0 else RULES.get(tags[head], ()))
        for tags, heads in zip(text.tags, predicted, strict=True)
        for word, head in enumerate(heads.tolist())
    ]
    return Run(language, method, 100 * scores.uas, 100 * scores.undirected, 100 * float(np.mean(follows)), e_steps)


def _figure(runs: Sequence[Run]) -> Any:
    methods, languages = group(runs, "method"), list(group(runs, "language"))
    bars = {method: ([run.directed for run in own], [0.0] * len(own)) for method, own in methods.items()}
    panel = BarPanel("at most 10 words", "words with the right head (%)", languages, bars)
    return draw_bars([panel], title="Universal rules as a start and in training", width=9.0, height=4.0)
