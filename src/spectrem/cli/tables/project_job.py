"""What `spectrem project` does once its options are understood."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spectrem.cli.ending import say
from spectrem.cli.tables.options import TableConstraints, own_names, rows_named, tell_notes
from spectrem.cli.tables.project import ProjectOptions
from spectrem.cli.tables.project_scores import DECIDED, Scores, long_scores, prefix_hint, wide_scores
from spectrem.data import TableFile, open_output, open_table, read_table
from spectrem.exceptions import InvalidInputError, spelled
from spectrem.reports import row_line
from spectrem.reports.html import document
from spectrem.tables import ConstraintReport, Decision, ProjectedTable, ScoreError
from spectrem.tables import project as project_table

OWN = {"row": "the number of the row", "label": "the label to be chosen"}
_SHOWN = 5
_BINDS = 1e-9


@dataclass(frozen=True)
class ProjectJob:
    """One run from reading to the written table; see the options of `spectrem project`."""

    scores: str
    own: ProjectOptions
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Read, project, write."""
        with ExitStack() as stack:
            # opened first: who reads a pipe sees its end if the work fails
            write = stack.enter_context(open_table(self.own.output))
            write_prices = None if self.own.prices is None else stack.enter_context(open_table(self.own.prices))
            page = None if self.own.report is None else stack.enter_context(open_output(self.own.report))
            file = read_table(self.scores)
            if self.own.decide and DECIDED in file.schema:
                raise InvalidInputError(f"{file.name} has a column {DECIDED!r}, which --decide adds; rename it")
            constraints = TableConstraints(self.own.constraints, self.own.constraint or (), file, OWN)
            scores: Scores
            if self.own.long is not None:
                scores = long_scores(file, self.own.long, self.own.normalize)
            else:
                scores = wide_scores(
                    file,
                    constraints,
                    self.own.labels,
                    self.own.prefix,
                    self.own.weights,
                    self.own.normalize,
                    self.own.log,
                )
            columns = constraints.columns()
            table, decision = self._solve(scores, constraints, columns)
            if not self.own.quiet:
                meant = {name: meaning for name, meaning in OWN.items() if name not in (self.own.long or "").split(",")}
                tell_notes([*own_names(file, meant), *constraints.missing(columns)])
            if write_prices is not None:
                write_prices(price_table(table.constraints))
            if page is not None:
                page.write(document("spectrem project", table._repr_html_()))
            (done, *found), proba = self._summary(scores, table, decision), table.proba
            del table, columns  # rows are written piece by piece, which needs none of it
            filled = scores.filled(proba, decision)
            del scores, proba
            write(filled)
        if not self.own.quiet:
            say(f"{done} in {time.perf_counter() - self.started:.1f} s: {found[0]}", *found[1:])

    def _solve(
        self, scores: Scores, constraints: TableConstraints, columns: dict[str, Any]
    ) -> tuple[ProjectedTable, Decision | None]:
        spellings = {"infeasible": "--infeasible", "time_limit": "--time-limit"}
        if self.own.labels is None and self.own.long is None and self.own.prefix is None:
            spellings["no such label"] = prefix_hint([str(label) for label in scores.labels])
        try:
            with spelled(spellings), rows_named(scores.file) if self.own.long is None else nullcontext():
                table = project_table(
                    scores.proba,
                    constraints.constraints,
                    self.own.gamma,
                    columns=scores.columns(columns),
                    labels=scores.labels,
                    scores="log" if self.own.log else "probabilities",
                    sample_weight=None if self.own.weights is None else scores.weights(self.own.weights),
                    infeasible=self.own.infeasible,
                )
                return table, table.decide(time_limit=self.own.time_limit) if self.own.decide else None
        except ScoreError as error:
            raise InvalidInputError(scores.refusal(error)) from error

    def _summary(self, scores: Scores, table: ProjectedTable, decision: Decision | None) -> list[str]:
        """What was done, and lines about what came of it."""
        rows = "1 row" if len(table.proba) == 1 else f"{len(table.proba)} rows"
        said = [
            f"projected {rows}, labels {scores.described}, onto {_counted(table.constraints)}",
            f"worst violation {table.violation_before:.3g} before, {table.violation_after:.2g} after"
            + ("" if table.kl is None else f", cost {table.kl:.4g} nats"),
        ]
        lines = _largest_prices(table.constraints)
        if lines:
            said += ["largest prices, nats per unit of the bound:", *(f"  {line}" for line in lines)]
        elif table.multipliers.size and self.own.gamma >= 0:
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
    size = [np.abs(report.price) for report in reports]
    rows = [(k, row) for k, own in enumerate(size) for row in np.argsort(-own, kind="stable")[:_SHOWN].tolist()]
    rows = sorted((at for at in rows if size[at[0]][at[1]] > _BINDS), key=lambda at: -size[at[0]][at[1]])
    return [row_line(reports[k], row) for k, row in rows[:_SHOWN]]
