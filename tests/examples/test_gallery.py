"""The gallery and the README do what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from spectrem.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


def output_of(*command):
    done = subprocess.run([sys.executable, "-W", "error", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_runs(script):
    assert output_of(str(script))


def test_constraints_and_gamma_help():
    lines = output_of(str(ROOT / "examples" / "gamma_and_constraints.py")).splitlines()
    errors = {line[:12].strip(): [float(value) for value in line[13:].split()] for line in lines[3:7]}
    plain, sharp = 1, 2  # columns of gamma 1 and 0.5
    assert errors["agreement"][sharp] < errors["agreement"][plain] < errors["none (EM)"][plain]
    assert errors["fertility"][plain] < errors["none (EM)"][plain]


def test_the_constraint_holds():
    """Every sentence has its verb, at every gamma; the model alone and the soft constraint have less."""
    sums = {}
    for line in output_of(str(ROOT / "examples" / "own_constraint.py")).splitlines():
        if "p(verb)" in line:
            sums[line.split("p(verb)")[0].strip()] = [float(value) for value in re.findall(r"sum (\d\.\d+)", line)]
    for gamma in ("1", "0.5", "0"):
        assert sums[f"with a verb, gamma {gamma}"] == pytest.approx([1.0, 1.0], abs=0.01)
    assert max(sums["model"]) < min(sums["soft, gamma 1"])
    assert max(sums["soft, gamma 1"]) < 1.0


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def test_python_of_the_readme_runs(capsys):
    (code,) = blocks("python")
    exec(code, {})
    assert capsys.readouterr().out


def test_commands_of_the_readme_exist():
    """Every option named in the README is one of its command."""
    commands = typer.main.get_command(app).commands
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("spectrem ")]
    assert lines
    for line in lines:
        words = line.split("#")[0].split()
        known = {name for option in commands[words[1]].params for name in (*option.opts, *option.secondary_opts)}
        assert {word for word in words if word.startswith("-") and word != "-"} <= known, line


def test_the_picture_is_there():
    for name in re.findall(r"!\[.*?\]\((.*?)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / name).is_file()
