"""Series before ribbons of their states, and transitions."""

from types import SimpleNamespace

import numpy as np
import polars
import pytest

pytest.importorskip("matplotlib")
import matplotlib
from matplotlib.colors import same_color, to_rgb

from spectrem.exceptions import InvalidInputError
from spectrem.plotting import plot_states, plot_transitions

DAYS = ["2026-01-03", "2026-01-01", "2026-01-02", "2026-01-04 12:00"]


def ribbons(figure, panel=0):
    """The corners of the ribbon of every state."""
    return [[path.vertices for path in one.get_paths()] for one in figure.axes[panel].collections]


def area(figure, panel=0):
    """The area of every ribbon, over rows that are 1 apart."""
    x_and_y = [np.concatenate(paths).T for paths in ribbons(figure, panel)]
    return [round(0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))), 6) for x, y in x_and_y]


def test_a_panel_for_each_column_and_a_ribbon_for_each_state():
    x = np.array([[0.0, 1.0], [0.5, 2.0], [7.0, 3.0], [8.0, 4.0], [0.0, 5.0]])
    figure = plot_states(x, ["low", "low", "high", "high", "low"], names=["low", "high", "never"], title="two")
    assert [axes.get_ylabel() for axes in figure.axes] == ["0", "1"]
    assert figure.axes[-1].get_xlabel() == "row"
    assert [text.get_text() for text in figure.legends[0].texts] == ["low", "high", "never"]
    assert figure.get_suptitle() == "two"
    for panel in range(2):
        assert area(figure, panel)[1:] == [2.0, 0.0]  # the rows 2 and 3, from 1.5 to 3.5
    assert figure.axes[0].lines[0].get_ydata().tolist() == x[:, 0].tolist()


def test_ribbons_are_as_high_as_states_are_probable():
    shares = np.array([[1.0, 0.0], [0.25, 0.75], [0.25, 0.75], [np.nan, np.nan]])
    figure = plot_states(np.zeros(4), shares)
    assert area(figure) == [0.5 + 2 * 0.25, 2 * 0.75]
    assert [text.get_text() for text in figure.legends[0].texts] == ["0", "1"]


def test_rows_are_sorted_by_time_and_dates_stand_at_the_axis():
    frame = polars.DataFrame({"day": DAYS, "value": [3.0, 1.0, 2.0, 4.0]})
    figure = plot_states(frame, ["b", "a", None, "b"], time="day")
    line = figure.axes[0].lines[0]
    assert line.get_ydata().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert line.get_xdata().astype(str)[-1] == "2026-01-04T12:00:00.000000"
    assert area(figure) == [0.5, 2.0]  # to the middle of the 1st and 2nd, and from that of the 2nd and 3rd
    assert figure.axes[0].get_xlabel() == "day"
    assert len(figure.axes) == 1
    figure.canvas.draw()
    assert "2026-Jan" in figure.axes[0].xaxis.get_major_formatter().get_offset()


def test_missing_cells_are_open_and_what_stands_alone_is_a_point():
    figure = plot_states([1.0, np.nan, 2.0, np.nan, 3.0, 4.0], [0] * 6)
    line, points = figure.axes[0].lines
    assert np.isnan(line.get_ydata()[[1, 3]]).all()
    assert points.get_ydata().tolist() == [1.0, 2.0]


def test_text_is_drawn_by_categories():
    figure = plot_states(polars.DataFrame({"kind": ["walk", None, "rest", "walk"]}), [0, 0, 1, 1])
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["rest", "walk"]
    assert axes.lines[0].get_ydata().tolist()[::2] == [1.0, 0.0]


def test_lines_have_the_colour_of_text_and_many_states_differ_by_hatches():
    with matplotlib.rc_context({"text.color": "#ced6dd"}):
        figure = plot_states(np.arange(14.0), np.arange(14))
    assert same_color(figure.axes[0].lines[0].get_color(), "#ced6dd")
    drawn = [(to_rgb(one.get_facecolor()[0][:3]), one.get_hatch()) for one in figure.axes[0].collections]
    assert len(set(drawn)) == 14


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], ["a"]), "states must have a state, or probabilities of all, for each of the 2 rows"),
        (([1.0, 2.0], [[0.5, 0.5]] * 2, ["a"]), "names must name the 2 columns of states, got 1"),
        (([1.0, 2.0], ["a", "b"], ["a"]), "names must name all states, got 'a', not 'b'"),
        (([], []), "X must have at least one row and one column besides time"),
        ((np.zeros((2, 2, 2)), ["a", "b"]), "X must have rows and columns, got an array of shape"),
        ((polars.DataFrame({"x": [1.0]}), ["a"], None, "day"), "time must be a column of X, got 'day', and X has 'x'"),
        (([1.0, 2.0], ["a", "b"], None, [1]), "time must have a value for each of the 2 rows of X, got 1"),
        (([1.0], ["a"], None, ["soon"]), "column time must hold numbers, or dates such as .*, got 'soon' in row 0"),
    ],
)
def test_what_cannot_be_drawn(arguments, message):
    x, states, names, time = [*arguments, None, None][:4]
    with pytest.raises(InvalidInputError, match=message):
        plot_states(x, states, names=names, time=time)


def test_transitions_have_probabilities_and_stays():
    model = SimpleNamespace(states_=("in", "out"), transmat_=np.array([[0.75, 0.25], [0.0, 1.0]]))
    axes = plot_transitions(model).axes[0]
    assert [text.get_text() for text in axes.texts] == ["0.75", "0.25", "0", "1"]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ["in\nstays 4 rows", "out\nis never left"]
    with pytest.raises(InvalidInputError, match="model must be a fitted HMM, got object"):
        plot_transitions(object())
