"""Docstrings of public names are whole; `make docs` checks it, too, since tests may lack numpydoc."""

import subprocess
import sys
from pathlib import Path

import pytest

from spectrem import HMMTagger
from spectrem.metrics import SignTest, tag_entropy

pytest.importorskip("numpydoc", reason="the group docs is not installed")
DOCS = Path(__file__).parents[2] / "docs"


def test_docstrings_of_public_names_are_whole():
    command = [sys.executable, str(DOCS / "check_docstrings.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "docstrings of all public names are whole\n"), done.stdout


@pytest.fixture
def check_docstrings(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return pytest.importorskip("check_docstrings")


def faults_of(check_docstrings, monkeypatch, value, text):
    monkeypatch.setattr(value, "__doc__", text)
    return {tuple(line.split()[:2]) for line in check_docstrings.faults()}


def test_a_fault_of_a_function_is_noticed(check_docstrings, monkeypatch):
    text = "Entropy of tags.\n\nParameters\n----------\nlabels : list\n    Tags.\n"
    found = faults_of(check_docstrings, monkeypatch, tag_entropy, text)
    assert found == {("spectrem.metrics.tag_entropy:", code) for code in ("PR01", "PR02", "RT01", "EX01")}


def test_a_fault_of_a_method_is_noticed(check_docstrings, monkeypatch):
    found = faults_of(check_docstrings, monkeypatch, HMMTagger.predict, "Tags of every token.")
    assert found == {("spectrem.HMMTagger.predict:", code) for code in ("PR01", "RT01")}


def test_a_fault_of_a_class_is_noticed(check_docstrings, monkeypatch):
    text = "A test.\n\n    Attributes\n    ----------\n    n_first, n_second : int\n    "
    found = faults_of(check_docstrings, monkeypatch, SignTest, text)
    assert found == {("spectrem.metrics.SignTest:", code) for code in ("PR01", "EX01")}


def test_exceptions_are_public_names_without_an_example(check_docstrings):
    """A name that has an example, or is gone, leaves the list of exceptions."""
    without = {
        name.rpartition(".")[2]
        for name, codes in check_docstrings.public_objects()
        if "EX01" in codes and any(code == "EX01" for code, _ in check_docstrings.validate(name)["errors"])
    }
    assert without == set(check_docstrings.WITHOUT_EXAMPLE)


def test_methods_have_the_sections_of_their_protocol(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import protocols

    class Shape:
        def area(self, unit):
            """The area of a shape.

            Parameters
            ----------
            unit : str

            Returns
            -------
            float
            """

    class Square:
        def area(self, unit):
            """The square of a side.

            Returns
            -------
            int
            """

        def side(self):
            """The side."""

    for name in ("area", "side", "area"):  # a second time changes nothing
        protocols.add_sections(Square, name, (Shape,))
    assert Square.area.__doc__ == (
        "The square of a side.\n\nParameters\n----------\nunit : str\n\nReturns\n-------\nint\n"
    )
    assert Square.side.__doc__ == "The side."
