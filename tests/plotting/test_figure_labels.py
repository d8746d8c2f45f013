"""Labels that matplotlib would read as mathematics, cannot draw, or hides, in every figure and format."""

import io
import warnings
from types import SimpleNamespace
from xml.dom import minidom

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib.text import Text

from spectrem import E, GaussianMixture, part, project
from spectrem.metrics import reliability
from spectrem.plotting import (
    Line,
    Panel,
    draw_panels,
    plain_label,
    plot_clusters,
    plot_posteriors,
    plot_prices,
    plot_reliability,
    plot_states,
    plot_transitions,
    plot_trees,
    plot_violations,
)

HOSTILE = ("$x_$<b>", "漢\U0001f642$\\frac{$", "_a\x1b\x07\n", "\udcff")
SHOWN = ("$x_$<b>", "漢\U0001f642$\\frac{$", " _a\\x1b\\x07\\n", "\\udcff")


def reliable(name):
    return plot_reliability({name: reliability([0.1, 0.9], [False, True], bins=2), "other": reliability([0.1], [True])})


def projected(name):
    return project([[0.9, 0.1], [0.7, 0.3]], [(E[part("label") == 1] >= 1).named(name), E[part("label") == 0] >= 0.5])


def clusters(name):
    x = np.array([[1.0, 2.0], [1.0, 4.0], [10.0, 2.0], [10.0, 4.0]])
    mixture = GaussianMixture(2, random_state=0, n_threads=1).fit(x)
    return plot_clusters(x, mixture.labels_, mixture, title=name)


FIGURES = {
    "panels": lambda name: draw_panels([Panel(name, name, name, [Line(name, [1], [2])])], title=name),
    "posteriors": lambda name: plot_posteriors({name: np.eye(2)}, [name, "a"], ["b", name]),
    "clusters": clusters,
    "trees": lambda name: plot_trees([name, "a"], {name: [1, -1]}, tags=[name, "X"]),
    "reliability": reliable,
    "states": lambda name: plot_states([[1.0], [2.0]], [name, "a"], title=name),
    "transitions": lambda name: plot_transitions(SimpleNamespace(states_=(name, "a"), transmat_=np.eye(2))),
    "violations": lambda name: plot_violations(projected(name)),
    "prices": lambda name: plot_prices(projected(name)),
}


@pytest.mark.parametrize("name", list(FIGURES))
@pytest.mark.parametrize(("text", "shown"), list(zip(HOSTILE, SHOWN, strict=True)), ids=ascii)
def test_any_text_may_be_a_label(name, text, shown):
    figure = FIGURES[name](text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("png", "svg", "pdf"):
            drawn = io.BytesIO()
            figure.savefig(drawn, format=kind)
            if kind == "svg":
                minidom.parseString(drawn.getvalue())
    texts = [one.get_text() for one in figure.findobj(Text)]
    assert any(shown.strip() in one.replace(r"\$", "$") for one in texts)


def test_a_label_that_is_long_is_cut():
    assert plain_label("x" * 100) == "x" * 79 + "…"
    assert plain_label("x" * 100, 9) == "x" * 8 + "…"
