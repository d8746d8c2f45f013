"""The picture of `spectrem cluster --plot`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray


def draw_clusters(mixture: Any, x: NDArray[np.float64], names: list[str], path: str) -> None:
    """Rows, clusters and links in the plane of two features, or of the first two principal axes of more."""
    from spectrem.plotting import plain_label, plot_clusters, save_figure

    titles, points, flat = names, x, mixture
    if x.shape[1] > 2:
        titles = ["first principal axis", "second principal axis"]
        points, flat = project_plane(mixture, x)
    figure = plot_clusters(points, mixture.labels_, flat, links=mixture.constraints)
    figure.axes[0].set(xlabel=plain_label(titles[0], 48), ylabel=plain_label(titles[1], 48))
    save_figure(figure, path)


def project_plane(mixture: Any, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], Any]:
    """Rows and Gaussians in the plane of the first two principal axes; these point to where most features grow."""
    from spectrem.reports.components import covariance_matrices

    centre = x.mean(axis=0)
    axes = np.linalg.svd(x - centre, full_matrices=False)[2][:2].T
    axes = axes * np.where(axes.sum(axis=0) < 0, -1.0, 1.0)
    flat = SimpleNamespace(
        covariance_type="full",
        means_=(mixture.means_ - centre) @ axes,
        covariances_=axes.T @ covariance_matrices(mixture.covariance_type, mixture.means_, mixture.covariances_) @ axes,
    )
    return (x - centre) @ axes, flat
