"""Pieces of a page: self-contained HTML without scripts, whose colours are those of the notebook around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from spectrem.learning.history import Record
from spectrem.reports.constraints import SIGNS, ConstraintReport, largest_rows, row_name
from spectrem.reports.svg import draw_curve, gammas_of, number_texts

MOST_ROWS = 20
_BLUE, _ORANGE = "#3b8ed0", "#d9701f"
_STYLE = """<style>
.spectrem-report{color:inherit;font-family:sans-serif;font-size:13px;line-height:1.4}
.spectrem-report table{border-collapse:collapse;margin:4px 0 8px;font-size:12px;color:inherit}
.spectrem-report th,.spectrem-report td{padding:2px 10px;text-align:right;color:inherit;
border-bottom:1px solid rgba(128,128,128,.35)}
.spectrem-report th:first-child,.spectrem-report td:first-child{text-align:left}
.spectrem-report .broken{font-weight:bold;color:#d9701f}
.spectrem-report summary{cursor:pointer}
.spectrem-report svg{max-width:100%;color:inherit}
</style>"""


def page(title: str, *pieces: str) -> str:
    """All pieces under a title, with their style."""
    return f'<div class="spectrem-report">{_STYLE}<p><strong>{escape(title)}</strong></p>{"".join(pieces)}</div>'


def document(title: str, body: str) -> str:
    """A whole file of HTML around its body."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def facts(entries: Mapping[str, object]) -> str:
    """Names and values as a line."""
    parts = (f"{escape(name)} <strong>{escape(_text(value))}</strong>" for name, value in entries.items())
    return f"<p>{' · '.join(parts)}</p>" if entries else ""


def paragraphs(lines: Iterable[str]) -> str:
    """A paragraph per line."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def curves(history: Sequence[Record]) -> str:
    """Objective and, where there is any, violation per iteration."""
    if not history:
        return ""
    gammas = gammas_of(history)
    drawn = [draw_curve("objective, nats", gammas, [record.objective for record in history], _BLUE)]
    if any(record.violation > 0 for record in history):
        drawn.append(
            draw_curve(
                "largest violation of a constraint", gammas, [r.violation for r in history], _ORANGE, from_zero=True
            )
        )
    return f"<div>{''.join(drawn)}</div>"


def constraint_tables(constraints: Sequence[ConstraintReport]) -> str:
    """A table per constraint, the rows that matter most first."""
    return "".join(map(_constraint, constraints))


def _constraint(report: ConstraintReport) -> str:
    n = len(report.bound)
    heading = (
        f"<summary><strong>{escape(report.name)}</strong>: {n} row{'' if n == 1 else 's'}, violation "
        f"{report.worst_before:.3g} → {report.worst_after:.3g}</summary>"
    )
    chosen = largest_rows(report, MOST_ROWS)
    head = "".join(
        f"<th>{name}</th>" for name in ("", "expected before", "expected after", "bound", "violation", "price, nats")
    )
    body = "".join(_row(report, int(row)) for row in chosen)
    rest = f"<p>and {n - len(chosen)} more</p>" if n > len(chosen) else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if n else ""
    return f"<details open>{heading}{table}{rest}</details>"


def _row(report: ConstraintReport, row: int) -> str:
    sense = SIGNS[str(report.sense[row])]
    violation = float(report.violation_after[row])
    broken = ' class="broken"' if violation > 1e-3 * max(1.0, abs(float(report.bound[row]))) else ""
    cells = [
        f"{_number(report.before[row])}</td>",
        f"{_number(report.after[row])}</td>",
        f"{sense} {_number(report.bound[row])}</td>",
    ]
    return (
        f"<tr><td>{escape(row_name(report, row))}</td>{''.join('<td>' + cell for cell in cells)}"
        f"<td{broken}>{violation:.2g}</td><td>{report.price[row]:.3g}</td></tr>"
    )


def _number(value: float) -> str:
    return number_texts([float(value)])[0]


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
