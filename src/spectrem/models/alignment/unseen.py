"""Translation probabilities of word pairs that are not in the training text, from spelling and frequency."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.data import Bitext
from spectrem.models.alignment.left_out import FREQUENCY_STRENGTH
from spectrem.models.alignment.lexical_prior import ClassTable, Language, Words, find_alike
from spectrem.models.alignment.pairs import BitextShard, PairTable
from spectrem.models.alignment.parameters import AlignmentParameters, DirectionParameters, with_floor

# Spellings of unknown words, on each side, whose own spelling is not given; the two do not look alike.
_UNSPELLED = ("\0", "\1")


@dataclass(frozen=True)
class UnseenPairs:
    """Translation probabilities of word pairs that have no entry in a trained table, as means under a prior.

    A word s with n(s) tokens in the training text has ``n(s) + stem_strength + frequency_strength +
    cognate_strength`` counts to share out. A word t that never occurred beside it gets of these: ``stem_strength``
    times the probability that the stem of s becomes the stem of t, times the share of t in its stem;
    ``frequency_strength`` times the probability that a word about as frequent as s becomes one about as frequent as t,
    times the share of t among the tokens of these; and ``cognate_strength`` times how much both look alike
    (`spectrem.models.alignment.lexical_prior.find_alike`). The probabilities of
    stems and of frequencies are those of the trained table, its words weighing as much as they have tokens.

    Entries of the table stay as trained: the training text is aligned as before. The probability of a pair depends
    on its two words and the model only, so that the alignment of a sentence does not depend on the other sentences.

    Attributes
    ----------
    table : PairTable
    source, target : Language
    stems : ClassTable
    bands : (ndarray, ndarray)
        Probability of every band of target words given every band of source words, and the reverse; both of shape
        (n_source_bands, n_target_bands).
    stem_strength, cognate_strength : float
        Pseudo-counts, at least 0. ``frequency_strength`` is always 10.
    """

    table: PairTable
    source: Language
    target: Language
    stems: ClassTable
    bands: tuple[Floats, Floats]
    stem_strength: float
    cognate_strength: float

    @classmethod
    def of(
        cls,
        table: PairTable,
        params: AlignmentParameters,
        source: Language,
        target: Language,
        *,
        stem_strength: float,
        cognate_strength: float,
    ) -> UnseenPairs:
        """Estimate the probabilities of stems and of frequency bands from a trained table."""
        forward, backward = params.forward.translation, params.backward.translation
        stems, by_band = (ClassTable.of(table, forward, backward, source, target, name) for name in ("stem", "band"))
        bands = len(by_band.offsets) - 1, len(by_band.target_totals)
        ways = by_band.probabilities(*(band.ravel() for band in np.indices(bands)))
        return cls(
            table, source, target, stems, (ways[0].reshape(bands), ways[1].reshape(bands)), stem_strength,
            cognate_strength,
        )  # fmt: skip

    @property
    def strength(self) -> float:
        """The pseudo-counts that every word has to share out."""
        return self.stem_strength + FREQUENCY_STRENGTH + self.cognate_strength

    def probabilities(self, source: Words, target: Words, s: Ints, t: Ints) -> tuple[Floats, Floats]:
        """p(t | s) and p(s | t) for the words numbered s and t of a new text, each of shape (n_pairs,)."""
        forward, backward = self.pseudo_counts(source, target, s, t)
        return (
            with_floor(sum(forward) / (source.counts[s] + self.strength)),
            with_floor(sum(backward) / (target.counts[t] + self.strength)),
        )

    def pseudo_counts(
        self, source: Words, target: Words, s: Ints, t: Ints
    ) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Pseudo-counts from stems, and others, of t given s, then of s given t; each of shape (n_pairs,)."""
        alike = np.zeros(len(s))
        at, likeness = find_alike(s.astype(np.int32), t.astype(np.int32), source.spelling, target.spelling)
        alike[at] = likeness
        stems = self.stems.probabilities(source.stem[s], target.stem[t])
        bands = [way[source.band[s], target.band[t]] for way in self.bands]

        def counts(way: int, produced: Words, at: Ints) -> tuple[Floats, Floats]:
            return (
                self.stem_strength * stems[way] * produced.stem_share[at],
                FREQUENCY_STRENGTH * bands[way] * produced.band_share[at] + self.cognate_strength * alike,
            )

        return counts(0, target, t), counts(1, source, s)


def expect_new_words(params: AlignmentParameters, source_counts: Ints, target_counts: Ints) -> AlignmentParameters:
    """Set NULL's probability of a new word to its mean probability of the rarest words of the training text."""

    def with_new(direction: DirectionParameters, counts: Ints) -> DirectionParameters:
        seen = counts[counts > 0]
        if not len(seen):
            return direction
        null = direction.null.copy()
        null[-1] = null[:-1][counts == seen.min()].mean()
        return replace(direction, null=null)

    return AlignmentParameters(with_new(params.forward, target_counts), with_new(params.backward, source_counts))


@dataclass(frozen=True)
class NewText:
    """A bitext to be aligned by a trained model.

    Attributes
    ----------
    unseen : UnseenPairs
    bitext : Bitext
        The bitext, with vocabularies of its own.
    source, target : Words
        The words of the vocabularies, followed by one that stands for unknown words without a spelling.
    """

    unseen: UnseenPairs
    bitext: Bitext
    source: Words
    target: Words

    @classmethod
    def of(cls, unseen: UnseenPairs, bitext: Bitext) -> NewText:
        """Look up the words of a bitext."""
        source, target = bitext.source_vocabulary.words, bitext.target_vocabulary.words
        own, other = unseen.source.describe([*source, _UNSPELLED[0]]), unseen.target.describe([*target, _UNSPELLED[1]])
        return cls(unseen, bitext, own, other)

    def complete(self, shard: BitextShard) -> BitextShard:
        """A shard of the bitext with probabilities for its cells whose word pairs have no entry in the table."""
        if shard.is_seen(self.unseen.table):
            return shard
        n_seen = len(shard.pair_ids) - 1
        cells, offsets = shard.pairs.cells.copy(), shard.pairs.cell_offsets
        at = np.flatnonzero(cells == n_seen)
        sentence = np.searchsorted(offsets, at, side="right") - 1
        i, j = np.divmod(at - offsets[sentence], shard.target_lengths[sentence])
        sentence += shard.begin
        # Words without a spelling, -1, are the last ones.
        s = self.bitext.source_tokens[self.bitext.source_offsets[sentence] + i] % np.int64(len(self.source.counts))
        t = self.bitext.target_tokens[self.bitext.target_offsets[sentence] + j] % np.int64(len(self.target.counts))
        probabilities = self.unseen.probabilities(self.source, self.target, s, t)
        cells[at] = n_seen + np.arange(len(at))
        return replace(
            shard, pairs=shard.pairs._replace(cells=cells), pair_ids=shard.pair_ids[:-1], unseen=probabilities
        )
