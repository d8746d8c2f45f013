"""Reports of fits and projections: objective, violations and prices, as text and as HTML."""

# ruff: noqa: F401 - `__all__` is what is public; the other names are for the library itself

from spectrem.reports.constraints import (
    SIGNS,
    ConstraintReport,
    ConstraintSummary,
    OnDemand,
    constraint_lines,
    largest_rows,
    price_copies,
    prices_by_name,
    report_rows,
    report_weighted,
    row_name,
)
from spectrem.reports.fit import FitReport, Section, ShowsReport, add_report, gamma_course, report_training
from spectrem.reports.posed import report_expectations, report_posed

__all__ = [
    "ConstraintReport",
    "ConstraintSummary",
    "FitReport",
]
