"""Which tags a word may have: files of tag dictionaries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from spectrem.data.reading import display_name, read_lines
from spectrem.data.writers import write_lines
from spectrem.exceptions import InvalidInputError, quoted


def read_tag_dictionary(path: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    r"""Read lines of a word, a tab, and the tags it may have, separated by spaces or tabs.

    A word on several lines has the tags of all of them, in the order of the file, so dictionaries may be
    concatenated and may have one line per word and tag. Blank lines are skipped.

    Parameters
    ----------
    path : path or "-"
        UTF-8, plain or gzipped; ``-`` is standard input.

    Raises
    ------
    InvalidInputError
        Naming file and line: a line without tab, without word or without tags. Naming the file: no word at all.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/tags.tsv", ["the\tDT", "run\tNN VB", "run\tVBN\tVB"])
    ...     read_tag_dictionary(f"{folder}/tags.tsv")
    {'the': ('DT',), 'run': ('NN', 'VB', 'VBN')}
    """
    lines = read_lines(path)
    dictionary: dict[str, tuple[str, ...]] = {}
    for number, line in lines.filled():
        word, tab, rest = line.partition("\t")
        tags = tuple(dict.fromkeys(tag for tag in rest.replace("\t", " ").split(" ") if tag))
        if not tab:
            lines.refuse(
                number, f"{quoted(line)} has no tab between word and tags; write the word, a tab, and its tags"
            )
        if not word:
            lines.refuse(number, f"{quoted(line)} has no word before the tab; write the word, a tab, and its tags")
        if not tags:
            lines.refuse(number, f"the entry of {word!r} has no tags; add some, or leave the word out: it may be any")
        seen = dictionary.get(word)
        dictionary[word] = tags if seen is None else tuple(dict.fromkeys((*seen, *tags)))
    if not dictionary:
        raise InvalidInputError(f"{display_name(path)}: lists no word; write a word, a tab, and the tags it may have")
    return dictionary


def write_tag_dictionary(path: str | os.PathLike[str], dictionary: Mapping[str, Iterable[str]]) -> None:
    """Write a line per word so that `read_tag_dictionary` gives the dictionary back.

    Parameters
    ----------
    path : path or "-"
        See `open_output`; the file appears only when complete.
    dictionary : mapping of word to its tags

    Raises
    ------
    InvalidInputError
        If a word has no tags, or words and tags cannot be separated in a line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_tag_dictionary(f"{folder}/tags.tsv", {"the": ("DT",), "run": ("NN", "VB")})
    ...     read_tag_dictionary(f"{folder}/tags.tsv")
    {'the': ('DT',), 'run': ('NN', 'VB')}
    """
    write_lines(path, (_line(word, tuple(tags)) for word, tags in dictionary.items()))


def _line(word: str, tags: tuple[str, ...]) -> str:
    if not tags:
        raise InvalidInputError(f"the entry of {word!r} has no tags; add some, or leave the word out: it may be any")
    for what, text, forbidden in (("word", word, "\t\n\r"), *(("tag", tag, "\t\n\r ") for tag in tags)):
        if not text or any(mark in text for mark in forbidden):
            raise InvalidInputError(
                f"the entry of {word!r} cannot be written: the {what} {text!r} is empty or has a tab, line end"
                f"{' or space' if what == 'tag' else ''}; replace it"
            )
    return f"{word}\t{' '.join(tags)}"
