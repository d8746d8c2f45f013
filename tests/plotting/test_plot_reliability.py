"""Reliability of probabilities as a picture."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from spectrem.exceptions import InvalidInputError
from spectrem.metrics import reliability
from spectrem.plotting import plot_reliability

ONE = reliability([0.1, 0.2, 0.8, 1.0], [False, True, True, True], bins=4)
OTHER = reliability([0.4, 0.9], [False, True], bins=2)


def test_points_are_the_bins_that_are_not_empty():
    figure = plot_reliability(ONE)
    diagonal, drawn = figure.axes[0].lines
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    np.testing.assert_allclose(drawn.get_xydata(), [[0.15, 0.5], [0.9, 1.0]])
    assert figure.axes[0].get_legend() is None


def test_several_have_a_legend_and_given_axes_are_used():
    axes = plot_reliability(ONE).axes[0]
    assert plot_reliability({"one": ONE, "other": OTHER}, axes=axes).axes == [axes]
    assert [entry.get_text() for entry in axes.get_legend().get_texts()] == ["one", "other"]


def test_nothing_to_draw():
    with pytest.raises(InvalidInputError, match="found must hold at least one Reliability, got none; give what"):
        plot_reliability({})
