"""Figures, by matplotlib (the extra ``plot``), which is loaded when the first one is drawn."""

from spectrem.plotting.clusters import plot_clusters
from spectrem.plotting.curves import COLOURS, Line, Panel, draw_panels, plain_label
from spectrem.plotting.fits import plot_objective, plot_prices, plot_violations
from spectrem.plotting.posteriors import plot_posteriors, save_figure
from spectrem.plotting.reliability import plot_reliability
from spectrem.plotting.trees import plot_trees

__all__ = [
    "COLOURS",
    "Line",
    "Panel",
    "draw_panels",
    "plain_label",
    "plot_clusters",
    "plot_objective",
    "plot_posteriors",
    "plot_prices",
    "plot_reliability",
    "plot_trees",
    "plot_violations",
    "save_figure",
]
