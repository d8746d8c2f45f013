"""Options that several commands share, constraints from the command line, and places of errors in files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from spectrem.cli.declare import argument, option
from spectrem.estimators.shared_parameters import CONSTRAINTS, TRAINING
from spectrem.exceptions import InvalidInputError, SpectremError, quoted

_SUFFIXES = (".yaml", ".yml", ".json")
FILES = "Files"
"""A heading of ``--help``."""

LEAST_PROBABILITY = 0.01
"""The default of ``--min-probability``."""


@dataclass(frozen=True, kw_only=True)
class LoadOption:
    """An option of commands that use a model.

    Parameters
    ----------
    load
        Use the model in this file, which --save wrote, without training.
    """

    load: str = option(..., metavar="MODEL", group=FILES, reads=True)


@dataclass(frozen=True, kw_only=True)
class OutputOption:
    """An option of commands with one main output.

    Parameters
    ----------
    output
        Where to write; gzipped if the name ends in .gz, - is standard output. The file appears once complete.
    """

    output: str = option("-", "--output", "-o", metavar="FILE", writes=True)


@dataclass(frozen=True, kw_only=True)
class QuietOption:
    """An option of commands that say on standard error what they did.

    Parameters
    ----------
    quiet
        No progress bar and no summary.
    """

    quiet: bool = option(False, "--quiet", "-q")


@dataclass(frozen=True, kw_only=True)
class ConstraintOptions(QuietOption):
    """Options of commands that may work under constraints.

    Parameters
    ----------
    constraint
        What must hold in expectation; repeat for several.
    constraints
        A file of constraints. It is a list in YAML or JSON, each a text as after --constraint, or name: text.
    report
        A page about the run and its constraints: what they demanded, changed and cost.
    """

    constraint: list[str] | None = option(None, metavar="TEXT", group=CONSTRAINTS)
    constraints: str | None = option(None, "--constraints", "-c", metavar="FILE", group=CONSTRAINTS, reads=True)
    report: str | None = option(None, metavar="FILE.html", writes=True)


@dataclass(frozen=True, kw_only=True)
class SaveOption:
    """An option of commands that train.

    Parameters
    ----------
    save
        Write the trained model to this file.
    """

    save: str = option(..., metavar="FILE", group=FILES, writes=True)


@dataclass(frozen=True, kw_only=True)
class LearningOptions(ConstraintOptions, SaveOption):
    """Options of commands that train a model, under constraints if wanted, and save it."""


@dataclass(frozen=True, kw_only=True)
class PredictionOptions(QuietOption, OutputOption, LoadOption):
    """The argument and options of commands that apply a model to a text."""

    text: str = argument("TEXT")


@dataclass(frozen=True, kw_only=True)
class ProbabilityOptions:
    """Options of commands that may write probabilities.

    Parameters
    ----------
    probabilities
        Write probabilities to this file.
    min_probability
        Leave out entries below this probability.
    """

    probabilities: str | None = option(None, metavar="FILE", writes=True)
    min_probability: float = option(LEAST_PROBABILITY, min=0.0, max=1.0, metavar="P")


@dataclass(frozen=True, kw_only=True)
class PlotOption:
    """An option of commands that may draw.

    Parameters
    ----------
    plot
        Draw a picture there, as .png, .svg or .pdf; needs matplotlib (pip install 'spectrem[plot]').
    """

    plot: str | None = option(None, metavar="FILE", writes=True)


@dataclass(frozen=True, kw_only=True)
class StartOption:
    """An option of commands whose training may go on from a model.

    Parameters
    ----------
    start
        Start from this model, which --save wrote.
    """

    start: str | None = option(None, metavar="MODEL", group=TRAINING, reads=True)


@dataclass(frozen=True, kw_only=True)
class FieldOption:
    """An option of commands that read tags of CoNLL-U.

    Parameters
    ----------
    field
        Which tags of CoNLL-U are meant.
    """

    field: Literal["upos", "xpos"] = option("upos")


@dataclass(frozen=True, kw_only=True)
class JsonOption:
    """An option of commands that print scores.

    Parameters
    ----------
    as_json
        Print one JSON object instead of a table.
    """

    as_json: bool = option(False, "--json")


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(JsonOption):
    """Arguments and options of commands that compare predictions with what was made by hand."""

    gold: str = argument("GOLD")
    predicted: str = argument("PREDICTED")
    second: str | None = argument("SECOND", None)


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
