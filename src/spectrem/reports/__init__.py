"""What a fit or a projection tells of itself: objective, violations and prices, as text and as HTML."""

from spectrem.reports.constraints import (
    SIGNS,
    ConstraintReport,
    largest_rows,
    price_copies,
    prices_by_name,
    report_constraints,
    report_corpus,
    report_rows,
    report_weighted,
    row_name,
)
from spectrem.reports.fit import FitReport, Section, gamma_course, report_training
from spectrem.reports.notebook import ShowsReport, add_report

__all__ = [
    "SIGNS",
    "ConstraintReport",
    "FitReport",
    "Section",
    "ShowsReport",
    "add_report",
    "gamma_course",
    "largest_rows",
    "price_copies",
    "prices_by_name",
    "report_constraints",
    "report_corpus",
    "report_rows",
    "report_training",
    "report_weighted",
    "row_name",
]
