"""Options of a command are those that its estimator declares."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from spectrem.cli.app import app
from spectrem.cli.declare import Settings, takes
from spectrem.estimators.declare import check_number, choice, count, given, number, switch
from spectrem.estimators.mixture.parameters import GaussianMixtureParameters
from spectrem.exceptions import InvalidInputError


@dataclass
class Parameters:
    """Of nothing.

    Parameters
    ----------
    parts : int
        How many ``parts``.
    speed : float
        In metres per second.
    way, other_way : {"up", "down"}
        Where to.
    loud : bool
        Say much.
    inner : object, optional
        For Python alone.
    size : int, optional
        Above ``speed``.
    kinds : tuple of str
        Which.
    """

    parts: int = count(2, short="-p", group="Shape")
    speed: float = number(1.5, most=3.0)
    way: str = choice("up", "up", "down")
    other_way: str | None = choice(None, "up", "down", option="--other")
    loud: bool = switch(False)
    inner: object = given(None)
    size: int | None = given(
        None, partial(check_number, open=True), convert=lambda text: int(text.strip("x")), option=""
    )
    kinds: tuple = given((), convert=lambda text: tuple(text.split(",")), option="", several=True)


@dataclass(frozen=True)
class Own:
    file: Annotated[str, typer.Argument(metavar="FILE")]
    mark: Annotated[int, typer.Option("--mark")] = 7


@dataclass(frozen=True)
class Place:
    folder: Annotated[str | None, typer.Option("--folder")] = None
    flat: Annotated[bool, typer.Option("--flat", help="Without folders.")] = False


@pytest.fixture
def call():
    def run(*words, **settled):
        seen = []
        command = typer.Typer()

        @command.command()
        @takes(Parameters, **settled)
        def work(own: Own, settings: Settings, place: Place):
            seen.append((own.file, dict(settings), own.mark, *([] if place == Place() else [place])))

        result = CliRunner().invoke(command, list(words), env={"TERMINAL_WIDTH": "160", "NO_COLOR": "1"})
        return seen[0] if seen else result

    return run


def test_only_what_was_given_is_passed_on(call):
    assert call("f") == ("f", {}, 7)
    words = ("f", "-p", "3", "--speed", "2", "--way", "down", "--other", "up", "--loud", "--mark", "1")
    given = {"parts": 3, "speed": 2.0, "way": "down", "other_way": "up", "loud": True}
    assert call(*words) == ("f", given, 1)
    assert call("f", "--no-loud") == ("f", {"loud": False}, 7)


def test_a_command_may_settle_defaults(call):
    assert call("f", defaults={"speed": 0.5}) == ("f", {"speed": 0.5}, 7)
    assert call("f", "--speed", "1", defaults={"speed": 0.5}) == ("f", {"speed": 1.0}, 7)
    assert call("f", "--parts", "1", defaults={"parts": ...}) == ("f", {"parts": 1}, 7)
    assert "Missing option" in call("f", defaults={"parts": ...}).output
    assert "No such option" in call("f", "--speed", "1", leave=["speed"]).output


@pytest.mark.parametrize("words", [["--parts", "0"], ["--speed", "4"], ["--way", "left"], ["--inner", "1"]])
def test_what_breaks_a_rule_is_refused(call, words):
    result = call("f", *words)
    assert result.exit_code == 2 or isinstance(result.exception, InvalidInputError)
    assert words[0] in f"{result.output} {result.exception}"


def test_a_group_of_options_becomes_its_fields(call):
    assert call("f", "--folder", "d", "--loud") == ("f", {"loud": True}, 7, Place("d"))
    assert call("f", "--flat") == ("f", {}, 7, Place(flat=True))
    assert "Without folders." in call("--help").output


def test_a_function_makes_the_value_of_the_text(call):
    assert call("f", "--size", "3x") == ("f", {"size": 3}, 7)
    refused = call("f", "--size", "0x").exception
    assert str(refused) == "--size must be finite and above 0, got 0"


def test_an_option_that_is_given_several_times(call):
    assert call("f", "--kinds", "a,b") == ("f", {"kinds": ("a", "b")}, 7)
    assert call("f", "--kinds", "a", "--kinds", "b,c") == ("f", {"kinds": ("a", "b", "c")}, 7)


def test_only_some_parameters_may_be_options(call):
    assert call("f", "--loud", only=["loud"]) == ("f", {"loud": True}, 7)
    assert "No such option" in call("f", "--speed", "1", only=["loud"]).output


def test_help_says_what_the_docstring_says(call):
    told = call("--help", defaults={"speed": 0.5}).output
    for words in (
        "How many --parts.",
        "In metres per second.",
        "Where to.",
        "Shape",
        "(0.5)",
        "up|down",
        "Above --speed",
    ):
        assert words in told


def test_every_option_of_a_mixture_is_one_of_the_command():
    options = {option.name for option in typer.main.get_command(app).commands["cluster"].params}
    assert {"n_components", "covariance_type", "tol", "max_iter", "n_init", "random_state", "n_threads"} <= options
    assert not {"means_init", "warm_start", "corpus", "constraints_"} & options
    assert GaussianMixtureParameters().n_components == 1
