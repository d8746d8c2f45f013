"""Words and tags to lines, one function per format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from spectrem.data.tagging.tagged_lines import MISSING
from spectrem.exceptions import InvalidInputError

_Sentences: TypeAlias = Iterable[tuple[int, Sequence[str], Sequence[str | None]]]
_BLANKS = "\t\n\r"
_NAMES = {"\t": "tab", "\n": "line end", "\r": "carriage return", " ": "space", "/": "slash"}


def _slash_lines(sentences: _Sentences, field: str) -> Iterator[str]:
    known: dict[tuple[str, str | None], str] = {}
    for number, words, tags in sentences:
        tokens = []
        for pair in zip(words, tags, strict=True):
            token = known.get(pair)
            if token is None:
                token = known[pair] = _token(number, *pair)
            tokens.append(token)
        yield " ".join(tokens) + "\n"


def _column_lines(sentences: _Sentences, field: str) -> Iterator[str]:
    for number, words, tags in sentences:
        _check_not_empty(number, words, "columns")
        for word, tag in zip(words, tags, strict=True):
            yield f"{_cell(number, 'word', word)}\t{_tag(number, tag)}\n"
        yield "\n"


def _conllu_lines(sentences: _Sentences, field: str) -> Iterator[str]:
    for number, words, tags in sentences:
        _check_not_empty(number, words, "conllu")
        for place, (word, tag) in enumerate(zip(words, tags, strict=True), start=1):
            both = f"{_tag(number, tag)}\t_" if field == "upos" else f"_\t{_tag(number, tag)}"
            yield f"{place}\t{_cell(number, 'word', word)}\t_\t{both}\t_\t_\t_\t_\t_\n"
        yield "\n"


FORMATTERS: dict[str, Callable[[_Sentences, str], Iterator[str]]] = {
    "slash": _slash_lines,
    "columns": _column_lines,
    "conllu": _conllu_lines,
}


def _token(number: int, word: str, tag: str | None) -> str:
    return f"{_cell(number, 'word', word, _BLANKS + ' ')}/{_tag(number, tag, _BLANKS + ' /')}"


def _tag(number: int, tag: str | None, forbidden: str = _BLANKS) -> str:
    if tag is None:
        return MISSING
    if tag == MISSING:
        raise InvalidInputError(f"sentence {number}: the tag '_' would be read as missing; rename it, or give None")
    return _cell(number, "tag", tag, forbidden)


def _cell(number: int, what: str, text: str, forbidden: str = _BLANKS) -> str:
    if not isinstance(text, str) or not text or any(mark in text for mark in forbidden):
        raise InvalidInputError(
            f"sentence {number}: the {what} {text!r} cannot be written; here a {what} is a str, not empty, without "
            f"{', '.join(map(_NAMES.__getitem__, forbidden))}; replace it or choose another format"
        )
    return text


def _check_not_empty(number: int, words: Sequence[str], format: str) -> None:
    if not words:
        raise InvalidInputError(
            f"sentence {number} is empty, which the format {format} cannot say; drop it or use the format slash"
        )
