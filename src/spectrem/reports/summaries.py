"""A constraint of very many rows in a few numbers, which add up over the shards of a corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from spectrem.reports.constraints import ConstraintReport, binding_rows

# Violations are counted from a thousandth of the size of a row on: fixed steps on the multipliers leave smaller ones.
_COUNTED = 100.0  # times the tolerance


@dataclass(frozen=True)
class ConstraintSummary:
    """The rows of one constraint taken together, before and under the constraints; a value with ``+``.

    Violations are in the unit of the rows' expectations.

    Attributes
    ----------
    name : str
    n_rows : int
    n_binding : int
        Rows whose bound, relaxed by the size of the row, would gain the objective a thousandth of a nat or more.
    n_violated : int
        Rows that the posteriors under the constraints violate by more than a thousandth of the size of the row.
    worst_before, worst_after : float
        The largest violation by the posteriors of the model alone, and by those under the constraints.
    total_before, total_after : float
        The sums of the violations of all rows.
    lowest_price, highest_price : float
        The range of the prices (`ConstraintReport.price`), nats per unit; NaN where they are not known.
    has_slack : bool
        Whether violations are allowed, at a price or within a bound.
    n_left_out : int
        Rows, not among those above, of instances that cannot meet the constraint.

    Examples
    --------
    >>> first = ConstraintSummary("one verb", 2, 1, 0, 0.5, 0.0, 0.75, 0.0, 0.0, 1.25)
    >>> second = ConstraintSummary("one verb", 2, 2, 0, 1.0, 0.0, 1.25, 0.0, 0.5, 2.0)
    >>> print((first + second).text)
    one verb: 4 rows, of which 3 bind and 0 are violated; largest violation 1 -> 0, mean 0.5 -> 0; prices 0 to 2
    """

    name: str
    n_rows: int
    n_binding: int
    n_violated: int
    worst_before: float
    worst_after: float
    total_before: float
    total_after: float
    lowest_price: float
    highest_price: float
    has_slack: bool = False
    n_left_out: int = 0

    def __add__(self, other: ConstraintSummary) -> ConstraintSummary:
        return ConstraintSummary(
            self.name,
            self.n_rows + other.n_rows,
            self.n_binding + other.n_binding,
            self.n_violated + other.n_violated,
            max(self.worst_before, other.worst_before),
            max(self.worst_after, other.worst_after),
            self.total_before + other.total_before,
            self.total_after + other.total_after,
            float(np.minimum(self.lowest_price, other.lowest_price)),  # NaN stays
            float(np.maximum(self.highest_price, other.highest_price)),
            self.has_slack,
            self.n_left_out + other.n_left_out,
        )

    @property
    def mean_before(self) -> float:
        """Mean violation of a row by the posteriors of the model alone."""
        return self.total_before / max(self.n_rows, 1)

    @property
    def mean_after(self) -> float:
        """Mean violation of a row by the posteriors under the constraints."""
        return self.total_after / max(self.n_rows, 1)

    @property
    def prices(self) -> str:
        """The range of the prices, as text."""
        if np.isnan(self.lowest_price) or not self.n_rows:
            return "unknown"
        return f"{self.lowest_price:.3g} to {self.highest_price:.3g}"

    @property
    def text(self) -> str:
        """All of it in a line."""
        left_out = f", and {self.n_left_out:,} left out that cannot hold" if self.n_left_out else ""
        violated, violation = ("use slack", "slack") if self.has_slack else ("are violated", "violation")
        return (
            f"{self.name}: {self.n_rows:,} rows, of which {self.n_binding:,} bind and {self.n_violated:,} "
            f"{violated}{left_out}; largest {violation} {rounded(self.worst_before)} -> {rounded(self.worst_after)}, "
            f"mean {rounded(self.mean_before)} -> {rounded(self.mean_after)}; prices {self.prices}"
        )


def rounded(violation: float) -> str:
    """A violation to three digits; what solving leaves counts as 0.

    Examples
    --------
    >>> rounded(0.12345), rounded(3e-9)
    ('0.123', '0')
    """
    return f"{violation:.3g}" if violation > 1e-6 else "0"


def summarise(
    report: ConstraintReport, has_slack: bool = False, left_out: NDArray[np.bool_] | None = None
) -> ConstraintSummary:
    """The rows of a report taken together.

    Parameters
    ----------
    report : ConstraintReport
    has_slack : bool
    left_out : ndarray of shape (n_rows,), optional
        Rows that cannot hold and were not asked for.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> few = (E[part("label") == 1] <= 0.2).per("row").named("few")
    >>> table = project([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5]], few)
    >>> summary = summarise(table.constraints[0])
    >>> summary.n_rows, summary.n_binding, round(summary.worst_before, 3), round(summary.mean_before, 3)
    (3, 2, 0.3, 0.133)
    """
    kept = np.ones(len(report.bound), np.bool_) if left_out is None else ~left_out
    price, tolerance = report.price[kept], report.tolerance[kept]
    before, after = report.violation_before[kept], report.violation_after[kept]
    return ConstraintSummary(
        report.name,
        len(price),
        int(binding_rows(price, tolerance).sum()),
        int((after > _COUNTED * tolerance).sum()),
        float(before.max(initial=0.0)),
        float(after.max(initial=0.0)),
        float(before.sum()),
        float(after.sum()),
        float(price.min(initial=np.inf)),
        float(price.max(initial=-np.inf)),
        has_slack,
        int((~kept).sum()),
    )


class OnDemand(Sequence[ConstraintSummary]):
    """Summaries that are computed when they are first looked at.

    Parameters
    ----------
    find : callable
        Without arguments, to the summaries. It pickles if the sequence shall.
    """

    def __init__(self, find: Callable[[], Sequence[ConstraintSummary]]) -> None:
        self._find = find

    @cached_property
    def _found(self) -> tuple[ConstraintSummary, ...]:
        return tuple(self._find())

    @overload
    def __getitem__(self, index: int) -> ConstraintSummary: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ConstraintSummary]: ...

    def __getitem__(self, index: int | slice) -> ConstraintSummary | Sequence[ConstraintSummary]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)
