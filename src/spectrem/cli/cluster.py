"""`spectrem cluster`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from spectrem.cli.files import command_files
from spectrem.cli.homes import Dask, Home, Threads
from spectrem.cli.options import Seed, check_annealing, refuse_unused
from spectrem.cli.table_options import ConstraintFile, ConstraintTexts, Quiet, Report, TableOutput
from spectrem.exceptions import InvalidInputError

_COLUMNS, _MODEL, _CONSTRAINTS, _TRAINING, _MORE = "Columns", "Model", "Constraints", "Training", "More results"


class Covariance(StrEnum):
    FULL = "full"
    TIED = "tied"
    DIAG = "diag"
    SPHERICAL = "spherical"


class Assign(StrEnum):
    PROBABLE = "probable"
    FEASIBLE = "feasible"


class Infeasible(StrEnum):
    RAISE = "raise"
    SKIP = "skip"


def cluster(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A table whose first line names its columns: .csv, .tsv (either also .gz) or .parquet; - is standard "
            "input, CSV.",
        ),
    ],
    clusters: Annotated[int, typer.Option("--clusters", "-k", min=1, metavar="N", help="How many to find.")],
    output: TableOutput = "-",
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            metavar="A,B,C",
            help="The columns to cluster by.",
            show_default="all columns of numbers that no other option and no constraint names",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Names the rows, each differently; links then use these names.",
            show_default="rows are numbered from 0",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="COLUMN",
            help="How many rows each row counts for.",
            show_default="1",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    known: Annotated[
        str | None,
        typer.Option(
            "--known",
            metavar="COLUMN",
            help="Clusters that are known, as numbers from 0; empty (or -1) where unknown.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize",
            help="Bring every feature to mean 0 and standard deviation 1 first.",
            rich_help_panel=_COLUMNS,
        ),
    ] = False,
    covariance: Annotated[
        Covariance,
        typer.Option(
            "--covariance",
            metavar="SHAPE",
            help="Of the clusters: full (any ellipse), tied (the same for all), diag (along the axes) or spherical.",
            rich_help_panel=_MODEL,
        ),
    ] = Covariance.FULL,
    gamma: Annotated[
        float,
        typer.Option(
            "--gamma",
            metavar="GAMMA",
            help="How soft memberships are, 0 or more: 1 is EM, between 0 and 1 unified EM, 0 hard EM.",
            rich_help_panel=_TRAINING,
        ),
    ] = 1.0,
    anneal: Annotated[
        float | None,
        typer.Option(
            "--anneal",
            metavar="BETA",
            help="Deterministic annealing: start softer, at gamma = 1 / BETA, and cool down to --gamma; for example "
            "0.5. From much smaller ones clusters may stay merged.",
            show_default="off",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="MIN:MAX",
            help="Rows that every cluster has at least and at most, or per cent of all rows; either may be left out: "
            "40:60, 50:, :200, 20%:.",
            show_default=False,
            rich_help_panel=_CONSTRAINTS,
        ),
    ] = None,
    must_link: Annotated[
        str | None,
        typer.Option(
            "--must-link",
            metavar="FILE",
            help="A table of two columns: pairs of rows, by number from 0 or by --id, that belong together.",
            show_default=False,
            rich_help_panel=_CONSTRAINTS,
        ),
    ] = None,
    cannot_link: Annotated[
        str | None,
        typer.Option(
            "--cannot-link",
            metavar="FILE",
            help="The same of rows that belong apart.",
            show_default=False,
            rich_help_panel=_CONSTRAINTS,
        ),
    ] = None,
    constraints: ConstraintFile = None,
    constraint: ConstraintTexts = None,
    infeasible: Annotated[
        Infeasible,
        typer.Option(
            "--infeasible",
            metavar="WAY",
            help="What to do about a constraint inside one row that the row cannot meet: raise an error, or skip it "
            "there.",
            rich_help_panel=_CONSTRAINTS,
        ),
    ] = Infeasible.RAISE,
    assign: Annotated[
        Assign,
        typer.Option(
            "--assign",
            metavar="WAY",
            help="probable: the likeliest cluster of every row; the constraints hold in expectation. feasible: the "
            "best clusters for which they hold exactly.",
            rich_help_panel=_CONSTRAINTS,
        ),
    ] = Assign.PROBABLE,
    starts: Annotated[
        int,
        typer.Option(
            "--starts",
            min=1,
            metavar="N",
            help="Train so often from different starts and keep the best objective.",
            rich_help_panel=_TRAINING,
        ),
    ] = 1,
    iterations: Annotated[
        int,
        typer.Option("--iterations", min=1, metavar="N", help="At most, for every gamma.", rich_help_panel=_TRAINING),
    ] = 100,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            min=0.0,
            metavar="GAIN",
            help="Stop when the objective per row gains less, in nats.",
            rich_help_panel=_TRAINING,
        ),
    ] = 1e-3,
    seed: Seed = 0,
    threads: Threads = None,
    dask: Dask = None,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities",
            help="Add a column with the probability of each cluster: cluster_0, cluster_1, ...",
            rich_help_panel=_MORE,
        ),
    ] = False,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw the clusters there, as .png, .svg or .pdf: by two features, or by the first two principal axes "
            "of more; needs matplotlib (pip install 'spectrem[plot]').",
            show_default=False,
            rich_help_panel=_MORE,
        ),
    ] = None,
    report: Report = None,
    quiet: Quiet = False,
) -> None:
    """Find clusters in a table of numbers, by a mixture of Gaussians, under constraints if wanted.

    Example: **spectrem cluster data.csv -k 3 --size 40:60 -o out.csv**

    Writes DATA with a column *cluster*, numbered from 0. Columns of text stay as they
    are; a column that only numbers the rows is refused until --id or --features says
    what it is.
    """
    settings: dict[str, Any] = {
        "n_components": clusters,
        "covariance_type": covariance.value,
        "infeasible": infeasible.value,
        "n_init": starts,
        "max_iter": iterations,
        "tol": tolerance,
        "random_state": seed,
        "gamma": gamma,
        "assign": assign.value,
    }
    check_annealing(anneal, gamma)
    unconstrained = size is must_link is cannot_link is constraints is None and not constraint
    if infeasible is Infeasible.SKIP and unconstrained:
        refuse_unused("--infeasible skip", "--constraints")
    inputs = {"DATA": data, "--must-link": must_link, "--cannot-link": cannot_link, "--constraints": constraints}
    if assign is Assign.FEASIBLE and unconstrained:
        raise InvalidInputError(
            "--assign feasible needs constraints; give --size, --must-link, --cannot-link or --constraints"
        )
    if dask is not None and not unconstrained:
        raise InvalidInputError(f"--dask {dask}: constraints hold rows together, which then stay here; drop it or them")
    outputs = {"--output": output, "--plot": plot, "--report": report}
    with command_files(inputs, outputs), Home(threads, dask=dask).settings() as computing:
        from spectrem.cli.cluster_job import ClusterJob

        ClusterJob(
            data=data,
            output=output,
            features=features,
            id=id,
            weights=weights,
            known=known,
            standardize=standardize,
            anneal=anneal,
            size=size,
            must_link=must_link,
            cannot_link=cannot_link,
            constraints=constraints,
            constraint=tuple(constraint or ()),
            probabilities=probabilities,
            plot=plot,
            report=report,
            settings=settings | computing,
            quiet=quiet,
        ).run()
