"""A figure that is the last expression of a cell is shown."""

import pickle

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from spectrem import E, GaussianMixture, part, project
from spectrem.learning import Record
from spectrem.plotting import (
    Line,
    Panel,
    draw_panels,
    plot_clusters,
    plot_objective,
    plot_posteriors,
    plot_prices,
    plot_violations,
)


def table():
    return project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one of them"))


def clusters():
    x = np.random.default_rng(0).normal(size=(20, 2))
    mixture = GaussianMixture(2, random_state=0).fit(x)
    return plot_clusters(x, mixture.labels_, mixture)


DRAWN = {
    "draw_panels": lambda: draw_panels([Panel("AER", "pairs", "%", [Line("EM", [1, 2], [30, 20])])]),
    "plot_clusters": clusters,
    "plot_objective": lambda: plot_objective([Record(1.0, -1.0, -1.0, 0.0, 0.1)] * 2),
    "plot_posteriors": lambda: plot_posteriors({"EM": np.eye(2)}, ["the", "house"], ["das", "haus"]),
    "plot_prices": lambda: plot_prices(table()),
    "plot_violations": lambda: plot_violations(table()),
}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_every_figure_has_a_picture(draw):
    figure = draw()
    picture = figure._repr_png_()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(picture[start : start + 4], "big") for start in (16, 20))
    assert (width, height) == figure.canvas.get_width_height()
    assert pickle.loads(pickle.dumps(figure))._repr_png_()[:4] == b"\x89PNG"


def test_ipython_shows_it():
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(DRAWN["draw_panels"]())
    assert data["image/png"][:4] == b"\x89PNG"
