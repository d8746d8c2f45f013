"""The demands of a constraint on each group: one line for both ends of an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spectrem.reports.constraints import ConstraintReport, binding_rows, largest_rows, row_name


@dataclass(frozen=True)
class Demand:
    """One expectation and the bounds on it.

    Attributes
    ----------
    group : str
        The group by the columns of ``.per``; "" if there is only one.
    low, high : float
        -inf and inf for no bound; equal for ``==``.
    before, after : float
        The expectation, without the constraints and under them.
    price : float
        The price of the bound that binds, nats per unit; 0 if none does.
    tolerance : float
        What solving may leave of a violation.
    """

    group: str
    low: float
    high: float
    before: float
    after: float
    price: float
    tolerance: float

    @property
    def miss(self) -> float:
        """By how much the expectation misses the bounds, at least 0; what solving may leave counts as 0."""
        miss = max(self.low - self.after, self.after - self.high, 0.0)
        return miss if miss > self.tolerance else 0.0

    @property
    def binds(self) -> bool:
        """Whether relaxing a bound by the size of the row would gain a thousandth of a nat or more."""
        return bool(binding_rows(self.price, self.tolerance))

    @property
    def from_above(self) -> bool:
        """Whether the bound that binds, if one does, is the upper one; an equality binds as one or the other."""
        if self.low == self.high:
            return self.price > 0
        return abs(self.after - self.high) <= abs(self.after - self.low)

    def rounded(self, value: float) -> str:
        """A number in the unit of the expectation, rounded to ten times the tolerance and to four digits.

        Examples
        --------
        >>> demand = Demand("", 90.0, 110.0, 112.7, 90.000025, 0.05, 0.0011)
        >>> demand.rounded(demand.after), demand.rounded(2.5e-9), demand.rounded(112.6954)
        ('90', '0', '112.7')
        """
        if not math.isfinite(value):
            return f"{value:g}"
        rounded = round(value, -math.floor(math.log10(10 * self.tolerance))) + 0.0
        return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:.4g}"

    @property
    def text(self) -> str:
        """The expectation and what is demanded of it.

        Examples
        --------
        >>> Demand("", 90.0, 110.0, 112.7, 110.0, 0.05, 0.0011).text
        '110 within 90–110'
        >>> Demand("", 2.0, float("inf"), 1.0, 1.5, 0.0, 1e-5).text
        '1.5, 0.5 below 2'
        """
        low, high = self.rounded(self.low), self.rounded(self.high)
        if self.low == self.high:
            relation, bounds = "=", low
        elif self.high == math.inf:
            relation, bounds = "≥", low
        elif self.low == -math.inf:
            relation, bounds = "≤", high
        else:
            relation, bounds = "within", f"{low}\u2013{high}"
        if self.miss > 0:
            relation = f"{self.rounded(self.miss)} {'above' if self.after > self.high else 'below'}"
            return f"{self.rounded(self.after)}, {relation} {bounds}"
        return f"{self.rounded(self.after)} {relation} {bounds}"


def count_demands(report: ConstraintReport) -> int:
    """Rows of a constraint, both ends of an interval being one."""
    upper, lower = (int((report.sense == sense).sum()) for sense in ("<=", ">="))
    return len(report.bound) - min(upper, lower)


def demands_of(report: ConstraintReport, limit: int) -> list[Demand]:
    """The demands of a constraint, at most ``limit``: those first that are missed, then those that cost most.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> table = project([[0.9, 0.1], [0.7, 0.3]], E[part("label") == 1].between(1, 1.5).named("one of them"))
    >>> [demand.text for demand in demands_of(table.constraints[0], 20)]
    ['1 within 1–1.5']
    """
    found: list[Demand] = []
    done: set[int] = set()
    grouped = bool(report.keys) or count_demands(report) > 1
    for row in largest_rows(report, 2 * limit).tolist():
        if row in done or len(found) == limit:
            continue
        own = [row, *_other_end(report, row)]
        done.update(own)
        ends = {str(report.sense[one]): float(report.bound[one]) for one in own}
        found.append(
            Demand(
                row_name(report, min(own)) if grouped else "",
                ends.get(">=", ends.get("==", -math.inf)),
                ends.get("<=", ends.get("==", math.inf)),
                float(report.before[row]),
                float(report.after[row]),
                max((float(report.price[one]) for one in own), key=abs),
                float(report.tolerance[own].max()),
            )
        )
    return found


def _other_end(report: ConstraintReport, row: int) -> list[int]:
    """The row that bounds the same expectation from the other side, if there is one."""
    same = report.sense == {"<=": ">=", ">=": "<="}.get(str(report.sense[row]), "")
    for values in (report.before, report.after, *report.keys.values()):
        same &= values == values[row]
    found = np.flatnonzero(same).tolist()
    return found if len(found) == 1 else []
