"""`spectrem parse train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from spectrem.cli.annealing import Annealing
from spectrem.cli.estimator_options import Settings, takes
from spectrem.cli.files import command_files
from spectrem.cli.homes import Home
from spectrem.cli.options import Quiet, check_constraint_options, refuse_unused
from spectrem.cli.parsing.options import MaxLength, SkipPunctuation, check_settings
from spectrem.estimators.grammar.parameters import MODEL, GrammarSettings
from spectrem.estimators.parser.parameters import ParserParameters
from spectrem.estimators.shared_parameters import TRAINING

_FILES = "Files"


@dataclass(frozen=True)
class TrainingOptions:
    """The argument and options of `spectrem parse train` besides the parameters of its two estimators."""

    corpus: Annotated[
        str,
        typer.Argument(
            metavar="CORPUS",
            help="Tagged sentences in CoNLL-U, plain or gzipped, with heads; heads that are not known are _. - is "
            "standard input.",
        ),
    ]
    model: Annotated[
        str, typer.Option("--model", metavar="FILE", help="Where to write the model.", rich_help_panel=_FILES)
    ]
    dmv: Annotated[
        bool,
        typer.Option(
            "--dmv",
            help="Learn a grammar, the dependency model with valence, from tags alone; heads of CORPUS are not read, "
            "but for --heads. Its options are --adjacency, --smoothing, --init, --heads and --field.",
            rich_help_panel=MODEL,
        ),
    ] = False
    heads: Annotated[
        bool,
        typer.Option("--heads", help="With --dmv, learn from the heads of CORPUS too.", rich_help_panel=TRAINING),
    ] = False
    field: Annotated[
        Literal["upos", "xpos"],
        typer.Option(
            "--field", metavar="NAME", help="The tags of --dmv: upos or xpos of CoNLL-U.", rich_help_panel=MODEL
        ),
    ] = "upos"
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            "--constraint",
            metavar="TEXT",
            help="What trees must meet in expectation; repeat for several. \"tag_rules({'VERB': ['NOUN', 'PRON'], "
            "'NOUN': ['DET', 'ADJ']}, 0.8)\": at least 80 % of arcs are of these tags. \"E[(root) & (dependent_tag == "
            "'VERB')] >= '70%'\". See docs/constraints.md.",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None
    skip_punctuation: SkipPunctuation = False
    max_length: MaxLength = None
    quiet: Quiet = False


@takes(ParserParameters, beside=GrammarSettings)
def train(own: TrainingOptions, settings: Settings, annealing: Annealing, home: Home) -> None:
    """Learn a parser from trees, or with --dmv a grammar from tags alone.

    Example: **spectrem parse train en-train.conllu --model model.npz**

    Sentences may have all heads, some or none: what is missing is inferred, with
    --learner batch under constraints too.

    Without trees: **spectrem parse train tagged.conllu --dmv --skip-punctuation --max-length 10 --model model.npz**
    """
    _check(own, settings, annealing, home)
    outputs = {"--model": own.model}
    with command_files({"CORPUS": own.corpus}, outputs, home.folders(settings)), home.opened(settings) as placed:
        from spectrem.cli.parsing.job import train_grammar, train_parser

        (train_grammar if own.dmv else train_parser)(own, placed, annealing)


def _check(own: TrainingOptions, settings: Settings, annealing: Annealing, home: Home) -> None:
    """Refuse options that cannot be met together, or that change nothing in this run."""
    check_settings(settings, annealing, home, dmv=own.dmv)
    check_constraint_options(settings, own.constraint)
    flags = {"--heads": own.heads, "--field": own.field != "upos", "--skip-punctuation": own.skip_punctuation}
    for option, was_given in flags.items():
        if was_given and not own.dmv:
            refuse_unused(option, "--dmv")
