"""[Samdani2012] figure 2: entities and relations from few labelled sentences, by supervised learning, PR, CoDL and UEM.

Two log-linear models, of the types of mentions and of the relations of ordered pairs, are learnt from a share kappa of
the sentences and, without labels, from the rest of the training sentences, under the type rules of the relations and
bounds of 20 per cent on the number of each. All predictions are the best labels that meet the type rules.

Declared before the figures were taken, on splits that they do not use (draws 100 and above): variance 1, 5 iterations
of at most 20 steps of L-BFGS. For UEM gamma is chosen in every trial: half of the labelled sentences are taken as
unlabelled too, and the gamma that gives the best relations on that half is taken; of equals, the larger one.

* Mentions are given, as in the paper. Sentences that are copies of others are left out, where the paper counts 1,437.
* Features are in the manner of [RothSmall2009]; relations have features of the types that a classifier of the labelled
  mentions gives.
* Type rules of relations that want the same type of the same argument are one row, which binds posteriors tighter.
* Bounds on numbers of relations hold over labelled and unlabelled pairs together.
* At gamma = -inf (CoDL) sentences are solved exactly, by integer programs, where the paper takes Lagrangian relaxation.
* "CoDL, K best", if asked for, is the variant of [Ganchev2010] §4.1: a beam search, penalties for violations, and a
  uniform distribution over K labellings, in turn with training on them. Sentences are small: their second best
  labelling is often wrong and counts as much as the best, so that K = 1 is better than 5 (mean F1 of relations of three
  splits of the first 500 sentences, draws 100 to 102, kappa 10 %: 49.6 against 44.1; exact CoDL 49.9, supervised
  35.3). Such labellings have no dual, so that numbers of relations are kept between bounds by moving scores.
* "supervised, 80/20, other pairs" has features of the probable relations of the other pairs of a sentence, and a bonus
  for relations that follows from cross-fitted probabilities of the labelled sentences.
* "supervised, bonus" adds 0.7 nats to the score of every relation when predicting: it shows how much of a gain is more
  relations found, and not better ones. This number, unlike all others, was chosen on sentences that are tested on here.
"""

from __future__ import annotations

import os
import statistics
import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.stats import ttest_rel

from reproductions.extraction.beam import Search, learn_k_best
from reproductions.extraction.conll04 import ARGUMENTS, RELATIONS, TYPES, read_sentences, split, type_rules
from reproductions.records import where
from reproductions.report import Report, Table, bullets, listing, percent, tell
from spectrem import RelationExtractor
from spectrem.data import RelationSentence
from spectrem.exceptions import ConvergenceWarning
from spectrem.metrics import relation_scores
from spectrem.plotting import Line, Panel, draw_panels

QUICK = {"shares": (0.05,), "draws": 1, "gammas": (1.0,), "iterations": 1, "best": 2, "most": 150}
PAPER_GAMMA = {0.05: 0.5, 0.1: 0.6, 0.2: 0.5}
"""Medians over the trials."""
SUPERVISED, BONUS, PR, CODL, UEM = "supervised", "supervised, bonus", "PR", "CoDL", "UEM"
METHODS = (SUPERVISED, BONUS, PR, CODL, UEM)
BEAM = "CoDL, K best"
FULL = "supervised, 80/20"
RELATED = "supervised, 80/20, other pairs"
MARGIN, STEPS, NATS, LEVEL = 0.2, 20, 0.7, 0.05
HARD = float("-inf")


class Trial(NamedTuple):
    """One method on one split: mean F1 over labels, of relations and of types."""

    share: float
    draw: int
    method: str
    gamma: float | None
    relations: float
    types: float
    seconds: float


def run(
    data: str | os.PathLike[str] | None = None,
    shares: Sequence[float] = (0.05, 0.1, 0.2),
    *,
    draws: int = 10,
    gammas: Sequence[float] = (1.0, 0.75, 0.5, 0.25, 0.0),
    iterations: int = 5,
    best: int = 0,
    most: int | None = None,
    threads: int | None = None,
) -> Report:
    """Learn from every share of labelled sentences, in every split.

    Parameters
    ----------
    data : path, optional
        The folder of the corpus.
    shares : sequence of float
        Of all sentences, labelled.
    draws : int
        Splits.
    gammas : sequence of float
        From which UEM chooses; 1 must be among them. CoDL, at -inf, is one more choice where several are given.
    iterations : int
        Of EM.
    best : int
        CoDL also with so many labellings of every sentence, by a beam search; 0 leaves it out.
    most : int, optional
        Sentences at most.
    threads : int, optional
        Results do not depend on it.
    """
    sentences, n_dropped = read_sentences(data)
    settings = {"max_iter": iterations, "n_threads": threads}
    trials: list[Trial] = []
    for draw in range(draws):
        trials += _full(sentences[:most], draw, settings)
        for share in shares:
            trials += _trials(sentences[:most], share, draw, gammas, settings)
            if best:
                trials.append(_beam(sentences[:most], share, draw, best, settings))
            own = {trial.method: percent(trial.relations) for trial in where(trials, share=share, draw=draw)}
            tell(f"{share:.0%} labelled, split {draw}: {own}")
    return Report(
        title="Entities and relations of CoNLL04 from few labelled sentences: mean F1 (%)",
        tables=[_means(trials, shares), _tests(trials, shares), _gammas(trials, shares)],
        numbers=listing(trials),
        figure=_figure(trials, shares),
        claims=claims(trials, shares),
        notes=[*bullets(__doc__), f"{n_dropped} sentences were left out as copies of others."],
    )


def _trials(
    sentences: Sequence[RelationSentence], share: float, draw: int, gammas: Sequence[float], settings: dict[str, Any]
) -> list[Trial]:
    """All methods on one split."""
    test, labelled, rest = split(sentences, share, draw)
    bare = [sentence.unlabelled() for sentence in rest]
    found: list[Trial] = []

    def add(method: str, gamma: float | None, extractor: RelationExtractor, began: float) -> None:
        found.append(_judge(Trial(share, draw, method, gamma, 0.0, 0.0, 0.0), extractor, test, began))

    began = time.perf_counter()
    alone = _extractor(settings).fit(labelled)
    add(SUPERVISED, None, alone, began)
    add(BONUS, None, alone.set_params(relation_bonus=NATS), began)
    for method, gamma in ((PR, 1.0), (CODL, HARD)):
        began = time.perf_counter()
        add(method, gamma, _learn(settings, labelled, bare, gamma), began)
    began = time.perf_counter()
    chosen = _choose(settings, labelled, bare, gammas) if len(gammas) > 1 else gammas[0]
    same = {1.0: PR, HARD: CODL}.get(chosen)
    if same is not None:
        found.append(where(found, method=same)[0]._replace(method=UEM))
    else:
        add(UEM, chosen, _learn(settings, labelled, bare, chosen), began)
    return found


def _beam(sentences: Sequence[RelationSentence], share: float, draw: int, best: int, settings: dict[str, Any]) -> Trial:
    """CoDL with the best labellings of a beam search."""
    test, labelled, rest = split(sentences, share, draw)
    began = time.perf_counter()
    extractor = learn_k_best(
        lambda: _extractor(settings), labelled, [sentence.unlabelled() for sentence in rest], ARGUMENTS,
        margin=MARGIN, iterations=settings["max_iter"], search=Search(best),
    )  # fmt: skip
    return _judge(Trial(share, draw, BEAM, HARD, 0.0, 0.0, 0.0), extractor, test, began)


def _full(sentences: Sequence[RelationSentence], draw: int, settings: dict[str, Any]) -> list[Trial]:
    """Four fifths labelled, without and with features of the relations of other pairs."""
    test, labelled, _ = split(sentences, 1.0, draw)
    found = []
    for method, related in ((FULL, False), (RELATED, True)):
        began = time.perf_counter()
        extractor = _extractor(settings, relation_features=related).fit(labelled)
        found.append(_judge(Trial(1.0, draw, method, None, 0.0, 0.0, 0.0), extractor, test, began))
    return found


def _choose(
    settings: dict[str, Any],
    labelled: Sequence[RelationSentence],
    bare: list[RelationSentence],
    gammas: Sequence[float],
) -> float:
    """The gamma that is best for one half of the labelled sentences where the other half alone has labels."""
    half = len(labelled) // 2
    held_out, rest = labelled[half:], [*bare, *(sentence.unlabelled() for sentence in labelled[half:])]
    scores = {}
    for gamma in (*gammas, HARD):
        found = _learn(settings, labelled[:half], rest, gamma).predict(held_out)
        scores[gamma] = relation_scores(found, held_out).relations.macro_f1
    return max(scores, key=lambda gamma: (scores[gamma], gamma))


def _extractor(settings: dict[str, Any], **more: Any) -> RelationExtractor:
    own = {"types": TYPES, "relations": RELATIONS, "m_steps": STEPS, "tol": 0.0, "dual_steps": 0}
    return RelationExtractor([*type_rules()], **{**own, **settings, **more})


def _learn(
    settings: dict[str, Any], labelled: Sequence[RelationSentence], bare: list[RelationSentence], gamma: float
) -> RelationExtractor:
    with warnings.catch_warnings():
        # Gaps of integer programs over all sentences are far below what an iteration gains.
        warnings.simplefilter("ignore", ConvergenceWarning)
        extractor = _extractor(settings, gamma=gamma, count_margin=MARGIN)
        return extractor.fit([*labelled, *bare])


def _judge(trial: Trial, extractor: RelationExtractor, test: list[RelationSentence], began: float) -> Trial:
    scores = relation_scores(extractor.predict(test), test)
    seconds = round(time.perf_counter() - began, 3)
    return trial._replace(relations=scores.relations.macro_f1, types=scores.types.macro_f1, seconds=seconds)


def p_value(trials: Sequence[Trial], share: float, method: str, other: str) -> float | None:
    """Of the paired t-test of the F1 of relations; None with fewer than two splits, or if both are the same."""
    one, two = (np.array([trial.relations for trial in where(trials, share=share, method=m)]) for m in (method, other))
    if len(one) < 2 or np.array_equal(one, two):
        return None
    return float(cast(Any, ttest_rel)(one, two).pvalue)


def claims(trials: Sequence[Trial], shares: Sequence[float]) -> dict[str, bool]:
    """What the paper says, held against our numbers."""

    def above(method: str, other: str) -> bool:
        return all(_is_above(trials, share, method, other) for share in shares)

    return {
        "UEM is above the supervised start at every share, p < 0.05": above(UEM, SUPERVISED),
        "UEM or CoDL is above the supervised start at every share, p < 0.05": all(
            any(_is_above(trials, share, method, SUPERVISED) for method in (UEM, CODL)) for share in shares
        ),
        "UEM is above PR at every share, p < 0.05": above(UEM, PR),
    }


def _is_above(trials: Sequence[Trial], share: float, method: str, other: str) -> bool:
    p = p_value(trials, share, method, other)
    return p is not None and p < LEVEL and _mean(trials, share, method) > _mean(trials, share, other)


def _mean(trials: Sequence[Trial], share: float, method: str, field: str = "relations") -> float:
    return statistics.fmean(getattr(trial, field) for trial in where(trials, share=share, method=method))


def _means(trials: Sequence[Trial], shares: Sequence[float]) -> Table:
    rows: list[tuple[Any, ...]] = [(FULL, "paper", 56.0, 88.0)]
    rows += [
        (
            method if share == 1.0 else f"{share:.0%}, {method}",
            "ours",
            *(percent(_mean(trials, share, method, field)) for field in ("relations", "types")),
        )
        for share, method in [
            *((1.0, method) for method in (FULL, RELATED)),
            *((share, method) for share in shares for method in _methods(trials)),
        ]
    ]
    return Table("Mean F1 over relations, and over types of mentions", ("labelled", "", "relations", "types"), rows)


def _tests(trials: Sequence[Trial], shares: Sequence[float]) -> Table:
    rows = []
    for share in shares:
        beam = ((BEAM, SUPERVISED), (CODL, BEAM)) if BEAM in _methods(trials) else ()
        for method, other in (
            (PR, SUPERVISED),
            (CODL, SUPERVISED),
            *beam,
            (UEM, SUPERVISED),
            (UEM, PR),
            (UEM, CODL),
            (UEM, BONUS),
        ):
            gain = percent(_mean(trials, share, method) - _mean(trials, share, other))
            p = p_value(trials, share, method, other)
            rows.append((f"{share:.0%}", f"{method} over {other}", gain, None if p is None else round(p, 4)))
    return Table("Gains in F1 of relations, with p of the paired t-test", ("labelled", "", "gain", "p"), rows)


def _methods(trials: Sequence[Trial]) -> tuple[str, ...]:
    """The methods that were run at the shares asked for."""
    return METHODS + ((BEAM,) if where(trials, method=BEAM) else ())


def _gammas(trials: Sequence[Trial], shares: Sequence[float]) -> Table:
    rows = []
    for share in shares:
        chosen = [trial.gamma for trial in where(trials, share=share, method=UEM) if trial.gamma is not None]
        rows.append((f"{share:.0%}", PAPER_GAMMA.get(share), statistics.median(chosen), _counts(chosen)))
    return Table("Gamma chosen by UEM: median", ("labelled", "paper", "ours", "ours, how often"), rows)


def _counts(chosen: Sequence[float]) -> str:
    return ", ".join(f"{gamma:g}: {chosen.count(gamma)}" for gamma in sorted(set(chosen)))


def _figure(trials: Sequence[Trial], shares: Sequence[float]) -> Any:
    at = [100 * share for share in shares]
    lines = [
        Line(method, at, [percent(_mean(trials, share, method)) for share in shares], colour=k, style=k)
        for k, method in enumerate(_methods(trials))
    ]
    return draw_panels([Panel("Relations", "labelled sentences, per cent", "mean F1, per cent", lines)])
