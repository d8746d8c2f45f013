"""How a fit went: its objective, the violations of its constraints and their prices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spectrem.exceptions import InvalidInputError
from spectrem.learning.schedule import Record
from spectrem.plotting.curves import COLOURS, Line, Panel, axes_of, draw_lines, plain_label
from spectrem.reports import SIGNS, ConstraintReport, ConstraintSummary, FitReport, row_name
from spectrem.reports.svg import find_stages, gamma_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    for number, (label, values) in enumerate(
        [
            ("before", [own.worst_before for own in constraints]),
            ("after", [own.worst_after for own in constraints]),
        ]
    ):
        bars = axes.barh(place + (number - 0.5) * 0.38, values, 0.36, color=COLOURS[1 - number], label=label)
        axes.bar_label(bars, [f"{value:.3g}" for value in values], padding=3, fontsize=8)
    _name_bars(axes, [own.name for own in constraints])
    axes.margins(x=0.12)
    axes.set(title="worst violation of a constraint", xlabel="in the constraint's own unit")
    axes.set_xlim(left=0.0)
    axes.legend(frameon=False)
    return figure


def plot_prices(report: Any, *, limit: int = 20, axes: Axes | None = None) -> Figure:
    """Prices of the rows that cost most, over all constraints, a bar each: what relaxing a bound would gain.

    Each constraint has its own colour, which a legend explains where there are several.

    Their cost is about ``|price (after - before)|`` nats.

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
    prices = np.concatenate([own.price for own in constraints])
    owner = np.repeat(np.arange(len(constraints)), [len(own.price) for own in constraints])
    row = np.concatenate([np.arange(len(own.price)) for own in constraints])
    cost = np.concatenate([own.cost for own in constraints])
    chosen = np.lexsort((-np.abs(prices), -cost))[:limit]
    chosen = chosen[np.argsort(-np.abs(prices[chosen]), kind="stable")]
    figure, axes = axes_of(axes, 6.4, 1.2 + 0.26 * len(chosen))
    colours = [COLOURS[int(owner[i]) % len(COLOURS)] for i in chosen]
    bars = axes.barh(np.arange(len(chosen), dtype=np.float64), prices[chosen], 0.7, color=colours)
    axes.bar_label(bars, [f"{price:.3g}" for price in prices[chosen]], padding=3, fontsize=8)
    _name_bars(axes, [_full_name(constraints[int(owner[i])], int(row[i])) for i in chosen])
    axes.axvline(0.0, color="0.5", linewidth=0.8)
    axes.margins(x=0.12)
    more = f" ({len(chosen)} of {len(prices)})" if len(prices) > len(chosen) else ""
    axes.set(title=f"prices{more}", xlabel="nats per unit of the bound")
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


def _full_name(report: ConstraintReport, row: int) -> str:
    """A row by its constraint, group and bound."""
    named = ": ".join(filter(None, (report.name, row_name(report, row))))
    return f"{named} {SIGNS[str(report.sense[row])]} {report.bound[row]:.4g}"


def _name_bars(axes: Axes, names: Sequence[str]) -> None:
    """Names at the left, the first on top."""
    axes.set_yticks(range(len(names)), [plain_label(name, _LONGEST) for name in names])
    axes.invert_yaxis()
    axes.grid(alpha=0.3, axis="x")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


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
