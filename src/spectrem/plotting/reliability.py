"""Reliability of probabilities as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spectrem.exceptions import InvalidInputError
from spectrem.metrics import Reliability
from spectrem.plotting.curves import Line, Panel, axes_of, draw_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_reliability(found: Reliability | Mapping[str, Reliability], *, axes: Axes | None = None) -> Figure:
    """How often probabilities were right over what they said; right ones lie on the dotted diagonal.

    Points above it are probabilities that are too low, points below it those that are too high.

    Parameters
    ----------
    found : Reliability, or mapping of names to several
        What `spectrem.metrics.reliability` returns. Empty bins have no point.
    axes : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Figure
        The figure of the axes; a new one belongs to no window, `save_figure` writes it.

    Raises
    ------
    InvalidInputError
        If the mapping is empty, or matplotlib is not installed.

    Examples
    --------
    >>> from spectrem.metrics import reliability
    >>> figure = plot_reliability(reliability([0.1, 0.2, 0.7, 0.9], [False, False, True, True], bins=5))
    >>> figure.axes[0].lines[1].get_xdata().round(1).tolist()
    [0.1, 0.2, 0.7, 0.9]
    """
    named = {"": found} if isinstance(found, Reliability) else dict(found)
    if not named:
        raise InvalidInputError("found must hold at least one Reliability, got none; give what reliability returns")
    figure, axes = axes_of(axes, 4.2, 4.2)
    lines = [Line("", [0, 1], [0, 1], colour=6, style=2, marked=False)]
    for number, (name, one) in enumerate(named.items()):
        filled = one.counts > 0
        lines.append(Line(name, one.expected[filled], one.observed[filled], colour=number, style=number))
    draw_lines(axes, Panel("", "mean probability", "share that was right", lines, (0, 1), (0, 1)))
    if len(named) > 1 or "" not in named:
        axes.legend(loc="best")
    return figure
