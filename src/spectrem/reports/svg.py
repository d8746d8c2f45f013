"""Curves over iterations as SVG that stands in a page: no scripts, no fonts, colours that suit light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from spectrem.learning.schedule import Record

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


def gammas_of(history: Sequence[Record]) -> list[float]:
    """Gamma of every iteration."""
    return [record.gamma for record in history]


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
