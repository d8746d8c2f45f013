"""`spectrem extract train`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from spectrem.cli.annealing import Annealing
from spectrem.cli.ending import say
from spectrem.cli.estimator_options import Settings, takes
from spectrem.cli.files import command_files
from spectrem.cli.homes import Home
from spectrem.cli.options import Quiet, refuse_unused
from spectrem.estimators.extraction.parameters import ExtractionParameters
from spectrem.estimators.shared_parameters import TRAINING
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from spectrem.estimators import RelationExtractor

COLUMNS = ("sentence", "kind", "labelled", "mention", "type", "text", "pair", "relation", "first", "second")


@dataclass(frozen=True)
class TrainingOptions:
    """The arguments and options of `spectrem extract train` besides the parameters of `RelationExtractor`."""

    labelled: Annotated[
        str,
        typer.Argument(
            metavar="LABELLED",
            help="Sentences with types and relations, in the format of CoNLL04: nine columns between tabs, of which "
            "the second has the type of a mention or O, the fifth parts of speech and the sixth words; a mention of "
            "several words is one line, with / between; a blank line; lines of two line numbers and a relation; a "
            "blank line.",
        ),
    ]
    model: Annotated[
        str, typer.Option("--model", metavar="FILE", help="Where to write the model.", rich_help_panel="Files")
    ]
    unlabelled: Annotated[
        str | None,
        typer.Option(
            "--unlabelled",
            metavar="FILE",
            help="Further sentences with mentions, to be learned from besides LABELLED; their labels are ignored.",
            show_default=False,
            rich_help_panel="Files",
        ),
    ] = None
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            "--constraint",
            metavar="TEXT",
            help="What labels must meet in expectation; repeat for several. \"argument_types({'Kill': ('Peop', "
            "'Peop')})\": a relation implies types. See docs/constraints.md.",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None
    quiet: Quiet = False


@takes(ExtractionParameters)
def train(own: TrainingOptions, settings: Settings, annealing: Annealing, home: Home) -> None:
    """Learn to find types of mentions and relations between them, in sentences whose mentions are known.

    Example: **spectrem extract train labelled.corp --model model.npz --constraint "argument_types({'Kill': ('Peop',
    'Peop')})"**

    With --unlabelled it also learns from sentences without labels, guided by the
    constraints and, with --count-margin 0.2, by the shares of the relations.
    """
    annealing.check(settings.get("gamma", 1.0))
    if own.unlabelled is None:
        for name in ("count_margin", "gamma", "unlabelled_weight", "dual_steps", "m_steps", "infeasible"):
            if name in settings:
                refuse_unused(f"--{name.replace('_', '-')} {settings[name]}", "--unlabelled")
        for option, value in annealing.given.items():
            refuse_unused(f"{option} {value}", "--unlabelled")
    inputs = {"LABELLED": own.labelled, "--unlabelled": own.unlabelled}
    with command_files(inputs, {"--model": own.model}, home.folders(settings)), home.opened(settings) as placed:
        from spectrem.cli.constraint_option import parse_options
        from spectrem.cli.progress import fit_and_save, warn_gaining
        from spectrem.data import display_name, read_relations
        from spectrem.estimators import RelationExtractor

        started = time.perf_counter()
        constraints = parse_options(own.constraint or (), COLUMNS)
        sentences = read_relations(own.labelled)
        if not any(any(one.types or ()) for one in sentences) or not any(one.relations for one in sentences):
            raise InvalidInputError(
                f"{display_name(own.labelled)}: holds no mentions with types, or no relations, to learn from; name a "
                "file with both"
            )
        if own.unlabelled is not None:
            sentences += [sentence.unlabelled() for sentence in read_relations(own.unlabelled)]
        extractor = RelationExtractor(constraints=constraints, **annealing.schedule(placed))
        fit_and_save(extractor, lambda: extractor.fit(sentences), own.model, shown=not own.quiet)
        if not own.quiet:
            _report(extractor, len(sentences), time.perf_counter() - started)
            warn_gaining(extractor)


def _report(extractor: RelationExtractor, n_sentences: int, seconds: float) -> None:
    say(
        f"learned {len(extractor.theta_)} weights for {len(extractor.types_)} types and "
        f"{len(extractor.relations_) - 1} relations from {n_sentences} sentences in {seconds:.1f} s: "
        f"{extractor.n_iter_} iterations, objective {extractor.objective_:.6g} nats"
    )
