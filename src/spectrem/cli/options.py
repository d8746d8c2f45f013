"""Options that several commands share, constraints from the command line, and places of errors in files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import typer

from spectrem.estimators.shared_parameters import CONSTRAINTS
from spectrem.exceptions import InvalidInputError, SpectremError, quoted

_SUFFIXES = (".yaml", ".yml", ".json")

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
_SAVE = typer.Option("--save", metavar="FILE", help="Write the trained model to this file.", rich_help_panel="Files")
_LOAD = typer.Option(
    "--load",
    metavar="MODEL",
    help="Use the model in this file, which --save wrote, without training.",
    rich_help_panel="Files",
)
_FIELD = typer.Option("--field", help="Which tags of CoNLL-U are meant.")
Save: TypeAlias = Annotated[str, _SAVE]
SaveIfNamed: TypeAlias = Annotated[str | None, _SAVE]
Load: TypeAlias = Annotated[str, _LOAD]
LoadIfNamed: TypeAlias = Annotated[str | None, _LOAD]
Field: TypeAlias = Annotated[Literal["upos", "xpos"], _FIELD]
FieldIfNamed: TypeAlias = Annotated[Literal["upos", "xpos"] | None, _FIELD]
ConstraintFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--constraints",
        "-c",
        metavar="FILE",
        help="A file of constraints. It is a list in YAML or JSON, each a text as after --constraint, or name: text.",
        rich_help_panel=CONSTRAINTS,
    ),
]
MinProbability: TypeAlias = Annotated[
    float,
    typer.Option("--min-probability", min=0.0, max=1.0, metavar="P", help="Leave out entries below this probability."),
]
LEAST_PROBABILITY = 0.01
"""The default of ``--min-probability``."""


def two_names(option: str, text: str | None) -> tuple[str, str] | None:
    """Both names of an option such as ``--columns en,fr``; None without a text.

    Raises
    ------
    InvalidInputError
        Naming the option.
    """
    names = [name.strip() for name in (text or "").split(",")]
    if text is None:
        return None
    if len(names) != 2 or not all(names):
        raise InvalidInputError(
            f"{option} must name source and target with a comma between, got {text!r}; for example en,fr"
        )
    return names[0], names[1]


def two_numbers(option: str, text: str) -> tuple[int, int]:
    """Both numbers of an option such as ``--columns 0,1``.

    Raises
    ------
    InvalidInputError
        Naming the option.

    Examples
    --------
    >>> two_numbers("--columns", "0,-1")
    (0, -1)
    """
    try:
        first, second = map(int, text.split(","))
    except ValueError:
        raise InvalidInputError(
            f"{option} must number two columns from 0 with a comma between, got {text!r}; for example 0,1"
        ) from None
    return first, second


def parse_options(texts: Iterable[str] | None, columns: Collection[str], path: str | None = None) -> list[Any]:
    """Constraints over known columns from the file of ``--constraints``, if any, and the texts of ``--constraint``.

    Raises
    ------
    InvalidInputError
        Naming the option, the text and the character in it, or the file and the line.

    Examples
    --------
    >>> parse_options(["at_least(1, 'VERB')"], ["sentence", "label"])
    [(E[part("label") == "VERB"] >= 1).per("sentence").named("at least 1 VERB per sentence")]
    """
    from spectrem.constraints import parse_constraint, read_constraints
    from spectrem.constraints.text import flatten

    if path is not None and not path.endswith(_SUFFIXES):
        raise InvalidInputError(f"--constraints {path}: the name must end in {', '.join(_SUFFIXES)}")
    listed = () if path is None else read_constraints(path, columns=columns)
    return [*listed, *flatten([parse_constraint(text, columns, place=partial(_place, text)) for text in texts or ()])]


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
