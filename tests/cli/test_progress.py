"""The bar, and the drawing of matrices with characters."""

import io
import logging
import sys

import numpy as np

from spectrem.cli.drawing import draw_matrices
from spectrem.cli.ending import compilation_announced, compilation_watched, progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar(4.0, shown=True) as advance:
        advance("Training", 1.0)
        advance("Training", 3.0)
    assert "Training" in terminal.getvalue()
    assert "time left" in terminal.getvalue()


def test_the_bar_says_what_is_compiled(monkeypatch):
    log = logging.getLogger("spectrem.compiling")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar(1.0, shown=True) as advance:
        for doing in ("compiling one", "compiling two", "compiled two"):
            log.info(doing)
        advance("Training")
    assert "Training" in terminal.getvalue()
    for shown in (True, False):
        with compilation_announced(shown=shown):
            log.info("compiling one")
    assert terminal.getvalue().count("note: compiling kernels, once; later runs start at once\n") == 1
    seen = []
    with compilation_watched(lambda *numbers: seen.append(numbers)):
        for doing in ("compiling one", "compiling two", "compiled two", "compiled one", "compiling three"):
            log.info(doing)
    log.info("compiling four")
    assert seen == [(1, 1), (2, 2), (2, 1), (2, 0), (3, 1)]


def test_no_bar_elsewhere(monkeypatch):
    for stream, shown in ((io.StringIO(), True), (Terminal(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar(4.0, shown=shown) as advance:
            advance("Training", 1.0)
        assert stream.getvalue() == ""


def test_the_bar_reaches_its_end(run, files, tmp_path, monkeypatch):
    """Every pass announced is made, and no other."""
    seen, totals = [], []

    class Bar:
        def __init__(self, total, *, shown):
            totals.append(total)

        def __enter__(self):
            return lambda doing, amount=0.0: seen.append((doing, amount))

        def __exit__(self, *_):
            return None

    monkeypatch.setattr("spectrem.cli.alignment.align.progress_bar", Bar)
    dev = ["--dev", files.source, files.target, files.gold]
    for options in (
        [],
        ["--model", "ibm1"],
        ["--anneal", "0.5", "--max-iter", "2"],
        ["--probabilities", tmp_path / "p", "--save", tmp_path / "model"],
        ["--load", tmp_path / "model"],
        [*dev, "--tune-gamma"],
    ):
        seen.clear()
        totals.clear()
        assert run("align", files.source, files.target, "-o", tmp_path / "out", *options).exit_code == 0
        assert abs(sum(amount for _, amount in seen) - totals[0]) < 1e-9
        assert seen[-1][0] == "Aligning"


def test_drawing_marks_gold_and_shades():
    matrix = np.array([[0.0, 0.2, 0.5], [0.7, 1.0, 0.12]])
    text = draw_matrices({"first": matrix, "second title": 1 - matrix}, ["a", "bbb"], ["x", "y", "z"], [(0, 0), (1, 2)])
    lines = text.split("\n")
    assert lines[2].startswith("a   │[ ] ░  ▒ │")
    assert lines[3].startswith("bbb │ ▓  █ [ ]│")
    assert lines[2].count("│") == 4
    assert lines[0].index("first") == lines[2].index("│") + 1
    assert lines[0].index("second title") == lines[2].index("│", lines[2].index("│", 5) + 1) + 1
    assert lines[-1] == "columns: 0 x, 1 y, 2 z"
