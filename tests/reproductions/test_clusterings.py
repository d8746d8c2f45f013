"""Clusterings under constraints: the nine points, links on bundled data, and their commands."""

import numpy as np
import pytest

from reproductions.clustering import cluster_links as links
from reproductions.clustering import em_constraints_fig1
from reproductions.clustering.em_constraints_fig1 import COLUMN, CONSTRAINED, EM, ROW, Fit, claims, groups
from reproductions.clustering.linked_data import draw_links, read_data_set
from spectrem.exceptions import InvalidInputError


def test_nine_points(reproduce):
    out, rows = reproduce("em-constraints-fig1", None)
    assert "[holds] EM clusters each column together" in out
    assert "[holds] Under the constraint the clusters run across the columns" in out
    assert len(rows) == 2 * 20
    best = {
        training: max((row for row in rows if row["training"] == training), key=lambda row: float(row["objective"]))
        for training in (EM, CONSTRAINED)
    }
    assert (best[EM]["groups"], best[CONSTRAINED]["groups"]) == ("columns", "rows")
    assert float(best[CONSTRAINED]["objective"]) < float(best[EM]["objective"])


def test_shares_are_of_the_starts():
    report = em_constraints_fig1.run(4, covariances=("diag",))
    found = [row[3] for row in report.numbers.rows if row[1] == EM]
    (em, _) = report.tables[0].rows
    assert em[2:7] == tuple(25.0 * found.count(n) for n in ("columns", "rows", "across", "mixed", "undecided"))


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (COLUMN, "columns"),
        ((ROW + 1) % 3, "rows"),
        ([0, 1, 2, 1, 2, 0, 0, 1, 2], "across"),
        ([0, 0, 1, 0, 1, 2, 2, 2, 2], "mixed"),
    ],
)
def test_groups_have_names(labels, name):
    sure = np.eye(3)[np.asarray(labels)]
    assert groups(sure) == name
    assert groups(0.8 * sure + 0.2 / 3) == "undecided"


@pytest.mark.parametrize(
    ("ends", "held"),
    [(("columns", "rows", "mixed"), [True, True, True]), (("mixed", "undecided", "columns"), [False, False, False])],
)
def test_claims_follow_the_starts(ends, held):
    em, constrained, other = ends
    fits = [
        Fit("diag", EM, 0, em, -1.0, -1.0, 5),
        Fit("diag", CONSTRAINED, 0, constrained, -2.0, -2.0, 5),
        Fit("diag", EM, 1, "mixed", -1.5, -1.5, 5),
        Fit("diag", CONSTRAINED, 1, other, -2.5, -2.5, 5),
    ]
    assert list(claims(fits).values()) == held


def test_links_help_on_wine(reproduce):
    out, rows = reproduce("cluster-links", None)
    assert "[holds] Without links ours and scikit-learn's agree" in out
    # two draws of scikit-learn's and of EM, and of two numbers of links by three gammas and the own start
    assert len(rows) == 2 * (2 + 2 * 4)
    ari = {(row["draw"], row["links"], row["method"]): float(row["ari"]) for row in rows}
    for draw in "01":
        assert ari[draw, "400", "PR (1)"] > ari[draw, "0", "EM"]


def test_links_are_of_their_kind_and_drawn_once():
    classes = np.random.default_rng(0).integers(0, 3, 40)
    among = np.arange(0, 40, 2)
    must, cannot = draw_links(classes, among, 61, np.random.default_rng(1))
    assert (len(must), len(cannot)) == (30, 31)
    assert (classes[must[:, 0]] == classes[must[:, 1]]).all()
    assert (classes[cannot[:, 0]] != classes[cannot[:, 1]]).all()
    pairs = np.sort(np.vstack([must, cannot]), axis=1)
    assert len(np.unique(pairs, axis=0)) == 61
    assert set(pairs.ravel()) <= set(among)


def test_too_many_links_are_refused():
    with pytest.raises(InvalidInputError, match="links must not exceed twice the 1 pairs of their kind, got 4; ask"):
        draw_links(np.array([0, 0, 1]), np.arange(3), 4, np.random.default_rng(0))


def test_unknown_data_set():
    with pytest.raises(InvalidInputError, match="data sets are wine, breast cancer, digits, got 'iris'"):
        read_data_set("iris")


def test_unlinked_rows_are_scored_apart(monkeypatch):
    """Links name rows of one half only, and `ari_unlinked` is of the other."""
    seen = []
    monkeypatch.setattr(links, "draw_links", lambda *given: seen.append(given[1]) or draw_links(*given))
    report = links.run(["wine"], counts=[800], gammas=[1.0], draws=1)
    assert [len(np.unique(among)) for among in seen] == [89]
    by_name = dict(zip(report.numbers.columns, report.numbers.rows[-2], strict=True))
    assert by_name["method"] == "PR (1)"
    assert by_name["ari"] > by_name["ari_unlinked"]


def linked(method, count, *values):
    return [links.Fit("d", "full", count, draw, method, value, value, 0.0, 1, 0.1) for draw, value in enumerate(values)]


@pytest.mark.parametrize(
    ("scikit", "pr", "between", "few", "held"),
    [
        (0.5, 0.9, 0.8, 0.6, [True, True, True, False, True, True, True]),
        (0.6, 0.4, 0.5, 0.3, [False, False, False, True, False, False, False]),
    ],
)
def test_claims_about_links_follow_the_numbers(scikit, pr, between, few, held):
    spread, own = (0.0, pr + 0.05) if held[-1] else (0.4, pr - 0.05)
    fits = [*linked("scikit-learn", 0, scikit, scikit), *linked("EM", 0, 0.5, 0.5)]
    for count, lower in ((50, pr - few), (800, 0.0)):
        for method, value in (("PR (1)", pr), ("0.5", between), ("PR (1), own start", own)):
            fits += linked(method, count, value - lower - spread, value - lower + spread)
    assert list(links.claims(fits).values()) == held


def test_gamma_one_is_needed():
    with pytest.raises(InvalidInputError, match=r"gammas must hold 1, with which others are compared, got \[0.5\]"):
        links.run(gammas=[0.5])
