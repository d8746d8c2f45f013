"""Word pairs that a trained model lacks, and training that goes on from it on new text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints, Reals
from spectrem._reprs import brief_dataclass
from spectrem.data import Bitext, Vocabulary
from spectrem.kernels.alignments.cooccurrence import normalise_continued, splice_tables
from spectrem.models.alignment.model import (
    AlignmentModel,
    AlignmentParameters,
    DirectionParameters,
    KeptPlaces,
    Totals,
    as_single,
    with_floor,
)
from spectrem.models.alignment.pairs import BitextShard, Layout, PairTable, iter_shards
from spectrem.models.alignment.priors import (
    FREQUENCY_STRENGTH,
    ClassTable,
    Language,
    LexicalPrior,
    PseudoCounts,
    Words,
    find_alike,
    lexical_priors,
    number_stems,
    ratio,
)
from spectrem.models.priors import Numbers
from spectrem.structures._ragged import offsets_of

# Spellings of unknown words, on each side, whose own spelling is not given; the two do not look alike.
_UNSPELLED = ("\0", "\1")


@brief_dataclass(frozen=True)
class UnseenPairs:
    """Translation probabilities of word pairs that have no entry in a trained table, as means under a prior.

    A word s with n(s) tokens in the training text has ``n(s) + stem_strength + frequency_strength +
    cognate_strength`` counts to share out. A word t that never occurred beside it gets of these: ``stem_strength``
    times the probability that the stem of s becomes the stem of t, times the share of t in its stem;
    ``frequency_strength`` times the probability that a word about as frequent as s becomes one about as frequent as t,
    times the share of t among the tokens of these; and ``cognate_strength`` times how much both look alike
    (`spectrem.models.alignment.priors.find_alike`). The probabilities of
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


@brief_dataclass(frozen=True)
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
        source = unseen.source.describe([*bitext.source_vocabulary.words, _UNSPELLED[0]])
        target = unseen.target.describe([*bitext.target_vocabulary.words, _UNSPELLED[1]])
        return cls(unseen, bitext, source, target)

    def complete(self, shard: BitextShard) -> BitextShard:
        """A shard of the bitext with probabilities for its cells whose word pairs have no entry in the table."""
        if shard.is_seen(self.unseen.table):
            return shard
        n_seen = len(shard.pair_ids) - 1
        cells, layout = shard.pairs.cells.copy(), Layout.of(shard.pairs)
        at = np.flatnonzero(cells == n_seen)
        # Words without a spelling, -1, are the last ones.
        s, t = (
            side.tokens[side.offsets[shard.begin] + word[at]] % np.int64(len(words.counts))
            for side, word, words in zip(self.bitext.sides, layout[:2], (self.source, self.target), strict=True)
        )
        probabilities = self.unseen.probabilities(self.source, self.target, s, t)
        cells[at] = n_seen + np.arange(len(at))
        return replace(
            shard, pairs=shard.pairs._replace(cells=cells), pair_ids=shard.pair_ids[:-1], unseen=probabilities
        )


# Differences of sums smaller than this part of them are rounding.
_ROUNDING = 1e-9
# Of 0, 0.5, 0.75 and 1 the one of least alignment error on development sentences of Hansards and Europarl.
_DISCOUNT = 0.75


@brief_dataclass(frozen=True, eq=False)
class ContinuedPrior:
    """The translations of one direction in a trained model as Dirichlet pseudo-counts for the word pairs of new text.

    A pair that the model has gets its probability times the total of its conditioning word, which is what the model's
    own training counted; it stays what it was if new text says nothing. A pair that the model lacks gets the
    pseudo-counts of `UnseenPairs`, but that the probabilities of stems go on from those of the model. Pairs of the
    model that do not occur in the new text are one number for each conditioning word: nothing here grows with the
    model.

    A pair whose words meet in k places of the new text has its expected count c lowered to ``c (1 - 0.75 / k)``, and
    the difference is left to pairs that were not seen (absolute discounting, [Ney1994]). Words that are new
    and rare would otherwise learn from their own posteriors that they are linked as these have it.

    Attributes
    ----------
    lexical : LexicalPrior
        Stems of the word pairs of the new text.
    shares : ndarray of shape (n_pairs,)
        Share of the expected count of every pair that discounts leave, in [0, 1].
    new : ndarray of shape (n_pairs,), bool
        Pairs that the model lacks.
    earlier : ndarray of shape (n_pairs,)
        Counts of earlier text, at least 0; of new pairs the pseudo-counts that do not come from stems.
    rest : ndarray of shape (n_chosen_words,)
        Counts of earlier text of all pairs that are not in the table.
    least : ndarray of shape (n_chosen_words,)
        The least sum of pseudo-counts: of words that the model lacks, the sum over all words that they may be linked
        to.
    stems : ndarray of shape (n_stem_pairs,)
        Links between words of these stems in earlier text.
    stem_rest : ndarray of shape (n_stems,)
        Links of every conditioning stem to stems that it does not meet in the new text.
    """

    lexical: LexicalPrior
    shares: Floats
    new: Bools
    earlier: Floats
    rest: Floats
    least: Floats
    stems: Floats
    stem_rest: Floats

    def normalise(
        self, counts: Floats, row: Numbers, row_sizes: Numbers, out: Floats | None = None, totals: Floats | None = None
    ) -> Floats:
        """Probabilities of shape (n_pairs,); a row and its rest sum to 1. See `DirichletPrior.normalise`."""
        prior, probability = self.lexical, np.empty(len(counts)) if out is None else out
        totals = np.empty(len(row_sizes)) if totals is None else totals
        normalise_continued(
            prior.backward, counts, self.shares, prior.table.row_offsets, prior.table.targets, self.new, self.earlier,
            self.rest, self.least, prior.stem_first, prior.stem_place, prior.stem_row, self.stems, self.stem_rest,
            prior.share, prior.stem_strength, probability, totals,
        )  # fmt: skip
        return probability

    def log_density(
        self, probabilities: Reals, row: Numbers, row_sizes: Numbers, counts: Floats | None = None
    ) -> float:
        """``sum of pseudo-counts * log(probabilities)``, nats, but for a constant; see `LexicalPrior.log_density`.

        Discounts and pseudo-counts from stems are left out, so that the recorded objective may fall.
        """
        n_rows, held = len(row_sizes), self.earlier > 0
        left = 1.0 - np.bincount(row, probabilities, n_rows)
        rest = np.maximum(self.rest, self.least - np.bincount(row, self.earlier, n_rows))
        some = rest > 0
        with np.errstate(divide="ignore"):
            total = float(self.earlier[held] @ np.log(probabilities[held], dtype=np.float64))
        return total + float(rest[some] @ np.log(np.maximum(left[some], np.finfo(np.float64).tiny)))


@brief_dataclass(frozen=True, eq=False)
class Continuation:
    """The start of training on new text: all that a trained model knows of its words.

    Attributes
    ----------
    bitext : Bitext
        The new text, with vocabularies of its own.
    table : PairTable
        Its word pairs.
    source, target : ndarray of int
        Number of every word in the model, -1 for new ones.
    entries : ndarray of shape (n_pairs,), int64
        The entry of the model's table for each pair, -1 for none.
    strength : float
        What counts of earlier text are multiplied by.
    params : AlignmentParameters
        Probabilities of the model, those of `UnseenPairs` for pairs that it lacks.
    priors : (ContinuedPrior, ContinuedPrior)
    kept : (KeptPlaces, KeptPlaces)
    """

    bitext: Bitext
    table: PairTable
    source: Ints
    target: Ints
    entries: Ints
    strength: float
    params: AlignmentParameters
    priors: tuple[ContinuedPrior, ContinuedPrior]
    kept: tuple[KeptPlaces, KeptPlaces]

    @classmethod
    def of(
        cls,
        unseen: UnseenPairs,
        params: AlignmentParameters,
        bitext: Bitext,
        table: PairTable,
        weights: Floats,
        strength: float,
        listed: PseudoCounts | None = None,
    ) -> Continuation:
        """Look up the words and word pairs of a new text in a trained model.

        Parameters
        ----------
        unseen : UnseenPairs
            Of the trained model.
        params : AlignmentParameters
            Of the trained model, with totals.
        bitext : Bitext
        table : PairTable
            The word pairs of ``bitext``.
        weights : ndarray of shape (n_sentence_pairs,)
        strength : float
            At least 0; 1 takes the old text for as much as the new.
        listed : PseudoCounts, optional
            Pseudo-counts of entries of ``table``; given to those that the model lacks.
        """
        vocabularies = bitext.source_vocabulary, bitext.target_vocabulary
        sides = (
            _Side.of(unseen.source, vocabularies[0], bitext.source_tokens, strength),
            _Side.of(unseen.target, vocabularies[1], bitext.target_tokens, strength),
        )
        source, target = sides
        entries = unseen.table.find(source.number[table.sources], target.number[table.targets])
        new, rows = entries < 0, (table.sources.astype(np.int64), table.targets.astype(np.int64))
        lexical = lexical_priors(
            table, vocabularies[0].words, vocabularies[1].words, source.words.counts, target.words.counts,
            stem_strength=unseen.stem_strength, cognate_strength=0.0,
        )  # fmt: skip
        links = unseen.stems.probabilities(
            *(side.stem_number[p.stem_row] for side, p in zip(sides, lexical, strict=True))
        )
        pseudo_counts = unseen.pseudo_counts(source.words, target.words, rows[0][new], rows[1][new])
        shares = _shares(bitext, table, weights)
        starts, priors, kept = list[DirectionParameters](), list[ContinuedPrior](), list[KeptPlaces]()
        for way, old in enumerate((params.forward, params.backward)):
            assert old.totals is not None
            chosen, produced, row, prior = sides[way], sides[1 - way], rows[way], lexical[way]
            from_stems, others = pseudo_counts[way]
            translation = old.translation[entries].astype(np.float64)
            totals = strength * np.append(old.totals.words, 0.0)[chosen.number]
            earlier = totals[row] * translation
            rest = _less(totals, np.bincount(row, np.where(new, 0.0, earlier), len(totals)))
            translation[new] = (from_stems + others) / (chosen.words.counts[row[new]] + unseen.strength)
            earlier[new] = others
            if listed is not None:
                lacking = new[listed.entries]
                earlier[listed.entries[lacking]] += (listed.backward if way else listed.forward)[lacking]
            stems = links[way] * chosen.stem_tokens[prior.stem_row]
            stem_rest = _less(chosen.stem_tokens, np.bincount(prior.stem_row, stems, len(chosen.stem_tokens)))
            least = np.where(totals > 0, 0.0, unseen.strength)
            prior = replace(prior, share=produced.share)
            priors.append(ContinuedPrior(prior, shares, new, earlier, rest, least, stems, stem_rest))
            # Pairs that are new make room for themselves.
            more = np.bincount(row[new], translation[new], len(totals))
            starts.append(
                replace(
                    old,
                    translation=as_single(with_floor(np.append(translation / (1.0 + more[row]), 0.0))),
                    null=np.append(old.null[produced.number], old.null[-1]),
                    totals=Totals(np.zeros(len(totals)), 0.0, 0.0, 0.0),
                )
            )
            kept.append(_keep(old, old.totals, produced.number, strength))
        return cls(
            bitext, table, source.number, target.number, entries, strength, AlignmentParameters(*starts),
            (priors[0], priors[1]), (kept[0], kept[1]),
        )  # fmt: skip


@brief_dataclass(frozen=True)
class _Side:
    """The words of one side of a new text, and what earlier text says of them and their stems.

    Attributes
    ----------
    words : Words
    number : ndarray of shape (n_words,), int64
        Number of every word in the model, -1 for none.
    share : ndarray of shape (n_words,)
        Part of the tokens of its stem that are the word, in both texts.
    stem_number, stem_tokens : ndarray of shape (n_stems,)
        Number of every stem in the model, -1 for none, and its tokens there.
    """

    words: Words
    number: Ints
    share: Floats
    stem_number: Ints
    stem_tokens: Floats

    @classmethod
    def of(cls, language: Language, vocabulary: Vocabulary, tokens: NDArray[np.int32], strength: float) -> _Side:
        words = language.describe(vocabulary.words)
        counts = np.bincount(tokens, minlength=len(vocabulary))
        both = counts + strength * words.counts
        stem, stems = number_stems(vocabulary.words)
        stem_number = np.fromiter((language.stems.get(one, -1) for one in stems), np.int64, len(stems))
        by_stem = np.append(np.bincount(language.stem, language.counts, len(language.stems)), 0.0)
        stem_tokens = strength * by_stem[stem_number]
        in_stem = np.bincount(stem, counts, len(stems)) + stem_tokens
        number = language.vocabulary.lookup(vocabulary.words).astype(np.int64)
        return cls(words, number, ratio(both, in_stem[stem]), stem_number, stem_tokens)


def _shares(bitext: Bitext, table: PairTable, weights: Floats) -> Floats:
    """The share of the expected count of every word pair that discounts leave."""
    meetings = np.zeros(table.n_pairs)
    for shard in iter_shards(bitext, table, weights):
        of_cells = np.repeat(shard.weights, np.diff(shard.pairs.cell_offsets))
        meetings[shard.pair_ids] += np.bincount(shard.pairs.cells, of_cells, len(shard.pair_ids))
    return 1.0 - _DISCOUNT / np.maximum(meetings, 1.0)


def _keep(old: DirectionParameters, totals: Totals, produced: Ints, strength: float) -> KeptPlaces:
    null = strength * totals.null * np.append(old.null[:-1], 0.0)[produced]
    rest = float(_less(np.array([strength * totals.null]), null.sum())[0])
    # Widths that the new text lacks must stay possible, however little the earlier text counts.
    prior = max(1.0 - strength, 0.0)
    jumps = strength * totals.jumps * old.jump + prior * AlignmentModel.jump_pseudo_count
    ends = strength * totals.ends * old.end + prior * AlignmentModel.end_pseudo_count
    return KeptPlaces(null, rest, jumps, ends)


def _less(whole: Floats, part: NDArray | np.floating) -> Floats:
    """The difference of counts, at least 0; differences that are rounding are 0."""
    left = whole - part
    return np.where(left > _ROUNDING * whole, left, 0.0)


def splice(
    old: PairTable,
    old_params: AlignmentParameters,
    vocabularies: tuple[Vocabulary, Vocabulary],
    new: Continuation,
    params: AlignmentParameters,
) -> tuple[PairTable, AlignmentParameters, tuple[Vocabulary, Vocabulary]]:
    """Table, parameters and vocabularies of a model that has learned from new text.

    Words keep their numbers; new ones follow. A pair that the new text did not hold keeps its
    counts, so that its probability falls as those of its conditioning word rise.

    Parameters
    ----------
    old, old_params, vocabularies
        The model before.
    new : Continuation
    params : AlignmentParameters
        What was learned from it, over the words and word pairs of the new text.
    """
    texts = new.bitext.source_vocabulary.words, new.bitext.target_vocabulary.words
    merged = vocabularies[0].extend(texts[0]), vocabularies[1].extend(texts[1])
    numbers = [words.lookup(text) for words, text in zip(merged, texts, strict=True)]
    sides = list(zip((old_params.forward, old_params.backward), (params.forward, params.backward), strict=True))
    words, scales = [np.zeros(len(side)) for side in merged], list[Floats]()
    for counts, number, (before, after) in zip(words, numbers, sides, strict=True):
        assert before.totals is not None
        assert after.totals is not None
        earlier = new.strength * before.totals.words
        counts[: len(earlier)] = earlier
        counts[number] = after.totals.words
        now = counts[: len(earlier)]
        scales.append(np.divide(earlier, now, out=np.ones(len(earlier)), where=now > 0))
    sources, targets = numbers[0][new.table.sources], numbers[1][new.table.targets]
    order = np.argsort(sources * np.int64(len(merged[1])) + targets, kind="stable")
    n_pairs, n_words = old.n_pairs + np.count_nonzero(new.entries < 0), len(merged[0])
    table = PairTable(np.empty(n_words + 1, np.int64), np.empty(n_pairs, np.int32), len(merged[1]))
    translations = np.zeros((2, n_pairs + 1))
    splice_tables(
        np.pad(old.row_offsets, (0, n_words - old.n_source_words), "edge"), old.targets,
        *(before.translation for before, _ in sides), *scales, offsets_of(np.bincount(sources, minlength=n_words)),
        targets[order], *(after.translation[order] for _, after in sides), table.row_offsets, table.targets,
        *translations,
    )  # fmt: skip
    spliced = list[DirectionParameters]()
    for way, (before, after) in enumerate(sides):
        assert before.totals is not None
        assert after.totals is not None
        null, total = np.zeros(len(merged[1 - way]) + 1), after.totals.null
        share = new.strength * before.totals.null / total if total > 0 else 1.0
        null[: len(before.null) - 1] = before.null[:-1] * share
        null[numbers[1 - way]] = after.null[:-1]
        floored, totals = as_single(with_floor(translations[way])), replace(after.totals, words=words[way])
        spliced.append(replace(after, translation=floored, null=with_floor(null), totals=totals))
    return table, AlignmentParameters(*spliced), merged
