"""What `spectrem tag` says of itself."""

import inspect

import pytest
import typer

from spectrem import HMMTagger
from spectrem.cli.app import app
from spectrem.cli.tag_train import Infeasible, Start
from spectrem.estimators.tagger_settings import STARTS


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
    shown = {option.name: option.show_default for option in options}
    for name in ("schedule", "n_threads", "init"):
        assert parameters[name].default is None
    assert parameters["constraints"].default == ()
    for name, option in {
        "order": "order",
        "min_count": "min_count",
        "smoothing": "smoothing",
        "decode": "decode",
        "dual_steps": "dual_steps",
        "gamma": "gamma",
        "infeasible": "infeasible",
        "n_init": "restarts",
        "max_iter": "iterations",
        "tol": "tolerance",
    }.items():
        assert shown[option].split(";")[0] == str(parameters[name].default), option


def test_choices_are_those_of_the_estimator():
    assert set(Start) == set(STARTS)
    assert set(Infeasible) == {"raise", "skip"}
