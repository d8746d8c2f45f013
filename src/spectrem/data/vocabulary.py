"""The words of one language and their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError

UNKNOWN = -1
"""The number of every word that a vocabulary does not hold."""


@dataclass(frozen=True)
class Vocabulary:
    """Distinct words, numbered in the order given.

    Parameters
    ----------
    words : tuple of str
        Word ``k`` has number ``k``.

    Attributes
    ----------
    index : dict of str -> int
        The inverse of ``words``.

    Raises
    ------
    InvalidInputError
        If a word occurs twice.

    Examples
    --------
    >>> vocabulary = Vocabulary.from_words(["the", "house", "the"])
    >>> vocabulary.words
    ('the', 'house')
    >>> vocabulary.lookup(["house", "tree"])
    array([ 1, -1], dtype=int32)
    """

    words: tuple[str, ...]
    index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = {word: number for number, word in enumerate(self.words)}
        if len(index) < len(self.words):
            number = next(n for n, word in enumerate(self.words) if index[word] != n)
            raise InvalidInputError(
                f"words must be distinct, but {self.words[number]!r} occurs at {number} and "
                f"{index[self.words[number]]}; use Vocabulary.from_words to drop repetitions"
            )
        object.__setattr__(self, "index", index)

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Vocabulary:
        """Number words in the order of their first appearance."""
        return cls(tuple(dict.fromkeys(words)))

    def __len__(self) -> int:
        return len(self.words)

    def lookup(self, words: Iterable[str]) -> NDArray[np.int32]:
        """Numbers of words, ``UNKNOWN`` (-1) for those not held; shape (number of words,), int32."""
        get = self.index.get
        return np.fromiter((get(word, UNKNOWN) for word in words), dtype=np.int32)

    def extend(self, words: Iterable[str]) -> Vocabulary:
        """Keep every number and append the words not yet held."""
        return Vocabulary.from_words([*self.words, *words])
