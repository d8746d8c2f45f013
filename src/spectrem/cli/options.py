"""Options that several commands share, constraints from the command line, and places of errors in files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, TypeAlias

import typer

from spectrem.exceptions import SpectremError, quoted

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
Report: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="A page about the training and its constraints: what they demanded, changed and cost.",
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
MinProbability: TypeAlias = Annotated[
    float,
    typer.Option("--min-probability", min=0.0, max=1.0, metavar="P", help="Leave out entries below this probability."),
]
LEAST_PROBABILITY = 0.01
"""The default of ``--min-probability``."""


def parse_options(texts: Iterable[str] | None, columns: Collection[str]) -> list[Any]:
    """Constraints over known columns from the texts of ``--constraint``.

    Raises
    ------
    InvalidInputError
        Naming the option, the text and the character in it.

    Examples
    --------
    >>> parse_options(["at_least(1, 'VERB')"], ["sentence", "label"])
    [(E[part("label") == "VERB"] >= 1).per("sentence").named("at least 1 VERB per sentence")]
    """
    from spectrem.constraints import parse_constraint
    from spectrem.constraints.text import flatten

    return flatten([parse_constraint(text, columns, place=partial(_place, text)) for text in texts or ()])


def _place(text: str, at: int) -> str:
    return f"--constraint {quoted(text)}, character {at + 1}"


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
