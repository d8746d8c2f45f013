"""[Ganchev2010] figure 10: posteriors of a Spanish sentence before and after projection onto its conserved arcs.

A grammar is learnt from the tags of the Spanish sentences alone, and its posteriors are projected onto the constraint
that 90 % of the arcs conserved from the English trees are expected. The figure shows one sentence; the table, for all
sentences of the text, how many words have their right head in expectation.

* The text is PUD, whose English and Spanish trees are both given: conserved arcs are those of the true English tree
  along the links of our aligner, as the paper shows gold trees and alignment; the paper had Europarl.
* Sentences of up to 20 words, without punctuation. The sentence shown is the first one of 7 to 10 words with at least
  4 conserved arcs, not the one that looks best.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.report import Report, Table, bullets, percent, tell
from reproductions.transfer.parallel import ParallelText, align, lower_cased
from reproductions.transfer.parsers import bare_text
from reproductions.treebanks import read_ud
from spectrem import DependencyModel
from spectrem.data import conserved_arcs
from spectrem.estimators.transfer import conservation
from spectrem.plotting import plot_trees

QUICK = {"iterations": 2, "longest": 8}
SHARE, LEAST = 0.9, 0.25


class Arc(NamedTuple):
    """An arc of the sentence shown: words from 0, head -1 for the root, and its probabilities."""

    dependent: int
    head: int
    words: str
    right: bool
    conserved: bool
    before: float
    after: float


def run(
    data: str | os.PathLike[str] | None = None,
    language: str = "es",
    *,
    iterations: int = 100,
    longest: int = 20,
    threads: int | None = None,
) -> Report:
    """Learn a grammar without trees, and project its posteriors.

    Parameters
    ----------
    data : path, optional
        The folder that holds ``ud``.
    language : str
        "es", "pt" or "de".
    iterations : int
        Of EM from the harmonic start.
    longest : int
        Words of the sentences to learn from.
    threads : int, optional
        Results do not depend on it.
    """
    source, target = (lower_cased(read_ud(data, f"{name}_pud", "test")) for name in ("en", language))
    whole = bare_text(ParallelText(source, target, align(source, target, threads)))
    text = whole.take([n for n, own in enumerate(whole.target) if len(own.forms) <= longest])
    tell(f"{len(text.target)} sentences of up to {longest} words; EM with {iterations} iterations")
    heads: list[Any] = [own.heads for own in text.source]
    lengths = [len(own.forms) for own in text.target]
    conserved = conserved_arcs(heads, text.links, lengths)
    tags = [list(own.upos) for own in text.target]
    grammar = DependencyModel(max_iter=iterations, tol=0.0, smoothing=0.1, n_threads=threads).fit(tags)
    before = grammar.predict_proba(tags)
    grammar.set_params(constraints=[conservation(SHARE)], project_at_predict=True, infeasible="skip")
    after = grammar.predict_proba(tags, columns={"conserved": conserved})
    gold = [_as_matrix(own.heads) for own in text.target]
    shown = _first(conserved)
    arcs = _arcs(text.target[shown].forms, gold[shown], conserved[shown], before[shown], after[shown])
    right = [_expected(gold, own) for own in (before, after)]
    of_conserved = [_expected(conserved, own) for own in (before, after)]
    precision = _share(conserved, gold)
    rows = [
        ("the right head", *(percent(one / sum(lengths)) for one in right)),
        ("a conserved arc, of words that have one", *(percent(one / _words(conserved)) for one in of_conserved)),
    ]
    pictures: dict[str, Any] = {
        "Conserved arcs": conserved[shown].astype(np.float64),
        "Before projection": before[shown],
        f"After projection: {SHARE:.0%} of the conserved arcs are expected": after[shown],
    }
    return Report(
        title=f"Posteriors of a grammar before and after projection ({language}, {len(lengths)} sentences)",
        tables=[
            Table("Words (%) that are expected to have", ("", "before", "after"), rows),
            Table(f"Arcs of the sentence shown, with probability above {LEAST}", Arc._fields, arcs),
        ],
        numbers=Table("", Arc._fields, arcs),
        figure=plot_trees(
            text.target[shown].forms, pictures, text.target[shown].heads, tags=text.target[shown].upos,
            min_probability=LEAST,
        ),
        claims={
            "Projection raises the number of right heads that are expected": right[1] > right[0],
            "Most arcs of the sentence shown that are conserved become probable": all(
                arc.after > arc.before for arc in arcs if arc.conserved and arc.before < SHARE
            ),
        },
        notes=[*bullets(__doc__), f"{percent(precision)} % of the conserved arcs are arcs of the Spanish trees."],
    )  # fmt: skip


def _as_matrix(heads: Any) -> NDArray[np.bool_]:
    arcs = np.zeros((len(heads), len(heads)), np.bool_)
    words = np.arange(len(heads))
    arcs[words, np.where(np.asarray(heads) < 0, words, heads)] = True
    return arcs


def _first(conserved: list[NDArray[np.bool_]]) -> int:
    """The first sentence of 7 to 10 words with four conserved arcs; the one with most arcs, should there be none."""
    fits = [n for n, arcs in enumerate(conserved) if 7 <= len(arcs) <= 10 and arcs.sum() >= 4]
    return fits[0] if fits else int(np.argmax([arcs.sum() for arcs in conserved]))


def _expected(arcs: list[NDArray[np.bool_]], posteriors: list[NDArray[np.float64]]) -> float:
    return float(sum((own * found).sum() for own, found in zip(arcs, posteriors, strict=True)))


def _words(arcs: list[NDArray[np.bool_]]) -> int:
    return sum(int(own.any(axis=1).sum()) for own in arcs)


def _share(arcs: list[NDArray[np.bool_]], gold: list[NDArray[np.bool_]]) -> float:
    return sum(int((own & true).sum()) for own, true in zip(arcs, gold, strict=True)) / sum(int(a.sum()) for a in arcs)


def _arcs(
    forms: tuple[str, ...],
    gold: NDArray[np.bool_],
    conserved: NDArray[np.bool_],
    before: NDArray[np.float64],
    after: NDArray[np.float64],
) -> list[Arc]:
    found = []
    for d, h in np.argwhere((np.maximum(before, after) > LEAST) | conserved).tolist():
        words = f"{forms[h] if h != d else 'root'} > {forms[d]}"
        probabilities = (round(float(before[d, h]), 3), round(float(after[d, h]), 3))
        found.append(
            Arc(d, h if h != d else -1, words, bool(gold[d, h]), bool(conserved[d, h]), *probabilities)
        )  # fmt: skip
    return found
