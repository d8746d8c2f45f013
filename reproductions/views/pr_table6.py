"""[Ganchev2010] table 6: noun phrases from few labelled sentences, by taggers of content and of context that agree.

Of every token the content view sees the word and its part of speech, the context view those of the tokens before and
after it. Both are conditional random fields; a third one, of all six features, is what agreement has to beat.

Why there is no gain when the views are taken as the paper describes them: a context view whose transitions do not
depend on features has an F1 of 54 at 10 sentences and of 70 at 500, and drags the content view (79 at 10) down with
it. The part of speech before a token says whether a phrase goes on only together with the tag there. With transitions
that depend on the parts of speech before and after, the F1 of the context view is 70 at 10 sentences and 90 at 500, and
agreement gains. What transitions the paper's CRFs had is not said.

Explored on 200 or 300 other sentences, 2 to 6 draws of labelled sentences, 10 and 20 of them: features of all tags
(``pairs="all"``) are better than of those seen, by 2; variance 1 is worse than 10, by 1 to 2; transitions of the
content view that depend on features cost it 3 to 5; gamma 0.5, 0.25 and 0 are alike, and better than 1 by 1; 500 or
1,500 unlabelled sentences, 5 or 15 iterations, and unlabelled sentences at their full weight make little difference.

Declared before the test sentences were read: variance 10 and unlabelled sentences of the same total weight as labelled
ones, as in the paper; 500 unlabelled sentences; 5 iterations of 12 steps of L-BFGS for each view; gamma 1 (PR) and
0.5 (UEM), at which two views that agree have the product of their probabilities, in place of its root.

* The paper's 500 test sentences and labelled sentences are not known; ours are drawn at random, the latter several
  times. Sentences with the words of one before them are left out.
* 500 unlabelled sentences in each draw; the paper has all that are left, some 8,000.
* The labels are B-NP, I-NP and O; the paper does not say whether tags of other phrases took part.
* Scores are those of the agreed distribution, Viterbi decoded; the paper does not say which.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproductions.records import group, where
from reproductions.relatives.tasks import Sentence, read_chunks
from reproductions.report import Report, Table, bullets, listing, tell
from spectrem import CRFTagger, Views
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import chunk_scores
from spectrem.plotting import Line, Panel, draw_panels

QUICK = {"sizes": (5, 10), "draws": 1, "n_unlabelled": 30, "n_test": 50}
PAPER = {
    10: (73.2, 78.2), 20: (79.4, 84.2), 50: (86.3, 86.9), 100: (88.5, 88.9), 200: (89.6, 89.6), 500: (91.3, 90.6),
    1000: (91.6, 91.1),
}  # fmt: skip
"""F1 of the CRF and of agreement (SAR), per cent, by labelled sentences."""
VARIANCE, ITERATIONS, STEPS, FIRST_DRAW = 10.0, 5, 12, 200
EDGES = ("p-=", "p+=")
CRF, CRF_EDGES, CONTENT, CONTEXT, CONTEXT_EDGES = "CRF", "CRF+e", "content", "context", "context+e"
APART, PLAIN, PR, UEM = "agree_0+e", "PR", "PR+e", "UEM+e"
METHODS = (CRF, CRF_EDGES, CONTENT, CONTEXT, CONTEXT_EDGES, APART, PLAIN, PR, UEM)
"""+e: transitions depend on the parts of speech before and after a token."""
SUPERVISED = (CRF, CRF_EDGES, CONTENT)


class Fit(NamedTuple):
    """One training; F1 of noun phrases in [0, 1]."""

    size: int
    draw: int
    method: str
    f1: float
    seconds: float


def content(sentence: Sentence) -> list[list[str]]:
    """Word and part of speech of every token."""
    return [[f"w={word}", f"p={pos}"] for word, pos in sentence.tokens]


def context(sentence: Sentence) -> list[list[str]]:
    """Words and parts of speech of the tokens before and after every token.

    Examples
    --------
    >>> context(Sentence([("a", "DT"), ("dog", "NN")], ["B-NP", "I-NP"]))
    [['begin', 'w+=dog', 'p+=NN'], ['w-=a', 'p-=DT', 'end']]
    """
    tokens = sentence.tokens
    before = [["begin"], *([f"w-={word}", f"p-={pos}"] for word, pos in tokens[:-1])]
    after = [*([f"w+={word}", f"p+={pos}"] for word, pos in tokens[1:]), ["end"]]
    return [left + right for left, right in zip(before, after, strict=True)]


def all_six(sentence: Sentence) -> list[list[str]]:
    """Content and context together."""
    return [left + right for left, right in zip(content(sentence), context(sentence), strict=True)]


SEEN = {CRF: all_six, CRF_EDGES: all_six, CONTENT: content, CONTEXT: context, CONTEXT_EDGES: context}
"""What supervised taggers see."""


def run(
    data: Path | None = None,
    sizes: Sequence[int] = tuple(PAPER),
    *,
    draws: int = 5,
    n_unlabelled: int = 500,
    n_test: int = 500,
    threads: int | None = None,
) -> Report:
    """Learn from some labelled sentences, and others without labels.

    Parameters
    ----------
    data : path, optional
        The folder that holds ``chunk``.
    sizes : sequence of int
        Labelled sentences.
    draws : int
        How often they are drawn.
    n_unlabelled, n_test : int
    threads : int, optional
        Results do not depend on it.
    """
    first: dict[tuple[str, ...], Sentence] = {}
    for one in read_chunks(data)[0]:
        first.setdefault(tuple(word for word, _ in one.tokens), one)
    sentences = list(first.values())
    if max(sizes) + n_unlabelled + n_test > len(sentences):
        raise InvalidInputError(
            f"sizes must leave sentences for {n_unlabelled} without labels and {n_test} tests, got {max(sizes)} of "
            f"{len(sentences)}; take fewer"
        )
    order = np.random.default_rng(0).permutation(len(sentences))
    test, rest = [sentences[k] for k in order[:n_test]], order[n_test:]
    fits: list[Fit] = []
    for draw in range(FIRST_DRAW, FIRST_DRAW + draws):
        drawn = [sentences[k] for k in np.random.default_rng(draw).permutation(rest)]
        for size in sizes:
            labelled, free = drawn[:size], drawn[max(sizes) : max(sizes) + n_unlabelled]
            found = _train(labelled, free, test, draw, threads)
            fits += found
            told = ", ".join(f"{fit.method} {100 * fit.f1:.1f}" for fit in found)
            tell(f"draw {draw}, {size} sentences, {sum(fit.seconds for fit in found):.0f} s: {told}")
    return Report(
        title=f"Noun phrases: F1 (%) on {n_test} sentences, mean of {draws} draws of labelled sentences",
        tables=[_table(fits), _gains(fits)],
        numbers=listing(fits),
        figure=_figure(fits),
        claims=claims(fits),
        notes=bullets(__doc__),
    )


def _train(
    labelled: Sequence[Sentence], free: Sequence[Sentence], test: Sequence[Sentence], draw: int, threads: int | None
) -> list[Fit]:
    y = [one.tags for one in labelled]
    gold, found = [one.tags for one in test], []

    def add(method: str, began: float, predicted: list[list[Any]]) -> None:
        seconds = round(time.perf_counter() - began, 3)
        found.append(Fit(len(labelled), draw, method, chunk_scores(predicted, gold).f1, seconds))

    for method, seen in SEEN.items():
        began = time.perf_counter()
        tagger = _tagger(method.endswith("+e")).set_params(n_threads=threads).fit(list(map(seen, labelled)), y)
        add(method, began, tagger.predict(list(map(seen, test))))
    every = [*labelled, *free]
    X, of_test = ({"content": list(map(content, own)), "context": list(map(context, own))} for own in (every, test))
    for method, gamma in ((APART, 1.0), (PLAIN, 1.0), (PR, 1.0), (UEM, 0.5)):
        began = time.perf_counter()
        views = Views(
            [("content", _tagger(False, STEPS)), ("context", _tagger(method.endswith("+e"), STEPS))],
            gamma=gamma,
            unlabelled_weight=0.0 if method == APART else len(labelled) / len(free),
            max_iter=ITERATIONS,
            tol=0.0,
            n_threads=threads,
        )
        views.fit(X, [*y, *[None] * len(free)])
        add(method, began, views.predict(of_test))
    return found


def _tagger(edges: bool, steps: int | None = None) -> CRFTagger:
    tags = ["B-NP", "I-NP", "O"]
    return CRFTagger(tags=tags, C=VARIANCE, pairs="all", edge_features=EDGES if edges else (), m_steps=steps)


def mean_f1(fits: Sequence[Fit]) -> float:
    """Per cent."""
    return 100 * float(np.mean([fit.f1 for fit in fits]))


def gains(fits: Sequence[Fit], method: str, over: str) -> dict[int, np.ndarray]:
    """Per cent of F1 that a method gains over another, by size, shape (n_draws,)."""
    return {
        size: 100
        * np.array(
            [one.f1 - other.f1 for one, other in zip(where(own, method=method), where(own, method=over), strict=True)]
        )
        for size, own in group(fits, "size").items()
    }


def best_baseline(fits: Sequence[Fit], size: int) -> str:
    """The supervised tagger with the largest mean F1 at a size."""
    return max(SUPERVISED, key=lambda method: mean_f1(where(fits, size=size, method=method)))


def _table(fits: Sequence[Fit]) -> Table:
    rows = [
        (size, *PAPER.get(size, (None, None)), *(round(mean_f1(where(own, method=method)), 1) for method in METHODS))
        for size, own in group(fits, "size").items()
    ]
    title = "+e: transitions depend on parts of speech around; PR: gamma 1, UEM: gamma 0.5"
    return Table(title, ("size", "paper CRF", "paper SAR", *METHODS), rows)


def _gains(fits: Sequence[Fit]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for size in group(fits, "size"):
        best = best_baseline(fits, size)
        paper = PAPER.get(size)
        cells: list[Any] = []
        for method, over in ((PLAIN, CRF), (PR, CRF), (UEM, CRF), (UEM, best), (UEM, APART)):
            found = gains(fits, method, over)[size]
            error = f" ({found.std(ddof=1) / np.sqrt(len(found)):.1f})" if len(found) > 1 else ""
            cells.append(f"{found.mean():+.1f}{error}")
        rows.append((size, "" if paper is None else f"{paper[1] - paper[0]:+.1f}", *cells, best))
    columns = (
        "size",
        "paper",
        *(f"{method} over CRF" for method in (PLAIN, PR, UEM)),
        "UEM+e over best",
        "over agree_0",
        "best",
    )
    title = "Gains of agreement (standard errors over draws); best: the best supervised tagger; agree_0: views apart"
    return Table(title, columns, rows)


def claims(fits: Sequence[Fit]) -> dict[str, bool]:
    """What the paper says of agreement, each with the numbers that decide."""
    mean = {
        (method, over): {size: own.mean() for size, own in gains(fits, method, over).items()}
        for method in (PLAIN, PR, UEM)
        for over in SUPERVISED
    }
    few = [size for size in group(fits, "size") if size <= 100]
    many = [size for size in group(fits, "size") if size >= 500]

    def told(method: str, sizes: Sequence[int], over: str = CRF) -> str:
        return ", ".join(f"{mean[method, over][size]:+.1f} at {size}" for size in sizes)

    best = {size: mean[UEM, best_baseline(fits, size)][size] for size in few}
    found = {
        f"Agreement gains with 10 to 100 sentences (PR+e {told(PR, few)})": all(
            mean[PR, CRF][size] > 0 for size in few
        ),
        f"more at gamma 0.5 (UEM+e {told(UEM, few)})": all(mean[UEM, CRF][size] > mean[PR, CRF][size] for size in few),
        "over the best supervised tagger, too (UEM+e "
        f"{', '.join(f'{gain:+.1f} at {size}' for size, gain in best.items())})": all(
            gain > 0 for gain in best.values()
        ),
        f"Views without features on transitions do not gain (PR {told(PLAIN, few)})": all(
            mean[PLAIN, CRF][size] < 0 for size in few
        ),
    }
    if many:
        told_many = f"No further gain with more labels (PR+e {told(PR, many)})"
        found[told_many] = all(mean[PR, CRF][size] <= 0.5 for size in many)
    return found


def _figure(fits: Sequence[Fit]) -> Any:
    sizes = list(group(fits, "size"))
    lines = [
        Line(method, sizes, [mean_f1(where(fits, size=size, method=method)) for size in sizes], colour=k, style=k)
        for k, method in enumerate((CRF, CONTENT, CONTEXT, CONTEXT_EDGES, PLAIN, PR, UEM))
    ]
    return draw_panels(
        [Panel("Content and context", "labelled sentences", "F1, per cent", lines)],
        title="Noun phrases from few labelled sentences",
    )
