"""Trees as figures: which arcs are drawn, where, and how strongly."""

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.plotting import plot_trees, save_figure

WORDS, GOLD = ["the", "dog", "barks"], [1, 2, -1]
TABLE = np.array([[0.0, 0.9, 0.1], [0.0, 0.01, 0.99], [0.02, 0.0, 0.98]])


def arcs_of(axes):
    """The patches that are arrows, by their first and last place."""
    return [(patch, patch.get_path().vertices) for patch in axes.patches]


def texts_of(axes):
    return [text.get_text() for text in axes.texts]


def test_probable_arcs_are_drawn_with_their_probabilities():
    pytest.importorskip("matplotlib")
    (axes,) = plot_trees(WORDS, TABLE).axes
    assert sorted(text for text in texts_of(axes) if text.startswith(".")) == [".10", ".90", ".98", ".99"]
    assert len(axes.patches) == 4  # arcs below 0.05 are left out
    widths = [patch.get_linewidth() for patch, _ in arcs_of(axes)]
    assert widths == sorted(widths, key=lambda width: [0.9, 0.1, 0.99, 0.98].index(round((width - 0.5) / 2, 2)))
    assert len(plot_trees(WORDS, TABLE, min_probability=0.001).axes[0].patches) == 6


def test_a_tree_is_its_heads_without_numbers():
    pytest.importorskip("matplotlib")
    (axes,) = plot_trees(WORDS, GOLD, tags=["DET", "NOUN", "VERB"]).axes
    assert sorted(texts_of(axes)) == sorted([*WORDS, "DET", "NOUN", "VERB", "root"])
    places = {text.get_text(): text.get_position()[0] for text in axes.texts}
    ends = [sorted((vertices[0, 0], vertices[-1, 0])) for _, vertices in arcs_of(axes)]
    np.testing.assert_allclose(
        ends, [[places[a], places[b]] for a, b in (("the", "dog"), ("dog", "barks"), ("barks", "barks"))], atol=0.11
    )


def test_enclosed_arcs_are_lower_and_do_not_cross():
    pytest.importorskip("matplotlib")
    (axes,) = plot_trees(["a", "b", "c", "d"], [-1, 0, 1, 0]).axes
    spans = []
    for _, vertices in arcs_of(axes):
        spans.append((min(vertices[[0, -1], 0]), max(vertices[[0, -1], 0]), vertices[:, 1].max()))
    (_, short, inner, outer) = spans
    assert outer[2] > max(short[2], inner[2])
    assert outer[0] < short[0] < short[1] < inner[0] < inner[1] < outer[1]


def test_true_arcs_are_told_from_others():
    pytest.importorskip("matplotlib")
    wrong = [2, 2, -1]
    figure = plot_trees(WORDS, {"guess": wrong, "truth": GOLD}, GOLD)
    guess, truth = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["guess", "truth"]
    assert len({patch.get_edgecolor()[:3] for patch in truth.patches}) == 1
    styles = [(patch.get_edgecolor()[:3], patch.get_linestyle()) for patch in guess.patches]
    assert len(styles) == 4  # the true arc that is not there is dotted
    assert len({colour for colour, _ in styles}) == 2
    assert [style for _, style in styles].count(":") == 1
    unknown = plot_trees(WORDS, wrong, [-2, 2, -1]).axes[0].patches
    assert len({patch.get_edgecolor()[:3] for patch in unknown}) == 2


def test_figures_are_written(tmp_path):
    pytest.importorskip("matplotlib")
    save_figure(plot_trees(WORDS, TABLE, GOLD), tmp_path / "tree.png")
    assert (tmp_path / "tree.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([], []), "words and posteriors must not be empty, got 0 words and 1 pictures"),
        ((WORDS, np.zeros((2, 3))), r"posteriors must have shape \(3, 3\), .* got shape \(2, 3\)"),
        (
            (WORDS, {"one": 2 * TABLE}),
            r"posteriors\['one'\] must hold probabilities in .* give posteriors",
        ),
        ((WORDS, [0, 1]), "posteriors must be 3 heads from -2 to 2, counted from 0, -1 for the root; got"),
        ((WORDS, TABLE, [0, 1, 3]), r"gold must be 3 heads from -2 to 2, .* got \[0, 1, 3\]"),
    ],
)
def test_errors_say_what_to_do(given, message):
    with pytest.raises(InvalidInputError, match=message):
        plot_trees(*given)
