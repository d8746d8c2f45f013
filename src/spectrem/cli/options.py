"""Arguments and options that several commands share, and the choices some of them offer."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from spectrem.exceptions import InvalidInputError


class ConstraintName(StrEnum):
    NONE = "none"
    AGREEMENT = "agreement"
    FERTILITY = "fertility"


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
Seed: TypeAlias = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, metavar="N", help="The same seed gives the same result.")
]


def check_annealing(beta: float | None, gamma: float, rate: float | None = None, *, instead: str = "raise it") -> None:
    """Refuse values of --anneal that cannot cool down to --gamma, and an --anneal-rate that does not cool.

    Parameters
    ----------
    beta : float or None
        The inverse of the first gamma; None is no annealing.
    gamma : float
        The last one.
    rate : float, optional
        Factor by which beta grows.
    instead : str
        What to try where gamma is not above 0.

    Raises
    ------
    InvalidInputError
        Naming the option.

    Examples
    --------
    >>> check_annealing(0.5, 1.0)
    """
    if rate is not None and beta is None:
        raise InvalidInputError(f"--anneal-rate {rate:g} concerns --anneal, which is off; add it or drop this")
    if beta is None:
        return
    if not gamma > 0:
        raise InvalidInputError(f"--anneal cools down to a gamma above 0, but --gamma is {gamma:g}; {instead}")
    if not 0 < beta <= 1.0 / gamma:
        raise InvalidInputError(
            f"--anneal {beta:g}: starts at gamma = 1 / BETA, which must not be below --gamma {gamma:g}; give a BETA "
            f"above 0 and at most {1.0 / gamma:g}, for example {0.1 / gamma:g}"
        )
    if rate is not None and not 1 < rate < float("inf"):
        raise InvalidInputError(f"--anneal-rate {rate:g}: beta must grow; give a finite factor above 1, such as 1.2")


def refuse_unused(option: str, needed: str) -> None:
    """Raise the error of an option that would change nothing in this run.

    Parameters
    ----------
    option : str
        As it was given, with its value.
    needed : str
        Without which it changes nothing: another option.

    Raises
    ------
    InvalidInputError
        Always.
    """
    raise InvalidInputError(f"{option} changes nothing without {needed}; add that or drop this")
