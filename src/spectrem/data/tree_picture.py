"""Dependency trees drawn for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import accumulate

from spectrem._arrays import Ints
from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem._html import BLUE, clipped, picture


def arc_levels(arcs: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The height of every arc (dependent, head) that is not from the root: above all shorter ones that it overlaps.

    Examples
    --------
    >>> arc_levels([(0, 1), (2, 1), (3, 1), (1, -1)])
    {(0, 1): 1, (2, 1): 1, (3, 1): 2}
    """
    levels: dict[tuple[int, int], int] = {}
    for arc in sorted((arc for arc in arcs if arc[1] != ROOT), key=lambda arc: (abs(arc[0] - arc[1]), arc)):
        low, high = min(arc), max(arc)
        below = [level for other, level in levels.items() if min(other) < high and low < max(other)]
        levels[arc] = max(below, default=0) + 1
    return levels


_MOST_WORDS, _LONGEST = 40, 40  # of a picture, and letters of a word
_LETTER, _STEP = 7.5, 16  # pixels of a letter, and between the heights of arcs


def draw_tree(
    forms: Sequence[str],
    tags: Sequence[str],
    heads: Ints | Sequence[int | None] | None,
    relations: Sequence[str] | None,
) -> str:
    """Words in a row, tags below them, and above them arcs from heads to dependents, with relations where known."""
    n = min(len(forms), _MOST_WORDS)
    words, tags, names = ([clipped(text, _LONGEST) for text in texts[:n]] for texts in (forms, tags, relations or ()))
    known = [] if heads is None else [UNKNOWN_HEAD if head is None else int(head) for head in heads[:n]]
    arcs = [(k, head) for k, head in enumerate(known) if ROOT <= head < n]
    levels = arc_levels(arcs)
    columns = zip(words, tags, names or [""] * n, strict=False)
    widths = [_LETTER * max(*map(len, texts), 3) + 10 for texts in columns]
    middles = [end - width / 2 for end, width in zip(accumulate(widths), widths, strict=True)]
    base = _STEP * (max(levels.values(), default=0) + 2)
    out = []
    for k, head in arcs:
        x, name = middles[k], "" if not names or names[k] == "_" else names[k]
        top, middle = (4, x) if head == ROOT else (base - _STEP * levels[k, head], (x + middles[head]) / 2)
        line = f"M{x:.0f} {top}V{base}" if head == ROOT else f"M{middles[head]:.0f} {base}V{top}H{x:.0f}V{base}"
        out.append(f'<path d="{line}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>')
        out.append(f'<path d="M{x - 3:.0f} {base - 6}h6l-3 6z" fill="{BLUE}"/>')
        anchor = "start" if head == ROOT else "middle"
        place = f'x="{middle + 4 * (head == ROOT):.0f}" y="{top + 6 if head == ROOT else top - 2}"'
        out.append(f'<text {place} text-anchor="{anchor}" font-size="9">{escape(name)}</text>' if name else "")
    for x, word, tag in zip(middles, words, tags, strict=False):
        out.append(f'<text x="{x:.0f}" y="{base + 15}" text-anchor="middle" font-size="13">{escape(word)}</text>')
        shown = "" if tag == "_" else escape(tag)
        out.append(f'<text x="{x:.0f}" y="{base + 29}" text-anchor="middle" fill-opacity="0.6">{shown}</text>')
    more = f"; the first {n} of {len(forms)} words" * (n < len(forms))
    arrows = ", ".join(f"{words[k]} from {'the root' if head == ROOT else words[head]}" for k, head in arcs)
    return picture(sum(widths), base + 36, f"{' '.join(words)}: {arrows or 'no heads'}{more}", out)
