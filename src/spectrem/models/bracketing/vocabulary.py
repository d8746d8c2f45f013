"""Numbers of the yields and contexts of spans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from spectrem._arrays import Bools, Ints
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import offsets_of, positions_of, rows_of

NEVER = -1
"""The number of a yield or context that is not in a vocabulary."""


class SpanNumbers(NamedTuple):
    """Numbers of yield and context of every span of some sentences, in the order of `Bracketings`; -1 for unseen ones.

    Attributes
    ----------
    yields, contexts : ndarray of shape (n_spans,), int64
    """

    yields: Ints
    contexts: Ints


@dataclass(frozen=True, eq=False)
class SpanVocabulary:
    """The yields (sequences of tags) and contexts (the tags on both sides) of all spans of a corpus.

    A yield is kept as the number of the yield without its last tag, and this tag: yields are numbered by length, and
    the memory of one does not grow with its length.

    Attributes
    ----------
    n_tags : int
        Tags are 0 ... n_tags - 1.
    yield_keys : ndarray of shape (n_yields,), int64
        ``(number of the yield without its last tag + 1) * n_tags + last tag``, increasing; the number is -1 for yields
        of one tag.
    yield_offsets : ndarray of shape (longest + 1,), int64
        Boundaries of the lengths: yields of k tags are ``yield_offsets[k - 1]:yield_offsets[k]``.
    context_keys : ndarray of shape (n_contexts,), int64
        ``tag before * (n_tags + 1) + tag after``, increasing; n_tags stands for the end of the sentence.

    Examples
    --------
    >>> vocabulary, numbers = SpanVocabulary.learn([3], [1, 0, 1], n_tags=2)
    >>> vocabulary.yields()
    [(0,), (1,), (0, 1), (1, 0), (1, 0, 1)]
    >>> numbers.yields.tolist()
    [1, 3, 4, 0, 2, 1]
    >>> vocabulary.number([2], [0, 0]).yields.tolist()
    [0, -1, 0]
    """

    n_tags: int
    yield_keys: Ints
    yield_offsets: Ints
    context_keys: Ints

    @classmethod
    def learn(cls, lengths: Ints, tags: Ints, n_tags: int) -> tuple[SpanVocabulary, SpanNumbers]:
        """The vocabulary of some sentences, and the numbers of their spans.

        Parameters
        ----------
        lengths : ndarray of shape (n_sentences,), int64
        tags : ndarray of shape (n_tokens,), int64
            In 0 ... n_tags - 1, sentence after sentence.
        n_tags : int

        Raises
        ------
        InvalidInputError
            If a tag is out of range: keys of different yields could be equal.
        """
        outside = (np.asarray(tags) < 0) | (np.asarray(tags) >= n_tags)
        if outside.any():
            at = int(np.argmax(outside))
            raise InvalidInputError(f"tags must be in 0..{n_tags - 1}; got {tags[at]} at index {at}; raise n_tags")
        found: list[Ints] = []

        def number(keys: Ints) -> Ints:
            first = sum(map(len, found))
            distinct, inverse = np.unique(keys, return_inverse=True)
            found.append(distinct)
            return first + inverse

        yields = _by_length(np.asarray(lengths), np.asarray(tags), n_tags, number)
        keys = _context_keys(np.asarray(lengths), np.asarray(tags), n_tags)
        context_keys, contexts = np.unique(keys, return_inverse=True)
        offsets = offsets_of(np.array([len(own) for own in found], np.int64))
        vocabulary = cls(n_tags, np.concatenate([np.zeros(0, np.int64), *found]), offsets, context_keys)
        return vocabulary, SpanNumbers(yields, contexts)

    def __post_init__(self) -> None:
        if not (np.diff(self.yield_keys) > 0).all() or not (np.diff(self.context_keys) > 0).all():
            raise InvalidInputError("yield_keys and context_keys must increase; build them with SpanVocabulary.learn")
        if self.yield_offsets[-1] != len(self.yield_keys):
            raise InvalidInputError(
                f"yield_offsets must end at the number of yields, {len(self.yield_keys)}; got {self.yield_offsets[-1]}"
            )

    @property
    def n_yields(self) -> int:
        return len(self.yield_keys)

    @property
    def n_contexts(self) -> int:
        return len(self.context_keys)

    @cached_property
    def yield_lengths(self) -> Ints:
        """Tags of every yield, shape (n_yields,)."""
        return rows_of(np.diff(self.yield_offsets)) + 1

    def number(self, lengths: Ints, tags: Ints) -> SpanNumbers:
        """Numbers of the spans of other sentences; tags that are not in the vocabulary are -1.

        Parameters
        ----------
        lengths : ndarray of shape (n_sentences,), int64
        tags : ndarray of shape (n_tokens,), int64
        """
        keys = _context_keys(np.asarray(lengths), np.asarray(tags), self.n_tags)
        return SpanNumbers(
            _by_length(np.asarray(lengths), np.asarray(tags), self.n_tags, lambda own: _look_up(self.yield_keys, own)),
            _look_up(self.context_keys, keys),
        )

    def yields(self) -> list[tuple[int, ...]]:
        """The tags of every yield."""
        listed: list[tuple[int, ...]] = [()]
        for key in self.yield_keys.tolist():
            before, last = divmod(key, self.n_tags)
            listed.append((*listed[before], last))
        return listed[1:]


def _by_length(lengths: Ints, tags: Ints, n_tags: int, number: Callable[[Ints], Ints]) -> Ints:
    """Numbers of the yields of all spans, each found from that of the span without its last word."""
    first = positions_of(lengths)
    left = np.repeat(lengths, lengths) - first  # words from here to the end of the sentence
    places = offsets_of(left)[:-1]
    found = np.full(int(left.sum()), NEVER)
    token = np.arange(len(tags))
    before = np.full(len(tags), -1)
    possible: Bools = np.ones(len(tags), np.bool_)
    for length in range(1, int(lengths.max(initial=0)) + 1):
        token = token[left[token] >= length]
        last = tags[token + length - 1]
        possible[token] &= last >= 0
        if length > 1:
            possible[token] &= before[token] >= 0
        own = token[possible[token]]
        numbers = number((before[own] + 1) * n_tags + tags[own + length - 1])
        before[own] = numbers
        found[places[own] + length - 1] = numbers
    return found


def _context_keys(lengths: Ints, tags: Ints, n_tags: int) -> Ints:
    """Keys of the contexts of all spans; -1 where a tag on either side is unknown."""
    first = positions_of(lengths)
    left = np.repeat(lengths, lengths) - first
    before = np.where(first > 0, np.append(n_tags, tags)[:-1], n_tags)
    after = np.where(left > 1, np.append(tags, n_tags)[1:], n_tags)
    starts = rows_of(left)
    ends = starts + positions_of(left)
    known = (before[starts] >= 0) & (after[ends] >= 0)
    return np.where(known, before[starts] * (n_tags + 1) + after[ends], NEVER)


def _look_up(keys: Ints, wanted: Ints) -> Ints:
    """Places of keys among sorted ones; -1 where there is none."""
    if not len(keys):
        return np.full(len(wanted), NEVER)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, NEVER)
