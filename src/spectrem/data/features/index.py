"""Names of features as numbers, and tokens as compressed rows of them."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem.data.features.tokens import check_sentence, is_plain, pairs_of
from spectrem.exceptions import InvalidInputError, quoted


class TokenFeatures(NamedTuple):
    """Features of the tokens of sentences, as compressed rows.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
        Tokens of every sentence.
    indptr : ndarray of shape (n_tokens + 1,), int64
        Token t has the entries ``indptr[t]:indptr[t + 1]``.
    indices : ndarray of shape (n_entries,), int32
        Number of the feature of every entry; a token may have a feature several times, whose values then add up.
    values : ndarray of shape (n_entries,), float64, or None
        None where all are 1.
    """

    lengths: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class FeatureIndex:
    """Distinct names of features, numbered in the order given.

    A token is a list of names, each of value 1, or a mapping, in the convention of python-crfsuite: ``{"name": 0.5}``
    is the feature ``name`` of value 0.5, True is 1, and with False or 0 the token does not have the feature;
    ``{"name": "text"}`` is the feature ``name:text`` of value 1; a list, set or mapping as value is any number of
    features whose names begin with ``name:``.

    Parameters
    ----------
    names : tuple of str
        Feature ``k`` has number ``k``.

    Raises
    ------
    InvalidInputError
        If a name occurs twice.

    Examples
    --------
    >>> sentences = [[["the", "first"], {"word": "dog", "length": 3, "capital": False}]]
    >>> index, tokens = FeatureIndex.learn(sentences)
    >>> index.names
    ('the', 'first', 'word:dog', 'length')
    >>> tokens.indptr.tolist(), tokens.indices.tolist(), tokens.values.tolist()
    ([0, 2, 4], [0, 1, 2, 3], [1.0, 1.0, 1.0, 3.0])
    >>> index.encode([[["dog", "first"]]]).indices.tolist()  # what was not learned is left out
    [1]
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.numbers) < len(self.names):
            again = next(name for number, name in enumerate(self.names) if self.numbers[name] != number)
            raise InvalidInputError(f"names of features must be distinct, got {quoted(again)} twice; drop one of them")

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The inverse of ``names``."""
        return {name: number for number, name in enumerate(self.names)}

    @classmethod
    def _of_distinct(cls, names: tuple[str, ...]) -> FeatureIndex:
        """Without the inverse, which is not made before it is asked for."""
        index = object.__new__(cls)
        object.__setattr__(index, "names", names)
        return index

    def take(self, order: NDArray[np.int64]) -> FeatureIndex:
        """The same names, those of these numbers, in this order."""
        return self._of_distinct(tuple(map(self.names.__getitem__, order.tolist())))

    @classmethod
    def learn(cls, sentences: Iterable[Sequence[Any]], min_count: int = 1) -> tuple[FeatureIndex, TokenFeatures]:
        """Number the features of sentences in the order of their first occurrence, and encode the sentences.

        Parameters
        ----------
        sentences : iterable of sequences of tokens
            Gone through once, one sentence after another, so that a generator's need not be in memory together.
        min_count : int
            Features that occur less often are left out.

        Raises
        ------
        InvalidInputError
            If a sentence is not a sequence, a token neither a list nor a mapping, a name not text, or a value not a
            finite number; the message names sentence and token.
        """
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        tokens = _encode(sentences, numbers, None)
        names = tuple(numbers)
        if min_count > 1:
            kept = np.bincount(tokens.indices, minlength=len(names)) >= min_count
            place = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
            tokens = _without_unknown(tokens._replace(indices=place[tokens.indices]))
            names = tuple(name for name, keep in zip(names, kept.tolist(), strict=True) if keep)
        return cls._of_distinct(names), tokens

    def encode(self, sentences: Iterable[Sequence[Any]]) -> TokenFeatures:
        """The numbers of the features of sentences; those without a number are left out.

        Raises
        ------
        InvalidInputError
            As `learn`.
        """
        return _without_unknown(_encode(sentences, self.numbers, -1))

    def __len__(self) -> int:
        return len(self.names)


def _encode(sentences: Iterable[Sequence[Any]], numbers: Mapping[str, int], unknown: int | None) -> TokenFeatures:
    """Look all names up; without ``unknown`` the mapping gives new names a number of their own."""
    lengths, sizes, indices, values = array("q"), array("i"), array("i"), array("d")
    has_values = False

    def look_up(names: Iterable[str]) -> list[int]:
        return list(map(numbers.__getitem__, names) if unknown is None else map(numbers.get, names, repeat(unknown)))

    for number, sentence in enumerate(sentences):
        check_sentence(sentence, number)
        if is_plain(sentence):
            size = len(numbers)
            found = look_up(chain.from_iterable(sentence))
            # a name that is known is text
            if (len(numbers) > size or -1 in found) and set(map(type, chain.from_iterable(sentence))) != {str}:
                for t, token in enumerate(sentence):
                    pairs_of(token, number, t)
            sizes.extend(map(len, sentence))
            if has_values:
                values.extend(repeat(1.0, len(found)))
        else:
            if not has_values:
                has_values = True
                values.extend(repeat(1.0, len(indices)))
            found = []
            for t, token in enumerate(sentence):
                names, own = pairs_of(token, number, t)
                found += look_up(names)
                sizes.append(len(names))
                values.extend(own)
        indices.fromlist(found)
        lengths.append(len(sentence))
    indptr = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(_view(sizes, np.int32), out=indptr[1:])
    weighted = has_values and bool((_view(values, np.float64) != 1.0).any())
    return TokenFeatures(
        _view(lengths, np.int64), indptr, _view(indices, np.int32), _view(values, np.float64) if weighted else None
    )


def _view(numbers: array[Any], dtype: type) -> NDArray[Any]:
    """The numbers of an array of Python's as one of NumPy's, without a copy."""
    return np.frombuffer(numbers, dtype) if len(numbers) else np.zeros(0, dtype)


def _without_unknown(tokens: TokenFeatures) -> TokenFeatures:
    """Without the entries numbered -1."""
    known = tokens.indices >= 0
    if known.all():
        return tokens
    before = np.zeros(len(known) + 1, np.int64)
    np.cumsum(known, out=before[1:])
    values = None if tokens.values is None else tokens.values[known]
    return TokenFeatures(tokens.lengths, before[tokens.indptr], tokens.indices[known], values)
