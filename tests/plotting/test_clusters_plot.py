"""Clusterings in the plane: points, ellipses and links are where they belong."""

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgba

from spectrem import GaussianMixture
from spectrem.constraints import cannot_link, cluster_size, must_link
from spectrem.exceptions import InvalidInputError
from spectrem.plotting import plot_clusters
from spectrem.plotting.curves import COLOURS, make_figure

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(30, 2)) @ [[2.0, 0.8], [0.0, 0.4]], RNG.normal(size=(20, 2)) + 6.0])


def covariance_of(mixture, k):
    own = mixture.covariances_
    return {
        "full": lambda: own[k],
        "tied": lambda: own,
        "diag": lambda: np.diag(own[k]),
        "spherical": lambda: own[k] * np.eye(2),
    }[mixture.covariance_type]()


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_ellipses_lie_one_and_two_deviations_from_the_mean(kind):
    mixture = GaussianMixture(2, covariance_type=kind, random_state=0, n_threads=1).fit(X)
    (axes,) = plot_clusters(X, mixture.labels_, mixture).axes
    assert len(axes.patches) == 4
    for number, ellipse in enumerate(axes.patches):
        k, deviations = number // 2, 1 + number % 2
        border = ellipse.get_patch_transform().transform(ellipse.get_path().vertices) - mixture.means_[k]
        on_curve = border[[0, 3, 6, 9, 12]]  # the points between are for control
        distance = np.einsum("ni,ij,nj->n", on_curve, np.linalg.inv(covariance_of(mixture, k)), on_curve)
        np.testing.assert_allclose(np.sqrt(distance), deviations, rtol=1e-6)
        assert to_hex(ellipse.get_edgecolor()).upper() == COLOURS[k]


def test_points_have_the_colour_of_their_label():
    labels = np.repeat([-1, 0, 3, 8, 15], 10)
    (axes,) = plot_clusters(X, labels, title="five").axes
    assert axes.get_title() == "five"
    for label, points in zip([-1, 0, 3, 8, 15], axes.collections, strict=True):
        np.testing.assert_array_equal(points.get_offsets(), X[labels == label])
        wanted = "0.6" if label < 0 else COLOURS[label % 7]
        assert to_hex(points.get_facecolor()[0]) == to_hex(to_rgba(wanted))
    shapes = [points.get_paths()[0].vertices.shape for points in axes.collections]
    assert shapes[1] == shapes[2] != shapes[3]  # 8 shares its colour with 1, and has another marker
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["unknown", "0", "3", "8", "15"]


def test_many_clusters_have_no_legend():
    (axes,) = plot_clusters(X, np.arange(50)).axes
    assert axes.get_legend() is None


def test_links_join_their_points():
    links = [must_link([[0, 1], [2, 3]]), cluster_size(1, 40), cannot_link([[0, 40]])]
    (axes,) = plot_clusters(X, np.zeros(50, int), links=links).axes
    together, apart = axes.collections[1:]
    np.testing.assert_array_equal(together.get_segments(), X[[[0, 1], [2, 3]]])
    np.testing.assert_array_equal(apart.get_segments(), X[[[0, 40]]])
    assert together.get_linestyle()[0][1] is None  # solid
    assert apart.get_linestyle()[0][1] is not None
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["0", "must link", "cannot link"]


def test_axes_of_the_user():
    figure = make_figure(8, 4)
    left, right = figure.subplots(1, 2)
    assert plot_clusters(X, np.zeros(50, int), axes=right) is figure
    assert len(right.collections) == 1
    assert not left.collections


def message_of(*args, **more):
    with pytest.raises(InvalidInputError) as error:
        plot_clusters(*args, **more)
    return str(error.value)


def test_rules():
    assert message_of(np.zeros((5, 3)), np.zeros(5, int)) == (
        "X must have shape (n_points, 2), got (5, 3); choose two columns, or project it by PCA"
    )
    assert message_of(np.zeros((5, 2)), np.zeros(4, int)) == (
        "labels must be integers of shape (5,), one per point, got int64 of shape (4,); try mixture.predict(X)"
    )
    assert message_of(np.zeros((5, 2)), np.zeros(5)).startswith("labels must be integers of shape (5,)")
    mixture = GaussianMixture(2, random_state=0, n_threads=1).fit(np.column_stack([X, X[:, 0] ** 2]))
    assert message_of(X, mixture.labels_, mixture) == (
        "mixture must be of 2 features to be drawn, got 3; fit it to the two columns drawn"
    )
    assert message_of(X, np.zeros(50, int), links=[must_link([[0, 50]])]).startswith("must link: pairs must name rows")
