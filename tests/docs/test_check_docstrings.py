"""Docstrings of public names are whole; `make docs` checks it, too, since tests may lack numpydoc."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpydoc", reason="the group docs is not installed")
DOCS = Path(__file__).parents[2] / "docs"


def test_docstrings_of_public_names_are_whole():
    command = [sys.executable, str(DOCS / "check_docstrings.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "docstrings of all public names are whole\n"), done.stdout


def test_a_fault_is_noticed(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import check_docstrings

    from spectrem.metrics import tag_entropy

    monkeypatch.setattr(
        tag_entropy, "__doc__", "Entropy of tags.\n\nParameters\n----------\nlabels : list\n    Tags.\n"
    )
    codes = {line.split()[1] for line in check_docstrings.faults()}
    assert codes == {"PR01", "PR02", "RT01", "EX01"}
