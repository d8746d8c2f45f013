"""Options that the commands of `spectrem tag` share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer


class InputFormat(StrEnum):
    AUTO = "auto"
    TEXT = "text"
    SLASH = "slash"
    COLUMNS = "columns"
    CONLLU = "conllu"


class OutputFormat(StrEnum):
    SLASH = "slash"
    COLUMNS = "columns"
    CONLLU = "conllu"


class Field(StrEnum):
    UPOS = "upos"
    XPOS = "xpos"


class TagDecodeName(StrEnum):
    POSTERIOR = "posterior"
    VITERBI = "viterbi"


Format: TypeAlias = Annotated[
    InputFormat,
    typer.Option(
        "--format",
        metavar="NAME",
        help="text: one sentence per line. slash: the same of word/TAG. columns: one word per line, blank lines "
        "between sentences. conllu: that of Universal Dependencies. auto tells them apart, except columns between "
        "spaces, which it takes for text.",
    ),
]
Columns: TypeAlias = Annotated[
    tuple[int, int],
    typer.Option(
        "--columns", metavar="WORD TAG", help="Which columns hold word and tag, counted from 0; -1 is the last."
    ),
]
FieldOption: TypeAlias = Annotated[
    Field, typer.Option("--field", metavar="NAME", help="Which tag of CoNLL-U: upos or xpos.")
]
Decode: TypeAlias = Annotated[
    TagDecodeName | None,
    typer.Option(
        "--decode",
        metavar="WAY",
        help="posterior: the most probable tag of every word. viterbi: the most probable sequence of tags.",
        show_default="posterior",
    ),
]
