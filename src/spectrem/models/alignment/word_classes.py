"""Stems and frequency bands: classes of words for which a trained table has more evidence than for single words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints, Reals
from spectrem.data import Vocabulary
from spectrem.kernels.alignments.classes import sum_links
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
        return cls(vocabulary, counts, stems, stem_of_word, frequency_bands(counts))

    def describe(self, words: Sequence[str]) -> Words:
        """Words of a new text, whether training saw them or not."""
        counts = np.append(self.counts, 0)[self.vocabulary.lookup(words)]
        new = counts == 0
        tokens = np.maximum(counts, 1)
        stems = np.fromiter((self.stems.get(stem(word), -1) for word in words), np.int64, len(words))
        in_stem = np.append(np.bincount(self.stem, self.counts, len(self.stems)), 0.0)[stems] + new
        in_bands = np.bincount(self.band, self.counts, 1)
        bands = np.where(new, np.argmax(in_bands > 0), frequency_bands(counts))
        in_band = np.maximum(in_bands, 1.0)[bands]
        return Words(counts, stems, tokens / in_stem, bands, tokens / in_band, letters(words))


def frequency_bands(counts: NDArray) -> Ints:
    """The frequency band of every count: the number of times that it can be halved."""
    return np.frexp(np.maximum(counts, 1))[1].astype(np.int64) - 1


@dataclass(frozen=True, eq=False)
class ClassTable:
    """How source words of one class and target words of another translate each other, both directions.

    Expected links of word pairs are summed where they are asked for, over the rows of the source classes concerned: a
    table of all pairs of stems would take as much memory as that of the words.

    Attributes
    ----------
    table : PairTable
    forward, backward : ndarray of shape (n_pairs,), or longer
        Probabilities of the target word given the source word, and of the source word given the target word.
    source_counts, target_counts : ndarray of shape (n_words,), int64
        Tokens; every word weighs as much.
    target_class : ndarray of shape (n_target_words,), int32
    words, offsets : ndarray of int64
        Source words by class, and where the classes begin.
    target_totals : ndarray of shape (n_target_classes,)
        Expected links of every target class.
    """

    table: PairTable
    forward: Reals
    backward: Reals
    source_counts: Ints
    target_counts: Ints
    target_class: NDArray[np.int32]
    words: Ints
    offsets: Ints
    target_totals: Floats

    @classmethod
    def of(
        cls, table: PairTable, forward: Reals, backward: Reals, source: Language, target: Language, name: str
    ) -> ClassTable:
        """The classes called ``name``, "stem" or "band", of a trained table."""
        source_class, target_class = getattr(source, name), getattr(target, name)
        offsets = np.append(0, np.cumsum(np.bincount(source_class, minlength=1)))
        links = target.counts * np.bincount(table.targets, backward[: table.n_pairs], table.n_target_words)
        return cls(
            table, forward, backward, source.counts, target.counts, target_class.astype(np.int32),
            np.argsort(source_class, kind="stable"), offsets, np.bincount(target_class, links, 1).astype(np.float64),
        )  # fmt: skip

    def probabilities(self, source: Ints, target: Ints) -> tuple[Floats, Floats]:
        """Probabilities of target given source classes and the reverse, by pair; 0 where a class is unknown (-1)."""
        width = len(self.target_totals)
        known = (source >= 0) & (target >= 0)
        keys, place = np.unique(source[known] * width + target[known], return_inverse=True)
        sources, targets = np.divmod(keys, width)
        links, totals = np.zeros((2, len(keys))), np.zeros(len(keys))
        sum_links(
            self.words, self.offsets, self.table.row_offsets, self.table.targets, self.target_class,
            self.forward, self.backward, self.source_counts, self.target_counts, width, sources, targets,
            links[0], links[1], totals,
        )  # fmt: skip
        found = np.zeros((2, len(source)))
        found[0, known] = ratio(links[0], totals)[place]
        found[1, known] = ratio(links[1], self.target_totals[targets])[place]
        return found[0], found[1]
