"""`spectrem project`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

from spectrem.cli.declare import Given, argument, option, takes
from spectrem.cli.ending import say
from spectrem.cli.files import command_files
from spectrem.cli.rules import Rule, check_rules, excludes, needs
from spectrem.cli.tables.options import ConstraintFile, ConstraintTexts, Quiet, Report, TableOutput
from spectrem.exceptions import InvalidInputError, spelled

if TYPE_CHECKING:
    from spectrem.cli.tables.project_scores import Scores
    from spectrem.data import TableFile
    from spectrem.tables import ConstraintReport, Decision, ProjectedTable

_SCORES, _PROJECTION, _MORE = "Scores", "Projection", "More results"
_NAMING = ("--labels", "--prefix", "--long")
_UNNAMED = "needs the columns of the scores, since any number may be one; give --labels, --prefix or --long"
_RULES = (
    Rule(
        (),
        ("--constraint", "--constraints"),
        "there is nothing to project onto; give --constraint TEXT or --constraints FILE",
    ),
    *(
        excludes(first, second, f"{first} and {second} all say where the scores are; give one of them")
        for first, second in combinations(_NAMING, 2)
    ),
    excludes(
        "--log",
        "--normalize",
        "--log and --normalize exclude each other: log-scores need not sum to anything; drop one",
    ),
    needs("--log", *_NAMING, message=f"--log {_UNNAMED}"),
    needs("--normalize", *_NAMING, message=f"--normalize {_UNNAMED}"),
    needs("--time-limit", "--decide", message="{--time-limit} concerns --decide; add it or drop this"),
)
_MEANINGS = {"row": "the number of the row", "label": "the label to be chosen"}
_SHOWN = 5
_BINDS = 1e-9


@dataclass(frozen=True)
class ProjectOptions:
    """The argument and options of `spectrem project`.

    Parameters
    ----------
    scores
        A table whose first line names its columns: .csv, .tsv (either also .gz) or .parquet; - is standard input,
        CSV.
    labels
        The columns that hold the scores, one label each.
    prefix
        The scores are in the columns whose names start so; the rest of the name is the label.
    long
        One label of one row per line: the columns that tell the row, the label and its score. Rows may then differ
        in their labels.
    log
        Scores are log-probabilities or logits, not probabilities; -inf is impossible. Probabilities are written all
        the same.
    normalize
        Divide the scores of every row by their sum: for counts, and for probabilities that were rounded.
    weights
        How many rows each row counts for.
    gamma
        1: the nearest probabilities (in KL divergence). 0: the best ones, a linear program. -inf: one label for
        each row, an integer program. Others above 0 lie between or are softer.
    infeasible
        What to do about a constraint inside one row that the row cannot meet: raise an error, or skip it there.
    decide
        Add a column decided: one label per row such that the constraints hold exactly (with --long true or false).
    time_limit
        For --decide; then the best labels found so far count.
    prices
        A table of the constraints: bound, expected value before and after, price (nats gained per unit by which the
        bound is relaxed), violation.
    """

    scores: str = argument("SCORES")
    constraints: ConstraintFile = None
    constraint: ConstraintTexts = None
    output: TableOutput = "-"
    labels: str | None = option(
        None,
        metavar="A,B,C",
        show_default="all columns of numbers that neither --weights nor the constraints name",
        group=_SCORES,
    )
    prefix: str | None = option(None, metavar="TEXT", group=_SCORES)
    long: str | None = option(None, metavar="ROW,LABEL,SCORE", group=_SCORES)
    log: bool = option(False, group=_SCORES)
    normalize: bool = option(False, group=_SCORES)
    weights: str | None = option(None, metavar="COLUMN", show_default="1", group=_SCORES)
    gamma: float = option(1.0, metavar="GAMMA", group=_PROJECTION)
    infeasible: Literal["raise", "skip"] = option("raise", metavar="WAY", group=_PROJECTION)
    decide: bool = option(False, group=_MORE)
    time_limit: float | None = option(None, min=0.0, metavar="SECONDS", show_default="300", group=_MORE)
    prices: str | None = option(None, metavar="FILE", group=_MORE)
    report: Report = None
    quiet: Quiet = False


@takes()
def project(options: ProjectOptions, given: Given) -> None:
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
    check_rules(_RULES, given)
    inputs = {"SCORES": options.scores, "--constraints": options.constraints}
    outputs = {"--output": options.output, "--prices": options.prices, "--report": options.report}
    with command_files(inputs, outputs):
        _project(options)


def _project(options: ProjectOptions) -> None:
    """Read, project, write."""
    from spectrem.cli.tables.options import print_notes, read_table_constraints
    from spectrem.cli.tables.project_scores import DECIDED, long_scores, wide_scores
    from spectrem.data import open_output, open_table, read_table
    from spectrem.reports.html import document

    started = time.perf_counter()
    with ExitStack() as stack:
        # opened first: who reads a pipe sees its end if the work fails
        write = stack.enter_context(open_table(options.output))
        write_prices = None if options.prices is None else stack.enter_context(open_table(options.prices))
        page = None if options.report is None else stack.enter_context(open_output(options.report))
        file = read_table(options.scores)
        if options.decide and DECIDED in file.schema:
            raise InvalidInputError(f"{file.name} has a column {DECIDED!r}, which --decide adds; rename it")
        texts = options.constraint or ()
        constraints, columns = read_table_constraints(options.constraints, texts, file, _MEANINGS)
        scores: Scores
        if options.long is not None:
            scores = long_scores(file, options.long, options.normalize)
        else:
            scores = wide_scores(
                file,
                list(columns),
                options.labels,
                options.prefix,
                options.weights,
                options.normalize,
                options.log,
            )
        table, decision = _solve(options, scores, constraints, columns)
        if not options.quiet:
            meant = {
                name: meaning for name, meaning in _MEANINGS.items() if name not in (options.long or "").split(",")
            }
            print_notes(file, meant, columns)
        if write_prices is not None:
            write_prices(price_table(table.constraints))
        if page is not None:
            page.write(document("spectrem project", table._repr_html_()))
        (done, *details), proba = _summary(scores, table, decision, options.gamma), table.proba
        del table, columns  # rows are written piece by piece, which needs none of it
        filled = scores.filled(proba, decision)
        del scores, proba
        write(filled)
    if not options.quiet:
        say(f"{done} in {time.perf_counter() - started:.1f} s: {details[0]}", *details[1:])


def _solve(
    options: ProjectOptions, scores: Scores, constraints: list[Any], columns: dict[str, Any]
) -> tuple[ProjectedTable, Decision | None]:
    from spectrem.cli.tables.options import rows_named
    from spectrem.cli.tables.project_scores import prefix_hint
    from spectrem.tables import ScoreError
    from spectrem.tables import project as project_table

    spellings = {"infeasible": "--infeasible", "time_limit": "--time-limit"}
    if options.labels is None and options.long is None and options.prefix is None:
        spellings["no such label"] = prefix_hint([str(label) for label in scores.labels])
    try:
        with spelled(spellings), rows_named(scores.file) if options.long is None else nullcontext():
            table = project_table(
                scores.proba,
                constraints,
                options.gamma,
                columns=scores.columns(columns),
                labels=scores.labels,
                scores="log" if options.log else "probabilities",
                sample_weight=None if options.weights is None else scores.weights(options.weights),
                infeasible=options.infeasible,
            )
            return table, table.decide(time_limit=options.time_limit) if options.decide else None
    except ScoreError as error:
        raise InvalidInputError(scores.refusal(error)) from error


def _summary(scores: Scores, table: ProjectedTable, decision: Decision | None, gamma: float) -> list[str]:
    """Lines of the summary: what was projected, violations, largest prices, decisions."""
    rows = "1 row" if len(table.proba) == 1 else f"{len(table.proba)} rows"
    said = [
        f"projected {rows}, labels {scores.described}, onto {_counted(table.constraints)}",
        f"worst violation {table.violation_before:.3g} before, {table.violation_after:.2g} after"
        + ("" if table.kl is None else f", cost {table.kl:.4g} nats"),
    ]
    lines = _largest_prices(table.constraints)
    if lines:
        said += ["largest prices, nats per unit of the bound:", *(f"  {line}" for line in lines)]
    elif table.multipliers.size and gamma >= 0:
        said.append("no constraint binds; the probabilities are what they were")
    if decision is not None:
        said.append(
            f"decided: {decision.n_changed} of {len(table.proba)} labels differ from the most probable before; "
            f"score {decision.score:.6g} nats, gap to the relaxation {decision.gap:.2g}"
        )
    return said


def price_table(reports: Sequence[ConstraintReport]) -> TableFile:
    """A row for each row of every constraint: what it is, its group, bound, values, price, violation."""
    import polars

    from spectrem.data import TableFile

    numbers = ("bound", "before", "after", "price", "violation")
    keys = list(dict.fromkeys(key for report in reports for key in report.keys))
    titles = {key: f"{key}_" if key in ("constraint", "sense", *numbers) else key for key in keys}
    text = dict.fromkeys(("constraint", *titles.values(), "sense"), polars.String)
    parts = [
        polars.DataFrame(
            {"constraint": [report.name] * len(report.bound)}
            | {title: map(str, report.keys[key].tolist()) for key, title in titles.items() if key in report.keys}
            | {"sense": report.sense.tolist()}
            | {name: getattr(report, "violation_after" if name == "violation" else name) for name in numbers},
        )
        for report in reports
    ]
    empty = polars.DataFrame(schema=text | dict.fromkeys(numbers, polars.Float64))
    return TableFile("prices", polars.concat([empty, *parts], how="diagonal").lazy(), is_text=True)


def _counted(reports: Sequence[ConstraintReport]) -> str:
    rows = sum(len(report.bound) for report in reports)
    named = f"{len(reports)} constraint{'s' * (len(reports) != 1)}"
    return named if rows == len(reports) else f"{named} ({rows} rows of them)"


def _largest_prices(reports: Sequence[ConstraintReport]) -> list[str]:
    """The rows with the largest prices, as they are shown."""
    import numpy as np

    from spectrem.reports import row_line

    size = [np.abs(report.price) for report in reports]
    rows = [(k, row) for k, prices in enumerate(size) for row in np.argsort(-prices, kind="stable")[:_SHOWN].tolist()]
    rows = sorted((at for at in rows if size[at[0]][at[1]] > _BINDS), key=lambda at: -size[at[0]][at[1]])
    return [row_line(reports[k], row) for k, row in rows[:_SHOWN]]
