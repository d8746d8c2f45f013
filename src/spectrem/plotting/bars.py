"""Groups of bars with their spread, panel by panel: methods compared on several corpora."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spectrem.plotting.curves import COLOURS, make_figure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Bars:
    """One bar in every group.

    Attributes
    ----------
    label : str
        Bars of the same label in several panels share one entry of the legend.
    heights, errors : array-like of shape (n_groups,)
        Errors are drawn up and down from the height.
    colour : int
        Number of a colour.
    """

    label: str
    heights: ArrayLike
    errors: ArrayLike
    colour: int = 0


@dataclass(frozen=True)
class BarPanel:
    """Groups of bars with their title.

    Attributes
    ----------
    title, y_label : str
    groups : sequence of str
        Names below the axis.
    bars : sequence of Bars
    marks : array-like of shape (n_groups,), optional
        A line across each group, such as the best that can be had.
    mark_label : str
    y_limits : pair of float, optional
        By default from 0.
    """

    title: str
    y_label: str
    groups: Sequence[str]
    bars: Sequence[Bars]
    marks: ArrayLike | None = None
    mark_label: str = ""
    y_limits: tuple[float, float] | None = None


def draw_bars(
    panels: Sequence[BarPanel], *, title: str = "", n_columns: int = 2, width: float = 5.2, height: float = 3.2
) -> Figure:
    """Draw panels in rows over one legend.

    Parameters
    ----------
    panels : sequence of BarPanel
        At least one.
    title : str
    n_columns : int
        Panels in a row.
    width, height : float
        Of each panel, inches.

    Returns
    -------
    matplotlib Figure
        Tied to the Agg canvas and to no window; ``savefig`` writes it.

    Raises
    ------
    InvalidInputError
        If matplotlib is not installed.

    Examples
    --------
    >>> bars = [Bars("EM", [40.0], [2.0]), Bars("Sparse", [50.0], [3.0], colour=1)]
    >>> len(draw_bars([BarPanel("accuracy", "%", ["English"], bars)]).axes)
    1
    """
    n_columns = min(n_columns, len(panels))
    n_rows = -(-len(panels) // n_columns)
    figure = make_figure(width * n_columns, height * n_rows + 0.9)
    entries: dict[str, Artist] = {}
    places = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axes in places[len(panels) :]:
        axes.remove()
    for axes, panel in zip(places[: len(panels)], panels, strict=True):
        centres = np.arange(len(panel.groups), dtype=np.float64)
        share = 0.8 / max(1, len(panel.bars))
        for number, bars in enumerate(panel.bars):
            drawn = axes.bar(
                centres + (number - (len(panel.bars) - 1) / 2) * share,
                np.asarray(bars.heights),
                share,
                yerr=np.asarray(bars.errors),
                color=COLOURS[bars.colour % len(COLOURS)],
                capsize=2,
                error_kw={"linewidth": 1},
            )
            entries.setdefault(bars.label, drawn)
        if panel.marks is not None:
            lines = axes.hlines(
                np.asarray(panel.marks), centres - 0.45, centres + 0.45, colors="black", linestyles="--"
            )
            entries.setdefault(panel.mark_label, lines)
        axes.set(title=panel.title, ylabel=panel.y_label, xticks=centres, xticklabels=list(panel.groups))
        axes.grid(alpha=0.3, axis="y")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        if panel.y_limits is not None:
            axes.set_ylim(*panel.y_limits)
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=4)
    if title:
        figure.suptitle(title)
    return figure
