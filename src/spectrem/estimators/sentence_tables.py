"""Posteriors and trees of sentences as lists of arrays, which notebooks show word by word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, TypeAlias

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._html import BLUE, MOST_LINES, MOST_SHOWN, page, paragraphs, table, with_bar
from spectrem.data.treebank import ParsedSentence, Trees
from spectrem.estimators.conventions import PerSentence
from spectrem.exceptions import counted, shorten

Label: TypeAlias = Callable[[Sequence[Any], int, int], str]
"""From the words of a sentence, a row and a column of its table to what has that probability; "" is not shown."""

_MOST_OTHERS, _LEAST = 3, 0.005


class SentenceTables(list[Floats]):
    """A list with an array of probabilities per sentence, [word, ...].

    Parameters
    ----------
    tables : iterable of ndarray
    words : sequence of sequences
        The words of the first sentences, if they are known; else words are numbered from 0.
    label : callable
        A `Label` that can be pickled, as lists of posteriors are.

    Examples
    --------
    >>> arcs = SentenceTables([np.array([[0.1, 0.9], [0.0, 1.0]])], [["dogs", "bark"]], head_label)
    >>> arcs[0].argmax(axis=1), "bark (2)" in arcs._repr_html_()
    (array([1, 1]), True)
    """

    def __init__(self, tables: Iterable[Floats], words: Sequence[Sequence[Any]], label: Label) -> None:
        super().__init__(tables)
        self._words, self._label = words[:MOST_SHOWN], label

    def _repr_html_(self) -> str:
        pieces, n_lines = list[str](), 0
        for number, probabilities in enumerate(self[:MOST_SHOWN]):
            words = _words_or_numbers(self._words, number, len(probabilities))
            lines = [self._line(words, k, row) for k, row in enumerate(probabilities[: MOST_LINES - n_lines])]
            head = (f"sentence {number + 1}", "most probable", "", "others")
            pieces.append(table(head, lines) if lines else "")
            n_lines += len(lines)
            if (left := len(probabilities) - len(lines)) and lines:
                pieces += paragraphs([f"and {counted(left, 'word')} more"])
            if n_lines == MOST_LINES:
                break
        more = len(self) - number - 1 if self else 0
        rest = paragraphs([f"and {counted(more, 'sentence')} more"] if more else [])
        return page(f"Posteriors of {counted(len(self), 'sentence')}", *pieces, rest)

    def _line(self, words: Sequence[Any], k: int, probabilities: Floats) -> tuple[str, ...]:
        """A word, what is most probable for it, the probability and those of the next."""
        order = np.argsort(-probabilities, kind="stable").tolist()
        named = ((self._label(words, k, j), float(probabilities[j])) for j in order if probabilities[j] >= _LEAST)
        (best, share), *others = [one for one in named if one[0]] or [("", 0.0)]
        also = ", ".join(f"{escape(shorten(name))} {value:.2f}" for name, value in others[:_MOST_OTHERS])
        bar = with_bar(f"{share:.2f}", BLUE, share) if best else ""
        return escape(shorten(str(words[k]))), escape(shorten(best)), bar, also


class SentenceHeads(PerSentence):
    """A list with an array of the heads of the words of every sentence, which notebooks draw as trees.

    Parameters
    ----------
    heads : iterable of ndarray of shape (n_words,), int64
    words : sequence of sequences
        As of `SentenceTables`.

    Examples
    --------
    >>> heads = SentenceHeads([np.array([1, -1])], [["dogs", "bark"]])
    >>> "dogs from bark, bark from the root" in heads._repr_html_()
    True
    """

    def __init__(self, heads: Iterable[Ints], words: Sequence[Sequence[Any]]) -> None:
        super().__init__(heads)
        self._words = words[:MOST_SHOWN]

    def _repr_html_(self) -> str:
        trees = Trees()
        for number, heads in enumerate(self):
            none = ("_",) * len(heads)
            words = map(str, _words_or_numbers(self._words, number, len(heads)))
            trees.append(ParsedSentence(tuple(words), none, none, heads))
        return trees._repr_html_()


def _words_or_numbers(words: Sequence[Sequence[Any]], number: int, size: int) -> Sequence[Any]:
    """The words of a sentence; where they are not known, or the list was changed, their numbers."""
    known = words[number] if number < len(words) else ()
    return known if len(known) == size else range(size)


def tag_label(tags: Sequence[Any], words: Sequence[Any], row: int, column: int) -> str:
    """The name of the tag of a column; with the tags given by `functools.partial`, a `Label`."""
    return str(tags[column])


def head_label(words: Sequence[Any], row: int, column: int) -> str:
    """The head of a word, which is the root on the diagonal; see `Label`."""
    return "the root" if row == column else f"{words[column]} ({column + 1})"


def span_label(words: Sequence[Any], row: int, column: int) -> str:
    """A constituent of two words or more; see `Label`."""
    return " ".join(map(str, words[row:column])) if column > row + 1 else ""
