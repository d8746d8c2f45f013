"""Priors on translation tables: from stems, spelling, frequency and pseudo-counts, and for the last M-step."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints, Reals
from spectrem._reprs import brief_dataclass
from spectrem.data import Bitext, Vocabulary
from spectrem.kernels.alignments.cooccurrence import (
    list_class_pairs,
    look_alike,
    normalise_left_out,
    normalise_lexical,
    sum_links,
)
from spectrem.models.alignment.pairs import Anchors, PairTable, count_words
from spectrem.models.priors import Numbers, Prior

Classes: TypeAlias = tuple[Mapping[str, str], Mapping[str, str]]
"""Classes of source and of target words."""
Letters: TypeAlias = tuple[NDArray[np.uint32], Ints]

STEM_LENGTH = 4
# Pairs less similar than the first get no pseudo-counts, from the second on all of them. Below 0.6, chance prevails:
# half of the pseudo-counts for pairs from 0.5 on raised the error on nearly every development set.
SIMILARITY, FULL_SIMILARITY = 0.6, 0.7
# Up to this many stems are numbered by two bytes: arrays with a number per word pair take more memory than the text.
_MOST_SHORT = 1 << 16


@brief_dataclass(frozen=True)
class LexicalPrior:
    """Dirichlet pseudo-counts for one direction of a translation table, part of them learned from the counts.

    A pair (e, f) gets ``stem_strength * t(stem f | stem e) * share(f in its stem)`` pseudo-counts, where t is the
    table of stems estimated from the expected counts themselves (empirical Bayes), and ``cognate_strength`` times the
    likeness of their spellings more (`find_alike`). Rare words thus get probabilities from the other words of their
    stem.

    Use when both languages are written in one script, or inflect by their endings.

    Attributes
    ----------
    table : PairTable
    backward : bool
        Whether source words are given target words, or target words given source words.
    stem_first : ndarray of shape (n_source_words,), int32
        Number of the first stem pair of every source word's stem.
    stem_place : ndarray of shape (n_pairs,), uint16 or uint32
        Which of the stem pairs of its source stem every pair belongs to.
    stem_row : ndarray of shape (n_stem_pairs,), uint16 or uint32
        Number of the conditioning stem of each stem pair.
    share : ndarray of shape (n_produced_words,)
        Part of its stem's tokens that are the word, in [0, 1].
    alike : ndarray of int32
        The pairs that look alike, in increasing order.
    likeness : ndarray of shape (n_alike,)
        How much these pairs look alike, in (0, 1].
    stem_strength, cognate_strength : float
        Pseudo-counts, at least 0.
    """

    table: PairTable
    backward: bool
    stem_first: NDArray[np.int32]
    stem_place: NDArray[np.unsignedinteger]
    stem_row: NDArray[np.unsignedinteger]
    share: Floats
    alike: NDArray[np.int32]
    likeness: Floats
    stem_strength: float
    cognate_strength: float
    reads_rows: ClassVar[bool] = False  # the table says which row an entry is in

    def normalise(
        self, counts: Floats, row: Numbers, row_sizes: Numbers, out: Floats | None = None, totals: Floats | None = None
    ) -> Floats:
        """Probabilities of shape (n_pairs,), one row summing to 1; see `DirichletPrior.normalise`.

        ``row`` is that of the table and not read.
        """
        probability = np.empty(len(counts)) if out is None else out
        totals = np.empty(len(row_sizes)) if totals is None else totals
        normalise_lexical(
            self.backward, counts, self.table.row_offsets, self.table.targets, row_sizes,
            self.stem_first, self.stem_place, self.stem_row, self.share, self.alike,
            self.cognate_strength * self.likeness, self.stem_strength, probability, totals,
        )  # fmt: skip
        return probability

    def log_density(
        self, probabilities: Reals, row: Numbers, row_sizes: Numbers, counts: Floats | None = None
    ) -> float:
        """``cognate_strength * sum of likeness * log probability`` over the words that look alike, nats.

        That is the log-density of the part of the prior that is given, but for a constant. Pseudo-counts from stems
        are estimated anew by every M-step (empirical Bayes) and belong to no fixed density: they are left out, and
        while ``stem_strength`` is positive the recorded objective may fall.
        """
        if self.cognate_strength == 0:
            return 0.0
        with np.errstate(divide="ignore"):
            return self.cognate_strength * float(self.likeness @ np.log(probabilities[self.alike], dtype=np.float64))


def lexical_priors(
    table: PairTable,
    source_words: Sequence[str],
    target_words: Sequence[str],
    source_counts: NDArray[np.integer],
    target_counts: NDArray[np.integer],
    *,
    stem_strength: float = 10.0,
    cognate_strength: float = 5.0,
    classes: Classes = ({}, {}),
) -> tuple[LexicalPrior, LexicalPrior]:
    """Priors on the translation tables of both directions, forward and backward.

    Parameters
    ----------
    table : PairTable
    source_words, target_words : sequence of str
    source_counts, target_counts : ndarray of int
        Tokens of every word.
    stem_strength : float
        Pseudo-counts of every conditioning word that are shared out by stems. Words with the same first four letters
        share a stem; numbers are their own.
    cognate_strength : float
        Pseudo-counts of each pair that looks alike; fewer where the likeness is below 1. See `find_alike`.
    classes : (mapping, mapping) of word to class
        Of source and of target words, such as lemmas: what they share in place of a stem.
    """
    (source_stem, source_stems), (target_stem, target_stems) = (
        number_stems(words, class_of) for words, class_of in zip((source_words, target_words), classes, strict=True)
    )
    n_stems = max(len(source_stems), len(target_stems))
    short: type[np.unsignedinteger] = np.uint16 if n_stems <= _MOST_SHORT else np.uint32
    place, target_row = np.empty(table.n_pairs, short), np.empty(table.n_pairs, short)
    offsets = list_class_pairs(
        np.argsort(source_stem, kind="stable"), np.append(0, np.cumsum(np.bincount(source_stem))), table.row_offsets,
        table.targets, target_stem, len(target_stems), place, target_row,
    )  # fmt: skip
    source_row = np.repeat(np.arange(len(source_stems), dtype=short), np.diff(offsets))
    alike, likeness = find_alike(table.sources, table.targets, letters(source_words), letters(target_words))
    strengths = float(stem_strength), float(cognate_strength)
    first, target_row = offsets[source_stem], target_row[: len(source_row)].copy()
    target_share = ratio(target_counts, np.bincount(target_stem, target_counts)[target_stem])
    source_share = ratio(source_counts, np.bincount(source_stem, source_counts)[source_stem])
    return (
        LexicalPrior(table, False, first, place, source_row, target_share, alike, likeness, *strengths),
        LexicalPrior(table, True, first, place, target_row, source_share, alike, likeness, *strengths),
    )


def find_alike(
    sources: NDArray[np.int32], targets: NDArray[np.int32], source: Letters, target: Letters
) -> tuple[NDArray[np.int32], Floats]:
    """The pairs of words that look alike, in increasing order, and how much, in (0, 1].

    With s the length of the longest common subsequence over that of the longer word, accents aside ([Melamed1995]),
    rounded down to a hundredth, the likeness is ``min(1, (s - 0.5) / 0.2)`` if s is at least 0.6. "member" and
    "miembros" share 5 letters of 8: 0.6. Words of fewer than four letters look alike only if they are equal.
    """
    similarity = np.zeros(len(sources), np.uint8)
    look_alike(sources, targets, *source, *target, SIMILARITY, STEM_LENGTH, similarity)
    alike = np.flatnonzero(similarity).astype(np.int32)
    least = 2 * SIMILARITY - FULL_SIMILARITY  # where the line through (0.6, 1/2) and (0.7, 1) meets 0
    likeness = np.minimum((similarity[alike] / 100 - least) / (FULL_SIMILARITY - least), 1.0)
    return alike, likeness


def stem(word: str) -> str:
    """The first letters of a word; numbers are their own stems."""
    return word if word[:1].isdigit() else word[:STEM_LENGTH]


def number_stems(words: Sequence[str], classes: Mapping[str, str] | None = None) -> tuple[Ints, dict[str, int]]:
    """The number of every word's stem, or of its class where it has one, and the numbers of all of them."""
    numbers: dict[str, int] = {}
    class_of = classes or {}
    stems = (numbers.setdefault(class_of[word] if word in class_of else stem(word), len(numbers)) for word in words)
    return np.fromiter(stems, np.int64, len(words)), numbers


def ratio(part: NDArray, total: NDArray) -> Floats:
    """``part / total``, 0 where the total is 0."""
    return np.divide(part, total, out=np.zeros(len(part)), where=total > 0, dtype=np.float64)


def letters(words: Sequence[str]) -> Letters:
    """Words without their accents as `look_alike` reads them: letters and where each word begins and ends."""
    plain = [
        word
        if word.isascii()
        else "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
        for word in words
    ]
    offsets = np.concatenate([[0], np.cumsum([len(word) for word in plain], dtype=np.int64)])
    return np.frombuffer("".join(plain).encode("utf-32-le"), np.uint32), offsets


@brief_dataclass(frozen=True)
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


@brief_dataclass(frozen=True)
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


@brief_dataclass(frozen=True, eq=False)
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
        probabilities = np.zeros((2, len(source)))
        probabilities[0, known] = ratio(links[0], totals)[place]
        probabilities[1, known] = ratio(links[1], self.target_totals[targets])[place]
        return probabilities[0], probabilities[1]


@brief_dataclass(frozen=True, eq=False)
class PseudoCounts:
    """Pseudo-counts of some entries of a table of word pairs, in both directions.

    Attributes
    ----------
    entries : ndarray of shape (n_given,), int64
        Entries of the table, in increasing order, none twice.
    forward, backward : ndarray of shape (n_given,)
        Counts added to the table of target words given source words, and to that of source words given target words;
        at least 0.

    Examples
    --------
    >>> from spectrem.data import encode_bitext
    >>> from spectrem.models.alignment import tabulate_pairs
    >>> table = tabulate_pairs(encode_bitext(["the house"], ["das haus"]))
    >>> counts = PseudoCounts.of(table, [1, 1, 7], [1, 1, 0], [2.0, 3.0, 9.0])
    >>> counts.entries.tolist(), counts.forward.tolist(), counts.backward.tolist()
    ([3], [5.0], [5.0])
    """

    entries: Ints
    forward: Floats
    backward: Floats

    @classmethod
    def of(
        cls,
        table: PairTable,
        source: NDArray[np.integer],
        target: NDArray[np.integer],
        forward: Floats,
        backward: Floats | None = None,
    ) -> PseudoCounts:
        """Counts of word pairs; those of a pair that is given several times are added up.

        Parameters
        ----------
        table : PairTable
        source, target : array-like of shape (n,), int
            Words by their numbers. Pairs that the table does not have are left out, as are numbers of unknown words.
        forward, backward : array-like of shape (n,)
            Pseudo-counts, at least 0; those of both directions are the same where ``backward`` is left out.
        """
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        forward = np.asarray(forward, np.float64)
        backward = forward if backward is None else np.asarray(backward, np.float64)
        at, order = np.empty(len(source), np.int64), np.argsort(source)  # so that rows of the table are read once
        at[order] = table.find(source[order], target[order])
        entries, place = np.unique(at[at >= 0], return_inverse=True)
        sums = [np.bincount(place, counts[at >= 0], len(entries)).astype(np.float64) for counts in (forward, backward)]
        return cls(entries, sums[0], sums[1])

    def added_to(self, priors: tuple[Prior, Prior]) -> tuple[Prior, Prior]:
        """The priors of both directions with these counts; the same priors where there are none."""
        if not len(self.entries):
            return priors
        return (
            PriorWithCounts(priors[0], self.entries, self.forward),
            PriorWithCounts(priors[1], self.entries, self.backward),
        )


@brief_dataclass(frozen=True, eq=False)
class PriorWithCounts:
    """A prior on the rows of a table, and pseudo-counts of single entries, which are added to the expected ones first.

    A `LexicalPrior` thus learns from them, too: what a dictionary says of one form helps other forms of the word.

    Attributes
    ----------
    prior : Prior
    entries : ndarray of shape (n_given,), int64
    counts : ndarray of shape (n_given,)
        Of each of these entries, at least 0.
    """

    prior: Prior
    entries: Ints
    counts: Floats

    @property
    def reads_rows(self) -> bool:
        """Whether `normalise` and `log_density` read the row of every entry."""
        return getattr(self.prior, "reads_rows", True)

    def normalise(
        self, counts: Floats, row: Numbers, row_sizes: Numbers, out: Floats | None = None, totals: Floats | None = None
    ) -> Floats:
        """Probabilities of shape (n_pairs,); see `DirichletPrior.normalise`."""
        total = np.empty(len(counts)) if out is None else out
        np.copyto(total, counts)
        total[self.entries] += self.counts
        return self.prior.normalise(total, row, row_sizes, total, totals)

    def log_density(
        self, probabilities: Reals, row: Numbers, row_sizes: Numbers, counts: Floats | None = None
    ) -> float:
        """The log-density of the other prior plus ``sum of counts * log(probabilities)``, nats, but for a constant."""
        with np.errstate(divide="ignore"):
            density = float(self.counts @ np.log(probabilities[self.entries], dtype=np.float64))
        return density + self.prior.log_density(probabilities, row, row_sizes, counts)


FREQUENCY_STRENGTH = 10.0
"""Pseudo-counts of every word that are shared out by frequency."""


@brief_dataclass(frozen=True, eq=False)
class LeftOutPrior:
    """Translation probabilities of one direction, without a part of what any one sentence pair says of them.

    Under the probabilities that a sentence pair helped to estimate, words that meet nowhere else confirm their own
    links. A sentence pair counts hardly more than one link of a word pair, so of an expected count c

        ``c - discount * min(c, 1)``

    is left: at ``discount`` 1 what the other sentence pairs say at least (leaving one out and absolute discounting,
    [Ney1994]; of expected counts, [ZhangChiang2014]). Pseudo-counts of stems come from the other words of the stem,
    those of look-alikes are as in the `LexicalPrior`, and 10 for every conditioning word e are shared out by frequency:
    a produced word f gets of them the probability that words about as frequent as e produce words about as frequent
    as f, times the share of f among the tokens of these. What was left out, and what belongs to words that e never
    meets, stays with pairs that are not in the table, so that rows sum to less than 1.

    Use it for the M-step of the last iteration only. Used in every iteration it raises the error, as trials on
    development sentences showed: the posteriors of the next iteration adapt to what was left out.

    Attributes
    ----------
    lexical : LexicalPrior
    certain : ndarray of int64
        Entries, in increasing order, whose counts come in part from given links or pseudo-counts.
    certain_counts : ndarray of shape (n_certain,)
        These parts, at least 0, of which nothing is left out.
    row_band, produced_band : ndarray of shape (n_words,), int64
        Bands of frequency of conditioning and of produced words.
    band_share : ndarray of shape (n_produced_words,)
        Part of the tokens of its band that are the word.
    discount : float
        In [0, 1].
    most : float
        The most that one sentence pair counts for, in [0, 1]: it takes the place of the 1 in the formula above.
    """

    lexical: LexicalPrior
    certain: Ints
    certain_counts: Floats
    row_band: Ints
    produced_band: Ints
    band_share: Floats
    discount: float
    most: float = 1.0
    reads_rows: ClassVar[bool] = False

    def normalise(
        self, counts: Floats, row: Numbers, row_sizes: Numbers, out: Floats | None = None, totals: Floats | None = None
    ) -> Floats:
        """Probabilities of shape (n_pairs,); the totals of rows count what is left out too, see `DirichletPrior`."""
        prior, probability = self.lexical, np.empty(len(counts)) if out is None else out
        totals = np.empty(len(row_sizes)) if totals is None else totals
        normalise_left_out(
            prior.backward, counts, prior.table.row_offsets, prior.table.targets, len(row_sizes), prior.stem_first,
            prior.stem_place, prior.stem_row, prior.share, prior.stem_strength, prior.alike,
            prior.cognate_strength * prior.likeness, self.certain, self.certain_counts, self.row_band,
            self.produced_band, self.band_share, FREQUENCY_STRENGTH, self.discount, self.most, probability, totals,
        )  # fmt: skip
        return probability

    def log_density(
        self, probabilities: Reals, row: Numbers, row_sizes: Numbers, counts: Floats | None = None
    ) -> float:
        """That of the `LexicalPrior`, nats; what is left out has no density."""
        return self.lexical.log_density(probabilities, row, row_sizes, counts)


def left_out_priors(
    lexical: tuple[LexicalPrior, LexicalPrior],
    bitext: Bitext,
    weights: Floats,
    anchors: Anchors | None,
    pseudo_counts: PseudoCounts,
    discount: float,
) -> tuple[Prior, Prior]:
    """Priors for the last M-step of both directions, forward and backward.

    Parameters
    ----------
    lexical : (LexicalPrior, LexicalPrior)
    bitext : Bitext
        The training text.
    weights : ndarray of shape (n_sentence_pairs,)
        Where all are less than 1, at most the largest of them is left out of a count.
    anchors : Anchors or None
        Known links of the text, of which nothing is left out.
    pseudo_counts : PseudoCounts
        Pseudo-counts, which are added; nothing is left out of these either.
    discount : float
        See `LeftOutPrior`.
    """
    table = lexical[0].table
    source, source_share = _bands(bitext.source_tokens, bitext.source_lengths, weights, table.n_source_words)
    target, target_share = _bands(bitext.target_tokens, bitext.target_lengths, weights, table.n_target_words)
    certain = pseudo_counts if anchors is None else _with_links(table, bitext, weights, anchors, pseudo_counts)
    most = min(float(weights.max(initial=0.0)), 1.0)  # pairs of larger weights count as that many pairs
    entries = certain.entries
    return pseudo_counts.added_to((
        LeftOutPrior(lexical[0], entries, certain.forward, source, target, target_share, discount, most),
        LeftOutPrior(lexical[1], entries, certain.backward, target, source, source_share, discount, most),
    ))  # fmt: skip


def _bands(tokens: NDArray[np.int32], lengths: Ints, weights: Floats, n_words: int) -> tuple[Ints, Floats]:
    """The frequency band of every word, and its share of the tokens of the band; pairs count by weight."""
    counts: NDArray = count_words(tokens, n_words)
    if (weights != 1).any():
        counts = np.bincount(tokens, np.repeat(weights, lengths), n_words)
    bands = frequency_bands(counts)
    return bands, ratio(counts, np.bincount(bands, counts, 1)[bands])


def _with_links(
    table: PairTable, bitext: Bitext, weights: Floats, anchors: Anchors, counts: PseudoCounts
) -> PseudoCounts:
    """Pseudo-counts, and the counts of known links: what does not come from posteriors."""
    links, sentence = anchors.links, anchors.links.sentence
    source = bitext.source_offsets[sentence] + links.source
    target = bitext.target_offsets[sentence] + links.target
    # A word with several known links shares its count among them.
    forward, backward = (weights[sentence] / np.bincount(place)[place] for place in (target, source))
    return PseudoCounts.of(
        table,
        np.concatenate([table.sources[counts.entries], bitext.source_tokens[source]]),
        np.concatenate([table.targets[counts.entries], bitext.target_tokens[target]]),
        np.concatenate([counts.forward, forward]),
        np.concatenate([counts.backward, backward]),
    )
