"""Curves and bars of fits: what is drawn is what the report holds."""

import builtins
import dataclasses
import sys

import numpy as np
import pytest

from spectrem import E, part, project
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Record
from spectrem.plotting import plot_objective, plot_prices, plot_violations, save_figure
from spectrem.plotting.curves import make_figure
from spectrem.reports import ConstraintReport, ConstraintSummary, FitReport

pytest.importorskip("matplotlib")


def make_records(gammas):
    return [Record(gamma, float(i * i), 1.0 + i * i, 0.1, 0.2) for i, gamma in enumerate(gammas)]


def make_constraint(name, price, after=0.0, keys=None):
    n = len(price)
    zeros, ones = np.zeros(n), np.ones(n)
    price = np.asarray(price, float)
    return ConstraintReport(
        name, np.full(n, "<="), keys or {}, ones, price, zeros, ones, ones + 1, np.full(n, after), 1e-5 * ones
    )  # fmt: skip


def make_report(*constraints, gammas=(1.0, 1.0)):
    return FitReport("SelfTrainer", 3, tuple(make_records(gammas)), "done", constraints=constraints)


def test_objective_stage_by_stage():
    records = make_records([4.0, 4.0, 2.0, 1.0, 1.0, 1.0])
    for given in (records, make_report(gammas=[4.0, 4.0, 2.0, 1.0, 1.0, 1.0])):
        (axes,) = plot_objective(given).axes
        stages = [line for line in axes.lines if line.get_label() == "objective"]
        assert [line.get_xdata().tolist() for line in stages] == [[1, 2], [3], [4, 5, 6]]
        assert np.concatenate([line.get_ydata() for line in stages]).tolist() == [0, 1, 4, 9, 16, 25]
        assert sorted(line.get_xdata()[0] for line in axes.lines if line not in stages) == [2.5, 3.5]
        assert [text.get_text() for text in axes.texts] == [r"$\gamma$ 4", r"$\gamma$ 2", r"$\gamma$ 1"]


def test_one_gamma_is_not_marked():
    (axes,) = plot_objective(make_records([1.0] * 3)).axes
    assert len(axes.lines) == 1
    assert not axes.texts


def test_violations_before_and_after():
    report = make_report(make_constraint("a", [1.0, 2.0], 0.5), make_constraint("b", [1.0]))
    (axes,) = plot_violations(report).axes
    assert [bar.get_width() for bar in axes.patches] == [2.0, 2.0, 0.5, 0.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["before", "after"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first on top


def test_prices_the_largest_first():
    long = "x" * 60
    report = make_report(
        make_constraint("a", [0.5, -3.0], keys={"label": np.array(["$1", "2$"])}), make_constraint(long, [1.0])
    )
    (axes,) = plot_prices(report).axes
    assert [bar.get_width() for bar in axes.patches] == [-3.0, 1.0, 0.5]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [r"a: label 2\$ ≤ 1", "x" * 47 + "…", r"a: label \$1 ≤ 1"]
    assert axes.patches[0].get_facecolor()[:3] != axes.patches[1].get_facecolor()[:3]
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["a", "x" * 47 + "…"]
    colours = [patch.get_facecolor() for patch in legend.get_patches()]
    assert colours == [axes.patches[0].get_facecolor(), axes.patches[1].get_facecolor()]
    (axes,) = plot_prices(report, limit=2).axes
    assert axes.get_title() == "prices (2 of 3)"
    assert len(axes.patches) == 2


def test_tables_are_drawn_alike():
    table = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one of them"))
    (axes,) = plot_prices(table).axes
    assert [bar.get_width() for bar in axes.patches] == table.prices["one of them"].tolist()
    assert axes.get_legend() is None  # one constraint


def test_constraints_that_are_only_summarised():
    own = ConstraintSummary("many", 9, 3, 1, 0.75, 0.25, 2.0, 0.5, -1.0, 2.0)
    report = dataclasses.replace(make_report(make_constraint("a", [1.0])), summaries=(own,))
    (axes,) = plot_violations(report).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "many"]
    assert [bar.get_width() for bar in axes.patches][1::2] == [0.75, 0.25]
    (axes,) = plot_violations(dataclasses.replace(make_report(), summaries=(own,))).axes
    assert [bar.get_width() for bar in axes.patches] == [0.75, 0.25]
    with pytest.raises(InvalidInputError) as error:
        plot_prices(dataclasses.replace(make_report(), summaries=(own,)))
    assert str(error.value) == (
        "report must hold constraints row by row, got only summaries of them; read the range of their prices in "
        "report.summaries, or call plot_violations"
    )


def test_axes_of_the_user(tmp_path):
    figure = make_figure(9, 4)
    places = figure.subplots(1, 3)
    report = make_report(make_constraint("a", [1.0]))
    for draw, axes in zip((plot_objective, plot_violations, plot_prices), places, strict=True):
        assert draw(report, axes=axes) is figure
        assert axes.lines or axes.patches
    save_figure(figure, tmp_path / "all.png")
    assert (tmp_path / "all.png").stat().st_size > 5000


def test_rules():
    with pytest.raises(InvalidInputError, match=r"^history must hold iterations, got none; fit with max_iter of at"):
        plot_objective([])
    for draw in (plot_violations, plot_prices):
        with pytest.raises(InvalidInputError, match=r"^report must hold constraints, got none; fit with constr"):
            draw(make_report())
    with pytest.raises(InvalidInputError, match=r"^limit must be at least 1, got 0$"):
        plot_prices(make_report(make_constraint("a", [1.0])), limit=0)


def test_without_matplotlib(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "spectrem.plotting.figure", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidInputError, match=r"^figures need matplotlib, which is not installed; install the ext"):
        plot_objective(make_records([1.0]))
