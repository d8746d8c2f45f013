"""The names of WikiGold with their classes, and two views of features: the name itself, and the words around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reproductions.places import find_folder
from spectrem.data import read_tagged
from spectrem.metrics import find_chunks

FILE = "ner/wikigold.conll.txt.gz"
WINDOW = 3
"""Words before and after a name that its context has."""


class Name(NamedTuple):
    """A name in its sentence.

    Attributes
    ----------
    sentence : int
        Its number in the file, from 0.
    words : tuple of str
    before, after : tuple of str
        The words next to it on either side, nearest first.
    label : str
        LOC, MISC, ORG or PER.
    """

    sentence: int
    words: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    label: str


def read_wikigold(data: Path | None) -> list[Name]:
    """All names in the order of the text; ``data`` is the folder that holds ``ner``, see `find_folder`."""
    corpus = read_tagged(find_folder(data, [FILE]) / FILE, format="columns")
    return list(names_of(corpus.words, corpus.tags))


def names_of(words: Sequence[Sequence[str]], tags: Sequence[Sequence[str | None]]) -> Iterator[Name]:
    """The chunks of tagged sentences.

    Examples
    --------
    >>> sentence = ["The", "band", "left", "New", "York", "."]
    >>> name, = names_of([sentence], [["O", "O", "O", "I-LOC", "I-LOC", "O"]])
    >>> name.words, name.before, name.after, name.label
    (('New', 'York'), ('left', 'band', 'The'), ('.',), 'LOC')
    """
    for number, (own, marks) in enumerate(zip(words, tags, strict=True)):
        for chunk in find_chunks([mark or "O" for mark in marks]):
            before = own[max(chunk.start - WINDOW, 0) : chunk.start][::-1]
            after = own[chunk.stop : chunk.stop + WINDOW]
            yield Name(number, tuple(own[chunk.start : chunk.stop]), tuple(before), tuple(after), chunk.type)


def views_of(names: Iterable[Name]) -> dict[str, list[list[str]]]:
    """Words and character trigrams of a name, and of the words around it with their places.

    Examples
    --------
    >>> views_of([Name(0, ("Rome",), ("in",), (), "LOC")])  # doctest: +NORMALIZE_WHITESPACE
    {'content': [['w=Rome', '<Ro', 'Rom', 'ome', 'me>']], 'context': [['-1 w=in', '-1 <in', '-1 in>']]}
    """
    names = list(names)
    content = [[feature for word in name.words for feature in _features(word)] for name in names]
    return {"content": content, "context": [list(_around(name)) for name in names]}


def _around(name: Name) -> Iterator[str]:
    for sign, words in (("-", name.before), ("+", name.after)):
        for distance, word in enumerate(words, 1):
            for feature in _features(word.lower()):
                yield f"{sign}{distance} {feature}"


def _features(word: str) -> list[str]:
    framed = f"<{word}>"
    return [f"w={word}", *(framed[k : k + 3] for k in range(len(framed) - 2))]
