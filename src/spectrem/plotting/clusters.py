"""Clusterings of points in the plane, with the ellipses of their Gaussians and the links between points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem.constraints.links import RowLinks
from spectrem.constraints.text import Constraints, flatten
from spectrem.exceptions import InvalidInputError
from spectrem.plotting.curves import COLOURS, axes_of, plain_label
from spectrem.reports.components import covariance_matrices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P")
_SQUARE = 4.0  # up to this ratio of their ranges, two features are drawn in one scale
_LEGEND = 14  # clusters that a legend names at most


def plot_clusters(
    X: ArrayLike,
    labels: ArrayLike,
    mixture: Any = None,
    *,
    links: Constraints = (),
    title: str = "",
    axes: Axes | None = None,
) -> Figure:
    """Points by label, ellipses of 1 and 2 standard deviations, links between points.

    Parameters
    ----------
    X : array-like of shape (n_points, 2)
    labels : array-like of shape (n_points,), int
        Numbers of clusters, from 0; -1 where unknown. Such as ``mixture.labels_`` or ``mixture.predict(X)``.
    mixture : GaussianMixture or None
        Fitted; whose ellipses to draw.
    links : constraint, text of one, mapping from names to these, or iterable of all of these
        Those made by `must_link` are drawn solid, those by `cannot_link` dashed; others are passed over, so that it
        may be ``mixture.constraints``.
    title : str
    axes : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Figure
        The figure of the axes; a new one belongs to no window, `save_figure` writes it.

    Raises
    ------
    InvalidInputError
        If points do not lie in the plane, labels do not fit them, a link names a point that does not exist, or
        matplotlib is not installed.

    Examples
    --------
    >>> from spectrem import GaussianMixture
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> mixture = GaussianMixture(2, random_state=0, n_threads=1).fit(X)
    >>> figure = plot_clusters(X, mixture.labels_, mixture)
    >>> len(figure.axes[0].patches)
    4
    """
    points, codes = _read(X, labels)
    row_links = [link for link in flatten(links) if isinstance(link, RowLinks) and link.pairs is not None]
    for link in row_links:
        link.check(len(points))
    figure, axes = axes_of(axes, 5.6, 4.6)
    distinct = np.unique(codes)
    for label in distinct.tolist():
        chosen = points[codes == label]
        axes.scatter(
            chosen[:, 0],
            chosen[:, 1],
            s=16,
            color=_colour(label),
            marker=_MARKERS[max(label, 0) // len(COLOURS) % len(_MARKERS)],
            alpha=0.8,
            linewidths=0,
            label=("unknown" if label < 0 else str(label)) if len(distinct) <= _LEGEND else None,
            zorder=2,
        )
    for link in row_links:
        _draw_links(axes, points, link)
    if mixture is not None:
        _draw_ellipses(axes, mixture)
    axes.set(title=plain_label(title))
    width, height = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
    if 1 / _SQUARE < width / height < _SQUARE:
        axes.set_aspect("equal", "datalim" if figure.axes == [axes] else "box")
    # else one of the features would be a line
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
    return figure


def _read(X: ArrayLike, labels: ArrayLike) -> tuple[Floats, Ints]:
    points, codes = np.asarray(X, np.float64), np.asarray(labels)
    if points.ndim != 2 or points.shape[1] != 2:
        raise InvalidInputError(
            f"X must have shape (n_points, 2), got {points.shape}; choose two columns, or project it by PCA"
        )
    if codes.shape != points.shape[:1] or codes.dtype.kind not in "iu":
        raise InvalidInputError(
            f"labels must be integers of shape ({len(points)},), one per point, got {codes.dtype} of shape "
            f"{codes.shape}; try mixture.predict(X)"
        )
    return points, codes.astype(np.int64)


def _draw_ellipses(axes: Axes, mixture: Any) -> None:
    from matplotlib.patches import Ellipse

    means = mixture.means_
    if means.shape[1] != 2:
        raise InvalidInputError(
            f"mixture must be of 2 features to be drawn, got {means.shape[1]}; fit it to the two columns drawn"
        )
    covariances = covariance_matrices(mixture.covariance_type, means, np.asarray(mixture.covariances_))
    for k, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        variances, directions = np.linalg.eigh(covariance)
        angle = float(np.degrees(np.arctan2(directions[1, 1], directions[0, 1])))
        for deviations, width in ((1, 1.6), (2, 0.9)):
            short, long = 2 * deviations * np.sqrt(np.maximum(variances, 0.0))
            axes.add_patch(
                Ellipse(mean, long, short, angle=angle, fill=False, edgecolor=_colour(k), linewidth=width, zorder=3)
            )
    axes.autoscale_view()


def _draw_links(axes: Axes, points: Floats, links: RowLinks) -> None:
    from matplotlib.collections import LineCollection

    segments = points[links.pairs]
    style = {"linestyles": "solid", "colors": "0.35"} if links.together else {"linestyles": "dashed", "colors": "0.1"}
    axes.add_collection(
        LineCollection(list(segments), linewidths=0.8, alpha=0.7, label=links.name, zorder=1, **style), autolim=False
    )


def _colour(label: int) -> str:
    return "0.6" if label < 0 else COLOURS[label % len(COLOURS)]
