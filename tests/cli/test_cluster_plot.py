import numpy as np
import pytest

from spectrem import GaussianMixture
from spectrem.cli.tables.cluster_plot import draw_clusters

pytest.importorskip("matplotlib")
from spectrem import plotting


def test_plot_of_features_with_scales_of_their_own(monkeypatch):
    figures = []
    monkeypatch.setattr(plotting, "save_figure", lambda figure, path: figures.append(figure))
    x = np.random.default_rng(0).normal(size=(40, 2))
    for scale in ([1.0, 1.0], [1e4, 1.0]):
        mixture = GaussianMixture(2, random_state=0, n_threads=1).fit(x * scale)
        draw_clusters(mixture, x * scale, ["a", "b"], "a.png")
    assert [figure.axes[0].get_aspect() for figure in figures] == [1.0, "auto"]
