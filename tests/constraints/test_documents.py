"""Every snippet of ``docs/constraints.md`` is read or runs, and all wishes of the example are met."""

import io
import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from spectrem.cli.app import app
from spectrem.constraints import parse_constraint, read_constraints
from spectrem.constraints.text import flatten

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "constraints.md").read_text(encoding="utf-8")
SECTIONS = dict(zip(*[iter(re.split(r"\n## (.*)\n", TEXT)[1:])] * 2, strict=True))


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


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


@pytest.mark.parametrize("language", ["yaml", "json"])
def test_files_are_read(language):
    if language == "yaml":
        pytest.importorskip("yaml")
    (text,) = blocks(language)
    assert len(read_constraints(io.StringIO(text), format=language)) >= 2
    if language == "json":
        json.loads(text)


def test_python_runs(tmp_path, monkeypatch):
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.csv").write_text("document,p_title,p_body\na,0.7,0.3\na,0.6,0.4\nb,0.2,0.8\n")
    (tmp_path / "c.yaml").write_text("- at_most(1, 'title', per='document')\n")
    for code in blocks("python"):
        exec(code, {})
    written = (tmp_path / "out.csv").read_text().splitlines()
    assert written[0] == "document,p_title,p_body,decided"
    assert [line.rsplit(",")[-1] for line in written[1:]] == ["title", "body", "body"]
    assert (tmp_path / "page.html").stat().st_size > 0


def test_commands_exist():
    root = typer.main.get_command(app)
    (block,) = blocks("sh")
    for line in block.splitlines():
        words = shlex.split(line)
        command = root.commands[words[1]]
        command = getattr(command, "commands", {}).get(words[2], command)
        known = {name for option in command.params for name in option.opts}
        assert {word for word in words if word.startswith("-")} <= known
        parse_constraint(words[words.index("--constraint") + 1])


def test_wishes_are_met(capsys):
    space = {}
    exec((ROOT / "examples" / "constraints.py").read_text(encoding="utf-8"), space)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(space["WISHES"]) == 25
    for line, (_, name, text) in zip(lines, space["WISHES"], strict=True):
        before, after = (float(found) for found in re.findall(r"(?:by|then) +(\d+\.\d+)", line))
        assert line.startswith(name)
        assert before > after
        assert after == 0 or "penalty" in text
