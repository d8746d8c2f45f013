"""What `spectrem project` does once its options are understood."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from spectrem.cli.project_scores import DECIDED, LongScores, Scores, long_scores, prefix_hint, wide_scores
from spectrem.cli.table_options import TableConstraints, as_page, in_options, own_names, tell_notes
from spectrem.data import Frame, open_frame, open_output, read_frame
from spectrem.data.frames import TEXT
from spectrem.exceptions import InvalidInputError, SpectremError
from spectrem.reports import row_name
from spectrem.tables import ConstraintReport, Decision, ProjectedTable
from spectrem.tables import project as project_table

OWN = {"row": "the number of the row", "label": "the label to be chosen"}
_SHOWN = 5
_BINDS = 1e-9


@dataclass(frozen=True)
class ProjectJob:
    """One run from reading to the written table; see the options of `spectrem project`."""

    scores: str
    constraints: str | None
    constraint: tuple[str, ...]
    output: str
    labels: str | None
    prefix: str | None
    long: str | None
    log: bool
    normalize: bool
    weights: str | None
    gamma: float
    infeasible: Literal["raise", "skip"]
    decide: bool
    time_limit: float | None
    prices: str | None
    report: str | None
    quiet: bool
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Read, project, write."""
        with ExitStack() as stack:
            # opened first: who reads a pipe sees its end if the work fails
            write = stack.enter_context(open_frame(self.output))
            write_prices = None if self.prices is None else stack.enter_context(open_frame(self.prices))
            page = None if self.report is None else stack.enter_context(open_output(self.report))
            frame = read_frame(self.scores)
            if self.decide and DECIDED in frame.columns:
                raise InvalidInputError(f"{frame.name} has a column {DECIDED!r}, which --decide adds; rename it")
            file = TableConstraints(self.constraints, self.constraint, frame, OWN)
            scores: Scores
            if self.long is not None:
                scores = long_scores(frame, self.long, self.log, self.normalize)
            else:
                named = (self.labels, self.prefix, self.weights)
                scores = wide_scores(frame, file, *named, self.log, self.normalize)
            if not self.quiet:
                meant = {name: told for name, told in OWN.items() if name not in (self.long or "").split(",")}
                tell_notes(own_names(frame, meant))
            columns = file.columns()
            if not self.quiet:
                tell_notes(file.missing(columns))
            table, decision = self._solve(scores, file, columns, frame)
            write(scores.filled(table, decision))
            if write_prices is not None:
                write_prices(price_frame(table.constraints))
            if page is not None:
                page.write(as_page("spectrem project", table._repr_html_()))
        if not self.quiet:
            self._report(scores, table, decision)

    def _solve(
        self, scores: Scores, file: TableConstraints, columns: dict[str, NDArray], frame: Frame
    ) -> tuple[ProjectedTable, Decision | None]:
        more: dict[str, Any] = {} if self.weights is None else {"sample_weight": scores.weights(self.weights)}
        try:
            table = project_table(
                scores.proba,
                file.constraints,
                self.gamma,
                columns=scores.columns(columns),
                labels=scores.labels,
                scores="log" if self.log else "probabilities",
                infeasible=self.infeasible,
                **more,
            )
            return table, table.decide(time_limit=self.time_limit) if self.decide else None
        except SpectremError as error:
            told = in_options(error, frame if self.long is None else None)
            if "there is no label" in str(error) and self.labels is None and self.long is None and self.prefix is None:
                told = InvalidInputError(f"{told}{prefix_hint([str(label) for label in scores.labels])}")
            raise told from error

    def _report(self, scores: Scores, table: ProjectedTable, decision: Decision | None) -> None:
        seconds = time.perf_counter() - self.started
        rows = "1 row" if len(scores.proba) == 1 else f"{len(scores.proba)} rows"
        said = [
            f"projected {rows}, labels {scores.told}, onto {_counted(table.constraints)} in "
            f"{seconds:.1f} s: worst violation {table.violation_before:.3g} before, {table.violation_after:.2g} after"
            + ("" if table.kl is None else f", cost {table.kl:.4g} nats")
        ]
        lines = _dearest(table.constraints)
        if lines:
            said += ["largest prices, nats per unit of the bound:", *(f"  {line}" for line in lines)]
        elif table.multipliers.size and self.gamma >= 0:
            said.append("no constraint binds; the probabilities are what they were")
        if decision is not None:
            said.append(
                f"decided: {_changed(scores, decision)} of {len(scores.proba)} labels differ from the most probable "
                f"before; score {decision.score:.6g} nats, gap to the relaxation {decision.gap:.2g}"
            )
        typer.echo("\n".join(said), err=True)


def price_frame(reports: Sequence[ConstraintReport]) -> Frame:
    """A row for each row of every constraint: what it is, its group, bound, values, price, violation."""
    keys = list(dict.fromkeys(key for report in reports for key in report.keys))
    sizes = [len(report.bound) for report in reports]

    def texts(values: Sequence[str]) -> NDArray:
        return np.array(values, TEXT)

    def joined(name: str) -> NDArray:
        return np.concatenate([np.zeros(0), *(getattr(report, name) for report in reports)])

    columns: dict[str, NDArray] = {
        "constraint": texts([report.name for report, size in zip(reports, sizes, strict=True) for _ in range(size)])
    }
    numbers = {
        "bound": "bound",
        "before": "before",
        "after": "after",
        "price": "price",
        "violation": "violation_after",
    }
    for key in keys:
        cells: list[str] = []
        for report, size in zip(reports, sizes, strict=True):
            cells += [str(value) for value in report.keys[key].tolist()] if key in report.keys else [""] * size
        title = f"{key}_" if key in ("constraint", "sense", *numbers) else key
        columns[title] = texts(cells)
    columns["sense"] = texts([sense for report in reports for sense in report.sense.tolist()])
    return Frame("prices", columns | {title: joined(name) for title, name in numbers.items()})


def _counted(reports: Sequence[ConstraintReport]) -> str:
    rows = sum(len(report.bound) for report in reports)
    named = f"{len(reports)} constraint{'s' * (len(reports) != 1)}"
    return named if rows == len(reports) else f"{named} ({rows} rows of them)"


def _dearest(reports: Sequence[ConstraintReport]) -> list[str]:
    """The rows with the largest prices, as they are shown."""
    rows = [
        (abs(float(price)), report, k)
        for report in reports
        for k, price in enumerate(report.price)
        if abs(price) > _BINDS
    ]
    rows.sort(key=lambda row: -row[0])
    out = []
    for _, report, k in rows[:_SHOWN]:
        group = row_name(report, k) if report.keys else ""
        out.append(
            f"{report.name}{f', {group}' if group else ''}: {report.before[k]:.4g} -> {report.after[k]:.4g} "
            f"{report.sense[k]} {report.bound[k]:.4g}, price {report.price[k]:.3g}"
        )
    return out


def _changed(scores: Scores, decision: Decision) -> int:
    """Rows whose label is another than the best before."""
    if isinstance(scores, LongScores):
        return sum(int(np.argmax(row)) != k for row, k in zip(scores.proba, decision.positions.tolist(), strict=True))
    return int((np.argmax(scores.proba, axis=1) != decision.positions).sum())
