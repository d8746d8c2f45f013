"""Posterior matrices as a figure."""

import builtins
import sys

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.plotting.posteriors import plot_posteriors, save_figure

WORDS = ["the", "house"], ["das", "rote", "haus"]


def test_one_panel_per_matrix_with_boxes():
    pytest.importorskip("matplotlib")
    matrices = {"EM": np.full((2, 3), 0.25), "PR": np.eye(2, 3)}
    figure = plot_posteriors(matrices, *WORDS, gold=[(0, 0), (1, 2)])
    panels = figure.axes[:2]
    assert [axes.get_title() for axes in panels] == ["EM", "PR"]
    for axes, matrix in zip(panels, matrices.values(), strict=True):
        assert np.array_equal(axes.images[0].get_array(), matrix)
        assert [box.get_xy() for box in axes.patches] == [(-0.5, -0.5), (1.5, 0.5)]
        assert [label.get_text() for label in axes.get_xticklabels()] == WORDS[1]
        assert axes.images[0].get_clim() == (0.0, 1.0)
    assert [label.get_text() for label in panels[0].get_yticklabels()] == WORDS[0]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_figures_are_written(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"figure.{suffix}"
    save_figure(plot_posteriors({"EM": np.eye(2, 3)}, *WORDS), path)
    assert path.stat().st_size > 1000
    assert list(tmp_path.iterdir()) == [path]


def test_rules(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(InvalidInputError, match=r"matrices must hold at least one matrix"):
        plot_posteriors({}, *WORDS)
    with pytest.raises(
        InvalidInputError, match=r"matrices\['EM'\] must have .* shape \(2, 3\), got \(3, 2\); transpose"
    ):
        plot_posteriors({"EM": np.zeros((3, 2))}, *WORDS)
    with pytest.raises(InvalidInputError, match=r"source and target must have words, got 0 and 3"):
        plot_posteriors({"EM": np.zeros((0, 3))}, [], WORDS[1])
    figure = plot_posteriors({"EM": np.eye(2, 3)}, *WORDS)
    with pytest.raises(InvalidInputError, match=r"a figure is written as .png, .svg, .pdf"):
        save_figure(figure, tmp_path / "figure.gif")
    with pytest.raises(InvalidInputError, match=r"the folder .* does not exist; make it first"):
        save_figure(figure, tmp_path / "no" / "figure.png")


def test_without_matplotlib(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "spectrem.plotting.figure", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidInputError, match=r"figures need matplotlib, .*: pip install 'spectrem\[plot\]'"):
        plot_posteriors({"EM": np.eye(2, 3)}, *WORDS)
