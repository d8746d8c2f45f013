"""Estimators in notebooks: scikit-learn's diagram, followed by the report once they are fitted."""

from __future__ import annotations

from typing import Any

from spectrem.reports.fit import FitReport


def add_report(diagram: Any, report: FitReport | None) -> Any:
    """What scikit-learn shows of an estimator, and below it the report where there is one.

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
