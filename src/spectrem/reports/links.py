"""Sentence pairs with their links, drawn side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from html import escape
from typing import NamedTuple

from spectrem._html import BLUE, ORANGE, clipped, facts, picture
from spectrem._reprs import brief_dataclass, briefly_shown

_LINE, _MIDDLE, _SIDE, _EDGE = 19, 70, 125, 6
_LONGEST = 18  # letters of a word that fit into a side
_MOST_WORDS = 80
_CARDS = "display:flex;flex-wrap:wrap;gap:12px;align-items:flex-start"
_CARD = "border:1px solid rgba(128,128,128,.35);border-radius:6px;padding:6px 4px;width:330px;max-width:100%"


@briefly_shown
class LinkedPair(NamedTuple):
    """A sentence pair with its links.

    Attributes
    ----------
    number : int
        Its place in the text, counted from 0.
    source, target : list of str
        The words.
    links : list of (source position, target position, probability)
        Positions are counted from 0.
    score : float
        How likely it is a translation; NaN where that is not known.
    """

    number: int
    source: list[str]
    target: list[str]
    links: list[tuple[int, int, float]]
    score: float


@brief_dataclass(frozen=True)
class LinkedPairs:
    """The part of a report that shows sentence pairs word by word, with lines for links.

    Attributes
    ----------
    groups : mapping of heading -> sequence of LinkedPair
    facts : mapping of name -> value
        Numbers about all pairs, which stand above.

    Examples
    --------
    >>> section = LinkedPairs({"First": [LinkedPair(0, ["the", "house"], ["das", "haus"], [(0, 0, 0.9)], 0.5)]})
    >>> section.to_html().count("<line")
    1
    """

    groups: Mapping[str, Sequence[LinkedPair]]
    facts: Mapping[str, object] = field(default_factory=dict)

    def summary(self) -> str:
        """The numbers in a line."""
        return ", ".join(f"{name} {value}" for name, value in self.facts.items())

    def to_html(self) -> str:
        """The pairs of every heading, as cards that stand beside each other where there is room."""
        legend = (
            "<p>A line is a link, the fainter the less probable. Words without a link are pale. The score says how "
            f"likely the pair is a translation, from 0 to 1; pairs of low scores are often none.</p>{facts(self.facts)}"
        )
        groups = (
            f'<h3>{escape(heading)}</h3><div style="{_CARDS}">{"".join(map(_card, pairs))}</div>'
            for heading, pairs in self.groups.items()
            if pairs
        )
        return legend + "".join(groups)


def _card(pair: LinkedPair) -> str:
    score = "" if pair.score != pair.score else f" · score <strong>{pair.score:.3g}</strong>"
    longer = max(len(pair.source), len(pair.target)) > _MOST_WORDS
    rest = f"<div>the first {_MOST_WORDS} words of {len(pair.source)} and {len(pair.target)}</div>" * longer
    return f'<div style="{_CARD}"><div>pair {pair.number + 1:,}{score}</div>{_picture(pair)}{rest}</div>'


def _picture(pair: LinkedPair) -> str:
    """Source words on the left, target words on the right, both from top to bottom."""
    sides = pair.source[:_MOST_WORDS], pair.target[:_MOST_WORDS]
    links = [link for link in pair.links if max(link[:2]) < _MOST_WORDS]
    linked = {i for i, _, _ in links}, {j for _, j, _ in links}
    left, width = _SIDE, 2 * _SIDE + _MIDDLE
    height = _LINE * max(1, *map(len, sides)) + _EDGE
    out = []
    for i, j, probability in links:
        words = f"{pair.source[i]} – {pair.target[j]}: {probability:.2g}"  # noqa: RUF001 -- a dash
        colour = BLUE if probability >= 0.5 else ORANGE
        out.append(
            f'<line x1="{left + 4}" y1="{_height(i) - 4}" x2="{left + _MIDDLE - 4}" y2="{_height(j) - 4}" '
            f'stroke="{colour}" stroke-width="2" stroke-opacity="{0.25 + 0.75 * probability:.2f}">'
            f"<title>{escape(words)}</title></line>"
        )
    for words_of_side, known, x, anchor in zip(sides, linked, (left, left + _MIDDLE), ("end", "start"), strict=True):
        for k, word in enumerate(words_of_side):
            pale = "" if k in known else ' fill-opacity="0.45"'
            shown = clipped(word, _LONGEST)
            full = "" if shown == word else f"<title>{escape(word)}</title>"
            out.append(f'<text x="{x}" y="{_height(k)}" text-anchor="{anchor}"{pale}>{escape(shown)}{full}</text>')
    return picture(width, height, f"links of pair {pair.number + 1}", out, 12)


def _height(word: int) -> int:
    return _LINE * (word + 1) - 4
