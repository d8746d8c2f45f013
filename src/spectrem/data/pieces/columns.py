"""Texts with both sides on every line."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from spectrem.data.text import Text, tokenise
from spectrem.exceptions import InvalidInputError


class Columns:
    r"""Splits lines of ``source ||| target``, or of two columns with a tab between.

    Which of the two it is, the first line that is not blank says, of all the pieces that are split one after another.

    Parameters
    ----------
    name : str
        How error messages call the text.

    Examples
    --------
    >>> columns = Columns("example")
    >>> source, target = columns.split(b"a b ||| c\n")
    >>> source.words, target.words
    (('a', 'b'), ('c',))
    """

    def __init__(self, name: str) -> None:
        self._name, self._n_lines = name, 0
        self._separator: str | None = None

    def split(self, data: bytes) -> tuple[Text, Text]:
        """Both sides of the next lines.

        Raises
        ------
        InvalidInputError
            Naming the line: bytes that are not UTF-8, no separator, or two of them.
        """
        first_line = self._n_lines + 1
        text = tokenise(data, self._name, first_line=first_line)
        self._n_lines += text.n_lines
        undecided = self._separator is None
        if undecided and "|||" in text.words and _first_line_holds(text, text.words.index("|||")):
            self._separator = "|||"
        if self._separator == "|||":
            return self._parts(text, first_line)
        if b"\t" in data or self._separator:
            with_tabs = tokenise(data.replace(b"\t", b" \t "), self._name, split_tabs=False, first_line=first_line)
            if self._separator or _first_line_holds(with_tabs, with_tabs.words.index("\t")):
                self._separator = "\t"
                return self._parts(with_tabs, first_line)
        position = text.offsets[1:][np.diff(text.offsets) > 0]
        if position.size:
            refuse_unseparated(self._name, text.line_of(int(position[0]) - 1) + first_line - 1)
        return text, text

    def _parts(self, text: Text, first_line: int) -> tuple[Text, Text]:
        separator = self._separator
        assert separator is not None
        is_separator = text.tokens == (text.words.index(separator) if separator in text.words else -1)
        before = np.concatenate([[0], np.cumsum(is_separator)])
        per_line = np.diff(before[text.offsets])
        lengths = np.diff(text.offsets)
        wrong = np.flatnonzero((per_line != 1) & (lengths > 0))
        if wrong.size:
            refuse_separators(self._name, wrong[0] + first_line, separator, per_line[wrong[0]])
        separators = text.offsets[:-1].copy()
        separators[lengths > 0] = np.flatnonzero(is_separator)
        on_source = before[:-1] == np.repeat(before[text.offsets[:-1]], lengths)
        source_lengths = separators - text.offsets[:-1]
        target_lengths = np.maximum(lengths - source_lengths - 1, 0)
        return (
            _part(text, on_source & ~is_separator, source_lengths),
            _part(text, ~on_source & ~is_separator, target_lengths),
        )


def refuse_unseparated(name: str, line: int) -> NoReturn:
    """Raise an error that says that a line has one side only."""
    raise InvalidInputError(
        f"{name}, line {line}: has neither ` ||| ` nor a tab between source and target; give two files, lines of "
        "`source ||| target`, or, if it is a table, --columns"
    )


def refuse_separators(name: str, line: int, separator: str, n_found: int) -> NoReturn:
    """Raise an error that says that a line has no separator, or several."""
    what = "a tab" if separator == "\t" else f"` {separator} `"
    raise InvalidInputError(
        f"{name}, line {line}: must have {what} once between source and target, but has it {n_found} times; repair or "
        "remove the line"
    )


def _first_line_holds(text: Text, word: int) -> bool:
    """Whether a word occurs in the first line that is not blank."""
    position = int(np.argmax(text.tokens == word))
    start = text.offsets[np.searchsorted(text.offsets, position, side="right") - 1]
    return bool(text.tokens[position] == word and start == 0)


def _part(text: Text, keep: NDArray[np.bool_], lengths: NDArray[np.int64]) -> Text:
    """The kept tokens of a text, renumbered in the order of first appearance among them."""
    tokens = text.tokens[keep]
    first = np.full(len(text.words), tokens.size, dtype=np.int64)
    first[tokens[::-1]] = np.arange(tokens.size)[::-1]  # the last write, hence the first position, stays
    present = np.flatnonzero(first < tokens.size)
    present = present[np.argsort(first[present])]
    number = np.empty(len(text.words), dtype=np.int32)
    number[present] = np.arange(present.size)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Text(number[tokens], offsets, tuple([text.words[word] for word in present.tolist()]))
