"""Stems and frequency bands: classes of words for which a trained table has more evidence than for single words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem.data import Vocabulary
from spectrem.kernels.sparse import find_entries
from spectrem.models.alignment.lexical_prior import letters, number_stems, ratio, stem
from spectrem.models.alignment.pairs import PairTable


@dataclass(frozen=True)
class Words:
    """The words of one side of a new text, with their counts and classes in the training text.

    Attributes
    ----------
    counts : ndarray of shape (n_words,), int64
        Tokens in the training text, 0 for a new word.
    stem, band : ndarray of shape (n_words,), int64
        Number of the word's stem (-1 for one that training did not see) and of its band of frequency.
    stem_share, band_share : ndarray of shape (n_words,)
        Part of the tokens of its stem and of its band that are the word.
    spelling : (letters, offsets)
        Letters of all words, and offsets of the words in them, in the form that `look_alike` reads.
    """

    counts: Ints
    stem: Ints
    stem_share: Floats
    band: Ints
    band_share: Floats
    spelling: tuple[NDArray[np.uint32], Ints]


@dataclass(frozen=True)
class Language:
    """One side of the training text: its words, how often they occur, their stems and their bands of frequency.

    Words in the same band occur 1, 2-3, 4-7, 8-15, ... times. A new word belongs to the band of the rarest words and
    adds one token to its stem.

    Attributes
    ----------
    vocabulary : Vocabulary
    counts : ndarray of shape (n_words,), int64
    stems : dict of str -> int
        The number of every stem.
    stem, band : ndarray of shape (n_words,), int64
        Number of the stem and of the frequency band of every word.
    """

    vocabulary: Vocabulary
    counts: Ints
    stems: dict[str, int]
    stem: Ints
    band: Ints

    @classmethod
    def of(cls, vocabulary: Vocabulary, counts: Ints) -> Language:
        """The classes of the words of a training text."""
        stem_of_word, stems = number_stems(vocabulary.words)
        return cls(vocabulary, counts, stems, stem_of_word, _bands(counts))

    def describe(self, words: Sequence[str]) -> Words:
        """Words of a new text, whether training saw them or not."""
        counts = np.append(self.counts, 0)[self.vocabulary.lookup(words)]
        new = counts == 0
        tokens = np.maximum(counts, 1)
        stems = np.fromiter((self.stems.get(stem(word), -1) for word in words), np.int64, len(words))
        in_stem = np.append(np.bincount(self.stem, self.counts, len(self.stems)), 0.0)[stems] + new
        in_bands = np.bincount(self.band, self.counts, 1)
        bands = np.where(new, np.argmax(in_bands > 0), _bands(counts))
        in_band = np.maximum(in_bands, 1.0)[bands]
        return Words(counts, stems, tokens / in_stem, bands, tokens / in_band, letters(words))


def _bands(counts: Ints) -> Ints:
    """The frequency band of every count: the number of times that it can be halved."""
    return np.frexp(np.maximum(counts, 1))[1].astype(np.int64) - 1


@dataclass(frozen=True)
class ClassTable:
    """How source words of one class and target words of another translate each other, both directions.

    Attributes
    ----------
    offsets, targets : ndarray
        The pairs of classes of the word pairs in the table, ordered by source class and then by target class.
    forward, backward : ndarray of shape (n_pairs,)
        Probability of the target class given the source class, and of the source class given the target class.
    """

    offsets: NDArray[np.int32]
    targets: NDArray[np.int32]
    forward: Floats
    backward: Floats

    @classmethod
    def of(cls, table: PairTable, forward: Floats, backward: Floats, source: Ints, target: Ints) -> ClassTable:
        """Sum the expected links of word pairs, given the class of every source and every target word."""
        cells = source.astype(np.int32)[table.sources], target.astype(np.int32)[table.targets]
        shape = int(source.max(initial=0)) + 1, int(target.max(initial=0)) + 1
        links = [sp.coo_array((direction, cells), shape=shape).tocsr() for direction in (forward, backward)]
        for direction in links:
            direction.sort_indices()
        offsets, targets = links[0].indptr, links[0].indices
        by_source = np.bincount(cells[0], forward, shape[0]).astype(np.float64)
        by_target = np.bincount(cells[1], backward, shape[1]).astype(np.float64)
        given_source = ratio(links[0].data, np.repeat(by_source, np.diff(offsets)))
        return cls(offsets, targets, given_source, ratio(links[1].data, by_target[targets]))

    def probabilities(self, source: Ints, target: Ints) -> tuple[Floats, Floats]:
        """Probabilities of target given source classes and the reverse, by pair; 0 where a class is unknown (-1)."""
        at = np.full(len(source), -1)
        known = source >= 0
        found = np.empty(int(known.sum()), np.int64)
        find_entries(self.offsets, self.targets, source[known], target[known], found)
        at[known] = found
        return np.append(self.forward, 0.0)[at], np.append(self.backward, 0.0)[at]
