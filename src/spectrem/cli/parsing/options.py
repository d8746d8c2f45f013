"""Options, rules and readers that the commands of `spectrem parse` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from spectrem.cli.declare import Given, Settings
from spectrem.cli.rules import check_rules, needs
from spectrem.cli.schedules import Annealing
from spectrem.cli.training import refuse_parameters
from spectrem.estimators.grammar.parameters import GrammarSettings
from spectrem.estimators.parser.parameters import ParserParameters
from spectrem.exceptions import InvalidInputError, quoted, shorten

if TYPE_CHECKING:
    from spectrem.data import ParsedSentence

MaxLength: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-length", min=1, metavar="N", help="Only sentences of up to N words.", show_default="all"),
]
SkipPunctuation: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--skip-punctuation",
        help="With --dmv, leave out words tagged PUNCT, in training and again in predict, where they then hang on the "
        "word under the root.",
    ),
]
_OF_BATCHES = ("--anneal", "--anneal-rate", "--quench", "--spill", "--dask", "--checkpoint")
_RULES = [needs(option, "--learner batch", "--dmv") for option in _OF_BATCHES]


def check_settings(settings: Settings, annealing: Annealing, given: Given, *, dmv: bool) -> None:
    """Refuse options of the other of both models, and those that learning in small steps does not read.

    Raises
    ------
    InvalidInputError
        Naming the option.
    """
    if dmv:
        message = "concerns parsers with features; drop it, or --dmv"
        refuse_parameters(settings, given, ParserParameters, GrammarSettings, message)
    else:
        message = "changes nothing without --dmv; add that or drop this"
        refuse_parameters(settings, given, GrammarSettings, ParserParameters, message)
    annealing.check(settings.get("gamma", 1.0))
    check_rules(_RULES, given)


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


def count_words(sentences: Sequence[ParsedSentence]) -> int:
    return sum(len(one.forms) for one in sentences)


def tags_of(sentences: list[ParsedSentence], field: str, path: str) -> list[tuple[str, ...]]:
    """The tags of every sentence.

    Raises
    ------
    InvalidInputError
        If a word has none.
    """
    from spectrem.data import display_name

    tags: list[tuple[str, ...]] = [getattr(one, field) for one in sentences]
    for number, (one, row) in enumerate(zip(sentences, tags, strict=True)):
        if "_" in row:
            raise InvalidInputError(
                f"{display_name(path)}, sentence {number + 1}: {one.forms[row.index('_')]!r} has no tag in the column "
                f"{field.upper()}; tag it first (spectrem tag), or choose the other column with --field"
            )
    return tags


def places_in(path: str, sentences: Sequence[ParsedSentence]) -> Callable[[int], str]:
    """The place of a sentence as errors give it: file, number and words."""
    from spectrem.data import display_name

    def place(number: int) -> str:
        words = quoted(shorten(" ".join(sentences[number].forms)))
        return f"{display_name(path)}, sentence {number + 1} ({words})"

    return place
