"""Figures drawn from records: lines for `spectrem.plotting.draw_panels`, and groups of bars with their spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from reproductions.records import Record, group
from spectrem.plotting import COLOURS, Line


def curves(
    records: Iterable[Record],
    x: Callable[[Record], float],
    y: Callable[[Record], float],
    *,
    label: str,
    colour: str,
    style: str | int | None = None,
    marked: bool = True,
) -> list[Line]:
    """A line through the records of every value of a field, or of every pair of values of two.

    Parameters
    ----------
    records : iterable of named tuples
        In the order in which each line runs through them.
    x, y : callable
        Of a record.
    label : str
        With names of fields in braces.
    colour : str
        The field whose values have a colour each.
    style : str or int, optional
        The field whose values have a dash pattern each, or the number of one pattern; by default that of ``colour``.
    marked : bool
        Whether points have markers.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> Run = NamedTuple("Run", [("size", int), ("gamma", float), ("aer", float)])
    >>> runs = [Run(10, 0.0, 0.3), Run(10, 1.0, 0.2), Run(20, 0.0, 0.1)]
    >>> first, _ = curves(runs, lambda run: run.gamma, lambda run: run.aer, label="{size} pairs", colour="size")
    >>> first.label, first.x, first.y
    ('10 pairs', [0.0, 1.0], [0.3, 0.2])
    """
    records = list(records)
    patterns = style if isinstance(style, str) else colour
    colours, styles = list(group(records, colour)), list(group(records, patterns))
    return [
        Line(
            label.format(**own[0]._asdict()),
            [x(record) for record in own],
            [y(record) for record in own],
            colour=colours.index(first),
            style=style if isinstance(style, int) else styles.index(second),
            marked=marked,
        )
        for (first, second), own in group(records, colour, patterns).items()
    ]


@dataclass(frozen=True)
class BarPanel:
    """Groups of bars with their title.

    Attributes
    ----------
    title, y_label : str
    groups : sequence of str
        Names below the axis.
    bars : mapping of str -> (heights, errors)
        Each label with one bar in every group; errors are drawn up and down from the height.
    marks : array-like of shape (n_groups,), optional
        A line across each group, such as the best that can be had.
    mark_label : str
    """

    title: str
    y_label: str
    groups: Sequence[str]
    bars: Mapping[str, tuple[ArrayLike, ArrayLike]]
    marks: ArrayLike | None = None
    mark_label: str = ""


def draw_bars(
    panels: Sequence[BarPanel], *, title: str, n_columns: int = 2, width: float = 5.2, height: float = 3.2
) -> Figure:
    """Draw panels in rows over one legend, in which labels of several panels have one entry.

    Parameters
    ----------
    panels : sequence of BarPanel
        At least one.
    title : str
    n_columns : int
        Panels in a row.
    width, height : float
        Of each panel, inches.

    Examples
    --------
    >>> panel = BarPanel("accuracy", "%", ["English"], {"EM": ([40.0], [2.0]), "Sparse": ([50.0], [3.0])})
    >>> len(draw_bars([panel], title="Tags").axes)
    1
    """
    n_columns = min(n_columns, len(panels))
    n_rows = -(-len(panels) // n_columns)
    figure = Figure(figsize=(width * n_columns, height * n_rows + 0.9), layout="constrained")
    entries: dict[str, Artist] = {}
    labels = list(dict.fromkeys(label for panel in panels for label in panel.bars))
    places: Any = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axes in places[len(panels) :]:
        axes.remove()
    for axes, panel in zip(places, panels, strict=False):
        centres = np.arange(len(panel.groups), dtype=np.float64)
        share = 0.8 / max(1, len(panel.bars))
        for number, (label, (heights, errors)) in enumerate(panel.bars.items()):
            middle = centres + (number - (len(panel.bars) - 1) / 2) * share
            again, place = divmod(labels.index(label), len(COLOURS))
            look = {"color": COLOURS[place], "hatch": "//" * again, "edgecolor": "white", "linewidth": 0}
            drawn = axes.bar(middle, heights, share, yerr=errors, capsize=2, error_kw={"linewidth": 1}, **look)
            entries.setdefault(label, drawn)
        if panel.marks is not None:
            marks = axes.hlines(panel.marks, centres - 0.45, centres + 0.45, colors="black", linestyles="--")
            entries.setdefault(panel.mark_label, marks)
        axes.set(title=panel.title, ylabel=panel.y_label, xticks=centres, xticklabels=list(panel.groups))
        axes.grid(alpha=0.3, axis="y")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=4)
    figure.suptitle(title)
    return figure
