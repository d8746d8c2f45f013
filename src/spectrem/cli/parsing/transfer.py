"""`spectrem parse transfer`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from spectrem.cli.annealing import Annealing
from spectrem.cli.estimator_options import Settings, takes
from spectrem.cli.files import command_files
from spectrem.cli.homes import Home
from spectrem.cli.options import Quiet, refuse_unused
from spectrem.cli.parsing.options import check_settings
from spectrem.estimators.grammar.parameters import MODEL, GrammarSettings
from spectrem.estimators.parser.parameters import ParserParameters
from spectrem.estimators.shared_parameters import TRAINING
from spectrem.exceptions import InvalidInputError

_FILES = "Files"


@dataclass(frozen=True)
class TransferOptions:
    """Arguments and options of `spectrem parse transfer` besides the parameters of its two estimators."""

    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Source sentences with heads in CoNLL-U, as spectrem parse predict."),
    ]
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Their translations in CoNLL-U with tags, whose heads are not read; with --tagger also text, one "
            "sentence per line.",
        ),
    ]
    align: Annotated[
        str,
        typer.Option(
            "--align",
            metavar="LINKS",
            help="Links of words, source first: one line per pair of i-j, counted from 0, as spectrem align writes.",
            rich_help_panel=_FILES,
        ),
    ]
    model: Annotated[
        str, typer.Option("--model", metavar="FILE", help="Where to write the model.", rich_help_panel=_FILES)
    ]
    tagger: Annotated[
        str | None,
        typer.Option(
            "--tagger",
            metavar="MODEL",
            help="Tag TARGET with this model of spectrem tag train.",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="MODEL",
            help="Start from this model of the same kind, such as one of the source language that reads tags alone "
            "(spectrem parse train --min-count 1000000).",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None
    share: Annotated[
        list[float] | None,
        typer.Option(
            "--share",
            metavar="SHARE",
            help="At least this share of the arcs that a target sentence has in common with its source tree is "
            "expected. Given several times, the one is taken with which a model of half of the text conserves most "
            "arcs of the other half.",
            show_default="0.7",
            rich_help_panel=TRAINING,
        ),
    ] = None
    unaligned_children: Annotated[
        float | None,
        typer.Option(
            "--unaligned-children",
            metavar="N",
            help="A word without a link has up to N children, in expectation.",
            show_default="any number",
            rich_help_panel=TRAINING,
        ),
    ] = None
    all_links: Annotated[
        bool,
        typer.Option(
            "--all-links",
            help="Arcs go along all links; by default along links of words that have no other.",
            rich_help_panel=TRAINING,
        ),
    ] = False
    dmv: Annotated[
        bool,
        typer.Option(
            "--dmv",
            help="Learn a grammar, the dependency model with valence, from tags alone.",
            rich_help_panel=MODEL,
        ),
    ] = False
    field: Annotated[
        Literal["upos", "xpos"],
        typer.Option(
            "--field", metavar="NAME", help="The tags that --dmv reads and --tagger fills.", rich_help_panel=MODEL
        ),
    ] = "upos"
    quiet: Quiet = False


@takes(ParserParameters, beside=GrammarSettings, defaults={"infeasible": "skip"})
def transfer(own: TransferOptions, settings: Settings, annealing: Annealing, home: Home) -> None:
    """Learn a parser of a language without trees from translations with trees.

    Example: **spectrem parse transfer en.conllu es.conllu --align en-es.txt --model es.npz**

    An arc between two target words is conserved if their source words stand in
    an arc. The trees of target sentences are inferred under the constraint that a
    share of the conserved arcs is in them.
    """
    _check(own, settings, annealing, home)
    inputs = {
        "SOURCE": own.source, "TARGET": own.target, "--align": own.align, "--tagger": own.tagger, "--start": own.start,
    }  # fmt: skip
    with command_files(inputs, {"--model": own.model}, home.folders(settings)), home.opened(settings) as placed:
        from spectrem.cli.parsing.transfer_job import run_transfer

        run_transfer(own, placed, annealing)


def _check(own: TransferOptions, settings: Settings, annealing: Annealing, home: Home) -> None:
    """Refuse options that cannot be met together, or that change nothing in this run."""
    check_settings(settings, annealing, home, dmv=own.dmv)
    if own.field != "upos" and not own.dmv and own.tagger is None:
        refuse_unused(f"--field {own.field}", "--dmv or --tagger")
    if own.dmv and own.start is not None and "init" in settings:
        raise InvalidInputError(
            f"--start {own.start} and --init {settings['init']} both say where to start; drop one of them"
        )
