"""What `spectrem parse transfer` does once its options are understood."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from spectrem.cli.annealing import Annealing
from spectrem.cli.ending import say
from spectrem.cli.parsing.job import tags_of
from spectrem.cli.parsing.options import read_treebank, sentences_named
from spectrem.cli.parsing.transfer import TransferOptions
from spectrem.cli.progress import progress_bar, without_unconverged
from spectrem.data import ParsedSentence, display_name, read_links, read_sentences
from spectrem.data.transfer import one_to_one
from spectrem.estimators import CRFTagger, DependencyModel, EdgeFactoredParser, HMMTagger
from spectrem.estimators.storage import saved_kind
from spectrem.estimators.transfer import transfer_parser
from spectrem.exceptions import InvalidInputError, spelled

_SHARE = 0.7


def run_transfer(own: TransferOptions, settings: dict[str, Any], annealing: Annealing) -> None:
    """Read, train, save."""
    started = time.perf_counter()
    source = read_treebank(own.source)
    for number, sentence in enumerate(source):
        if sentence.heads is None or (sentence.heads < -1).any():
            raise InvalidInputError(
                f"{display_name(own.source)}, sentence {number + 1}: lacks heads; parse it first (spectrem parse "
                "predict)"
            )
    target = _tagged(own) if own.tagger is not None else read_treebank(own.target, trees=False)
    if len(source) != len(target):
        raise InvalidInputError(
            f"{display_name(own.source)} has {len(source)} sentences and {display_name(own.target)} has {len(target)}; "
            "sentence n of one must translate sentence n of the other"
        )
    lengths = [len(one.forms) for one in source], [len(one.forms) for one in target]
    links = read_links(own.align, lengths=lengths)
    kind = DependencyModel if own.dmv else EdgeFactoredParser
    start = None if own.start is None else _load(own.start, kind)
    given: Sequence[Any] = tags_of(target, own.field, own.target) if own.dmv else target
    parser = kind(**annealing.schedule(settings))
    with progress_bar(1, shown=not own.quiet) as bar, without_unconverged():
        bar("Training")
        # while shares are compared, numbers are those of half of the sentences
        named = sentences_named(own.target, target) if len(own.share or ()) < 2 else nullcontext()
        names = {"infeasible": "--infeasible", "share": "--share", "learner": "--learner"}
        with named, spelled(names):
            found = transfer_parser(
                parser, [one.heads for one in source], given, links if own.all_links else one_to_one(links),
                share=own.share or _SHARE, start=start, unaligned_children=own.unaligned_children,
                name=display_name(own.align),
            )  # fmt: skip
        bar("Saving", 1.0)
        parser.save(own.model)
    if not own.quiet:
        n_words = sum(len(one.forms) for one in target)
        n_conserved = sum(int(arcs.any(axis=1).sum()) for arcs in found.conserved)
        for trial in found.trials:
            say(f"share {trial.share:g}: {trial.predicted:.1%} of the arcs of the other half")
        say(
            f"learned from {len(target)} sentences ({n_words} words, {n_conserved} with a conserved arc) in "
            f"{time.perf_counter() - started:.1f} s, share {found.share:g}"
        )


def _load(path: str, kind: type) -> Any:
    found = saved_kind(path)
    if found != kind.__name__:
        raise InvalidInputError(
            f"--start {path}: holds a model of the kind {found}, but a {kind.__name__} is learned; give a model "
            "of the same kind"
            + (", or drop --dmv" if kind is DependencyModel else ", or add --dmv" if found == "DependencyModel" else "")
        )
    return kind.load(path)  # type: ignore[attr-defined]


def _tagged(own: TransferOptions) -> list[ParsedSentence]:
    """The target sentences with the tags that the tagger finds."""
    assert own.tagger is not None
    words = list(read_sentences(own.target, "auto"))
    tagger = (CRFTagger if saved_kind(own.tagger) == "CRFTagger" else HMMTagger).load(own.tagger)
    sentences = []
    for forms, tags in zip(words, tagger.predict(words), strict=True):
        blank, found = ("_",) * len(forms), tuple(map(str, tags))
        pair = (found, blank) if own.field == "upos" else (blank, found)
        sentences.append(ParsedSentence(tuple(forms), *pair))
    return sentences
