"""The two parsers of [Ganchev2010] §7, each transferred in three ways: without words, by completed trees, by PR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.transfer.parallel import ParallelText
from spectrem import DependencyModel, EdgeFactoredParser
from spectrem.data import Links, ParsedSentence, complete_trees, conserved_arcs, projectivise
from spectrem.estimators.transfer import Transfer, transfer_parser
from spectrem.metrics import not_punctuation

Heads = list[NDArray[np.int64]]
DISCRIMINATIVE, GENERATIVE = "discriminative", "generative"
# Chosen on the dev parts, for all languages alike; see the notes of pr_table8.
PASSES, ITERATIONS, SMOOTHING = 5, 3, 0.1
# English trees together weigh so much beside the text; gamma is that of the generative parser.
SOURCE_WEIGHT, GAMMA = 2.0, 0.5
# No word is that frequent, so that all are alike and only tags tell them apart.
_NO_WORDS = 10**9


class Source(NamedTuple):
    """What is learnt of the source language once.

    Attributes
    ----------
    trees : list of ParsedSentence
        Its treebank.
    parser : EdgeFactoredParser
        Reads words and tags, and parses the source side of bitexts.
    delexicalised : EdgeFactoredParser
        Reads tags only, and parses any language.
    grammar : DependencyModel
        Reads tags but those of punctuation.
    """

    trees: list[ParsedSentence]
    parser: EdgeFactoredParser
    delexicalised: EdgeFactoredParser
    grammar: DependencyModel


def learn_source(trees: Sequence[ParsedSentence], longest: int, threads: int | None = None) -> Source:
    """Train the three parsers of the source language, those that read no words on sentences up to a length."""
    short = [own for own in trees if len(own.forms) <= longest]
    settings: dict[str, Any] = {"passes": PASSES, "n_threads": threads}
    bare = [without_punctuation(own)[0] for own in short]
    grammar = DependencyModel(smoothing=SMOOTHING, max_iter=1, tol=0.0, n_threads=threads)
    return Source(
        list(trees),
        EdgeFactoredParser(**settings).fit(list(trees)),
        EdgeFactoredParser(min_count=_NO_WORDS, **settings).fit(short),
        grammar.fit(*_tagged_trees(bare)),
    )


def parse_source(source: Source, text: ParallelText) -> ParallelText:
    """The text with the trees that the source parser finds."""
    return text._replace(source=source.parser.parse(text.source))


def transfer_discriminative(
    source: Source, text: ParallelText, share: float | Sequence[float], threads: int | None = None
) -> Transfer:
    """PR from the parser that reads tags only."""
    parser = EdgeFactoredParser(passes=PASSES, min_count=1, infeasible="skip", n_threads=threads)
    heads = [own.heads for own in text.source]
    return transfer_parser(parser, heads, text.target, text.links, share=share, start=source.delexicalised)


def transfer_generative(
    source: Source, text: ParallelText, share: float | Sequence[float], most: int, threads: int | None = None
) -> Transfer:
    """PR beside ``most`` trees of the source language, from the grammar that these make."""
    bare = bare_text(text)
    trees = [without_punctuation(own)[0] for own in source.trees if len(own.forms) <= 25][:most]
    grammar = DependencyModel(
        smoothing=SMOOTHING, max_iter=ITERATIONS, tol=0.0, gamma=GAMMA, infeasible="skip", init=source.grammar,
        n_threads=threads,
    )  # fmt: skip
    return transfer_parser(
        grammar, [own.heads for own in bare.source], _tags(bare.target), bare.links,
        share=share, labelled=_tagged_trees(trees),
        labelled_weight=SOURCE_WEIGHT * len(bare.target) / max(len(trees), 1),
    )  # fmt: skip


def completed_discriminative(text: ParallelText, seed: int, threads: int | None = None) -> EdgeFactoredParser:
    """The baseline after [Hwa2005]: one tree per sentence, of conserved arcs and chance."""
    trees = complete_trees(_conserved(text), random_state=seed)
    labelled = [own._replace(heads=tree) for own, tree in zip(text.target, trees, strict=True)]
    return EdgeFactoredParser(passes=PASSES, min_count=1, n_threads=threads).fit(labelled)


def completed_generative(text: ParallelText, seed: int, threads: int | None = None) -> DependencyModel:
    """The same for the grammar."""
    bare = bare_text(text)
    trees = complete_trees(_conserved(bare), random_state=seed)
    grammar = DependencyModel(smoothing=SMOOTHING, max_iter=1, tol=0.0, n_threads=threads)
    return grammar.fit(_tags(bare.target), trees)


def predictor(parser: Any) -> Callable[[list[ParsedSentence]], Heads]:
    """The function from sentences without punctuation, or with it for a discriminative parser, to their heads."""
    if isinstance(parser, DependencyModel):
        return lambda sentences: parser.predict(_tags(sentences))
    return lambda sentences: parser.predict(sentences)


def without_punctuation(sentence: ParsedSentence) -> tuple[ParsedSentence, list[int]]:
    """The sentence without words tagged as punctuation, and the positions of those that are left.

    A word that hung on punctuation hangs on the nearest word above that is left; if there is none and some other word
    is the root already, on that.
    """
    (mask,) = not_punctuation([sentence.upos])
    kept = np.flatnonzero(mask).tolist()
    forms, upos, xpos = (tuple(own[k] for k in kept) for own in (sentence.forms, sentence.upos, sentence.xpos))
    if sentence.heads is None:
        return ParsedSentence(forms, upos, xpos), kept
    number, heads = {k: n for n, k in enumerate(kept)}, []
    for k in kept:
        head = int(sentence.heads[k])
        while head >= 0 and head not in number:
            head = int(sentence.heads[head])
        heads.append(number.get(head, -1))
    roots = [n for n, head in enumerate(heads) if head == -1]
    for n in roots[1:]:
        heads[n] = roots[0]
    return ParsedSentence(forms, upos, xpos, np.array(heads, np.int64)), kept


def bare_text(text: ParallelText) -> ParallelText:
    """Parallel text without punctuation; pairs of which one side is then empty are left out."""
    pairs, links = [], []
    for n, (source, target) in enumerate(zip(text.source, text.target, strict=True)):
        (left, left_kept), (right, right_kept) = without_punctuation(source), without_punctuation(target)
        if left_kept and right_kept:
            places = [{k: m for m, k in enumerate(kept)} for kept in (left_kept, right_kept)]
            found = [(places[0].get(i), places[1].get(j)) for i, j in text.links.pairs(n)]
            links.append([(i, j) for i, j in found if i is not None and j is not None])
            pairs.append((left, right))
    return ParallelText([pair[0] for pair in pairs], [pair[1] for pair in pairs], Links.from_pairs(links))


def _conserved(text: ParallelText) -> list[NDArray[np.bool_]]:
    heads = [own.heads for own in text.source]
    return conserved_arcs(heads, text.links, [len(own.forms) for own in text.target])  # type: ignore[arg-type]


def _tags(sentences: Sequence[ParsedSentence]) -> list[list[str]]:
    return [list(own.upos) for own in sentences]


def _tagged_trees(sentences: Sequence[ParsedSentence]) -> tuple[list[list[str]], Heads]:
    """Tags and projective trees of the sentences that have words."""
    present = [own for own in sentences if own.forms]
    return _tags(present), [projectivise(own.heads) for own in present]  # type: ignore[arg-type]
