"""Figures, by matplotlib (the extra ``plot``), which is loaded when the first one is drawn."""

# ruff: noqa: F401 - `__all__` is what is public; the other names are for the library itself

from spectrem.plotting.clusters import plot_clusters
from spectrem.plotting.curves import (
    COLOURS,
    Line,
    Panel,
    draw_panels,
    plain_label,
    plot_objective,
    plot_prices,
    plot_reliability,
    plot_violations,
)
from spectrem.plotting.posteriors import plot_posteriors, plot_trees, save_figure
from spectrem.plotting.states import plot_states, plot_transitions

__all__ = [
    "COLOURS",
    "Line",
    "Panel",
    "draw_panels",
    "plot_clusters",
    "plot_objective",
    "plot_posteriors",
    "plot_prices",
    "plot_reliability",
    "plot_states",
    "plot_transitions",
    "plot_trees",
    "plot_violations",
    "save_figure",
]
