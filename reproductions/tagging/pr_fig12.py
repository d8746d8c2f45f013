"""[Ganchev2010] figure 12: inducing tags by EM, by variational Bayes (VEM) and under sparsity constraints (Sparse).

* The paper's scores stand in its figure only, so none stand beside ours; what its text says does, and the numbers of
  its table 9.
* English: the public tenth of the Penn Treebank in the 17 classes of [SmithEisner2005]. Portuguese: UD Bosque, train,
  dev and test, with the 17 universal tags; the paper had the CoNLL-X version with 22. BulTreeBank is left out.
* A tenth of the text makes a given sigma weigh more: it is the price of one more state for a word, however often the
  word occurs.
* VEM: mean-field weights of a Dirichlet prior of 0.1 on initial and transition rows, and of the number given on
  emission rows.
* Starts: pseudo-counts 1 + X U(0, 1), X = 1 (EM, Sparse) or 0.0001 (VEM). Decoded by posteriors, without the
  constraint; l1/linf is of the same posteriors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproductions.figures import BarPanel, draw_bars
from reproductions.records import Spread, group, spread, where
from reproductions.report import Report, Table, beside_paper, bullets, listing, percent, tell
from reproductions.tagging.corpora import first_tokens, flat, read_bosque, read_penn, replace_rare
from spectrem.constraints import sparsity
from spectrem.data import PENN_TO_17, TaggedCorpus, map_tags
from spectrem.estimators import HMMTagger
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import average_l1_linf, many_to_one, mutual_information, one_to_one, tag_entropy
from spectrem.models.priors import MeanFieldPrior

QUICK = {"seeds": 2, "n_tokens": 2_000, "iterations": 20, "strengths": (32.0,)}
LANGUAGES = ("English", "Portuguese")

PUBLISHED_CORPORA: dict[str, tuple[int, int, float, int, float, float]] = {
    "English": (23_768, 950_028, 2.0, 17, 3.22, 1.23),
    "Portuguese": (11_293, 206_678, 8.5, 22, 3.49, 1.14),
}
"""Types, tokens, percent of tokens "unk", tags, entropy of tags in bits, l1/linf with labels ([Ganchev2010] table 9,
§8.2)."""

_MEASURES = {
    "mutual_information": ("mutual information with the gold tags", "bits"),
    "l1_linf": ("average l1/linf of words that occur more than 10 times", "states"),
    "many_to_one": ("1-Many accuracy", "% of tokens"),
    "one_to_one": ("1-1 accuracy (greedy)", "% of tokens"),
}


class Run(NamedTuple):
    """One training from one seed."""

    language: str
    method: str
    seed: int
    mutual_information: float
    l1_linf: float
    many_to_one: float
    one_to_one: float
    seconds: float


class Corpus(NamedTuple):
    """Sentences with the rare words replaced, and what scores need of them."""

    words: list[list[str]]
    flat_words: list[str]
    gold: list[str]
    n_states: int
    row: tuple[Any, ...]


def run(
    data: Path | None = None,
    *,
    languages: Sequence[str] = LANGUAGES,
    seeds: int = 10,
    iterations: int = 200,
    strengths: Sequence[float] = (10.0, 32.0, 100.0),
    n_tokens: int | None = None,
    dual_steps: int = 2,
    threads: int | None = None,
) -> Report:
    """Induce as many states as there are tags, without a dictionary, from every seed by every method.

    Parameters
    ----------
    data : path, optional
        See `read_penn` and `read_bosque`.
    languages : sequence of {"English", "Portuguese"}
    seeds : int
        From 0 on, the same for every method.
    iterations : int
        Of every method; the first 30 (or fewer: 3 in 20) of Sparse are plain EM.
    strengths : sequence of float
        Of the sparsity constraint, sigma.
    n_tokens : int, optional
        Only the first tokens of each corpus.
    dual_steps : int
        Steps on the multipliers per iteration.
    threads : int, optional
    """
    if not set(languages) <= set(LANGUAGES):
        raise InvalidInputError(f"languages must be among {', '.join(LANGUAGES)}, got {', '.join(languages)}")
    texts = {language: first_tokens(_read(language, data), n_tokens) for language in languages}
    corpora = {language: _prepare(language, text, threads) for language, text in texts.items()}
    runs: list[Run] = []
    for language, corpus in corpora.items():
        for seed in range(seeds):
            for one in _runs(language, corpus, seed, iterations, strengths, dual_steps, threads):
                runs.append(one)
                tell(
                    f"{language}, {one.method}, seed {one.seed}: {one.mutual_information:.3f} bits, l1/linf "
                    f"{one.l1_linf:.2f}, 1-Many {one.many_to_one:.2f}, 1-1 {one.one_to_one:.2f} ({one.seconds:.0f} s)"
                )
    return Report(
        title=f"[Ganchev2010] figure 12: inducing parts of speech, {seeds} starts, {iterations} iterations",
        tables=[
            Table(
                "corpora, after words that occur once became unk",
                ("", "", "types", "tokens", "unk %", "tags", "entropy (bits)", "l1/linf with labels"),
                beside_paper(PUBLISHED_CORPORA, [corpus.row for corpus in corpora.values()]),
            ),
            *(_table(where(runs, language=language), language) for language in languages),
        ],
        numbers=listing(runs),
        figure=_figure(runs, corpora),
        claims={
            f"{language}: {text}": bool(holds)
            for language in languages
            for text, holds in _claims(where(runs, language=language)).items()
        },
        notes=[
            *bullets(__doc__),
            f"Sparse: {_warm_up(iterations)} iterations of EM, then {iterations - _warm_up(iterations)} with the "
            f"constraint on words that occur more than 10 times; {dual_steps} steps on the multipliers per iteration, "
            "which go on from those of the iteration before. The paper solved by projected gradient, and does not say "
            "which words it constrained.",
        ],
    )


def _read(language: str, data: Path | None) -> TaggedCorpus:
    """With some 17 tags."""
    if language == "Portuguese":
        return read_bosque(data)
    penn = read_penn(data)
    return TaggedCorpus(penn.words, map_tags(penn.tags, PENN_TO_17))


def _prepare(language: str, text: TaggedCorpus, threads: int | None) -> Corpus:
    """The corpus for training, with its row of the table."""
    words, tags = replace_rare(text)
    flat_words, gold = flat(words), flat(tags)
    n_states = len(set(gold))
    labelled = HMMTagger(order=1, max_iter=1, tol=0.0, smoothing=1e-6, n_threads=threads).fit(words, tags)
    unknown = round(100 * flat_words.count("unk") / len(flat_words), 1)
    norm = round(average_l1_linf(labelled.predict_proba(words), flat_words), 2)
    sizes = (len(set(flat_words)), len(flat_words), unknown, n_states)
    row = (language, "ours", *sizes, round(tag_entropy(gold), 2), norm)
    return Corpus(words, flat_words, gold, n_states, row)


def _warm_up(iterations: int) -> int:
    return max(1, min(30, 3 * iterations // 20))


def _runs(
    language: str,
    corpus: Corpus,
    seed: int,
    iterations: int,
    strengths: Sequence[float],
    dual_steps: int,
    threads: int | None,
) -> Iterator[Run]:
    common: dict[str, Any] = {"order": 1, "n_states": corpus.n_states, "tol": 0.0, "n_threads": threads}
    random: dict[str, Any] = {"init": "random", "random_state": seed}
    warm_up = _warm_up(iterations)
    started = time.perf_counter()
    warm = HMMTagger(**common, **random, perturbation=1.0, max_iter=warm_up).fit(corpus.words)
    warm_seconds = time.perf_counter() - started
    em: dict[str, Any] = {"init": warm, "max_iter": iterations - warm_up}
    transition = MeanFieldPrior(0.1)
    ways = {"EM": em}
    for alpha in (0.1, 0.0001):
        prior = {"initial": transition, "transition": transition, "emission": MeanFieldPrior(alpha)}
        ways[f"VEM {alpha:g}"] = {**random, "perturbation": 0.0001, "prior": prior, "max_iter": iterations}
    for strength in strengths:
        constraints = [sparsity(strength, min_count=11)]
        ways[f"Sparse {strength:g}"] = {**em, "constraints": constraints, "dual_steps": dual_steps}
    for method, settings in ways.items():
        started = time.perf_counter()
        tagger = HMMTagger(**{**common, **settings}).fit(corpus.words)
        seconds = time.perf_counter() - started + warm_seconds * (settings["init"] is warm)
        yield Run(language, method, seed, *_scores(tagger, corpus), round(seconds, 1))


def _scores(tagger: HMMTagger, corpus: Corpus) -> tuple[float, float, float, float]:
    posteriors = tagger.predict_proba(corpus.words)
    states = np.concatenate([rows.argmax(axis=1) for rows in posteriors]).tolist()
    return (
        mutual_information(states, corpus.gold),
        average_l1_linf(posteriors, corpus.flat_words),
        percent(many_to_one(states, corpus.gold).accuracy),
        percent(one_to_one(states, corpus.gold).accuracy),
    )


def _spreads(runs: Sequence[Run], measure: str) -> dict[str, Spread]:
    """By method, over seeds."""
    return {method: spread(own, measure, ddof=1) for method, own in group(runs, "method").items()}


def _table(runs: Sequence[Run], language: str) -> Table:
    columns = ["", *(name for key in ("bits", "l1/linf", "1-Many %", "1-1 %") for name in (key, f"± {key}")), "s"]
    found = [_spreads(runs, measure) for measure in _MEASURES]
    rows = [
        (method, *(round(value, 3) for own in found for value in own[method]), round(seconds.mean, 1))
        for method, seconds in _spreads(runs, "seconds").items()
    ]
    return Table(f"{language}: mean and standard deviation over seeds", tuple(columns), rows)


def _claims(runs: Sequence[Run]) -> dict[str, bool]:
    bits, norm, many, one = (
        {method: own.mean for method, own in _spreads(runs, measure).items()} for measure in _MEASURES
    )
    sparse, vem = ([name for name in bits if name.startswith(kind)] for kind in ("Sparse", "VEM"))

    def best(means: Mapping[str, float], methods: Sequence[str]) -> float:
        return max(means[method] for method in methods)

    least, most = min(bits[name] for name in sparse), best(bits, sparse)
    return {
        "Sparse lowers the average l1/linf against EM, whatever sigma": best(norm, sparse) < norm["EM"],
        "Sparse raises mutual information over EM, whatever sigma": least > bits["EM"],
        "... and has more of it than VEM, whatever sigma and prior": least > best(bits, vem),
        "Sigma matters little: mutual information differs less between sigmas than from EM's": (
            most - least < least - bits["EM"]
        ),
        "VEM's l1/linf is below EM's too, with either prior": best(norm, vem) < norm["EM"],
        "VEM has less mutual information than EM with a prior at least": min(bits[name] for name in vem) < bits["EM"],
        "Sparse at its best has fewer 1-Many errors than EM, and than VEM at its best": (
            best(many, sparse) > best(many, [*vem, "EM"])
        ),
        "Sparse at its best has fewer 1-1 errors than EM": best(one, sparse) > one["EM"],
        "... but not fewer than VEM at its best (the paper: not always)": best(one, vem) >= best(one, sparse),
    }


def _figure(runs: Sequence[Run], corpora: Mapping[str, Corpus]) -> Any:
    gold = {"mutual_information": -2, "l1_linf": -1}
    panels = []
    for measure, (title, unit) in _MEASURES.items():
        by_language = [_spreads(own, measure) for own in group(runs, "language").values()]
        bars = {}
        for method in by_language[0]:
            means, deviations = zip(*(own[method] for own in by_language), strict=True)
            bars[method] = (means, deviations)
        marks = [corpus.row[gold[measure]] for corpus in corpora.values()] if measure in gold else None
        panels.append(BarPanel(title, unit, list(corpora), bars, marks, "gold: entropy of tags, l1/linf with labels"))
    return draw_bars(panels, title="Inducing parts of speech: mean and standard deviation over starts")
