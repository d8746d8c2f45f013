"""Tokens that carry more than their word, such as form|lemma|tag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem.data.bitext import Bitext, Side
from spectrem.data.vocabulary import Vocabulary
from spectrem.exceptions import InvalidInputError, quoted

WORD, CLASS, SEPARATOR = "word", "class", "|"


@dataclass(frozen=True)
class FactoredBitext:
    """A bitext of words, and the classes that its tokens gave them.

    Attributes
    ----------
    bitext : Bitext
    source_classes, target_classes : dict of word -> class
        The class of most of the tokens of every word; empty where tokens have none.
    """

    bitext: Bitext
    source_classes: dict[str, str]
    target_classes: dict[str, str]


def split_factors(bitext: Bitext, factors: str) -> FactoredBitext:
    """Take tokens with several factors apart.

    Parameters
    ----------
    bitext : Bitext
        Its words are factors with ``|`` between them.
    factors : str
        What the factors of a token are, with ``|`` between them, too: one of them is ``word``, which is aligned; one
        may be ``class``, for `WordAligner.fit`; what others are called does not matter.

    Raises
    ------
    InvalidInputError
        If no factor or several are the word, several are the class, or a token has another number of factors or
        an empty word.

    Examples
    --------
    >>> from spectrem.data import encode_bitext
    >>> tagged = encode_bitext(["the|the|DT houses|house|NNS"], ["les|le|DET maisons|maison|NC"])
    >>> found = split_factors(tagged, "word|class|tag")
    >>> found.bitext.target_vocabulary.words, found.source_classes
    (('les', 'maisons'), {'the': 'the', 'houses': 'house'})
    >>> split_factors(tagged, "form|word|tag").bitext.target_vocabulary.words
    ('le', 'maison')
    """
    names = factors.split(SEPARATOR)
    if names.count(WORD) != 1 or names.count(CLASS) > 1:
        raise InvalidInputError(
            f"factors must name one {WORD} and at most one {CLASS}, got {quoted(factors)}; write {WORD}|{CLASS}|tag"
        )
    (source, source_classes), (target, target_classes) = (
        _split_side(name, side, names) for name, side in zip(("source", "target"), bitext.sides, strict=True)
    )
    return FactoredBitext(Bitext.of_sides(source, target), source_classes, target_classes)


def _split_side(name: str, side: Side, names: Sequence[str]) -> tuple[Side, dict[str, str]]:
    tokens, offsets, vocabulary = side
    split = [token.split(SEPARATOR) for token in vocabulary.words]
    place = names.index(WORD)
    wrong = np.array([len(fields) != len(names) or not fields[place] for fields in split], np.bool_)
    if wrong.any():
        at = int(np.argmax(np.append(wrong, False)[tokens])) if len(tokens) else 0
        line = int(np.searchsorted(offsets, at, side="right"))
        token = vocabulary.words[tokens[at]] if len(tokens) and wrong[tokens[at]] else vocabulary.words[wrong.argmax()]
        n_found, wanted = token.count(SEPARATOR) + 1, quoted(SEPARATOR.join(names))
        found = f"has {n_found} factors, and {wanted} names {len(names)}; give every token as many"
        if n_found == len(names):
            found = f"has an empty word where {wanted} names it; write one, and {SEPARATOR} inside words as &#124;"
        raise InvalidInputError(f"{name} sentence {line} (counted from 1): {quoted(token)} {found}")
    words = [fields[place] for fields in split]
    distinct = Vocabulary.from_words(words)
    numbers = np.append(distinct.lookup(words), np.int32(-1))
    return Side(numbers[tokens], offsets, distinct), _classes(tokens, split, words, names)


def _classes(
    tokens: NDArray[np.int32], split: list[list[str]], words: list[str], names: Sequence[str]
) -> dict[str, str]:
    """The class of most tokens of every word; of equally many the first."""
    if CLASS not in names:
        return {}
    counts = np.bincount(tokens[tokens >= 0], minlength=len(words)).tolist()
    sums: dict[tuple[str, str], int] = {}
    for word, fields, count in zip(words, split, counts, strict=True):
        pair = word, fields[names.index(CLASS)]
        sums[pair] = sums.get(pair, 0) + count
    found: dict[str, str] = {}
    for (word, own), count in sums.items():
        if word not in found or count > sums[word, found[word]]:
            found[word] = own
    return found
