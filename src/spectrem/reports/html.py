"""Pieces of a page: self-contained HTML and SVG without scripts, whose colours are those of the notebook around it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from spectrem.learning.schedule import Record
from spectrem.reports.constraints import ConstraintReport, ConstraintSummary, Demand, count_demands, demands_of, rounded

BLUE, ORANGE = "#3b8ed0", "#d9701f"
COLOURS = (BLUE, ORANGE, "#4a9e5c", "#b45fc0", "#c9a227", "#3aa6a6", "#d0506e", "#8a8f98")
"""On light and on dark ground."""

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

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(title)} at each of {len(values)} iterations" fill="currentColor" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="{_LEFT}" y="13" font-weight="bold">{escape(title)}</text>',
    ]
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
    return "".join([*out, "</svg>"])


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
    """Numbers in as few digits, four or more, as distinguish them."""
    texts: list[str] = []
    for digits in range(4, 13):
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
    """A table per constraint, the rows that matter most first, under a sentence that says what prices are."""
    return (_LEGEND if constraints else "") + "".join(map(_constraint, constraints))


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
        f"<strong>{escape(summary.name)}</strong>",
        f"{summary.n_rows:,}",
        f"{summary.n_binding:,}",
        violated,
        f"{rounded(summary.worst_before)} → {rounded(summary.worst_after)}",
        f"{rounded(summary.mean_before)} → {rounded(summary.mean_after)}",
        summary.prices,
    )


def _constraint(report: ConstraintReport) -> str:
    demands, n = demands_of(report, MOST_ROWS), count_demands(report)
    chosen = [demand for k, demand in enumerate(demands) if k < MOST_FREE or demand.binds or demand.miss > 0]
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
    text, price = escape(demand.text), "0"
    if demand.binds:  # the price beside a bar of its size, in the colour of the bound that binds
        colour, width = BLUE if demand.from_above else ORANGE, max(_BAR * abs(demand.price) / most, 2.0)
        price = f'<span class="swatch" style="background:{colour};width:{width:.0f}px"></span>{demand.price:.3g}'
    return (
        escape(demand.group),
        demand.rounded(demand.before),
        f'<span class="broken">{text}</span>' if demand.miss > 0 else text,
        price,
    )


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
