"""A sentence with its tags and, as far as they are known, the heads of its words."""

from __future__ import annotations

from typing import NamedTuple

from spectrem._arrays import Ints
from spectrem._validate import as_texts
from spectrem.exceptions import InvalidInputError

_HINT = "write '_' where there is none"


class ParsedSentence(NamedTuple):
    """Words, tags, heads and relations of one sentence.

    Attributes
    ----------
    forms : tuple of str
    upos, xpos : tuple of str
        Universal and language-specific tags; ``_`` where there is none.
    heads : ndarray of shape (n_words,), int64, or None
        The position of every word's head in the sentence, from 0; ``ROOT`` (-1) where it hangs on the root,
        ``UNKNOWN_HEAD`` (-2) where its head is not known. None where no head is known.
    relations : tuple of str, or None
        The relation of every word to its head; ``_`` where it is not known. None where none is.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.data import ROOT
    >>> ParsedSentence(("it", "fell"), ("PRON", "VERB"), ("_", "_"), np.array([1, ROOT]), ("nsubj", "root")).heads
    array([ 1, -1])
    """

    forms: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    heads: Ints | None = None
    relations: tuple[str, ...] | None = None


def check_texts(sentence: ParsedSentence, number: int) -> None:
    """Raise `InvalidInputError` unless words, tags and relations are texts, and relations one per word."""
    for name in ("forms", "upos", "xpos", "relations"):
        texts = getattr(sentence, name)
        if texts is None and name == "relations":
            continue
        size, n = len(as_texts(texts, f"sentence {number}: {name}", _HINT)), len(sentence.forms)
        if size != n and name == "relations":
            raise InvalidInputError(
                f"sentence {number}: relations must be one per word, got {size} for {n} words; {_HINT}"
            )
