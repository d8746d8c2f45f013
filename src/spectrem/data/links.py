"""Alignment links of a batch of sentence pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.exceptions import InvalidInputError

MAX_LENGTH = 1 << 18
"""Longest sentence, in tokens; so that (sentence, source, target) fits into one int64."""
MAX_SENTENCES = (1 << 63) // MAX_LENGTH**2
"""Most sentences of one alignment, for the same reason."""


@dataclass(frozen=True, eq=False)
class Links:
    """Links between the words of sentence pairs, sure or merely possible ([OchNey2003] §6).

    Predictions are all sure. In gold alignments the links marked sure are the set S and all links together the
    set P, so P contains S.

    Attributes
    ----------
    offsets : ndarray of shape (n_sentences + 1,), int64
        Links of sentence ``n`` are those from ``offsets[n]`` to ``offsets[n + 1]``.
    source, target : ndarray of shape (n_links,), int32
        Positions in the source and target sentence, from 0; in every sentence in increasing order of
        (source, target), none twice.
    sure : ndarray of shape (n_links,), bool

    Examples
    --------
    >>> links = Links.from_pairs([[(1, 1), (0, 0)], []])
    >>> links.n_sentences, links.n_links, links.pairs(0)
    (2, 2, [(0, 0), (1, 1)])
    """

    offsets: NDArray[np.int64]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    sure: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.offsets.size > MAX_SENTENCES:
            raise InvalidInputError(
                f"links must be of at most {MAX_SENTENCES - 1} sentences, got {self.offsets.size - 1}; cut the text"
            )
        if not self.source.shape == self.target.shape == self.sure.shape == (self.source.size,):
            raise InvalidInputError(
                "source, target and sure must be one value per link, but have shapes "
                f"{self.source.shape}, {self.target.shape} and {self.sure.shape}; use Links.from_arrays"
            )
        ends = self.offsets[[0, -1]].tolist() if self.offsets.size else []
        if ends != [0, self.source.size] or np.any(np.diff(self.offsets) < 0):
            raise InvalidInputError(
                f"offsets must rise from 0 to the number of links, {self.source.size}, but are {self.offsets}; "
                "use Links.from_arrays"
            )
        _check_positions("source", self.source)
        _check_positions("target", self.target)
        if np.any(np.diff(self.keys) <= 0):
            raise InvalidInputError(
                "links must be in increasing order of (source, target) in every sentence and none twice; "
                "use Links.from_arrays, which sorts them"
            )

    def __eq__(self, other: object) -> bool:
        """Whether both have the same links, sure in the same places, in as many sentences."""
        if not isinstance(other, Links):
            return NotImplemented
        names = ("offsets", "source", "target", "sure")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    @classmethod
    def from_arrays(
        cls,
        sentence: ArrayLike,
        source: ArrayLike,
        target: ArrayLike,
        *,
        n_sentences: int,
        sure: ArrayLike | None = None,
    ) -> Links:
        """Sort links given in any order and merge repeated ones (sure wins).

        Parameters
        ----------
        sentence, source, target : array-like of shape (n_links,), int
            Sentence and positions of every link, from 0.
        n_sentences : int
        sure : array-like of shape (n_links,), bool, optional
            All sure if left out.

        Raises
        ------
        InvalidInputError
            If lengths differ, a sentence is not below ``n_sentences``, or a position is negative or beyond
            ``MAX_LENGTH``.
        """
        sentence, source, target = (np.asarray(a, dtype=np.int64) for a in (sentence, source, target))
        marks = np.ones(sentence.shape, dtype=bool) if sure is None else np.asarray(sure, dtype=bool)
        if not sentence.shape == source.shape == target.shape == marks.shape == (sentence.size,):
            raise InvalidInputError(
                "sentence, source, target and sure must be one value per link, but have shapes "
                f"{sentence.shape}, {source.shape}, {target.shape} and {marks.shape}"
            )
        _check_positions("source", source)
        _check_positions("target", target)
        wrong = sentence[(sentence < 0) | (sentence >= n_sentences)]
        if wrong.size:
            raise InvalidInputError(
                f"sentence must lie between 0 and n_sentences - 1 = {n_sentences - 1}, but {wrong[0]} was given; "
                "count sentences from 0"
            )
        keys = _keys(sentence, source, target)
        if np.any(np.diff(keys) <= 0):
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
            first = np.flatnonzero(np.concatenate([[True], np.diff(keys) > 0]))
            marks = np.logical_or.reduceat(marks[order], first)
            sentence, source, target = (a[order][first] for a in (sentence, source, target))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(sentence, minlength=n_sentences))])
        return cls(offsets, source.astype(np.int32), target.astype(np.int32), marks)

    @classmethod
    def from_pairs(
        cls, sure: Sequence[Iterable[tuple[int, int]]], possible: Sequence[Iterable[tuple[int, int]]] | None = None
    ) -> Links:
        """Links from (source, target) pairs, sentence by sentence; for small examples and tests."""
        if possible is not None and len(possible) != len(sure):
            raise InvalidInputError(
                f"sure and possible must cover as many sentences as each other, but have {len(sure)} and "
                f"{len(possible)}; give an empty list where a sentence has none"
            )
        rows = [(n, i, j, True) for n, pairs in enumerate(sure) for i, j in pairs]
        rows += [(n, i, j, False) for n, pairs in enumerate(possible or ()) for i, j in pairs]
        sentence, source, target, marks = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return cls.from_arrays(sentence, source, target, n_sentences=len(sure), sure=marks)

    @property
    def n_sentences(self) -> int:
        return self.offsets.size - 1

    @property
    def n_links(self) -> int:
        return self.source.size

    @property
    def sentence(self) -> NDArray[np.int64]:
        """Sentence of every link, shape (n_links,)."""
        return np.repeat(np.arange(self.n_sentences), np.diff(self.offsets))

    @property
    def keys(self) -> NDArray[np.int64]:
        """One number per link, for set operations: ``(sentence * MAX_LENGTH + source) * MAX_LENGTH + target``."""
        return _keys(self.sentence, self.source, self.target)

    def pairs(self, sentence: int) -> list[tuple[int, int]]:
        """The (source, target) links of one sentence, sure and possible."""
        span = slice(self.offsets[sentence], self.offsets[sentence + 1])
        return list(zip(self.source[span].tolist(), self.target[span].tolist(), strict=True))

    def check_inside(self, source_lengths: ArrayLike, target_lengths: ArrayLike, name: str = "links") -> None:
        """Raise unless these are links between the words of sentence pairs of these lengths.

        Parameters
        ----------
        source_lengths, target_lengths : array-like of shape (n_sentences,), int
            Numbers of words.
        name : str
            What the message calls the links, for example the name of their file.

        Raises
        ------
        InvalidInputError
            If numbers of sentences differ, or naming the first link that lies outside its sentence pair.

        Examples
        --------
        >>> Links.from_pairs([[(0, 1)], [(2, 0)]]).check_inside([3, 2], [2, 2])  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        InvalidInputError: links: link 2-0 of sentence pair 2 (counted from 1) lies outside its 2 source and 2 target...
        """
        sizes = np.asarray(source_lengths, np.int64), np.asarray(target_lengths, np.int64)
        if not sizes[0].size == sizes[1].size == self.n_sentences:
            raise InvalidInputError(
                f"{name} must be of as many sentence pairs as there are source and target sentences, {sizes[0].size} "
                f"and {sizes[1].size}, got {self.n_sentences}; give the links of the same text"
            )
        sentence = self.sentence
        outside = np.flatnonzero((self.source >= sizes[0][sentence]) | (self.target >= sizes[1][sentence]))
        if outside.size:
            at, n = outside[0], sentence[outside[0]]
            raise InvalidInputError(
                f"{name}: link {self.source[at]}-{self.target[at]} of sentence pair {n + 1} (counted from 1) lies "
                f"outside its {sizes[0][n]} source and {sizes[1][n]} target words; count words from 0"
            )

    def where(self, keep: NDArray[np.bool_]) -> Links:
        """The marked links only; ``links.where(links.sure)`` are the sure ones.

        Parameters
        ----------
        keep : ndarray of shape (n_links,), bool
        """
        kept = np.concatenate([[0], np.cumsum(keep)])
        return Links(kept[self.offsets], self.source[keep], self.target[keep], self.sure[keep])

    def take(self, indices: NDArray[np.integer]) -> Links:
        """The links of the sentences at the given indices, in that order.

        Examples
        --------
        >>> Links.from_pairs([[(0, 0)], [], [(1, 2), (3, 0)]]).take(np.array([2, 1])).offsets
        array([0, 2, 2])
        """
        lengths = np.diff(self.offsets)[indices]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        at = np.arange(offsets[-1]) + np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        return Links(offsets, self.source[at], self.target[at], self.sure[at])

    def transposed(self) -> Links:
        """The same links with source and target exchanged."""
        return Links.from_arrays(self.sentence, self.target, self.source, n_sentences=self.n_sentences, sure=self.sure)


def _check_positions(side: str, positions: NDArray[np.integer]) -> None:
    wrong = positions[(positions < 0) | (positions >= MAX_LENGTH)]
    if wrong.size:
        raise InvalidInputError(
            f"{side} positions must lie between 0 and {MAX_LENGTH - 1}, but {wrong[0]} was given; "
            "leave out links to NULL and count positions from 0"
        )


def _keys(sentence: NDArray[np.int64], source: NDArray[np.integer], target: NDArray[np.integer]) -> NDArray[np.int64]:
    """One number per link, in the order of (sentence, source, target)."""
    return (sentence * MAX_LENGTH + source) * MAX_LENGTH + target
