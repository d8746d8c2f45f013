"""What `spectrem tag` says of itself."""

import inspect

import pytest
import typer

from spectrem import HMMTagger
from spectrem.cli.app import app


@pytest.mark.parametrize("command", [[], ["train"], ["predict"], ["evaluate"]], ids=lambda command: "".join(command))
def test_every_command_explains_itself(run, command):
    result = run("tag", *command, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout


def test_help_loads_nothing_heavy(loaded_by):
    loaded, output = loaded_by(["matplotlib", "numba", "numpy", "scipy", "sklearn", "conllu"], "tag", "train", "--help")
    assert "--constraint" in output
    assert loaded == []


def test_the_defaults_shown_are_those_of_the_estimator():
    parameters = inspect.signature(HMMTagger).parameters
    options = typer.main.get_command(app).commands["tag"].commands["train"].params
    shown = {option.name: option.show_default for option in options if option.name in parameters}
    shown = {name: default for name, default in shown.items() if name != "constraints"}
    assert {"order", "smoothing", "decode", "dual_steps", "gamma", "infeasible", "n_init", "max_iter", "tol"} <= set(
        shown
    )
    assert shown.pop("random_state") == "0"  # of the command
    assert shown.pop("decode") == "posterior; with --crf viterbi"
    for name, default in shown.items():
        expected = parameters[name].default
        expected = "no-project-at-predict" if expected is False else expected
        assert default == (False if expected is None else str(expected)), name


def test_help_calls_parameters_as_their_options_are():
    options = {option.name: option for option in typer.main.get_command(app).commands["align"].params}
    assert "exceeds --threshold, or what --rare-discount makes of" in options["decode"].help
    assert "what Samdani2012 ran" in options["dual_steps"].help
