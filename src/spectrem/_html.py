"""HTML and SVG of notebooks and files: self-contained, without scripts, in the colours of the page around it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module

BLUE, ORANGE = "#3b8ed0", "#d9701f"
COLOURS = (BLUE, ORANGE, "#4a9e5c", "#b45fc0", "#c9a227", "#3aa6a6", "#d0506e", "#8a8f98")
"""On light and on dark ground."""

MOST_LINES = 40
"""Lines that a value shows of itself in a notebook, about at most."""

MOST_SHOWN = 5
"""Sentences, or other instances, of which a list shows the first ones in a notebook."""

_BAR = 60  # pixels of the largest bar
_STYLE = """<style>
.spectrem-report{color:inherit;font-family:sans-serif;font-size:13px;line-height:1.4}
.spectrem-report table{border-collapse:collapse;margin:4px 0 8px;font-size:12px;color:inherit}
.spectrem-report th,.spectrem-report td{padding:2px 10px;text-align:right;color:inherit;
border-bottom:1px solid rgba(128,128,128,.35)}
.spectrem-report th:first-child,.spectrem-report td:first-child{text-align:left}
.spectrem-report .broken{font-weight:bold;color:#d9701f}
.spectrem-report .swatch{display:inline-block;height:9px;width:9px;border-radius:2px;margin:0 5px}
.spectrem-report .key{white-space:nowrap}
.spectrem-report .track{display:inline-block;width:64px;margin-left:6px;text-align:left}
.spectrem-report .track .swatch{margin:0}
.spectrem-report .wide{overflow-x:auto}
.spectrem-report td{white-space:nowrap}
.spectrem-report td:first-child{white-space:normal;min-width:8em;max-width:24em}
@media(max-width:600px){.spectrem-report th,.spectrem-report td{padding:2px 5px}
.spectrem-report td:first-child{min-width:5.5em}}
.spectrem-report code{overflow-wrap:anywhere}
.spectrem-report summary{cursor:pointer}
.spectrem-report svg{max-width:100%;color:inherit}
</style>"""


def page(title: str, *pieces: str) -> str:
    """All pieces under a title, with their style."""
    return f'<div class="spectrem-report">{_STYLE}<p><strong>{escape(title)}</strong></p>{"".join(pieces)}</div>'


def document(title: str, body: str, command: str | None = None) -> str:
    """A whole file of HTML around a page, light or dark as its reader has set, that ends with what made it and when.

    Parameters
    ----------
    title, body : str
    command : str, optional
        The command line.
    """
    version = import_module("spectrem").__version__
    head = (
        '<meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>{escape(title)}</title>'
    )
    by = f" by <code>{escape(command)}</code>" if command else ""
    footer = f'<footer class="spectrem-report">made{by} with Spectrem {version}, {_date()}</footer>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}{footer}</body></html>\n'


def _date() -> str:
    """The time in UTC, to minutes; that of SOURCE_DATE_EPOCH (seconds since 1970) where a build has set it."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = float(epoch) if epoch.isdecimal() and len(epoch) < 12 else time.time()
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def facts(entries: Mapping[str, object]) -> str:
    """Names and values as a line."""
    parts = (f"{escape(name)} <strong>{escape(_text(value))}</strong>" for name, value in entries.items())
    return f"<p>{' · '.join(parts)}</p>" if entries else ""


def clipped(text: str, most: int) -> str:
    """A text of at most so many letters, the last of which says that more are left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def paragraphs(lines: Iterable[str]) -> str:
    """A paragraph per line."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def and_more(more: int, what: str = "more") -> str:
    """A paragraph that says how many things are not shown, if there are any."""
    return f"<p>and {more:,} {what}</p>" if more > 0 else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; one wider than the page is scrolled."""
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def swatch(colour: str, width: float = 0.0) -> str:
    """A square of a colour, or a bar of so many pixels."""
    size = f";width:{width:.0f}px" if width else ""
    return f'<span class="swatch" style="background:{colour}{size}"></span>'


def with_bar(text: str, colour: str, share: float) -> str:
    """A number, and a bar of this share of the largest."""
    bar = swatch(colour, max(_BAR * share, 2.0)) if share else ""
    return f'{text}<span class="track">{bar}</span>'


def picture(width: float, height: float, label: str, pieces: Iterable[str], font_size: int = 11) -> str:
    """An ``<svg>`` element of these pieces, which have the colour of the text around where they name none.

    Parameters
    ----------
    width, height : float
        Pixels.
    label : str
        The text for those who do not see it.
    pieces : iterable of str
        Elements of SVG.
    font_size : int
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(label)}" fill="currentColor" font-family="sans-serif" '
        f'font-size="{font_size}">{"".join(pieces)}</svg>'
    )


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
