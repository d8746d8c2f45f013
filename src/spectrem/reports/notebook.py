"""Estimators in notebooks: scikit-learn's diagram, followed by the report once they are fitted."""

from __future__ import annotations

from typing import Any

from spectrem.reports.fit import FitReport


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
