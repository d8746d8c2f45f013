"""Options that several commands share, constraints from the command line, and places of errors in files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import typer

from spectrem.cli.declare import OF_MODEL, argument
from spectrem.estimators.shared_parameters import CONSTRAINTS, MODEL, TRAINING
from spectrem.exceptions import InvalidInputError, SpectremError, quoted

_SUFFIXES = (".yaml", ".yml", ".json")
FILES = "Files"
"""A heading of ``--help``."""

_OUTPUT = typer.Option(
    "--output",
    "-o",
    metavar="FILE",
    show_default="-",
    help="Where to write; gzipped if the name ends in .gz, - is standard output. The file appears once complete.",
)
Output: TypeAlias = Annotated[str, _OUTPUT]
OutputIfNamed: TypeAlias = Annotated[str | None, _OUTPUT]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")]
Report: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="A page about the run and its constraints: what they demanded, changed and cost.",
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
_SAVE = typer.Option("--save", metavar="FILE", help="Write the trained model to this file.", rich_help_panel=FILES)
_LOAD = typer.Option(
    "--load",
    metavar="MODEL",
    help="Use the model in this file, which --save wrote, without training.",
    rich_help_panel=FILES,
)
Save: TypeAlias = Annotated[str, _SAVE]
SaveIfNamed: TypeAlias = Annotated[str | None, _SAVE]
Load: TypeAlias = Annotated[str, _LOAD]
LoadIfNamed: TypeAlias = Annotated[str | None, _LOAD]
_FIELD = partial(typer.Option, "--field", help="Which tags of CoNLL-U are meant.")
Field: TypeAlias = Annotated[Literal["upos", "xpos"], _FIELD()]
FieldOfModel: TypeAlias = Annotated[Literal["upos", "xpos"] | None, _FIELD(show_default=OF_MODEL)]
_CONSTRAINT = partial(
    typer.Option,
    "--constraint",
    metavar="TEXT",
    help="What must hold in expectation; repeat for several.",
    rich_help_panel=CONSTRAINTS,
)
Constraint: TypeAlias = Annotated[list[str] | None, _CONSTRAINT(show_default=False)]
Agreement: TypeAlias = Annotated[list[str] | None, _CONSTRAINT(show_default="agreement")]
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

Probabilities: TypeAlias = Annotated[
    str | None,
    typer.Option("--probabilities", metavar="FILE", help="Write probabilities to this file.", show_default=False),
]
Plot: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        show_default=False,
        help="Draw a picture there, as .png, .svg or .pdf; needs matplotlib (pip install 'spectrem[plot]').",
    ),
]
Start: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--start",
        metavar="MODEL",
        show_default=False,
        help="Start from this model, which --save wrote.",
        rich_help_panel=TRAINING,
    ),
]
TagDictionary: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dictionary",
        metavar="FILE",
        show_default=False,
        help="The tags that words may have: lines of a word, a tab, and its tags with spaces between.",
        rich_help_panel=FILES,
    ),
]
Grammar: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--dmv",
        help="Learn a grammar, the dependency model with valence, from tags alone.",
        rich_help_panel=MODEL,
    ),
]


@dataclass(frozen=True, kw_only=True)
class LearningOptions:
    """Options of commands that train a model, under constraints if wanted, and save it."""

    save: Save
    constraint: Constraint = None
    constraints: ConstraintFile = None
    report: Report = None
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """Arguments and options of commands that compare predictions with what was made by hand."""

    gold: str = argument("GOLD")
    predicted: str = argument("PREDICTED")
    second: str | None = argument("SECOND", None)
    as_json: Json = False


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
