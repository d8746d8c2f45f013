"""What the experiments share: finding and reading the data, decoding by thresholds, reports, figures."""

import re
import sys

import numpy as np
import pytest

from spectrem.data import Links
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import alignment_scores
from spectrem.plotting.curves import Line, Panel, draw_panels
from spectrem.reproduce.corpus import find_hansards, read_hansards
from spectrem.reproduce.report import Claim, Report, Table
from spectrem.reproduce.thresholds import Curve, links_above, score_at, sweep


def test_corpus_is_found_by_argument_and_by_environment(hansards, monkeypatch):
    root = hansards.parents[1]
    assert find_hansards(root) == hansards
    assert find_hansards(hansards) == hansards
    monkeypatch.setenv("SPECTREM_DATA", str(root))
    assert find_hansards() == hansards


def test_missing_corpus_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("SPECTREM_DATA", raising=False)
    with pytest.raises(InvalidInputError, match=r"data must be .*train\.en\.gz.*found none in .*; pass --data or set"):
        find_hansards(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=r"none was given, and \.\./shared/data has none"):
        find_hansards()


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
    for k, threshold in enumerate(thresholds):
        links = Links.from_pairs([[tuple(cell) for cell in np.argwhere(m > threshold)] for m in posteriors])
        scores = alignment_scores(links, gold)
        assert (curve.precision[k], curve.recall[k], curve.aer[k]) == (scores.precision, scores.recall, scores.aer)
    assert score_at(posteriors, gold, curve.best_threshold).aer == curve.aer.min()


def test_best_threshold_is_the_middle_of_ties():
    aer = np.array([0.4, 0.1, 0.1, 0.1, 0.3])
    assert Curve(np.array([0.1, 0.2, 0.3, 0.4, 0.5]), aer, aer, aer).best_threshold == 0.3


def test_report_is_written_whole(tmp_path):
    table = Table("AER", ("pairs", "who", "EM"), [(10_000, "paper", 23.54), (10_000, "ours", None)])
    figure = draw_panels([Panel("left", "x", "y", [Line("EM", [1, 2], [3, 4])])])
    report = Report("name", "Title", [table], table, figure, [Claim("it falls", True), Claim("it rises", False)], ["n"])
    png, tsv, text = report.write(tmp_path / "new" / "folder")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert tsv.read_text() == "pairs\twho\tEM\n10000\tpaper\t23.54\n10000\tours\t\n"
    assert text.read_text().splitlines() == [
        "Title", "", "AER", " pairs  who       EM", "10,000  paper  23.54", "10,000  ours", "",
        "What the paper says of it", "[holds] it falls", "[DOES NOT HOLD here] it rises", "",
        "What differs from the paper", "- n",
    ]  # fmt: skip


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
