"""`spectrem cluster`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from spectrem.cli.annealing import Annealing
from spectrem.cli.estimator_options import Settings, takes
from spectrem.cli.files import command_files
from spectrem.cli.homes import Dask, Home
from spectrem.cli.options import refuse_unused
from spectrem.cli.tables.options import ConstraintFile, ConstraintTexts, Quiet, Report, TableOutput
from spectrem.estimators.mixture.parameters import GaussianMixtureParameters
from spectrem.exceptions import InvalidInputError

_COLUMNS, _CONSTRAINTS, _MORE = "Columns", "Constraints", "More results"


@dataclass(frozen=True)
class ClusterOptions:
    """The options of `spectrem cluster` besides the parameters of `GaussianMixture` and the place of the corpus."""

    output: TableOutput = "-"
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            metavar="A,B,C",
            help="The columns to cluster by.",
            show_default="all columns of numbers that no other option and no constraint names",
            rich_help_panel=_COLUMNS,
        ),
    ] = None
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Names the rows, each differently; links then use these names.",
            show_default="rows are numbered from 0",
            rich_help_panel=_COLUMNS,
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="COLUMN",
            help="How many rows each row counts for.",
            show_default="1",
            rich_help_panel=_COLUMNS,
        ),
    ] = None
    known: Annotated[
        str | None,
        typer.Option(
            "--known",
            metavar="COLUMN",
            help="Clusters that are known, as numbers from 0; empty (or -1) where unknown.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ] = None
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize",
            help="Bring every feature to mean 0 and standard deviation 1 first.",
            rich_help_panel=_COLUMNS,
        ),
    ] = False
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
    ] = None
    must_link: Annotated[
        str | None,
        typer.Option(
            "--must-link",
            metavar="FILE",
            help="A table of two columns: pairs of rows, by number from 0 or by --id, that belong together.",
            show_default=False,
            rich_help_panel=_CONSTRAINTS,
        ),
    ] = None
    cannot_link: Annotated[
        str | None,
        typer.Option(
            "--cannot-link",
            metavar="FILE",
            help="The same of rows that belong apart.",
            show_default=False,
            rich_help_panel=_CONSTRAINTS,
        ),
    ] = None
    constraints: ConstraintFile = None
    constraint: ConstraintTexts = None
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities",
            help="Add a column with the probability of each cluster: cluster_0, cluster_1, ...",
            rich_help_panel=_MORE,
        ),
    ] = False
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
    ] = None
    report: Report = None
    quiet: Quiet = False

    @property
    def constrained(self) -> bool:
        """Whether any of them is a constraint."""
        given = (self.size, self.must_link, self.cannot_link, self.constraints)
        return any(one is not None for one in given) or bool(self.constraint)


@takes(GaussianMixtureParameters, defaults={"n_components": ..., "random_state": 0})
def cluster(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A table whose first line names its columns: .csv, .tsv (either also .gz) or .parquet; - is standard "
            "input, CSV.",
        ),
    ],
    settings: Settings,
    annealing: Annealing,
    options: ClusterOptions,
    dask: Dask = None,
) -> None:
    """Find clusters in a table of numbers, by a mixture of Gaussians, under constraints if wanted.

    Example: **spectrem cluster data.csv -k 3 --size 40:60 -o out.csv**

    Writes DATA with a column *cluster*, numbered from 0. Columns of text stay as they
    are; a column that only numbers the rows is refused until --id or --features says
    what it is.
    """
    annealing.check(settings.get("gamma", 1.0))
    if not options.constrained:
        if settings.get("infeasible") == "skip":
            refuse_unused("--infeasible skip", "--constraints")
        if settings.get("assign") == "feasible":
            raise InvalidInputError(
                "--assign feasible needs constraints; give --size, --must-link, --cannot-link or --constraints"
            )
    elif dask is not None:
        raise InvalidInputError(f"--dask {dask}: constraints hold rows together, which then stay here; drop it or them")
    links = {"--must-link": options.must_link, "--cannot-link": options.cannot_link}
    inputs = {"DATA": data, **links, "--constraints": options.constraints}
    outputs = {"--output": options.output, "--plot": options.plot, "--report": options.report}
    home = Home(dask=dask)
    with command_files(inputs, outputs, home.folders(settings)), home.opened(annealing.schedule(settings)) as computing:
        from spectrem.cli.tables.cluster_job import ClusterJob

        ClusterJob(data, options, computing, annealing.anneal).run()
