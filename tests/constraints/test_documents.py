"""Every constraint in the tables of ``docs/guide/constraints.md`` is read, and all wishes of the example are met."""

import re
from pathlib import Path

import pytest

from spectrem.constraints import parse_constraint
from spectrem.constraints.text import flatten

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "guide" / "constraints.md").read_text(encoding="utf-8")
SECTIONS = dict(zip(*[iter(re.split(r"\n## (.*)\n", TEXT)[1:])] * 2, strict=True))


def snippets(section):
    """Code in the first cells of its tables."""
    rows = re.findall(r"^\| (`.*?) \| .* \|$", SECTIONS[section].replace("\\|", "\0"), re.MULTILINE)
    return [code.replace("\0", "|") for row in rows for code in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("text", [*snippets("Expectations"), *snippets("Shortcuts")])
def test_constraints_are_read(text):
    made = flatten(text)
    assert made
    assert flatten([repr(one) for one in made]) == made


@pytest.mark.parametrize("text", snippets("Conditions"))
def test_conditions_are_read(text):
    assert parse_constraint(f"E[{text}] <= 1").sides


def test_wishes_are_met(capsys):
    space = {}
    exec((ROOT / "examples" / "tables" / "constraints.py").read_text(encoding="utf-8"), space)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(space["WISHES"]) == 25
    for line, (_, name, text) in zip(lines, space["WISHES"], strict=True):
        before, after = (float(found) for found in re.findall(r"(?:by|then) +(\d+\.\d+)", line))
        assert line.startswith(name)
        assert before > after
        assert after == 0 or "penalty" in text
