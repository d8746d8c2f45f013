"""Options that the commands of `spectrem tag` share."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import typer

InputFormat: TypeAlias = Literal["auto", "text", "slash", "columns", "conllu"]
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
Context: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--context",
        metavar="COLUMN",
        help="Which column holds the known tags, such as parts of speech, that a conditional random field's --features "
        "chunking and words+tags read beside words, counted from 0.",
        show_default=False,
    ),
]
Field: TypeAlias = Annotated[
    Literal["upos", "xpos"], typer.Option("--field", metavar="NAME", help="Which tag of CoNLL-U: upos or xpos.")
]
