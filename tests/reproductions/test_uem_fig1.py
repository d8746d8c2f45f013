"""Unified EM from few labelled sentences: eq. 16, the claims, and the command."""

import numpy as np
import pytest

from reproductions.tagging import uem_fig1
from reproductions.tagging.uem_fig1 import PUBLISHED, Point, claims, curves
from spectrem.exceptions import InvalidInputError

GAMMAS = (0.0, 0.5, 1.0)


def points(labelled, *accuracies):
    """One draw per tuple of accuracies, which go by `GAMMAS`."""
    return [
        Point(labelled, None if labelled == 0 else draw, gamma, value, value, None if labelled == 0 else 50.0, 7)
        for draw, values in enumerate(accuracies)
        for gamma, value in zip(GAMMAS, values, strict=True)
    ]


def test_command(tagged, reproduce):
    out, rows = reproduce("uem-fig1", tagged)
    lines = [line.split() for line in out.splitlines()]
    assert ["paper", "84.90", "72.30"] in lines
    # three gammas of the posterior-uniform start, and of two draws of 5 and of 20 sentences
    assert len(rows) == 3 + 2 * 2 * 3
    starts = {(row["labelled"], row["draw"]): row["start_ambiguous"] for row in rows}
    assert starts["0", ""] == ""
    assert len(set(starts.values())) == len(starts)
    ours = next(row for row in rows if row["labelled"] == "0" and row["gamma"] == "1.0")
    assert ["ours", *(f"{float(ours[name]):.2f}" for name in ("accuracy", "ambiguous"))] in lines


def test_published_numbers_are_the_papers():
    assert PUBLISHED == (84.9, 72.3)


def test_relative_accuracy_is_eq_16():
    _, found = curves([*points(0, (60, 70, 80)), *points(5, (66, 88, 80), (45, 40, 50))])
    assert found.relative == pytest.approx(np.array([[-17.5, 10.0, 0.0], [-10.0, -20.0, 0.0]]))
    assert found.start == 50.0
    assert found.best == 1.0  # means are -13.75, -5 and 0
    assert found.best_by_draw == [0.5, 1.0]


@pytest.mark.parametrize(
    ("uniform", "few", "many", "held"),
    [
        ((60, 70, 80), (70, 90, 80), (90, 91, 80), [True, True, True, False]),
        ((60, 81, 80), (70, 79, 80), (92, 91, 80), [False, False, False, True]),
    ],
)
def test_claims_follow_the_numbers(uniform, few, many, held):
    every = [*points(0, uniform), *points(5, few), *points(80, many)]
    assert list(claims(curves(every)).values()) == held


def test_runs_repeat(tagged):
    arguments = {"n_tokens": 2_000, "gammas": (1.0,), "labelled": (5,), "draws": 2, "threads": 1}
    assert uem_fig1.run(tagged, **arguments).numbers.rows == uem_fig1.run(tagged, **arguments).numbers.rows


def test_em_must_be_among_the_gammas(tagged):
    with pytest.raises(InvalidInputError, match=r"gammas must hold 1, with which others are compared, got \[0.5\]"):
        uem_fig1.run(tagged, gammas=[0.5])


def test_more_labelled_sentences_than_there_are(tagged):
    with pytest.raises(
        InvalidInputError, match=r"labelled must not exceed the \d+ sentences after the first 2,000 tokens"
    ):
        uem_fig1.run(tagged, n_tokens=2_000, labelled=[5_000])


@pytest.mark.slow
def test_on_real_text(shared):
    report = uem_fig1.run(shared / "data", gammas=(0.0, 0.5, 0.7, 1.0), labelled=(5, 10, 20), draws=3)
    assert list(report.claims.values())[:3] == [True, True, True], report.claims
    assert report.tables[0].rows[1][1] == pytest.approx(85.49, abs=0.3)
