"""Reports of fits and projections: objective, violations and prices, as text and as HTML."""

# ruff: noqa: F401 - `__all__` is what is public; the other names are for the library itself

from spectrem.reports.constraints import SIGNS, ConstraintSummary, OnDemand, constraint_lines, largest_rows, row_name
from spectrem.reports.fit import FitReport, Section, ShowsReport, add_report, gamma_course, report_training
from spectrem.reports.posed import report_expectations, report_posed
from spectrem.reports.rows import ConstraintReport, price_copies, prices_by_name, report_rows, report_weighted

__all__ = [
    "ConstraintReport",
    "ConstraintSummary",
    "FitReport",
]
