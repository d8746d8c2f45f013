"""Arguments and options that several commands share, and the choices some of them offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import typer

from spectrem.exceptions import InvalidInputError, SpectremError


class MethodName(StrEnum):
    INTERSECTION = "intersection"
    UNION = "union"
    GROW_DIAG = "grow-diag"
    GROW_DIAG_FINAL = "grow-diag-final"
    GROW_DIAG_FINAL_AND = "grow-diag-final-and"


Output: TypeAlias = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where to write; gzipped if the name ends in .gz, - is standard output. The file appears once complete.",
    ),
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")]
LEAST_PROBABILITY = 0.01
MinProbability: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--min-probability",
        min=0.0,
        max=1.0,
        metavar="P",
        help="Leave out entries below this probability.",
        show_default=f"{LEAST_PROBABILITY}",
    ),
]


def refuse_unused(option: str, needed: str) -> None:
    """Raise the error of an option that would change nothing in this run.

    Parameters
    ----------
    option : str
        The option as it was given, with its value.
    needed : str
        Without which it changes nothing: another option.

    Raises
    ------
    InvalidInputError
        Always.
    """
    raise InvalidInputError(f"{option} changes nothing without {needed}; add that or drop this")


@contextmanager
def errors_located(key: str, place: Callable[[int], str]) -> Iterator[None]:
    """Let errors of this block that are about one sentence, or one row, begin with where it stands.

    Parameters
    ----------
    key : {"sentence", "row"}
    place : function
        Where a sentence or row, counted from 0, stands.
    """
    try:
        yield
    except SpectremError as error:
        if error.keys.get(key) is None:
            raise
        raise type(error)(f"{place(int(error.keys[key]))}: {error}") from error


def check_constraint_options(settings: Mapping[str, Any], constraints: object) -> None:
    """Refuse options of training about constraints where there are none.

    Raises
    ------
    InvalidInputError
        Naming the option.
    """
    if not constraints and "infeasible" in settings:
        refuse_unused(f"--infeasible {settings['infeasible']}", "--constraint")
    if not constraints and settings.get("project_at_predict"):
        refuse_unused("--project-at-predict", "--constraint")


def check_projection_options(settings: Mapping[str, Any], path: str, model: Any) -> None:
    """Refuse options of predictions under constraints where a model from a file has none, or does not meet them.

    Raises
    ------
    InvalidInputError
        Naming the option.
    """
    if settings.get("project_at_predict") and not model.constraints:
        raise InvalidInputError(
            f"--project-at-predict: {path} holds no constraints to meet; train it with --constraint, or drop this"
        )
    if "infeasible" in settings and not (model.project_at_predict and model.constraints):
        refuse_unused(f"--infeasible {settings['infeasible']}", "--project-at-predict")
