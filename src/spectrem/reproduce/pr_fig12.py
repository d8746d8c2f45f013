"""[Ganchev2010] figure 12: inducing tags by EM, by variational Bayes (VEM) and under sparsity constraints (Sparse)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints import sparsity
from spectrem.data import PENN_TO_17, TaggedCorpus, map_tags
from spectrem.estimators import HMMTagger
from spectrem.metrics import average_l1_linf, many_to_one, mutual_information, one_to_one, tag_entropy
from spectrem.models.priors import MeanFieldPrior
from spectrem.plotting.bars import BarPanel, Bars, draw_bars
from spectrem.reproduce.report import Claim, Report, Table, percent
from spectrem.reproduce.tagged_corpus import first_tokens, read_bosque, read_penn, replace_rare
from spectrem.reproduce.tagger_training import flat

SEEDS = tuple(range(10))
ITERATIONS = 200
WARM_UP = 30
STRENGTHS = (10.0, 32.0, 100.0)
EMISSION_PRIORS = (0.1, 0.0001)
TRANSITION_PRIOR = 0.1
DUAL_STEPS = 2
LANGUAGES: dict[str, Callable[[Path], TaggedCorpus]] = {
    "English": lambda root: TaggedCorpus((corpus := read_penn(root)).words, map_tags(corpus.tags, PENN_TO_17)),
    "Portuguese": read_bosque,
}

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
_EM = "EM"


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


class _Corpus(NamedTuple):
    """Sentences with the rare words replaced, and what scores need of them."""

    words: list[list[str]]
    tags: list[list[str | None]]
    flat_words: list[str]
    gold: list[str]
    n_states: int


def pr_fig12(
    root: Path,
    *,
    languages: Sequence[str] = tuple(LANGUAGES),
    seeds: Sequence[int] = SEEDS,
    iterations: int = ITERATIONS,
    strengths: Sequence[float] = STRENGTHS,
    n_tokens: int | None = None,
    dual_steps: int = DUAL_STEPS,
    n_threads: int | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Report:
    """Induce as many states as there are tags, without a dictionary, from every seed by every method.

    Parameters
    ----------
    root : path
        See `spectrem.reproduce.tagged_corpus.find_tagged`.
    languages : sequence of {"English", "Portuguese"}
    seeds : sequence of int
        The same for every method.
    iterations : int
        Of every method; the first 30 (or fewer: 3 in 20) of Sparse are plain EM.
    strengths : sequence of float
        Of the sparsity constraint, sigma.
    n_tokens : int, optional
        Only the first tokens of each corpus.
    dual_steps : int
        Steps on the multipliers per iteration.
    n_threads : int, optional
    log : callable
        Told of every run.
    """
    runs: list[Run] = []
    corpora: list[tuple[Any, ...]] = []
    for language in languages:
        corpus = LANGUAGES[language](root)
        corpus_rows, prepared = _prepare(
            language, corpus if n_tokens is None else first_tokens(corpus, n_tokens), n_threads
        )
        corpora += corpus_rows
        for run in _runs(language, prepared, seeds, iterations, strengths, dual_steps, n_threads):
            runs.append(run)
            log(
                f"{language}, {run.method}, seed {run.seed}: {run.mutual_information:.3f} bits, l1/linf "
                f"{run.l1_linf:.2f}, 1-Many {run.many_to_one:.2f}, 1-1 {run.one_to_one:.2f} ({run.seconds:.0f} s)"
            )
    return Report(
        name="pr-fig12",
        title=f"[Ganchev2010] figure 12: inducing parts of speech, {len(seeds)} starts, {iterations} iterations",
        tables=[
            Table(
                "corpora, after words that occur once became unk",
                ("", "", "types", "tokens", "unk %", "tags", "entropy (bits)", "l1/linf with labels"),
                corpora,
            ),
            *(_table(runs, language) for language in languages),
        ],
        numbers=Table("all runs", Run._fields, [tuple(run) for run in runs]),
        figure=_figure(runs, corpora, languages),
        claims=[claim for language in languages for claim in _claims(runs, language)],
        notes=[
            "The paper's scores stand in its figure only, so none stand beside ours; what its text says does, and the "
            "numbers of its table 9.",
            "English: the public tenth of the Penn Treebank in the 17 classes of [SmithEisner2005]. Portuguese: UD "
            "Bosque, train, dev and test, with the 17 universal tags; the paper had the CoNLL-X version with 22. "
            "BulTreeBank is left out.",
            "A tenth of the text makes a given sigma weigh more: it is the price of one more state for a word, however "
            "often the word occurs.",
            f"Sparse: {_warm_up(iterations)} iterations of EM, then {iterations - _warm_up(iterations)} with the "
            f"constraint on words that occur more than 10 times; {dual_steps} steps on the multipliers per iteration, "
            "which go on from those of the iteration before. The paper solved by projected gradient, and does not say "
            "which words it constrained.",
            "VEM: mean-field weights of a Dirichlet prior of 0.1 on initial and transition rows, and of the number "
            "given on emission rows.",
            "Starts: pseudo-counts 1 + X U(0, 1), X = 1 (EM, Sparse) or 0.0001 (VEM). Decoded by posteriors, without "
            "the constraint; l1/linf is of the same posteriors.",
        ],
    )


def _prepare(language: str, corpus: TaggedCorpus, n_threads: int | None) -> tuple[list[tuple[Any, ...]], _Corpus]:
    """Rows on the corpus, the paper's and ours, and the corpus for training."""
    words, tags = replace_rare(corpus)
    flat_words, gold = flat(words), flat(tags)
    n_states = len(set(gold))
    labelled = HMMTagger(order=1, max_iter=1, tol=0.0, smoothing=1e-6, n_threads=n_threads).fit(words, tags)
    ours = (
        len(set(flat_words)),
        len(flat_words),
        round(100 * flat_words.count("unk") / len(flat_words), 1),
        n_states,
        round(tag_entropy(gold), 2),
        round(average_l1_linf(labelled.predict_proba(words), flat_words), 2),
    )
    rows = [(language, "paper", *PUBLISHED_CORPORA[language]), (language, "ours", *ours)]
    return rows, _Corpus(words, tags, flat_words, gold, n_states)


def _warm_up(iterations: int) -> int:
    return max(1, min(WARM_UP, 3 * iterations // 20))


def _runs(
    language: str,
    corpus: _Corpus,
    seeds: Sequence[int],
    iterations: int,
    strengths: Sequence[float],
    dual_steps: int,
    n_threads: int | None,
) -> Iterator[Run]:
    common: dict[str, Any] = {"order": 1, "n_states": corpus.n_states, "tol": 0.0, "n_threads": n_threads}
    warm_up = _warm_up(iterations)
    for seed in seeds:
        started = time.perf_counter()
        random: dict[str, Any] = {"init": "random", "random_state": seed}
        warm = HMMTagger(**common, **random, perturbation=1.0, max_iter=warm_up).fit(corpus.words)
        warm_seconds = time.perf_counter() - started
        ways: dict[str, dict[str, Any]] = {_EM: {"init": warm, "max_iter": iterations - warm_up}}
        for alpha in EMISSION_PRIORS:
            ways[f"VEM {alpha:g}"] = {
                **random,
                "perturbation": 0.0001,
                "prior": {
                    "initial": MeanFieldPrior(TRANSITION_PRIOR),
                    "transition": MeanFieldPrior(TRANSITION_PRIOR),
                    "emission": MeanFieldPrior(alpha),
                },
                "max_iter": iterations,
            }
        for strength in strengths:
            ways[f"Sparse {strength:g}"] = {
                **ways[_EM],
                "constraints": [sparsity(strength, min_count=11)],
                "dual_steps": dual_steps,
            }
        for method, settings in ways.items():
            started = time.perf_counter()
            tagger = HMMTagger(**{**common, **settings}).fit(corpus.words)
            seconds = time.perf_counter() - started + warm_seconds * (settings["init"] is warm)
            yield Run(language, method, seed, *_scores(tagger, corpus), round(seconds, 1))


def _scores(tagger: HMMTagger, corpus: _Corpus) -> tuple[float, float, float, float]:
    posteriors = tagger.predict_proba(corpus.words)
    states = np.concatenate([rows.argmax(axis=1) for rows in posteriors]).tolist()
    return (
        mutual_information(states, corpus.gold),
        average_l1_linf(posteriors, corpus.flat_words),
        percent(many_to_one(states, corpus.gold).accuracy),
        percent(one_to_one(states, corpus.gold).accuracy),
    )


def _values(runs: Sequence[Run], language: str, measure: str) -> dict[str, NDArray[np.float64]]:
    """By method, one value per seed."""
    own = [run for run in runs if run.language == language]
    methods = dict.fromkeys(run.method for run in own)
    return {name: np.array([getattr(run, measure) for run in own if run.method == name]) for name in methods}


def _spread(values: NDArray[np.float64]) -> float:
    """Standard deviation over seeds; 0 for a single one."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _table(runs: Sequence[Run], language: str) -> Table:
    columns = ["", *(name for key in ("bits", "l1/linf", "1-Many %", "1-1 %") for name in (key, f"± {key}")), "s"]
    found = {measure: _values(runs, language, measure) for measure in (*_MEASURES, "seconds")}
    rows = [
        (
            method,
            *(
                round(value, 3)
                for measure in _MEASURES
                for value in (float(found[measure][method].mean()), _spread(found[measure][method]))
            ),
            round(float(found["seconds"][method].mean()), 1),
        )
        for method in found["seconds"]
    ]
    return Table(f"{language}: mean and standard deviation over seeds", tuple(columns), rows)


def _best(values: Mapping[str, NDArray[np.float64]], kind: str) -> float:
    """Best mean among the settings of one method."""
    return max(float(v.mean()) for name, v in values.items() if name.startswith(kind))


def _claims(runs: Sequence[Run], language: str) -> list[Claim]:
    bits, norm, many, one = (_values(runs, language, measure) for measure in _MEASURES)
    bit, spare = ({name: float(values.mean()) for name, values in found.items()} for found in (bits, norm))
    sparse = [name for name in bits if name.startswith("Sparse")]
    vem = [name for name in bits if name.startswith("VEM")]
    least, most = min(bit[name] for name in sparse), max(bit[name] for name in sparse)
    claims = [
        ("Sparse lowers the average l1/linf against EM, whatever sigma", all(spare[s] < spare[_EM] for s in sparse)),
        ("Sparse raises mutual information over EM, whatever sigma", least > bit[_EM]),
        ("... and has more of it than VEM, whatever sigma and prior", least > max(bit[v] for v in vem)),
        ("Sigma matters little: mutual information differs less between sigmas than from EM's",
         most - least < least - bit[_EM]),
        ("VEM's l1/linf is below EM's too, with either prior", all(spare[v] < spare[_EM] for v in vem)),
        ("VEM has less mutual information than EM with a prior at least", min(bit[v] for v in vem) < bit[_EM]),
        ("Sparse at its best has fewer 1-Many errors than EM, and than VEM at its best",
         _best(many, "Sparse") > max(_best(many, "VEM"), _best(many, _EM))),
        ("Sparse at its best has fewer 1-1 errors than EM", _best(one, "Sparse") > _best(one, _EM)),
        ("... but not fewer than VEM at its best (the paper: not always)", _best(one, "VEM") >= _best(one, "Sparse")),
    ]  # fmt: skip
    return [Claim(f"{language}: {text}", bool(holds)) for text, holds in claims]


def _figure(runs: Sequence[Run], corpora: Sequence[tuple[Any, ...]], languages: Sequence[str]) -> Any:
    ours = {row[0]: row for row in corpora if row[1] == "ours"}
    panels = []
    for measure, (title, unit) in _MEASURES.items():
        values = {language: _values(runs, language, measure) for language in languages}
        bars = [
            Bars(
                method,
                [values[language][method].mean() for language in languages],
                [_spread(values[language][method]) for language in languages],
                colour=k,
            )
            for k, method in enumerate(values[languages[0]])
        ]
        column = {"mutual_information": -2, "l1_linf": -1}.get(measure)
        marks = None if column is None else [ours[language][column] for language in languages]
        panels.append(BarPanel(title, unit, list(languages), bars, marks, "gold: entropy of tags, l1/linf with labels"))
    return draw_bars(panels, title="Inducing parts of speech: mean and standard deviation over starts")
