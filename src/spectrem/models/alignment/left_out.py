"""The last M-step of an aligner: translations as the other sentence pairs have them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints, Reals
from spectrem.data import Bitext
from spectrem.kernels.alignments.left_out import normalise_left_out
from spectrem.models.alignment.anchors import Anchors
from spectrem.models.alignment.given_counts import GivenCounts
from spectrem.models.alignment.lexical_prior import LexicalPrior, frequency_bands, ratio
from spectrem.models.alignment.pairs import PairTable, count_words
from spectrem.models.priors import Numbers, Prior

FREQUENCY_STRENGTH = 10.0
"""Pseudo-counts of every word that are shared out by frequency."""


@dataclass(frozen=True, eq=False)
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

    @property
    def reads_rows(self) -> bool:
        """False: the table says which row an entry is in."""
        return False

    def normalise(
        self, counts: Floats, row: Numbers, row_sizes: Numbers, out: Floats | None = None, totals: Floats | None = None
    ) -> Floats:
        """Probabilities of shape (n_pairs,); the totals of rows count what is left out too, see `DirichletPrior`."""
        own, probability = self.lexical, np.empty(len(counts)) if out is None else out
        totals = np.empty(len(row_sizes)) if totals is None else totals
        normalise_left_out(
            own.backward, counts, own.table.row_offsets, own.table.targets, len(row_sizes), own.stem_first,
            own.stem_place, own.stem_row, own.share, own.stem_strength, own.alike, own.cognate_strength * own.likeness,
            self.certain, self.certain_counts, self.row_band, self.produced_band, self.band_share, FREQUENCY_STRENGTH,
            self.discount, self.most, probability, totals,
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
    given: GivenCounts,
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
    given : GivenCounts
        Pseudo-counts, which are added; nothing is left out of these either.
    discount : float
        See `LeftOutPrior`.
    """
    table = lexical[0].table
    source, source_share = _bands(bitext.source_tokens, bitext.source_lengths, weights, table.n_source_words)
    target, target_share = _bands(bitext.target_tokens, bitext.target_lengths, weights, table.n_target_words)
    certain = given if anchors is None else _with_links(table, bitext, weights, anchors, given)
    most = min(float(weights.max(initial=0.0)), 1.0)  # pairs of larger weights count as that many pairs
    entries = certain.entries
    return given.added_to((
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


def _with_links(table: PairTable, bitext: Bitext, weights: Floats, anchors: Anchors, given: GivenCounts) -> GivenCounts:
    """Given counts, and those of known links: what does not come from posteriors."""
    links, sentence = anchors.links, anchors.links.sentence
    source = bitext.source_offsets[sentence] + links.source
    target = bitext.target_offsets[sentence] + links.target
    # A word with several known links shares its count among them.
    forward, backward = (weights[sentence] / np.bincount(place)[place] for place in (target, source))
    return GivenCounts.of(
        table,
        np.concatenate([table.sources[given.entries], bitext.source_tokens[source]]),
        np.concatenate([table.targets[given.entries], bitext.target_tokens[target]]),
        np.concatenate([given.forward, forward]),
        np.concatenate([given.backward, backward]),
    )
