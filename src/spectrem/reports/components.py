"""The components of a mixture of Gaussians, as a table and as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._html import COLOURS, picture, swatch, table
from spectrem.models.mixture import MixtureParameters

MOST_FEATURES, MOST_COMPONENTS = 8, 30
"""Features and components that are shown; the picture has all components."""

_SIDE, _EDGE = 260, 34


@dataclass(frozen=True, eq=False)
class Components:
    """The part of a report about the components of a mixture.

    Attributes
    ----------
    params : MixtureParameters
    sizes : ndarray of shape (n_components,)
        Training rows of each component.
    features : sequence of str
        Names of the features.
    """

    params: MixtureParameters
    sizes: Ints
    features: Sequence[str]

    def summary(self) -> str:
        """Sizes in a line."""
        shown = ", ".join(f"{k}: {size}" for k, size in enumerate(self.sizes[:MOST_COMPONENTS].tolist()))
        return f"sizes {shown}" + (", ..." if len(self.sizes) > MOST_COMPONENTS else "")

    def to_html(self) -> str:
        """Sizes, means and standard deviations of the components, the largest first, beside their picture."""
        deviations = np.sqrt(np.diagonal(self._covariances, axis1=1, axis2=2))
        order = np.argsort(-self.params.weights, kind="stable")
        features = self.features[:MOST_FEATURES]
        rows = []
        for k in order[:MOST_COMPONENTS].tolist():
            cells = [_cell(self.params.means[k, j], deviations[k, j]) for j in range(len(features))]
            name = f"{swatch(COLOURS[k % len(COLOURS)])}{k}"
            rows.append((name, f"{self.sizes[k]:,}", f"{self.params.weights[k]:.1%}", *cells))
        head = ("component", "rows", "weight", *(escape(name) for name in features))
        limits = (len(order), MOST_COMPONENTS, "components"), (len(self.features), MOST_FEATURES, "features")
        left_out = [f"{number - most} more {what}" for number, most, what in limits if number > most]
        others = f"<p>and {' and '.join(left_out)}</p>" if left_out else ""
        drawing = self._picture()
        drawn = "; the picture shows the ellipses of one standard deviation" if drawing else ""
        legend = f"<p>Means of the features, ± their standard deviations{drawn}.</p>"
        side_by_side = "display:flex;flex-wrap:wrap;gap:24px;align-items:flex-start"
        return f'{legend}<div style="{side_by_side}"><div>{table(head, rows)}{others}</div>{drawing}</div>'

    @property
    def _covariances(self) -> Floats:
        return covariance_matrices(self.params.covariance_type, self.params.means, self.params.covariances)

    def _plane(self) -> tuple[Floats, Floats, tuple[str, str]]:
        """Means and covariances in the plane of two features, or of the first two principal axes of more."""
        means, covariances = self.params.means, self._covariances
        if means.shape[1] == 2:
            return means, covariances, (self.features[0], self.features[1])
        centred = means - self.params.weights @ means
        within = np.einsum("k,kij->ij", self.params.weights, covariances)
        total = within + centred.T @ (self.params.weights[:, None] * centred)
        axes = np.linalg.eigh(total)[1][:, :-3:-1]
        axes = axes * np.where(axes.sum(axis=0) < 0, -1.0, 1.0)
        return centred @ axes, axes.T @ covariances @ axes, ("first principal axis", "second principal axis")

    def _picture(self) -> str:
        """The ellipse of one standard deviation of every component, as SVG; nothing for a single feature."""
        if self.params.means.shape[1] < 2:
            return ""
        means, covariances, names = self._plane()
        reach = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
        low, high = (means - 1.2 * reach).min(axis=0), (means + 1.2 * reach).max(axis=0)
        unit = (_SIDE - 2 * _EDGE) / max(float((high - low).max()), 1e-300)
        middle = (low + high) / 2
        places = np.array([_SIDE, _SIDE]) / 2 + (means - middle) * unit * np.array([1.0, -1.0])
        shapes = "".join(_ellipses(places, covariances * unit**2, self.params.weights))
        pieces = (
            f'<rect x="{_EDGE - 14}" y="4" width="{_SIDE - _EDGE + 8}" height="{_SIDE - _EDGE + 4}" '
            'fill="none" stroke="currentColor" stroke-opacity="0.35"/>'
            f'{shapes}<text x="{_SIDE / 2 + 8:.0f}" y="{_SIDE - 8}" text-anchor="middle">{escape(names[0])}</text>'
            f'<text x="12" y="{_SIDE / 2 - 8:.0f}" text-anchor="middle" transform="rotate(-90 12 {_SIDE / 2 - 8:.0f})">'
            f"{escape(names[1])}</text>"
        )
        return picture(_SIDE, _SIDE, f"the {len(means)} components", pieces)


def covariance_matrices(covariance_type: str, means: Floats, covariances: Floats) -> Floats:
    """Covariances of all four types as matrices, shape (n_components, n_features, n_features)."""
    k, d = means.shape
    if covariance_type == "full":
        return covariances
    if covariance_type == "tied":
        return np.broadcast_to(covariances, (k, d, d))
    variances = covariances if covariance_type == "diag" else covariances[:, None]
    return np.eye(d) * variances[:, :, None]


def _ellipses(places: Floats, covariances: Floats, weights: Floats) -> Iterator[str]:
    """An ellipse per component and its number, those of little weight fainter."""
    values, vectors = np.linalg.eigh(covariances)
    for k, (x, y) in enumerate(places.tolist()):
        minor, major = np.sqrt(np.maximum(values[k], 0.0)).tolist()
        angle = -math.degrees(math.atan2(vectors[k, 1, 1], vectors[k, 0, 1]))
        colour, opacity = COLOURS[k % len(COLOURS)], 0.15 + 0.45 * float(weights[k] / weights.max())
        yield (
            f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{max(major, 1.0):.1f}" ry="{max(minor, 1.0):.1f}" '
            f'transform="rotate({angle:.1f} {x:.1f} {y:.1f})" fill="{colour}" fill-opacity="{opacity:.2f}" '
            f'stroke="{colour}"/><text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" font-weight="bold">{k}</text>'
        )


def _cell(mean: float, deviation: float) -> str:
    """A mean and a standard deviation, to as many decimals as two digits of the latter have."""
    decimals = 0 if deviation <= 0 else max(0, 1 - math.floor(math.log10(deviation)))
    if not abs(mean) < 1e7 or decimals > 6:
        return f"{mean:.3g} ± {deviation:.2g}"
    return f"{mean + 0.0:,.{decimals}f} ± {deviation:,.{decimals}f}"
