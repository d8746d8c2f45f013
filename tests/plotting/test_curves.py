"""Lines over a common scale, panel beside panel."""

import re
import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from spectrem.exceptions import InvalidInputError
from spectrem.plotting import Line, Panel, draw_panels


def test_panels_share_one_legend():
    lines = [Line("EM", [1, 2], [3, 4]), Line("PR", [1, 2], [2, 1], colour=1, style=1)]
    figure = draw_panels([Panel("a", "x", "y", lines, (0, 3), (0, 5)), Panel("b", "x", "y", lines[:1])], title="both")
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    assert figure.axes[0].get_xlim() == (0, 3)
    assert figure.axes[0].get_ylim() == (0, 5)
    assert [entry.get_text() for entry in figure.legends[0].get_texts()] == ["EM", "PR"]
    assert np.array_equal(figure.axes[0].lines[1].get_ydata(), [2, 1])


def test_figures_without_matplotlib_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "spectrem.plotting.figure", raising=False)
    with pytest.raises(InvalidInputError, match=re.escape("pip install 'spectrem[plot]'")):
        draw_panels([Panel("a", "x", "y", [])])
