"""Lines over a common scale, panel beside panel: learning curves, precision against recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from spectrem.exceptions import InvalidInputError, printable

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that readers with any colour vision distinguish ([Okabe2008]).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D")


@dataclass(frozen=True)
class Line:
    """One line of a panel.

    Attributes
    ----------
    label : str
        Lines of the same label in several panels share one entry of the legend; those without one have none.
    x, y : array-like of shape (n_points,)
    colour, style : int
        Numbers of a colour and of a dash pattern (also of the marker).
    marked : bool
        Whether each point gets a marker.
    """

    label: str
    x: ArrayLike
    y: ArrayLike
    colour: int = 0
    style: int = 0
    marked: bool = True


@dataclass(frozen=True)
class Panel:
    """Lines with their title and axes; limits are (low, high) or None for the data's own."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None


def plain_label(text: object, longest: int = 80) -> str:
    r"""A text as a label of a figure, whatever it holds.

    Dollar signs start no mathematics, control characters and lone surrogates are escaped, a ``_`` at the beginning
    hides nothing from a legend, and so many letters are shown at most.

    Examples
    --------
    >>> print(plain_label("$x_$<b>"), plain_label("_a\tb"), len(plain_label("x" * 5000)))
    \$x_\$<b>  _a\tb 80
    """
    shown = printable(str(text)).encode(errors="backslashreplace").decode()
    shown = shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
    return (f" {shown}" if shown.startswith("_") else shown).replace("$", r"\$")


def draw_panels(panels: Sequence[Panel], *, title: str = "", width: float = 4.2, height: float = 3.6) -> Figure:
    """Draw panels in a row over one legend.

    Parameters
    ----------
    panels : sequence of Panel
        At least one.
    title : str
    width, height : float
        The size of each panel, inches.

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
    >>> figure = draw_panels([Panel("AER", "pairs", "%", [Line("EM", [1, 2, 3], [30, 20, 15])])])
    >>> len(figure.axes)
    1
    """
    figure = make_figure(width * len(panels), height + 0.9)
    entries: dict[str, Artist] = {}
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for label, drawn in draw_lines(axes, panel).items():
            entries.setdefault(label, drawn)
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=3)
    if title:
        figure.suptitle(plain_label(title))
    return figure


def draw_lines(axes: Axes, panel: Panel) -> dict[str, Artist]:
    """Draw one panel into axes; of every label the first line, for a legend."""
    entries: dict[str, Artist] = {}
    for line in panel.lines:
        (drawn,) = axes.plot(
            np.asarray(line.x),
            np.asarray(line.y),
            color=COLOURS[line.colour % len(COLOURS)],
            linestyle=_STYLES[line.style % len(_STYLES)],
            marker=_MARKERS[line.style % len(_MARKERS)] if line.marked else "",
            markersize=4,
            linewidth=1.5,
            label=plain_label(line.label) if line.label else "_",
        )
        entries.setdefault(plain_label(line.label), drawn)
    axes.set(title=plain_label(panel.title), xlabel=plain_label(panel.x_label), ylabel=plain_label(panel.y_label))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.x_limits is not None:
        axes.set_xlim(*panel.x_limits)
    if panel.y_limits is not None:
        axes.set_ylim(*panel.y_limits)
    return entries


def make_figure(width: float, height: float) -> Figure:
    """An empty figure, tied to the Agg canvas and to no window, which a notebook shows; inches.

    Raises
    ------
    InvalidInputError
        If matplotlib is not installed.
    """
    try:
        from spectrem.plotting.figure import NotebookFigure
    except ImportError:
        raise InvalidInputError(
            "figures need matplotlib, which is not installed; install the extra `plot`: pip install 'spectrem[plot]'"
        ) from None
    return NotebookFigure(width, height)


def axes_of(axes: Axes | None, width: float, height: float) -> tuple[Figure, Axes]:
    """The axes given and their figure, or those of a new one."""
    if axes is None:
        figure = make_figure(width, height)
        return figure, figure.add_subplot()
    return cast("Figure", axes.get_figure(root=True)), axes
