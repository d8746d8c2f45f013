"""Pieces of a page about a fit: curves of its course, and tables of its constraints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from spectrem._arrays import Floats
from spectrem._html import BLUE, MOST_LINES, ORANGE, and_more, paragraphs, picture, swatch, table, with_bar
from spectrem.exceptions import shorten
from spectrem.learning.schedule import Record
from spectrem.reports.constraints import (
    ConstraintSummary,
    Demand,
    count_demands,
    demands_of,
    most_important,
    total_cost,
)

if TYPE_CHECKING:
    from spectrem.reports.rows import ConstraintReport

WIDTH, HEIGHT = 430, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 12, 34, 34
_LETTER = 6.2  # width of a letter of the captions


def draw_curve(
    title: str, gammas: Sequence[float], values: Sequence[float], colour: str, *, from_zero: bool = False
) -> str:
    """Values per iteration; dashed lines and captions mark where gamma changes, and the curve breaks there.

    Parameters
    ----------
    title : str
    gammas, values : sequence of float
        One per iteration; values that are not finite are left out.
    colour : str
        The colour of the curve, as in CSS; all else has the colour of the text around.
    from_zero : bool
        Whether the axis starts at 0.

    Returns
    -------
    str
        An ``<svg>`` element.

    Examples
    --------
    >>> svg = draw_curve("objective", [1.0, 1.0], [-3.0, -2.0], "#3b8ed0")
    >>> svg[:4], svg.count("<circle")
    ('<svg', 2)
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = 0.0 if from_zero else min(finite), max(finite)
    span = max(abs(high), 1.0)
    if high == low:
        low, high = low - span / 2, high + span / 2

    def x(index: int) -> float:
        inner = WIDTH - _LEFT - _RIGHT
        return _LEFT + (inner * index / (len(values) - 1) if len(values) > 1 else inner / 2)

    def y(value: float) -> float:
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    out = [f'<text x="{_LEFT}" y="13" font-weight="bold">{escape(title)}</text>']
    bottom = HEIGHT - _BOTTOM
    out += [
        f'<path d="M{_LEFT} {_TOP - 4}V{bottom + 4}H{WIDTH - _RIGHT}" fill="none" stroke="currentColor" '
        'stroke-opacity="0.5"/>'
    ]
    for value, text in zip((high, low), number_texts([high, low]), strict=True):
        out.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{text}</text>')
    if len(values) > 1:
        out.append(f'<text x="{x(0):.1f}" y="{bottom + 17}" text-anchor="middle">1</text>')
    out.append(f'<text x="{x(len(values) - 1):.1f}" y="{bottom + 17}" text-anchor="middle">{len(values)}</text>')
    out.append(f'<text x="{(WIDTH + _LEFT) / 2:.0f}" y="{HEIGHT - 5}" text-anchor="middle">iteration</text>')
    stages = find_stages(gammas)
    if len(stages) > 1:
        out += _captions([(x(start) if start == 0 else (x(start - 1) + x(start)) / 2, gammas[start])
                          for start, _ in stages], bottom)  # fmt: skip
    for start, stop in stages:
        points = [(x(i), y(values[i])) for i in range(start, stop) if math.isfinite(values[i])]
        if len(points) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        if len(points) == 1 or len(values) <= 40:
            out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.4" fill="{colour}"/>' for a, b in points]
    return picture(WIDTH, HEIGHT, f"{title} at each of {len(values)} iterations", out)


def find_stages(gammas: Sequence[float]) -> list[tuple[int, int]]:
    """First iteration and the one after the last of every run of the same gamma.

    Examples
    --------
    >>> find_stages([2.0, 2.0, 1.0])
    [(0, 2), (2, 3)]
    """
    starts = [i for i in range(len(gammas)) if i == 0 or gammas[i] != gammas[i - 1]]
    return list(zip(starts, [*starts[1:], len(gammas)], strict=False))


def gamma_text(gamma: float) -> str:
    """A gamma in three digits."""
    return f"{gamma:.3g}"


def number_texts(values: Sequence[float]) -> list[str]:
    """Numbers in as few digits, four or more, as distinguish them; up to seven before the point are all written."""
    texts: list[str] = []
    whole = len(f"{max(map(abs, values), default=0.0):.0f}")
    for digits in range(max(4, whole) if whole <= 7 else 4, 13):
        texts = [f"{value:.{digits}g}" for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _captions(changes: Sequence[tuple[float, float]], bottom: float) -> list[str]:
    """A dashed line at every change, and its gamma where there is room."""
    out, free = [], 0.0
    for place, gamma in changes:
        if place > _LEFT:
            out.append(
                f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP - 8}" y2="{bottom}" stroke="currentColor" '
                'stroke-opacity="0.35" stroke-dasharray="3 3"/>'
            )
        text = gamma_text(gamma)
        stop = place + (len(text) + 2) * _LETTER
        if place >= free and stop <= WIDTH:
            out.append(f'<text x="{place + 2:.1f}" y="{_TOP - 9}" font-size="10">&#947; {text}</text>')
            free = stop + 4
    return out


MOST_ROWS, MOST_FREE = 20, 5
"""Rows of a constraint that are shown at most, and where those stop that do not bind."""

MOST_CONSTRAINTS = 40
"""Constraints that are shown at most."""


def _key(colour: str, meaning: str) -> str:
    return f'<span class="key">{swatch(colour)}{meaning}</span>'


_LEGEND = (
    "<p>The price of a bound is what the objective would gain, in nats, if the bound were relaxed by one unit, or one "
    "percentage point of a share; bounds that do not bind have none. Bars of prices have one scale for units and one "
    f"for percentage points. {_key(BLUE, 'The upper bound binds.')} {_key(ORANGE, 'The lower bound binds.')}</p>"
)
_OVERVIEW_LEGEND = "<p>The cost of a constraint is about what all its rows cost the objective, in nats.</p>"
_SUMMARY_LEGEND = (
    "<p>Constraints of many rows, a line for each: how many rows bind, which means that they have a price; how many "
    "are violated by more than a thousandth of their size; violations without the constraints → under them; the range "
    "of the prices, in nats per unit of the bound or percentage point of a share.</p>"
)


def curves(history: Sequence[Record], tolerance: float = 0.0) -> str:
    """Objective and, where it exceeds the tolerance of the constraints, violation per iteration."""
    if not history:
        return ""
    gammas = [record.gamma for record in history]
    objective = "objective, nats" if len(find_stages(gammas)) == 1 else "objective, nats, at each gamma"
    drawn = [draw_curve(objective, gammas, [record.objective for record in history], BLUE)]
    violations = [record.violation for record in history]
    # while parameters move, constraints are met less sharply than at the end
    if max(violations) > 100 * tolerance:
        title = "largest violation of a constraint"
        drawn.append(draw_curve(title, gammas, violations, ORANGE, from_zero=True))
    return f"<div>{''.join(drawn)}</div>"


def constraint_tables(constraints: Sequence[ConstraintReport]) -> str:
    """A line per constraint, then a table for each of several rows, those that matter most first.

    A single constraint has its table alone. Tables beyond `MOST_LINES` lines in all are folded. Sentences above
    say what prices and bars are.
    """
    if not constraints:
        return ""
    shown = [(report, _chosen(report)) for report in most_important(constraints, MOST_CONSTRAINTS)]
    most = {
        unit: max(
            (abs(one.price / one.scale) for _, chosen in shown for one in chosen if one.is_share == unit), default=0
        )
        for unit in (False, True)
    }
    single = len(constraints) == 1
    tables, n_lines = [], 0 if single else len(shown)
    for report, chosen in shown:
        if single or count_demands(report) > 1:
            n_lines += len(chosen)
            tables.append(_constraint(report, chosen, most[report.is_share], is_open=n_lines <= MOST_LINES))
    rest = and_more(len(constraints) - len(shown), "more constraints")
    return _LEGEND + ("" if single else _overview(shown)) + rest + "".join(tables)


def _overview(shown: Sequence[tuple[ConstraintReport, Sequence[Demand]]]) -> str:
    """A line for each constraint: what is demanded, how many rows bind, the largest price and the cost."""
    most = max(total_cost(report) for report, _ in shown)
    rows = []
    for report, chosen in shown:
        n, cost, binding = count_demands(report), total_cost(report), [one for one in chosen if one.binds]
        if n == 1:
            before, under = chosen[0].rounded(chosen[0].before), _reached(chosen[0])
        else:
            before, under = (_violated(report, values) for values in (report.violation_before, report.violation_after))
        dearest = max(binding, key=lambda one: abs(one.price / one.scale), default=None)
        price = _no_price(report.price) if dearest is None else f"{'up to ' * (n > 1)}{dearest.price_text}"
        colour = BLUE if dearest is None or dearest.from_above else ORANGE
        rows.append(
            (
                f"<strong>{escape(shorten(report.name))}</strong>",
                with_bar(f"{cost:.4g}", colour, cost / most if cost else 0.0),
                f"{int(report.binding.sum()):,} of {n:,}",
                price,
                before,
                under,
            )
        )
    head = ("", "cost, nats", "rows that bind", "price", "without the constraints", "under them")
    return _OVERVIEW_LEGEND + table(head, rows)


def _violated(report: ConstraintReport, violation: Floats) -> str:
    """How many rows are violated, and by how much."""
    n = int((violation > report.tolerance).sum())
    return f"{n:,} violated, by {report.worst_text(violation)} at most" if n else "all hold"


def summary_table(summaries: Sequence[ConstraintSummary]) -> str:
    """A table with a line per constraint of many rows, under a sentence that says what its columns hold."""
    if not summaries:
        return ""
    head = ("", "rows", "binding", "violated", "largest violation", "mean violation", "prices")
    left_out = [
        f"{summary.name}: {summary.n_left_out:,} rows that cannot hold are left out"
        for summary in summaries
        if summary.n_left_out
    ]
    return _SUMMARY_LEGEND + table(head, map(_summary_cells, summaries)) + paragraphs(left_out)


def _summary_cells(summary: ConstraintSummary) -> tuple[str, ...]:
    violated = f"{summary.n_violated:,}"
    if summary.has_slack:
        violated += " use slack"
    elif summary.n_violated:
        violated = f'<span class="broken">{violated}</span>'
    return (
        f"<strong>{escape(shorten(summary.name))}</strong>",
        f"{summary.n_rows:,}",
        f"{summary.n_binding:,}",
        violated,
        *(violation.replace("->", "→") for violation in summary.violations),
        summary.prices,
    )


def _chosen(report: ConstraintReport) -> list[Demand]:
    """The demands of a constraint that are shown."""
    demands = demands_of(report, MOST_ROWS)
    return [demand for k, demand in enumerate(demands) if k < MOST_FREE or demand.binds or demand.miss > 0]


def _constraint(report: ConstraintReport, chosen: Sequence[Demand], most: float, *, is_open: bool) -> str:
    n = count_demands(report)
    heading = f"<summary><strong>{escape(shorten(report.name))}</strong> {escape(_outcome(report, n))}</summary>"
    rows = [
        (escape(demand.group), demand.rounded(demand.before), _reached(demand), _price(demand, most))
        for demand in chosen
    ]
    none = ", none of which binds" if len(chosen) < MOST_ROWS else ""
    rest = and_more(n - len(chosen), f"more{none}")
    price = "price, per percentage point" if report.is_share else "price"
    values = table(("", "without the constraints", "under them", price), rows) if n else ""
    return f"<details{' open' * is_open}>{heading}{values}{rest}</details>"


def _outcome(report: ConstraintReport, n: int) -> str:
    """How many rows bind, whether the constraint holds, and whether it would without being demanded."""
    if not n:
        return "concerns none of the rows"
    missed, worst = int(report.broken.sum()), report.worst_text(report.violation_after)
    held = bool((report.violation_before <= report.tolerance).all())
    binding = f"binds in {int(report.binding.sum()):,} of {n:,} rows, " if n > 1 and report.binding.any() else ""
    if missed and worst.rstrip("%") != "0":
        after = "is missed" if n == 1 else f"is missed by {missed:,} of {n:,}"
        after = f"{binding}{after}, by {worst} at most"
        if held:
            return f"{after}; without the constraints it would hold"
    else:
        after = f"{binding}holds" if n == 1 else f"{binding}holds for all {n:,}"
        if held:
            return f"{after}, also without the constraints"
    return f"{after}; without the constraints it would be missed by {report.worst_text(report.violation_before)}"


def _reached(demand: Demand) -> str:
    """The expectation under the constraints, and what is demanded of it."""
    text = escape(demand.text)
    return f'<span class="broken">{text}</span>' if demand.miss > 0 else text


def _price(demand: Demand, most: float) -> str:
    """The price and a bar of its size, in the colour of the bound that binds."""
    price = demand.price / demand.scale if demand.binds else 0.0
    text = f"{price:.3g}" if demand.binds else _no_price(demand.price)
    return with_bar(text, BLUE if demand.from_above else ORANGE, abs(price) / most if price else 0.0)


def _no_price(price: Floats | float) -> str:
    return "unknown" if np.isnan(price).any() else "0"
