"""The report of a fit, the course of training and the constraints at its end, shown with the estimator in notebooks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from spectrem._arrays import Floats
from spectrem._html import document, facts, page, paragraphs
from spectrem.data.files import write_texts
from spectrem.exceptions import counted, shorten
from spectrem.learning.schedule import FitStatus, Record
from spectrem.reports.constraints import MOST_LINES, ConstraintSummary, constraint_lines
from spectrem.reports.html import constraint_tables, curves, find_stages, gamma_text, summary_table
from spectrem.reports.rows import ConstraintReport, prices_by_name

_ENDINGS = {
    FitStatus.CONVERGED: "converged",
    FitStatus.FIXED_ITERATIONS: "ran the iterations asked for",
    FitStatus.MAX_ITERATIONS: "not converged, still gaining after max_iter iterations",
    FitStatus.MAX_STEPS: "not converged, still gaining after m_steps or the most steps there are",
}


class Section(Protocol):
    """A part of a report beside the course of training and the constraints."""

    def summary(self) -> str:
        """A line of text, or several."""

    def to_html(self) -> str:
        """The same part as HTML."""


@dataclass(frozen=True, eq=False, repr=False)
class FitReport:
    """The course of a fit and its constraints at the end; shown as HTML in notebooks.

    Attributes
    ----------
    title : str
    n_rows : int
        Rows of the training data.
    history : tuple of Record
    status : str
        How it ended, in words.
    settings : mapping of name -> value
        Settings to show.
    constraints : tuple of ConstraintReport
        At the parameters learned: ``before`` are the expected values of the model alone, ``after`` those under the
        constraints, in the units of the constraints (rows of data count with their weights where they do in training).
    notes : tuple of str
        Sentences for what no table holds.
    sections : tuple of Section
        Parts about the model itself.
    unit : str
        What ``n_rows`` counts.
    summaries : sequence of ConstraintSummary
        Summaries of constraints that have too many rows to be shown one by one, such as those inside sentences.

    Examples
    --------
    >>> records = [Record(1.0, objective, objective, 0.0, 0.1) for objective in (-9.0, -7.5, -7.25)]
    >>> report = FitReport("GaussianMixture", 4, tuple(records), "converged", {"gamma": 1.0})
    >>> print(report.summary())
    GaussianMixture on 4 rows: converged
    gamma 1
    objective -9 -> -7.25 nats in 3 iterations, 0.30 s
    """

    title: str
    n_rows: int
    history: tuple[Record, ...]
    status: str
    settings: Mapping[str, object] = field(default_factory=dict)
    constraints: tuple[ConstraintReport, ...] = ()
    notes: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    unit: str = "rows"
    summaries: Sequence[ConstraintSummary] = ()

    @property
    def prices(self) -> dict[str, Floats]:
        """``price`` of every constraint by its name; a second one of the same name is called ``"name (2)"``."""
        return prices_by_name((report.name, report.price) for report in self.constraints)

    def summary(self) -> str:
        """At most ``MOST_LINES`` lines of text: how it ended, the objective, a line per constraint.

        Returns
        -------
        str
        """
        lines = [f"{self.title} on {self.n_rows} {self.unit}: {self.status}"]
        if self.settings:
            lines.append(", ".join(f"{name} {_text(value)}" for name, value in self.settings.items()))
        if self.history:
            first, last = self.history[0], self.history[-1]
            lines.append(
                f"objective {first.objective:.6g} -> {last.objective:.6g} nats in "
                f"{counted(len(self.history), 'iteration')}, {self._seconds()}"
            )
        lines += [section.summary() for section in self.sections]
        lines += [*self.constraint_lines(MOST_LINES // 2), *self.notes]
        more = len(lines) - MOST_LINES
        return "\n".join(lines if more <= 0 else [*lines[: MOST_LINES - 1], f"and {more + 1:,} more lines"])

    def constraint_lines(self, limit: int) -> list[str]:
        """A line for each constraint, or for the ``limit`` that matter most and one about the others.

        Parameters
        ----------
        limit : int
            At least 1.

        Returns
        -------
        list of str
        """
        lines, left = constraint_lines(self.constraints, limit), len(self.summaries) - limit
        lines += [summary.text for summary in self.summaries[:limit]]
        return [*lines, f"and {left:,} more of many rows"] if left > 0 else lines

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file, as a page of HTML that needs nothing else.

        Parameters
        ----------
        path : path
            Such as ``"run.html"``.

        Raises
        ------
        InvalidInputError
            If the folder does not exist or the file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> report = FitReport("GaussianMixture", 4, (), "kept the start")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report.save(Path(folder, "run.html"))
        ...     "GaussianMixture: kept the start" in Path(folder, "run.html").read_text()
        True
        """
        write_texts(path, [self.to_html()])

    def to_html(self, command: str | None = None) -> str:
        """The page that `save` writes; the command line, if there was one, stands at its end.

        Parameters
        ----------
        command : str, optional

        Returns
        -------
        str
            A whole page of HTML.
        """
        return document(self.title, self._repr_html_(), command)

    def __repr__(self) -> str:
        iterations = counted(len(self.history), "iteration")
        return f"<FitReport of {self.title}: {iterations}, {counted(len(self.constraints), 'constraint')}>"

    def _seconds(self) -> str:
        return f"{sum(record.seconds for record in self.history):.2f} s"

    def _repr_html_(self) -> str:
        summary: dict[str, object] = {self.unit: f"{self.n_rows:,}", "iterations": len(self.history)}
        if self.history:
            summary["time"] = self._seconds()
            summary["objective"] = f"{self.history[-1].objective:.6g} nats"
        settings = {name: _text(value) for name, value in self.settings.items()}
        tolerance = max((float(report.tolerance.max(initial=0.0)) for report in self.constraints), default=0.0)
        return page(
            f"{self.title}: {self.status}",
            facts(summary),
            facts(settings),
            curves(self.history, tolerance),
            *(section.to_html() for section in self.sections),
            constraint_tables(self.constraints),
            summary_table(self.summaries),
            paragraphs(self.notes),
        )


def report_training(
    estimator: Any,
    n_rows: int,
    settings: Mapping[str, object],
    constraints: tuple[ConstraintReport, ...] = (),
    **more: Any,
) -> FitReport:
    """The report of an estimator, which has ``gamma``, ``history_`` and ``status_``, on its training.

    Parameters
    ----------
    estimator
    n_rows : int
    settings : mapping of name -> value
        Settings to show besides a criterion; by default gamma is that of the history.
    constraints : tuple of ConstraintReport
    **more
        ``notes``, ``sections``, ``unit`` and ``summaries`` of `FitReport`.
    """
    history = tuple(estimator.history_)
    status = _ENDINGS[estimator.status_] if history else "kept the start"
    summary: dict[str, object] = {"gamma": gamma_course(history, estimator.gamma)}
    if getattr(estimator, "criterion", None) is not None:
        summary["criterion"] = estimator.criterion
    summary.update(settings)
    return FitReport(type(estimator).__name__, n_rows, history, status, summary, constraints, **more)


def gamma_course(history: Sequence[Record], gamma: float) -> str | float:
    """Gamma as a setting of the report: the one of all iterations, or the first and last of several.

    Examples
    --------
    >>> gamma_course([Record(gamma, 0.0, 0.0, 0.0, 0.0) for gamma in (4.0, 2.0, 1.0)], 1.0)
    '4 to 1 in 3 stages'
    """
    stages = find_stages([record.gamma for record in history])
    if not stages:
        return gamma
    first, last = history[0].gamma, history[-1].gamma
    return first if len(stages) == 1 else f"{gamma_text(first)} to {gamma_text(last)} in {len(stages)} stages"


def _text(value: object) -> str:
    """A setting on one line; a long one, such as the names of many constraints, is cut."""
    return gamma_text(value) if isinstance(value, float) else shorten(str(value), 400)


class ShowsReport:
    """A base class of estimators, to stand before scikit-learn's, that adds ``report_`` to what a notebook shows."""

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return add_report(super()._repr_mimebundle_(**kwargs), vars(self).get("report_"))  # type: ignore[misc]

    @property
    def _repr_html_(self) -> Any:
        diagram = super()._repr_html_  # type: ignore[misc]  # no attribute where scikit-learn is set to show text
        return lambda: add_report(diagram(), vars(self).get("report_"))


def add_report(diagram: Any, report: FitReport | None) -> Any:
    """The picture that scikit-learn shows of an estimator, and below it the report where there is one.

    Parameters
    ----------
    diagram : str, or mapping of MIME type -> str
        HTML, or what ``_repr_mimebundle_`` gives; without HTML in it nothing is added.
    report : FitReport or None

    Examples
    --------
    >>> add_report({"text/plain": "SelfTrainer()"}, None)
    {'text/plain': 'SelfTrainer()'}
    """
    if report is None:
        return diagram
    if isinstance(diagram, str):
        return diagram + report._repr_html_()
    shown = dict(diagram)
    if "text/html" in shown:
        shown["text/html"] += report._repr_html_()
    return shown
