"""What the experiments share: finding and reading the data, decoding by thresholds, records, reports, figures."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from reproductions.alignment.hansards import read_hansards
from reproductions.alignment.thresholds import Point, best_point, links_above, score_at, sweep
from reproductions.figures import BarPanel, curves, draw_bars
from reproductions.places import find_folder
from reproductions.records import Spread, group, spread, where
from reproductions.report import Report, Table, beside_paper, listing, pivot
from spectrem.data import Links
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import alignment_scores
from spectrem.plotting import Line, Panel, draw_panels


class Run(NamedTuple):
    size: int
    method: str
    gamma: float
    aer: float


RUNS = [Run(20, "EM", 0.0, 0.4), Run(20, "EM", 1.0, 0.3), Run(10, "PR", 0.0, 0.2), Run(10, "EM", 0.0, 0.5)]


def test_corpus_is_found_by_argument_and_by_environment(hansards, monkeypatch, tmp_path):
    root = hansards.parents[1]
    files, below = ["dev.en", "test.align"], "align/hansards-enfr"
    assert find_folder(root, files, below) == find_folder(hansards, files, below) == hansards
    monkeypatch.setenv("SPECTREM_DATA", str(root))
    assert find_folder(None, files, below) == hansards
    with pytest.raises(InvalidInputError, match="lacks"):
        find_folder(tmp_path, files, below)


def test_missing_corpus_is_told(hansards, tmp_path, monkeypatch):
    monkeypatch.delenv("SPECTREM_DATA", raising=False)
    with pytest.raises(InvalidInputError, match=r"data must be .*train\.en\.gz.*, but .* lacks .*; pass --data or set"):
        read_hansards(tmp_path, 10)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=r"but \.\./shared/data/below lacks a, b; pass --data"):
        find_folder(None, ["a", "b"], "below")
    (tmp_path / "a").touch()
    with pytest.raises(InvalidInputError, match=r"\(a, b\), but .* lacks b; pass --data"):
        find_folder(tmp_path, ["a", "b"], "below")


def test_training_text_is_the_first_pairs_then_dev_then_test(hansards):
    corpus = read_hansards(hansards, 100)
    words = corpus.training.source_vocabulary.words

    def line(bitext, n):
        return " ".join(words[k] for k in bitext.source_tokens[slice(*bitext.source_offsets[n : n + 2])])

    dev_lines, test_lines = ((hansards / f"{part}.en").read_text().splitlines() for part in ("dev", "test"))
    assert corpus.training.n_pairs == 100 + len(dev_lines) + len(test_lines)
    assert line(corpus.training, 100) == line(corpus.dev, 0) == dev_lines[0]
    assert line(corpus.training, 100 + len(dev_lines)) == line(corpus.test, 0) == test_lines[0]
    assert (
        line(corpus.training, corpus.training.n_pairs - 1) == line(corpus.test, len(test_lines) - 1) == test_lines[-1]
    )
    assert corpus.dev_gold.n_sentences == len(dev_lines)


def test_too_many_pairs_are_refused(hansards):
    with pytest.raises(InvalidInputError, match=r"sizes must not exceed the 600 pairs in .*, got 601; ask for fewer"):
        read_hansards(hansards, 601)


def test_links_above_a_threshold():
    posteriors = [np.array([[0.9, 0.5], [0.2, 0.6]]), np.zeros((0, 3)), np.array([[0.51]])]
    links = links_above(posteriors, 0.5)
    assert [links.pairs(n) for n in range(3)] == [[(0, 0), (1, 1)], [], [(0, 0)]]


def test_sweep_scores_every_threshold():
    rng = np.random.default_rng(3)
    posteriors = [rng.random((4, 5)), rng.random((2, 3))]
    gold = Links.from_pairs([[(0, 0), (1, 3)], [(1, 1)]], possible=[[(2, 2)], []])
    thresholds = np.array([0.1, 0.5, 0.8])
    curve = sweep(posteriors, gold, thresholds)
    for threshold, point in zip(thresholds, curve, strict=True):
        links = Links.from_pairs([[tuple(cell) for cell in np.argwhere(m > threshold)] for m in posteriors])
        scores = alignment_scores(links, gold)
        assert point == (threshold, scores.precision, scores.recall, scores.aer)
    best = best_point(curve)
    assert score_at(posteriors, gold, best.threshold) == best
    assert best.aer == min(point.aer for point in curve)


def test_best_threshold_is_the_middle_of_ties():
    aers = (0.4, 0.1, 0.1, 0.1, 0.3)
    assert best_point([Point(k / 10, 0.5, 0.5, aer) for k, aer in enumerate(aers, 1)]).threshold == 0.3


def test_records_are_chosen_and_grouped():
    assert where(RUNS, size=20, gamma=1.0) == RUNS[1:2]
    assert group(RUNS, "size") == {20: RUNS[:2], 10: RUNS[2:]}
    assert group(RUNS, "size", "method") == {(20, "EM"): RUNS[:2], (10, "PR"): RUNS[2:3], (10, "EM"): RUNS[3:]}
    assert spread(RUNS[:2], "aer") == pytest.approx(Spread(0.35, 0.05))
    assert spread(RUNS[:2], "aer", ddof=1) == pytest.approx(Spread(0.35, 0.05 * 2**0.5))
    assert spread(RUNS[:1], "aer", ddof=1) == Spread(0.4, 0.0)
    assert listing(RUNS).columns == ("size", "method", "gamma", "aer")
    assert list(listing(RUNS).tsv())[1] == "20\tEM\t0.0\t0.4"


def test_numbers_of_the_paper_stand_above_ours():
    ours = [(10, "ours", 0.2, 7), (20, "ours", 0.1, 8), (20, "defaults", 0.3, 9), (30, "ours", 0.4, 9)]
    assert beside_paper({20: [0.05], 10: [0.15], 99: [0.0]}, ours) == [
        (10, "paper", 0.15, None), ours[0], (20, "paper", 0.05, None), *ours[1:],
    ]  # fmt: skip


def test_tables_of_two_fields():
    table = pivot("AER", RUNS, "size", "method", lambda own: [run.aer for run in own])
    assert table.columns == ("size", "EM", "PR")
    assert table.rows == [(20, [0.4, 0.3], None), (10, [0.5], [0.2])]


def test_report_is_written_whole(tmp_path):
    table = Table("AER", ("pairs", "who", "EM"), [(10_000, "paper", 23.54), (10_000, "ours", None)])
    figure = draw_panels([Panel("left", "x", "y", [Line("EM", [1, 2], [3, 4])])])
    report = Report("Title", [table], table, figure, {"it falls": True, "it rises": False}, ["n"])
    png, tsv, text = report.write(tmp_path, "name")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert tsv.read_text() == "pairs\twho\tEM\n10000\tpaper\t23.54\n10000\tours\t\n"
    assert text.read_text().splitlines() == [
        "Title", "", "AER", " pairs  who       EM", "10,000  paper  23.54", "10,000  ours", "",
        "What the paper says of it", "[holds] it falls", "[DOES NOT HOLD here] it rises", "",
        "What differs from the paper", "- n",
    ]  # fmt: skip


def test_lines_run_through_records():
    lines = curves(RUNS, lambda r: r.gamma, lambda r: r.aer, label="{method}, {size:,}", colour="size", style="method")
    assert [(line.label, line.x, line.y, line.colour, line.style) for line in lines] == [
        ("EM, 20", [0.0, 1.0], [0.4, 0.3], 0, 0),
        ("PR, 10", [0.0], [0.2], 1, 1),
        ("EM, 10", [0.0], [0.5], 1, 0),
    ]
    same, fixed = (
        curves(RUNS, lambda r: r.gamma, lambda r: r.aer, label="{size}", colour="size", style=s) for s in (None, 2)
    )
    assert [(line.colour, line.style) for line in same] == [(0, 0), (1, 1)]
    assert [(line.colour, line.style) for line in fixed] == [(0, 2), (1, 2)]


def test_bars_share_one_legend_and_show_their_spread():
    bars = {"EM": ([1.0, 2.0], [0.1, 0.2]), "PR": ([3.0, 4.0], [0.0, 0.0])}
    panels = [BarPanel("a", "y", ["en", "pt"], bars, [5.0, 6.0], "gold"), BarPanel("b", "y", ["en"], {})]
    figure = draw_bars([*panels, BarPanel("c", "y", ["en"], {"EM": ([1.0], [0.5])})], title="all")
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "c"]
    first = figure.axes[0]
    drawn = [container for container in first.containers if hasattr(container, "patches")]
    assert [[bar.get_height() for bar in each] for each in drawn] == [[1.0, 2.0], [3.0, 4.0]]
    assert [line.get_ydata().tolist() for line in drawn[0].errorbar.lines[1]] == [[0.9, 1.8], [1.1, 2.2]]
    assert [label.get_text() for label in first.get_xticklabels()] == ["en", "pt"]
    assert [entry.get_text() for entry in figure.legends[0].get_texts()] == ["EM", "PR", "gold"]
    assert all(a != b for a, b in pairwise(sorted(bar.get_x() for each in drawn for bar in each)))
