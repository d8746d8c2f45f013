"""Pieces of a page: self-contained HTML without scripts, whose colours are those of the notebook around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from spectrem.learning.schedule import Record
from spectrem.reports.constraints import ConstraintReport
from spectrem.reports.demands import Demand, count_demands, demands_of
from spectrem.reports.summaries import ConstraintSummary, rounded
from spectrem.reports.svg import BLUE, ORANGE, draw_curve, find_stages, gammas_of

MOST_ROWS, MOST_FREE = 20, 5
"""Rows of a constraint that are shown at most, and where those stop that do not bind."""

_BAR = 60  # pixels of the largest price


def _swatch(colour: str, meaning: str) -> str:
    return f'<span class="key"><span class="swatch" style="background:{colour}"></span>{meaning}</span>'


_LEGEND = (
    "<p>The price of a bound is what the objective would gain, in nats, if the bound were relaxed by one unit; bounds "
    f"that do not bind have none. {_swatch(BLUE, 'The upper bound binds.')} "
    f"{_swatch(ORANGE, 'The lower bound binds.')}</p>"
)
_SUMMARY_LEGEND = (
    "<p>Constraints of many rows, a line for each: how many rows bind, which means that they have a price; how many "
    "are violated by more than a thousandth of their size; violations without the constraints → under them; the range "
    "of the prices, in nats per unit of the bound.</p>"
)
_STYLE = """<style>
.spectrem-report{color:inherit;font-family:sans-serif;font-size:13px;line-height:1.4}
.spectrem-report table{border-collapse:collapse;margin:4px 0 8px;font-size:12px;color:inherit}
.spectrem-report th,.spectrem-report td{padding:2px 10px;text-align:right;color:inherit;
border-bottom:1px solid rgba(128,128,128,.35)}
.spectrem-report th:first-child,.spectrem-report td:first-child{text-align:left}
.spectrem-report .broken{font-weight:bold;color:#d9701f}
.spectrem-report .swatch{display:inline-block;height:9px;width:9px;border-radius:2px;margin:0 5px}
.spectrem-report .key{white-space:nowrap}
.spectrem-report summary{cursor:pointer}
.spectrem-report svg{max-width:100%;color:inherit}
</style>"""


def page(title: str, *pieces: str) -> str:
    """All pieces under a title, with their style."""
    return f'<div class="spectrem-report">{_STYLE}<p><strong>{escape(title)}</strong></p>{"".join(pieces)}</div>'


def document(title: str, body: str) -> str:
    """A whole file of HTML around a page, light or dark as its reader has set."""
    head = f'<meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def facts(entries: Mapping[str, object]) -> str:
    """Names and values as a line."""
    parts = (f"{escape(name)} <strong>{escape(_text(value))}</strong>" for name, value in entries.items())
    return f"<p>{' · '.join(parts)}</p>" if entries else ""


def paragraphs(lines: Iterable[str]) -> str:
    """A paragraph per line."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def curves(history: Sequence[Record], tolerance: float = 0.0) -> str:
    """Objective and, where it exceeds the tolerance of the constraints, violation per iteration."""
    if not history:
        return ""
    gammas = gammas_of(history)
    objective = "objective, nats" if len(find_stages(gammas)) == 1 else "objective, nats, at each gamma"
    drawn = [draw_curve(objective, gammas, [record.objective for record in history], BLUE)]
    violations = [record.violation for record in history]
    # while parameters move, constraints are met less sharply than at the end
    if max(violations) > 100 * tolerance:
        title = "largest violation of a constraint"
        drawn.append(draw_curve(title, gammas, violations, ORANGE, from_zero=True))
    return f"<div>{''.join(drawn)}</div>"


def constraint_tables(constraints: Sequence[ConstraintReport]) -> str:
    """A table per constraint, the rows that matter most first, under a sentence that says what prices are."""
    return (_LEGEND if constraints else "") + "".join(map(_constraint, constraints))


def summary_table(summaries: Sequence[ConstraintSummary]) -> str:
    """A table with a line per constraint of many rows, under a sentence that says what its columns hold."""
    if not summaries:
        return ""
    head = ("", "rows", "binding", "violated", "largest violation", "mean violation", "prices")
    left_out = [
        f"{own.name}: {own.n_left_out:,} rows that cannot hold are left out" for own in summaries if own.n_left_out
    ]
    return _SUMMARY_LEGEND + table(head, map(_summary_cells, summaries)) + paragraphs(left_out)


def _summary_cells(own: ConstraintSummary) -> tuple[str, ...]:
    violated = f"{own.n_violated:,}"
    if own.has_slack:
        violated += " use slack"
    elif own.n_violated:
        violated = f'<span class="broken">{violated}</span>'
    return (
        f"<strong>{escape(own.name)}</strong>",
        f"{own.n_rows:,}",
        f"{own.n_binding:,}",
        violated,
        f"{rounded(own.worst_before)} → {rounded(own.worst_after)}",
        f"{rounded(own.mean_before)} → {rounded(own.mean_after)}",
        own.prices,
    )


def _constraint(report: ConstraintReport) -> str:
    found, n = demands_of(report, MOST_ROWS), count_demands(report)
    chosen = [demand for k, demand in enumerate(found) if k < MOST_FREE or demand.binds or demand.miss > 0]
    heading = f"<summary><strong>{escape(report.name)}</strong> {escape(_outcome(report, chosen, n))}</summary>"
    most = max((abs(demand.price) for demand in chosen), default=0.0)
    rows = [_cells(demand, most) for demand in chosen]
    none = ", none of which binds" if len(chosen) < MOST_ROWS else ""
    rest = f"<p>and {n - len(chosen)} more{none}</p>" if n > len(chosen) else ""
    values = table(("", "expected without the constraints", "expected under them", "price"), rows) if n else ""
    return f"<details open>{heading}{values}{rest}</details>"


def _outcome(report: ConstraintReport, chosen: Sequence[Demand], n: int) -> str:
    """Whether the constraint holds, and whether it would without being demanded."""
    if not chosen:
        return "concerns none of the rows"
    missed, written = int(report.broken.sum()), chosen[0].rounded
    held = bool((report.violation_before <= report.tolerance).all())
    if missed and float(written(report.worst_after).replace(",", "")) > 0:
        after = "is missed" if n == 1 else f"is missed by {missed} of {n}"
        after += f", by {written(report.worst_after)} at most"
        if held:
            return f"{after}; without the constraints it would hold"
    else:
        after = "holds" if n == 1 else f"holds for all {n}"
        if held:
            return f"{after}, also without the constraints"
    return f"{after}; without the constraints it would be missed by {written(report.worst_before)}"


def _cells(demand: Demand, most: float) -> tuple[str, str, str, str]:
    text = escape(demand.text)
    return (
        escape(demand.group),
        demand.rounded(demand.before),
        f'<span class="broken">{text}</span>' if demand.miss > 0 else text,
        _price(demand, most) if demand.binds else "0",
    )


def _price(demand: Demand, most: float) -> str:
    """The price beside a bar of its size, in the colour of the bound that binds."""
    colour = BLUE if demand.from_above else ORANGE
    width = max(_BAR * abs(demand.price) / most, 2.0)
    return f'<span class="swatch" style="background:{colour};width:{width:.0f}px"></span>{demand.price:.3g}'


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
