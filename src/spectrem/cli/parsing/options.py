"""Options and errors that the commands of `spectrem parse` share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from spectrem.cli.annealing import Annealing
from spectrem.cli.estimator_options import Settings, option_of
from spectrem.cli.homes import Home
from spectrem.cli.options import errors_located, refuse_unused
from spectrem.estimators.declare import parameters_of
from spectrem.estimators.grammar.parameters import GrammarSettings
from spectrem.estimators.parser.parameters import ParserParameters
from spectrem.exceptions import InvalidInputError, quoted, shorten

if TYPE_CHECKING:
    from spectrem.data import ParsedSentence

MaxLength: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--max-length",
        min=1,
        metavar="N",
        help="Only sentences of up to N words.",
        show_default="all",
    ),
]

SkipPunctuation: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--skip-punctuation",
        help="With --dmv, leave out words tagged PUNCT, in training and again in predict, where they then hang on the "
        "word under the root.",
    ),
]


def check_settings(settings: Settings, annealing: Annealing, home: Home, *, dmv: bool) -> None:
    """Refuse options of the other of both models, and those that learning in small steps does not read.

    Raises
    ------
    InvalidInputError
        Naming the option.
    """
    record, other = (GrammarSettings, ParserParameters) if dmv else (ParserParameters, GrammarSettings)
    for name in sorted(parameters_of(other).keys() - parameters_of(record).keys()):
        if name in settings:
            option = f"{option_of(other, name)} {settings[name]}"
            if dmv:
                raise InvalidInputError(f"{option} concerns parsers with features; drop it, or --dmv")
            refuse_unused(option, "--dmv")
    annealing.check(settings.get("gamma", 1.0))
    if not dmv and settings.get("learner", "online") == "online":
        for option, value in {**annealing.given, **home.given, "--checkpoint": settings.get("checkpoint")}.items():
            if value is not None:
                refuse_unused(f"{option} {value}", "--learner batch or --dmv")


def read_treebank(path: str, max_length: int | None = None, *, trees: bool = True) -> list[ParsedSentence]:
    """The sentences of a file of CoNLL-U, those that are too long left out; without ``trees``, their tags alone.

    Raises
    ------
    InvalidInputError
        If none is left, or a line is wrong.
    """
    from spectrem.data import display_name, read_conllu

    sentences = read_conllu(path, trees=trees)
    if not sentences:
        raise InvalidInputError(f"{display_name(path)}: holds no sentences; give a file of CoNLL-U")
    kept = [one for one in sentences if max_length is None or len(one.forms) <= max_length]
    if not kept:
        raise InvalidInputError(
            f"{display_name(path)}: no sentence has up to --max-length {max_length} words; the shortest has "
            f"{min(len(one.forms) for one in sentences)}"
        )
    return kept


def sentences_named(path: str, sentences: Sequence[ParsedSentence]) -> AbstractContextManager[None]:
    """Let errors of this block that are about a sentence begin with the file, its number and its words."""
    from spectrem.data import display_name

    def place(number: int) -> str:
        words = quoted(shorten(" ".join(sentences[number].forms)))
        return f"{display_name(path)}, sentence {number + 1} ({words})"

    return errors_located("sentence", place)
