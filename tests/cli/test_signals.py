"""Signals at many points of a run: the status names them, nothing is left, and outputs are all old or all new."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spectrem.data import write_conllu, write_lines, write_tag_dictionary
from spectrem.datasets import make_bitext, make_tagged_corpus, make_treebank

HOME = "--checkpoint state --spill spill --n-threads 1 -q"
COMMANDS = {
    "align": (
        ["model", "out", "probabilities"],
        f"align a b -o out --probabilities probabilities --save model --max-iter 1 --model1-iterations 1 {HOME}",
    ),
    "tag": (["model"], f"tag train text --dictionary tags.tsv --max-iter 2 --save model {HOME}"),
    "parse": (["model"], "parse train trees --save model --passes 1 --n-threads 1 -q"),
}
# Where files and folders are made, named and removed, and where a run ends.
PLUMBING = r"spectrem/(_outputs|cli/\w+|corpus/files)\.py|shutil"
SAID = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
KEPT = re.compile(r"state(/\w+)?(/state\.npz)?")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "spill").mkdir()
    bitext, corpus = make_bitext(20, seed=3), make_tagged_corpus(20)
    write_lines(folder / "a", bitext.source)
    write_lines(folder / "b", bitext.target)
    write_lines(folder / "text", map(" ".join, corpus.words))
    write_tag_dictionary(folder / "tags.tsv", corpus.dictionary)
    write_conllu(folder / "trees", make_treebank(20))
    return folder


@pytest.fixture
def check(inputs, tmp_path):
    """See what becomes of runs of a command that get a signal, each from another point on."""

    def check_runs(names, command, n_points, pattern):
        outputs, arguments = COMMANDS[command]
        program = [
            sys.executable,
            Path(__file__).with_name("signal_points.py"),
            ",".join(names),
            str(n_points),
            pattern,
        ]
        done = subprocess.run(
            [*program, inputs, ",".join(outputs), *arguments.split()],
            cwd=tmp_path,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # threads do not survive a fork
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        runs = list(map(json.loads, done.stdout.splitlines()))
        assert len(runs) >= n_points
        for run in runs:
            assert [path for path in run["others"] if not KEPT.fullmatch(path)] == [], run
            check_end(run)
        assert {run["signal"] for run in runs if run["outputs"][0] == "old"} == set(names) - {"SIGKILL"}

    return check_runs


def check_end(run):
    """The run ends by the signal and writes nothing, quietly before signals are caught; or all is done already."""
    number, written = getattr(signal, run["signal"]), set(run["outputs"])
    if number == signal.SIGKILL:
        assert (run["status"], written) == (-number, {"new"}), run  # by the next run
    elif run["status"] == 0:
        assert (run["said"], written) == ("", {"new"}), run
    else:
        assert run["status"] in (128 + number, -number), run
        assert written == {"old"}, run
        said = f"spectrem: {SAID[run['signal']]}; no output was written(; the same command goes on from .*)?\n"
        early = "/cli/__init__.py" in run["point"] or "/cli/signals.py" in run["point"]
        assert re.fullmatch(said, run["said"]) or (early and not run["said"]), run


def test_wherever_a_signal_comes_nothing_is_left(check):
    check([*SAID, "SIGKILL"], "align", 48, PLUMBING)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_signals_at_a_thousand_points(check, command):
    check([*SAID, "SIGKILL"], command, 1000, "")
