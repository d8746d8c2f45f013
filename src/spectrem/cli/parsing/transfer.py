"""`spectrem parse transfer`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from spectrem.cli.declare import Given, Settings, argument, option, takes
from spectrem.cli.ending import say
from spectrem.cli.files import command_files
from spectrem.cli.homes import Home
from spectrem.cli.options import Quiet
from spectrem.cli.parsing.options import check_settings, count_words, places_in, read_treebank, tags_of
from spectrem.cli.prediction import load_model
from spectrem.cli.rules import check_rules, excludes, needs
from spectrem.cli.schedules import Annealing
from spectrem.cli.training import TrainingRun
from spectrem.estimators.grammar.parameters import GrammarSettings
from spectrem.estimators.parser.parameters import ParserParameters
from spectrem.estimators.shared_parameters import MODEL, TRAINING
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from spectrem.data import ParsedSentence

_FILES = "Files"
_SHARE = 0.7
_RULES = (
    needs("--field", "--dmv", "--tagger"),
    excludes("--start", "--init", "{--start} and {--init} both say where to start; drop one of them"),
)


@dataclass(frozen=True)
class TransferOptions:
    """Arguments and options of `spectrem parse transfer` besides the parameters of its two estimators.

    Parameters
    ----------
    source
        Source sentences with heads in CoNLL-U, as spectrem parse predict.
    target
        Their translations in CoNLL-U with tags, whose heads are not read; with --tagger also text, one sentence per
        line.
    align
        Links of words, source first: one line per pair of i-j, counted from 0, as spectrem align writes.
    save
        Where to write the model.
    tagger
        Tag TARGET with this model of spectrem tag train.
    start
        Start from this model of the same kind, such as one of the source language that reads tags alone (spectrem
        parse train --min-count 1000000).
    share
        At least this share of the arcs that a target sentence has in common with its source tree is expected. Given
        several times, the one is taken with which a model of half of the text conserves most arcs of the other
        half.
    unaligned_children
        A word without a link has up to N children, in expectation.
    all_links
        Arcs go along all links; by default along links of words that have no other.
    dmv
        Learn a grammar, the dependency model with valence, from tags alone.
    field
        The tags that --dmv reads and --tagger fills.
    """

    source: str = argument("SOURCE")
    target: str = argument("TARGET")
    align: str = option(..., metavar="LINKS", group=_FILES)
    save: str = option(..., metavar="FILE", group=_FILES)
    tagger: str | None = option(None, metavar="MODEL", group=_FILES)
    start: str | None = option(None, metavar="MODEL", group=TRAINING)
    share: list[float] | None = option(None, metavar="SHARE", show_default=f"{_SHARE}", group=TRAINING)
    unaligned_children: float | None = option(None, metavar="N", show_default="any number", group=TRAINING)
    all_links: bool = option(False, group=TRAINING)
    dmv: bool = option(False, group=MODEL)
    field: Literal["upos", "xpos"] = option("upos", metavar="NAME", group=MODEL)
    quiet: Quiet = False


@takes(ParserParameters, beside=GrammarSettings, defaults={"infeasible": "skip"})
def transfer(options: TransferOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
    """Learn a parser of a language without trees from translations with trees.

    Example: **spectrem parse transfer en.conllu es.conllu --align en-es.txt --save es.npz**

    An arc between two target words is conserved if their source words stand in
    an arc. The trees of target sentences are inferred under the constraint that a
    share of the conserved arcs is in them.
    """
    check_settings(settings, annealing, given, dmv=options.dmv)
    check_rules(_RULES, given)
    inputs: dict[str, str | None] = {"SOURCE": options.source, "TARGET": options.target}
    inputs |= {"--align": options.align, "--tagger": options.tagger, "--start": options.start}
    with command_files(inputs, {"--save": options.save}, home.folders(settings)), home.opened(settings) as placed:
        _transfer(options, annealing.schedule(placed))


def _transfer(options: TransferOptions, settings: dict[str, Any]) -> None:
    """Read, train, save."""
    from spectrem.data import display_name, one_to_one, read_links
    from spectrem.estimators import DependencyModel, EdgeFactoredParser, transfer_parser

    run = TrainingRun(options.save, options.quiet)
    source = read_treebank(options.source)
    for number, sentence in enumerate(source):
        if sentence.heads is None or (sentence.heads < -1).any():
            raise InvalidInputError(
                f"{display_name(options.source)}, sentence {number + 1}: lacks heads; parse it first (spectrem parse "
                "predict)"
            )
    target = read_treebank(options.target, trees=False) if options.tagger is None else _tagged(options, options.tagger)
    if len(source) != len(target):
        raise InvalidInputError(
            f"{display_name(options.source)} has {len(source)} sentences and {display_name(options.target)} has "
            f"{len(target)}; sentence n of one must translate sentence n of the other"
        )
    lengths = [len(one.forms) for one in source], [len(one.forms) for one in target]
    links = read_links(options.align, lengths=lengths)
    kind = DependencyModel if options.dmv else EdgeFactoredParser
    start = None if options.start is None else _load_start(options.start, kind)
    sentences: Sequence[Any] = tags_of(target, options.field, options.target) if options.dmv else target
    parser = kind(**settings)

    transferred: Any = None

    def fit() -> None:
        nonlocal transferred
        transferred = transfer_parser(
            parser,
            [one.heads for one in source],
            sentences,
            links if options.all_links else one_to_one(links),
            share=options.share or _SHARE,
            start=start,
            unaligned_children=options.unaligned_children,
            name=display_name(options.align),
        )

    # while shares are compared, numbers are those of half of the sentences
    run.fit(
        parser, fit, places_in(options.target, target) if len(options.share or ()) < 2 else None, {"share": "--share"}
    )
    if not options.quiet:
        for trial in transferred.trials:
            say(f"share {trial.share:g}: {trial.predicted:.1%} of the arcs of the other half")
        n_conserved = sum(int(arcs.any(axis=1).sum()) for arcs in transferred.conserved)
        seconds = time.perf_counter() - run.started
        say(
            f"learned from {len(target)} sentences ({count_words(target)} words, {n_conserved} with a conserved arc) "
            f"in {seconds:.1f} s, share {transferred.share:g}"
        )


def _load_start(path: str, kind: type) -> Any:
    """A saved model of the kind that is learned."""
    from spectrem.estimators import DependencyModel
    from spectrem.estimators.storage import load

    model = load(path)
    if not isinstance(model, kind):
        hint = ""
        if DependencyModel in (kind, type(model)):
            hint = ", or drop --dmv" if kind is DependencyModel else ", or add --dmv"
        raise InvalidInputError(
            f"--start {path}: holds a model of the kind {type(model).__name__}, but a {kind.__name__} is learned; give "
            f"a model of the same kind{hint}"
        )
    return model


def _tagged(options: TransferOptions, tagger: str) -> list[ParsedSentence]:
    """The target sentences with the tags that the tagger finds."""
    from spectrem.data import ParsedSentence, read_sentences
    from spectrem.estimators import CRFTagger, HMMTagger

    words = list(read_sentences(options.target, "auto"))
    sentences = []
    for forms, tags in zip(words, load_model(tagger, HMMTagger, CRFTagger).predict(words), strict=True):
        blank, text = ("_",) * len(forms), tuple(map(str, tags))
        pair = (text, blank) if options.field == "upos" else (blank, text)
        sentences.append(ParsedSentence(tuple(forms), *pair))
    return sentences
