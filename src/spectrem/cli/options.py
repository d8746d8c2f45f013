"""Arguments and options that several commands share, and the choices some of them offer."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from spectrem.exceptions import InvalidInputError


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
