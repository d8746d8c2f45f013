"""Every row of ``bad_inputs.tsv``: a command on bad input ends with a message and a status, and changes no file.

A row holds the arguments as a shell would split them, standard input with escapes (empty for none), the exit status,
and what standard error must say: parts with " ... " between. The files that the arguments name are those of
``bad_files.py``; each command runs in their folder.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import warnings
from pathlib import Path

import pytest
import typer
from bad_files import write_files
from typer.testing import CliRunner

from spectrem.cli.app import app

with Path(__file__).with_name("bad_inputs.tsv").open(newline="") as lines:
    ROWS = [tuple(row) for row in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]

SLIPS = re.compile(r"\w+(Error|Warning):|\b[qX]\b|^spectrem: error: y |'\w+' object|allow_pickle|HMMTagger|CRFTagger")
"""Words of the library and of Python that no message of a command may have."""


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Names, modes and contents of what a folder holds; a link is followed nowhere."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = os.readlink(path).encode() if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(folder))] = path.lstat().st_mode, content
    return found


def unframed(text: str) -> str:
    """The words of a text, without the frame and the line breaks that depend on the width of a terminal."""
    return " ".join(text.replace("│", " ").split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad")
    write_files(path)
    return path, state(path)


def test_the_table_covers_all_commands():
    assert len(ROWS) >= 150
    assert len(set(ROWS)) == len(ROWS)
    named = {shlex.split(arguments)[0] for arguments, *_ in ROWS}
    assert set(typer.main.get_command(app).commands) - named <= {"warmup"}  # which takes no input


@pytest.mark.parametrize(("arguments", "stdin", "status", "message"), ROWS, ids=[row[0] for row in ROWS])
def test_bad_input(folder, monkeypatch, arguments, stdin, status, message):
    place, before = folder
    monkeypatch.chdir(place)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # a warning is printed, as it is for a user
        result = CliRunner().invoke(
            app, shlex.split(arguments), input=stdin.encode().decode("unicode_escape").encode("latin-1")
        )
    said = result.stderr
    assert result.exit_code == int(status), (result.exception, said)
    assert "Traceback" not in said
    assert not SLIPS.search(said)
    words, position = unframed(said), 0
    for part in map(unframed, message.split(" ... ")):
        position = words.find(part, position)
        assert position >= 0, f"{part!r} is not in order in {said!r}"
    if said.startswith("spectrem: error: "):
        assert said.count("\n") == 1
    assert state(place) == before


@pytest.mark.parametrize(
    "constraint",
    [
        *("E[label == '{}'] <= 1", "{}", "(E[label == 'spam'] >= 4).named('{}')", "E['{}' * part('spam')] <= 1"),
        *("E[label == 'spam'] <= '{}'", "label_proportions({{'{}': '{}'}})", "E[label == 'spam'].{}(3)"),
    ],
)
def test_a_long_constraint_is_not_echoed(folder, monkeypatch, constraint):
    """Of ten thousand letters a message shows the beginning and the number."""
    monkeypatch.chdir(folder[0])
    text = constraint.format("x" * 10_000, "x" * 10_000)
    result = CliRunner().invoke(app, ["project", "s.csv", "--labels", "ham,spam", "--constraint", text])
    assert result.exit_code == 2
    assert len(result.stderr) < 700
    assert " characters)" in result.stderr
