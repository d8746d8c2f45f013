"""Options and readers that the commands of `spectrem tag` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import typer

from spectrem.exceptions import InvalidInputError, quoted

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
    ),
]
Field: TypeAlias = Annotated[
    Literal["upos", "xpos"], typer.Option("--field", metavar="NAME", help="Which tag of CoNLL-U: upos or xpos.")
]


def with_context(
    sentences: Sequence[Sequence[str]], context: int | None, word: int, *paths: str | None
) -> Sequence[Sequence[Any]]:
    """Sentences of the files as pairs of words and the tags in a column, if there is one.

    Raises
    ------
    InvalidInputError
        If a word has no tag there, or the text comes from standard input, which can be read once only.
    """
    from spectrem.data import display_name, read_tagged

    if context is None:
        return sentences
    pairs: list[Sequence[Any]] = []
    for path in paths:
        if path is None:
            continue
        if path == "-":
            raise InvalidInputError(f"--context {context} cannot be read from standard input; give the name of a file")
        corpus = read_tagged(path, "columns", columns=(word, context))
        for number, (words, tags) in enumerate(zip(corpus.words, corpus.tags, strict=True)):
            if None in tags:
                raise InvalidInputError(
                    f"{display_name(path)}, {corpus.place(number)}: column {context} must have a tag for every word, "
                    f"got _ for {quoted(words[tags.index(None)])}; tag it first, or use --features words"
                )
            pairs.append(list(zip(words, tags, strict=True)))
    if len(pairs) != len(sentences):
        raise InvalidInputError(
            f"--context {context} must name a column of the same sentences, got {len(pairs)} and {len(sentences)}; say "
            "--format columns"
        )
    return pairs
