"""Lines over a common scale, panel beside panel: learning curves, reliability, the course of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats
from spectrem._reprs import brief_dataclass
from spectrem.exceptions import InvalidInputError, printable
from spectrem.learning.schedule import Record
from spectrem.metrics import Reliability
from spectrem.reports import SIGNS, ConstraintReport, ConstraintSummary, FitReport, row_name
from spectrem.reports.html import find_stages, gamma_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure


# Colours that readers with any colour vision distinguish ([Okabe2008]).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D")


@brief_dataclass(frozen=True)
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

    Examples
    --------
    >>> Line("EM", [1, 2, 3], [30, 20, 15], colour=1, style=1).label
    'EM'
    """

    label: str
    x: ArrayLike
    y: ArrayLike
    colour: int = 0
    style: int = 0
    marked: bool = True


@brief_dataclass(frozen=True)
class Panel:
    """Lines with their title and axes; limits are (low, high) or None for the data's own.

    Attributes
    ----------
    title, x_label, y_label : str
    lines : sequence of Line
    x_limits, y_limits : (float, float), optional

    Examples
    --------
    >>> panel = Panel("error", "pairs", "%", [Line("EM", [1, 2, 3], [30, 20, 15])], y_limits=(0, 40))
    >>> draw_panels([panel]).axes[0].get_ylabel()
    '%'
    """

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


_LONGEST = 48  # letters of a name at an axis


def plot_objective(history: Any, *, axes: Axes | None = None) -> Figure:
    """Objective per iteration; the line breaks where gamma changes.

    Parameters
    ----------
    history : FitReport, sequence of Record or fitted estimator
        As ``report_`` or ``history_`` of an estimator.
    axes : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Figure
        The figure of the axes; a new one belongs to no window, `save_figure` writes it.

    Raises
    ------
    InvalidInputError
        If there are no iterations, or matplotlib is not installed.

    Examples
    --------
    >>> records = [Record(gamma, -1.0 / gamma, -1.0, 0.0, 0.1) for gamma in (2.0, 2.0, 1.0)]
    >>> figure = plot_objective(records)
    >>> [len(line.get_xdata()) for line in figure.axes[0].lines[:2]]
    [2, 1]
    """
    history = getattr(history, "report_", getattr(history, "history_", history))
    records: tuple[Record, ...] = history.history if isinstance(history, FitReport) else tuple(history)
    if not records:
        raise InvalidInputError("history must hold iterations, got none; fit with max_iter of at least 1")
    figure, axes = axes_of(axes, 5.2, 3.6)
    gammas = [record.gamma for record in records]
    values = np.array([record.objective for record in records])
    stages = find_stages(gammas)
    lines = [Line("objective", np.arange(a, b) + 1, values[a:b], marked=len(records) <= 40) for a, b in stages]
    draw_lines(axes, Panel("objective", "iteration", "nats", lines))
    axes.locator_params(axis="x", integer=True)
    if len(stages) > 1:
        _mark_gammas(axes, [(start + 0.5, gammas[start]) for start, _ in stages], len(records))
    return figure


def plot_violations(report: Any, *, axes: Axes | None = None) -> Figure:
    """The worst violation of every constraint before and after, a pair of bars each.

    Constraints that the report only summarises are among them.

    Parameters
    ----------
    report : FitReport, ProjectedTable or fitted estimator
    axes : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Figure
        The figure of the axes; a new one belongs to no window, `save_figure` writes it.

    Raises
    ------
    InvalidInputError
        If there are no constraints, or matplotlib is not installed.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> table = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one of them"))
    >>> [round(float(bar.get_width()), 2) for bar in plot_violations(table).axes[0].patches]
    [0.6, 0.0]
    """
    report = getattr(report, "report_", report)
    summaries: Sequence[ConstraintSummary] = getattr(report, "summaries", ())
    constraints = [*(report.constraints if summaries else _constraints(report)), *summaries]
    figure, axes = axes_of(axes, 6.4, 1.4 + 0.55 * len(constraints))
    place = np.arange(len(constraints), dtype=np.float64)
    for number, label in enumerate(("before", "after")):
        values = [getattr(one, f"worst_{label}") for one in constraints]
        _draw_bars(axes, place + (number - 0.5) * 0.38, values, 0.36, color=COLOURS[1 - number], label=label)
    _name_bars(axes, [one.name for one in constraints])
    axes.set(title="worst violation of a constraint", xlabel="in the constraint's own unit")
    axes.set_xlim(left=0.0)
    axes.legend(frameon=False)
    return figure


def plot_prices(report: Any, *, limit: int = 20, axes: Axes | None = None) -> Figure:
    """Prices of the rows that cost most, over all constraints, a bar each: what relaxing a bound would gain.

    Each constraint has its own colour, which a legend explains where there are several.

    Their cost is about ``|price (after - before)| / 2`` nats.

    Parameters
    ----------
    report : FitReport, ProjectedTable or fitted estimator
    limit : int
        Rows at most, at least 1.
    axes : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Figure
        The figure of the axes; a new one belongs to no window, `save_figure` writes it.

    Raises
    ------
    InvalidInputError
        If there are no constraints, or only summaries of them; if limit is below 1, or matplotlib is not installed.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> table = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one of them"))
    >>> [round(float(bar.get_width()), 2) for bar in plot_prices(table).axes[0].patches]
    [1.52]
    """
    constraints = _constraints(report)
    if limit < 1:
        raise InvalidInputError(f"limit must be at least 1, got {limit}")
    prices = np.concatenate([one.price / one.scale for one in constraints])
    owner = np.repeat(np.arange(len(constraints)), [len(one.price) for one in constraints])
    row = np.concatenate([np.arange(len(one.price)) for one in constraints])
    cost = np.concatenate([one.cost for one in constraints])
    chosen = np.lexsort((-np.abs(prices), -cost))[:limit]
    chosen = chosen[np.argsort(-np.abs(prices[chosen]), kind="stable")]
    figure, axes = axes_of(axes, 6.4, 1.2 + 0.26 * len(chosen))
    colours = [COLOURS[int(owner[i]) % len(COLOURS)] for i in chosen]
    bars = _draw_bars(axes, np.arange(len(chosen), dtype=np.float64), prices[chosen], 0.7, color=colours)
    share = {constraints[int(owner[i])].is_share for i in chosen}
    units = ["percentage point of a share" if is_share else "unit of the bound" for is_share in sorted(share)]
    names = []
    for i in chosen:  # a row by its constraint, group and bound
        constraint, k = constraints[int(owner[i])], int(row[i])
        named = ": ".join(filter(None, (constraint.name, row_name(constraint, k))))
        bound = f"{constraint.scale[k] * constraint.bound[k]:.4g}" + "%" * constraint.is_share
        names.append(f"{named} {SIGNS[str(constraint.sense[k])]} {bound}")
    _name_bars(axes, names)
    axes.axvline(0.0, color="0.5", linewidth=0.8)
    more = f" ({len(chosen)} of {len(prices)})" if len(prices) > len(chosen) else ""
    axes.set(title=f"prices{more}", xlabel=f"nats per {' or '.join(units)}")
    shown = {int(owner[i]): bar for i, bar in zip(chosen, bars, strict=True)}
    if len(shown) > 1:
        numbers = sorted(shown)
        names = [plain_label(constraints[k].name, _LONGEST) for k in numbers]
        axes.legend([shown[k] for k in numbers], names, frameon=False)
    return figure


def _constraints(report: Any) -> tuple[ConstraintReport, ...]:
    report = getattr(report, "report_", report)
    if not report.constraints and len(getattr(report, "summaries", ())) > 0:
        raise InvalidInputError(
            "report must hold constraints row by row, got only summaries of them; read the range of their prices in "
            "report.summaries, or call plot_violations"
        )
    if not report.constraints:
        raise InvalidInputError("report must hold constraints, got none; fit with constraints, or call plot_objective")
    return report.constraints


def _draw_bars(axes: Axes, places: Floats, values: ArrayLike, height: float, **style: Any) -> BarContainer:
    """Horizontal bars, each with its number behind it."""
    bars = axes.barh(places, values, height, **style)
    axes.bar_label(bars, [f"{value:.3g}" for value in np.asarray(values)], padding=3, fontsize=8)
    return bars


def _name_bars(axes: Axes, names: Sequence[str]) -> None:
    """Names at the left, the first on top."""
    axes.set_yticks(range(len(names)), [plain_label(name, _LONGEST) for name in names])
    axes.invert_yaxis()
    axes.grid(alpha=0.3, axis="x")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)


def _mark_gammas(axes: Axes, changes: Sequence[tuple[float, float]], n_iter: int) -> None:
    """A dashed line at every change, and its gamma where there is room."""
    free = -np.inf
    for place, gamma in changes:
        if place > 1:
            axes.axvline(place, color="0.6", linestyle="--", linewidth=0.8, zorder=0)
        if place >= free:
            axes.annotate(
                rf"$\gamma$ {gamma_text(gamma)}",
                (place, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(2, -9),
                textcoords="offset points",
                fontsize=7,
            )
            free = place + n_iter * 0.12


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
