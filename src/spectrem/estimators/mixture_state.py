"""What a pickle of GaussianMixture holds: nothing that grows with the rows it was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spectrem.reports import FitReport

ROWWISE = ("labels_", "posteriors_")
"""Attributes with a value for every training row."""

LONGEST = 1000
"""Rows of a constraint's report at most that are pickled."""


def without_rows(state: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a mixture without those of `ROWWISE`, and with a report of bounded size."""
    kept = {name: value for name, value in state.items() if name not in ROWWISE}
    if "report_" in kept:
        kept["report_"] = shorten(kept["report_"])
    return kept


def shorten(report: FitReport) -> FitReport:
    """A report in which notes stand for constraints of more than `LONGEST` rows, such as those inside every row."""
    long = [own for own in report.constraints if len(own.bound) > LONGEST]
    if not long:
        return report
    notes = (
        f"{own.name}: {len(own.bound)} rows, violation {own.worst_before:.3g} -> {own.worst_after:.3g}; left out of "
        "the pickle"
        for own in long
    )
    kept = tuple(own for own in report.constraints if len(own.bound) <= LONGEST)
    return replace(report, constraints=kept, notes=(*report.notes, *notes))


def missing(mixture: Any, name: str) -> AttributeError:
    """The error for an attribute that a mixture does not have."""
    if name in ROWWISE and "weights_" in vars(mixture):
        return AttributeError(
            f"{name} has a value for every training row: pickles and copies leave it out, and posteriors_ is there "
            "under constraints only; call predict(X) or predict_proba(X)"
        )
    return AttributeError(f"{type(mixture).__name__!r} object has no attribute {name!r}")
