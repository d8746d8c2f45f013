"""`spectrem project`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from spectrem.cli.estimator_options import takes
from spectrem.cli.files import command_files
from spectrem.cli.tables.options import ConstraintFile, ConstraintTexts, Quiet, Report, TableOutput
from spectrem.exceptions import InvalidInputError

_SCORES, _PROJECTION, _MORE = "Scores", "Projection", "More results"


@dataclass(frozen=True)
class ProjectOptions:
    """The options of `spectrem project`."""

    constraints: ConstraintFile = None
    constraint: ConstraintTexts = None
    output: TableOutput = "-"
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="A,B,C",
            help="The columns that hold the scores, one label each.",
            show_default="all columns of numbers that neither --weights nor the constraints name",
            rich_help_panel=_SCORES,
        ),
    ] = None
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix",
            metavar="TEXT",
            help="The scores are in the columns whose names start so; the rest of the name is the label.",
            show_default=False,
            rich_help_panel=_SCORES,
        ),
    ] = None
    long: Annotated[
        str | None,
        typer.Option(
            "--long",
            metavar="ROW,LABEL,SCORE",
            help="One label of one row per line: the columns that tell the row, the label and its score. Rows may then "
            "differ in their labels.",
            show_default=False,
            rich_help_panel=_SCORES,
        ),
    ] = None
    log: Annotated[
        bool,
        typer.Option(
            "--log",
            help="Scores are log-probabilities or logits, not probabilities; -inf is impossible. Probabilities are "
            "written all the same.",
            rich_help_panel=_SCORES,
        ),
    ] = False
    normalize: Annotated[
        bool,
        typer.Option(
            "--normalize",
            help="Divide the scores of every row by their sum: for counts, and for probabilities that were rounded.",
            rich_help_panel=_SCORES,
        ),
    ] = False
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="COLUMN",
            help="How many rows each row counts for.",
            show_default="1",
            rich_help_panel=_SCORES,
        ),
    ] = None
    gamma: Annotated[
        float,
        typer.Option(
            "--gamma",
            metavar="GAMMA",
            help="1: the nearest probabilities (in KL divergence). 0: the best ones, a linear program. -inf: one label "
            "for each row, an integer program. Others above 0 lie between or are softer.",
            rich_help_panel=_PROJECTION,
        ),
    ] = 1.0
    infeasible: Annotated[
        Literal["raise", "skip"],
        typer.Option(
            "--infeasible",
            metavar="WAY",
            help="What to do about a constraint inside one row that the row cannot meet: raise an error, or skip it "
            "there.",
            rich_help_panel=_PROJECTION,
        ),
    ] = "raise"
    decide: Annotated[
        bool,
        typer.Option(
            "--decide",
            help="Add a column decided: one label per row such that the constraints hold exactly (with --long true or "
            "false).",
            rich_help_panel=_MORE,
        ),
    ] = False
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            min=0.0,
            metavar="SECONDS",
            help="For --decide; then the best labels found so far count.",
            show_default="300",
            rich_help_panel=_MORE,
        ),
    ] = None
    prices: Annotated[
        str | None,
        typer.Option(
            "--prices",
            metavar="FILE",
            help="A table of the constraints: bound, expected value before and after, price (nats gained per unit by "
            "which the bound is relaxed), violation.",
            show_default=False,
            rich_help_panel=_MORE,
        ),
    ] = None
    report: Report = None
    quiet: Quiet = False


@takes()
def project(
    scores: Annotated[
        str,
        typer.Argument(
            metavar="SCORES",
            help="A table whose first line names its columns: .csv, .tsv (either also .gz) or .parquet; - is standard "
            "input, CSV.",
        ),
    ],
    own: ProjectOptions,
) -> None:
    """Change the probabilities of any model as little as possible such that constraints hold.

    Example: **spectrem project scores.csv --constraint "E[label == 'spam'] <= '30%'" -o out.csv**

    Every row of SCORES is one instance; some columns hold the probabilities of its
    labels, which must sum to 1. Those are replaced. The other columns (document,
    type, ...) stay as they are, and constraints may name them, besides *label* and
    *row* (the number of the row, from 0). Where it is not clear which columns hold
    the scores, that is an error, never a guess.

    A file for --constraints that wants 20 to 30 % spam, and one title per document at most:

    **- some spam: E[label == 'spam'].between('20%', '30%')**

    **- (E[label == 'title'] <= 1).per('document')**
    """
    _check(own)
    inputs = {"SCORES": scores, "--constraints": own.constraints}
    with command_files(inputs, {"--output": own.output, "--prices": own.prices, "--report": own.report}):
        from spectrem.cli.tables.project_job import ProjectJob

        ProjectJob(scores, own).run()


def _check(own: ProjectOptions) -> None:
    """Refuse options that cannot be met together, or that change nothing in this run."""
    if own.constraints is None and not own.constraint:
        raise InvalidInputError("there is nothing to project onto; give --constraint TEXT or --constraints FILE")
    ways = [
        name
        for name, value in (("--labels", own.labels), ("--prefix", own.prefix), ("--long", own.long))
        if value is not None
    ]
    if len(ways) > 1:
        raise InvalidInputError(f"{' and '.join(ways)} all say where the scores are; give one of them")
    if own.log and own.normalize:
        raise InvalidInputError(
            "--log and --normalize exclude each other: log-scores need not sum to anything; drop one"
        )
    if (own.log or own.normalize) and not ways:
        raise InvalidInputError(
            f"{'--log' if own.log else '--normalize'} needs the columns of the scores, since any number may be one; "
            "give --labels, --prefix or --long"
        )
    if own.time_limit is not None and not own.decide:
        raise InvalidInputError(f"--time-limit {own.time_limit:g} concerns --decide; add it or drop this")
