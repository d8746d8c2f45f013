"""What constraints demand and what became of it, in words: row by row, by group, and summarised."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from spectrem._arrays import Bools, Ints
from spectrem._reprs import brief_dataclass
from spectrem.exceptions import shorten

if TYPE_CHECKING:
    from spectrem.reports.rows import ConstraintReport

SIGNS = {"<=": "≤", ">=": "≥", "==": "="}
"""Senses as people write them."""

MOST_LINES = 40
"""Lines of a summary, at most."""

SOLVED = 1e-5
"""Violations up to this, relative to the size of a row, are what solving leaves."""


def row_name(report: ConstraintReport, row: int) -> str:
    """The group of a row, as ``"document 3, label spam"``; without groups its number, or nothing for a single row."""
    if report.keys:
        return ", ".join(f"{name} {values[row]}" for name, values in report.keys.items())
    return f"row {row}" if len(report.bound) > 1 else ""


def largest_rows(report: ConstraintReport, limit: int | None = None) -> Ints:
    """The rows that matter most, at most ``limit``: by violation, then by cost, then by price.

    The cost is about ``|price (after - before)| / 2`` nats. By price alone, rows would come first that bind only in the
    ninth digit.

    Examples
    --------
    >>> from spectrem.reports import ConstraintReport
    >>> free, bound = np.zeros(3), np.ones(3)
    >>> violation, price = np.array([0.0, 0.5, 0.0]), np.array([1.0, 0.0, 2.0])
    >>> report = ConstraintReport("size", np.full(3, "<="), {}, bound, price, free, free, free, violation, 1e-5 * bound)
    >>> largest_rows(report, 2)
    array([1, 2])
    """
    violation = np.where(report.broken, report.violation_after, 0.0)
    order = np.lexsort((-np.abs(report.price), -report.cost, -violation))
    return order[:limit].astype(np.int64)


def number_text(value: float, tolerance: float, is_share: bool) -> str:
    """A number rounded to ten times the tolerance and to four digits; in per cent where it is a share."""
    if not math.isfinite(value):
        return f"{value:g}"
    rounded = round(value, -math.floor(math.log10(10 * tolerance))) + 0.0
    return (f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:.4g}") + "%" * is_share


@brief_dataclass(frozen=True)
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
    scale : float
        Percentage points to a unit of the expectation, of a share.
    is_share : bool
        Whether numbers are shown in per cent.
    """

    group: str
    low: float
    high: float
    before: float
    after: float
    price: float
    tolerance: float
    scale: float = 1.0
    is_share: bool = False

    @property
    def miss(self) -> float:
        """By how much the expectation misses the bounds, at least 0; what solving may leave counts as 0."""
        miss = max(self.low - self.after, self.after - self.high, 0.0)
        return miss if miss > self.tolerance else 0.0

    @property
    def binds(self) -> bool:
        """Whether relaxing a bound by the size of the row would gain a thousandth of a nat or more."""
        return abs(self.price) * self.tolerance / SOLVED >= 1e-3

    @property
    def from_above(self) -> bool:
        """Whether the bound that binds, if one does, is the upper one; an equality binds as one or the other."""
        if self.low == self.high:
            return self.price > 0
        return abs(self.after - self.high) <= abs(self.after - self.low)

    def rounded(self, value: float) -> str:
        """A number in the unit of the expectation, or per cent; rounded to ten times the tolerance and to four digits.

        Examples
        --------
        >>> demand = Demand("", 90.0, 110.0, 112.7, 90.000025, 0.05, 0.0011)
        >>> demand.rounded(demand.after), demand.rounded(2.5e-9), demand.rounded(112.6954)
        ('90', '0', '112.7')
        >>> Demand("", 0.1, 0.2, 0.25, 0.2, 3040.0, 1e-5, 100.0, True).rounded(0.2)
        '20%'
        """
        return number_text(self.scale * value, self.scale * self.tolerance, self.is_share)

    @property
    def price_text(self) -> str:
        """The price and its unit, which is left out where it is that of the expectation.

        Examples
        --------
        >>> Demand("", 0.1, 0.2, 0.25, 0.2, 3040.0, 1e-5, 100.0, True).price_text
        '30.4 per percentage point'
        """
        return price_text(self.price / self.scale, self.is_share)

    @property
    def line(self) -> str:
        """All of it in a line of ASCII: the expectation before and after, what is demanded, the price.

        Examples
        --------
        >>> Demand("", 90.0, 110.0, 112.7, 110.0, 0.05, 0.0011).line
        '112.7 -> 110 within 90 to 110, price 0.05'
        """
        demanded = self._describe({sign: sign for sign in SIGNS}, " to ")
        price = f", price {self.price_text}" if self.binds else ", price unknown" if math.isnan(self.price) else ""
        return f"{self.rounded(self.before)} -> {demanded}{price}"

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
        return self._describe(SIGNS, "\u2013")

    def _describe(self, signs: Mapping[str, str], to: str) -> str:
        low, high = self.rounded(self.low), self.rounded(self.high)
        if self.low == self.high:
            relation, bounds = signs["=="], low
        elif self.high == math.inf:
            relation, bounds = signs[">="], low
        elif self.low == -math.inf:
            relation, bounds = signs["<="], high
        else:
            relation, bounds = "within", f"{low}{to}{high}"
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
    demands: list[Demand] = []
    done: set[int] = set()
    grouped = bool(report.keys) or count_demands(report) > 1
    for row in largest_rows(report, 2 * limit).tolist():
        if row in done or len(demands) == limit:
            continue
        rows = [row, *_other_end(report, row)]
        done.update(rows)
        ends = {str(report.sense[one]): float(report.bound[one]) for one in rows}
        demands.append(
            Demand(
                row_name(report, min(rows)) if grouped else "",
                ends.get(">=", ends.get("==", -math.inf)),
                ends.get("<=", ends.get("==", math.inf)),
                float(report.before[row]),
                float(report.after[row]),
                max((float(report.price[one]) for one in rows), key=abs),
                float(report.tolerance[rows].max()),
                float(report.scale[row]),
                report.is_share,
            )
        )
    return demands


def _other_end(report: ConstraintReport, row: int) -> list[int]:
    """The row that bounds the same expectation from the other side, if there is one."""
    same = report.sense == {"<=": ">=", ">=": "<="}.get(str(report.sense[row]), "")
    for values in (report.before, report.after, *report.keys.values()):
        same &= values == values[row]
    others = np.flatnonzero(same).tolist()
    return others if len(others) == 1 else []


def price_text(price: float, is_share: bool) -> str:
    """A price in three digits, with its unit where that is a percentage point."""
    return f"{price:.3g}" + " per percentage point" * is_share


def _constraint_line(report: ConstraintReport) -> str:
    """A constraint in words: how many rows it has, how many bind and are violated, the cost, the rows that matter."""
    demands, n, missed = demands_of(report, 3), count_demands(report), int(report.broken.sum())
    binding, cost, name = int(report.binding.sum()), total_cost(report), shorten(report.name)
    costs = f", cost {cost:.4g} nats" if cost >= 5e-4 else ""
    if n <= 1:
        group = f" in {demands[0].group}" if demands and demands[0].group else ""
        return f"{name}{group}: {demands[0].line}{costs}" if demands else f"{name}: concerns none of the rows"
    bind = {0: "none binds", 1: "1 binds"}.get(binding, f"{binding:,} bind")
    bind = "prices unknown" if np.isnan(report.price).any() else bind
    line = f"{name}: {n:,} rows, {bind}{costs}"
    if missed:
        worst = demands[0].rounded(demands[0].miss)
        line += f", {missed:,} {'use slack' if report.has_slack else 'violated'} by {worst} at most"
    if not (binding or missed):
        return line
    others = ", ".join(demand.group for demand in demands[1:] if demand.binds or demand.miss > 0)
    return f"{line}; most {demands[0].group}: {demands[0].line}" + (f"; then {others}" if others else "")


def most_important(constraints: Sequence[ConstraintReport], limit: int) -> list[ConstraintReport]:
    """At most ``limit`` constraints in their order: those that are violated, then those that cost most."""
    if len(constraints) <= limit:
        return list(constraints)
    matter = sorted(constraints, key=lambda report: (not report.broken.any(), -total_cost(report)))[:limit]
    kept = set(map(id, matter))
    return [report for report in constraints if id(report) in kept]


def total_cost(report: ConstraintReport) -> float:
    """The cost of all rows that bind, in nats; 0 where prices are unknown."""
    return float(np.nan_to_num(report.cost[report.binding]).sum())


def constraint_lines(constraints: Sequence[ConstraintReport], limit: int) -> list[str]:
    """A line for each constraint, or for the ``limit`` that matter most and one about the others.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> once, few = (E[part("label") == 1] <= 1).per("document"), E[part("label") == 1] <= "30%"
    >>> rules = [once.named("once"), few.named("few")]
    >>> table = project([[0.1, 0.9], [0.2, 0.8], [0.9, 0.1]], rules, columns={"document": ["a", "a", "b"]})
    >>> print(*constraint_lines(table.constraints, 40), sep="\\n")
    once: 2 rows, none binds
    few: 60% -> 30% <= 30%, price 0.0609 per percentage point, cost 0.914 nats
    >>> constraint_lines(table.constraints, 1)
    ['few: 60% -> 30% <= 30%, price 0.0609 per percentage point, cost 0.914 nats', 'and 1 more, of which none bind']
    """
    shown = most_important(constraints, limit)
    lines = [_constraint_line(report) for report in shown]
    if len(shown) < len(constraints):
        binding = sum(bool(r.binding.any()) for r in constraints) - sum(bool(r.binding.any()) for r in shown)
        lines.append(f"and {len(constraints) - len(shown):,} more, of which {binding or 'none'} bind")
    return lines


# Violations are counted from a thousandth of the size of a row on: fixed steps on the multipliers leave smaller ones.
_COUNTED = 100.0  # times the tolerance


@brief_dataclass(frozen=True)
class ConstraintSummary:
    """The rows of one constraint taken together, before and under the constraints; a value with ``+``.

    Violations are in the unit of the rows' expectations, or in percentage points where bounds are shares.

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
        The range of the prices (``ConstraintReport.price``), nats per unit or percentage point; NaN where not known.
    has_slack : bool
        Whether violations are allowed, at a price or within a bound.
    n_left_out : int
        Rows, not among those above, of instances that cannot meet the constraint.
    is_share : bool
        Whether bounds are shares.

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
    is_share: bool = False

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
            self.is_share and other.is_share,
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
        return f"{self.lowest_price:.3g} to {price_text(self.highest_price, self.is_share)}"

    @property
    def violations(self) -> tuple[str, str]:
        """The largest and the mean violation, each before and after, as text."""
        before_after = (self.worst_before, self.worst_after), (self.mean_before, self.mean_after)
        largest, mean = (" -> ".join(rounded(value) + "%" * self.is_share for value in pair) for pair in before_after)
        return largest, mean

    @property
    def text(self) -> str:
        """All of it in a line."""
        left_out = f", and {self.n_left_out:,} left out that cannot hold" if self.n_left_out else ""
        violated, violation = ("use slack", "slack") if self.has_slack else ("are violated", "violation")
        binding = "1 binds" if self.n_binding == 1 else f"{self.n_binding:,} bind"
        largest, mean = self.violations
        return (
            f"{shorten(self.name)}: {self.n_rows:,} rows, of which {binding} and {self.n_violated:,} "
            f"{violated}{left_out}; largest {violation} {largest}, mean {mean}; prices {self.prices}"
        )


def rounded(violation: float) -> str:
    """A violation to three digits; what solving leaves counts as 0.

    Examples
    --------
    >>> rounded(0.12345), rounded(3e-9)
    ('0.123', '0')
    """
    return f"{violation:.3g}" if violation > 1e-6 else "0"


def summarise(report: ConstraintReport, left_out: Bools | None = None) -> ConstraintSummary:
    """The rows of a report taken together.

    Parameters
    ----------
    report : ConstraintReport
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
    scale, tolerance = report.scale[kept], report.tolerance[kept]
    price = report.price[kept] / scale
    before, after = report.violation_before[kept], report.violation_after[kept]
    violated = int((after > _COUNTED * tolerance).sum())
    before, after = scale * before, scale * after
    return ConstraintSummary(
        report.name,
        len(price),
        int(report.binding[kept].sum()),
        violated,
        float(before.max(initial=0.0)),
        float(after.max(initial=0.0)),
        float(before.sum()),
        float(after.sum()),
        float(price.min(initial=np.inf)),
        float(price.max(initial=-np.inf)),
        report.has_slack,
        int((~kept).sum()),
        report.is_share,
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
    def _summaries(self) -> tuple[ConstraintSummary, ...]:
        return tuple(self._find())

    def __getitem__(self, index: Any) -> Any:
        return self._summaries[index]

    def __len__(self) -> int:
        return len(self._summaries)
