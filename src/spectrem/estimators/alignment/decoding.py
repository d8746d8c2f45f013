"""From posteriors or scores of a shard of sentence pairs to links, and the threshold between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_bool
from spectrem.data import Links, symmetrize
from spectrem.metrics import Reliability, alignment_scores, expected_f1_threshold, reliability
from spectrem.models.alignment import AlignmentModel, AlignmentParameters, BitextShard

SAMPLE = 500  # sentence pairs: a few thousand links, at the cost of a small part of one E-step
_GRID = np.round(np.arange(0.05, 0.96, 0.025), 3)


@dataclass(frozen=True)
class LinkPosteriors:
    """Probabilities of links of some sentence pairs, both directions.

    Attributes
    ----------
    source_lengths, target_lengths : ndarray of shape (n_pairs,), int
    forward, backward : list of ndarray of shape (source length, target length)
        ``forward[n][i, j]``: probability that target word j was produced by source word i; ``backward[n][i, j]``
        that source word i was produced by target word j. What is missing to 1 belongs to NULL.
    """

    source_lengths: Ints
    target_lengths: Ints
    forward: list[Floats]
    backward: list[Floats]

    @property
    def average(self) -> list[Floats]:
        """Mean of both directions."""
        return [(f + b) / 2 for f, b in zip(self.forward, self.backward, strict=True)]

    def reliability(self, gold: Links, bins: int | Sequence[float] = 10, *, possible: bool = True) -> Reliability:
        """How often links of some probability, the mean of both directions, are among gold ones, bin by bin.

        Parameters
        ----------
        gold : Links
            Links of the same sentences.
        bins : int or sequence of float
            See `spectrem.metrics.reliability`.
        possible : bool
            Whether links that are possible, not sure, count as right; else they are left out.

        Raises
        ------
        InvalidInputError
            If the numbers of sentences differ, a gold link lies outside its sentence, or the bins break their rule.

        Examples
        --------
        >>> forward, backward = np.array([[0.9, 0.2]]), np.array([[0.7, 0.2]])
        >>> posteriors = LinkPosteriors(np.array([1]), np.array([2]), [forward], [backward])
        >>> print(posteriors.reliability(Links.from_pairs([[(0, 0)]]), bins=2))
          from     to     count  expected  observed
         0.000  0.500         1     0.200     0.000
         0.500  1.000         1     0.800     1.000
        """
        nothing = np.zeros(0)
        posteriors = np.concatenate([nothing, *(matrix.ravel() for matrix in self.average)])
        cells = self._cells(gold)
        right = np.zeros(posteriors.size, np.bool_)
        right[cells] = True
        kept = np.ones(posteriors.size, np.bool_)
        if not as_bool(possible, "possible"):
            kept[cells[~gold.sure]] = False
        return reliability(np.clip(posteriors[kept], 0.0, 1.0), right[kept], bins)

    def _cells(self, gold: Links) -> Ints:
        """The number of every gold link among all cells of all sentences."""
        gold.check_inside(self.source_lengths, self.target_lengths, "gold")
        sizes = self.source_lengths * self.target_lengths
        starts, sentence = np.cumsum(sizes) - sizes, gold.sentence
        return starts[sentence] + gold.source * self.target_lengths[sentence] + gold.target


def trusted_shares(aligner: Any, shard: BitextShard) -> tuple[Floats, Floats]:
    """What the posteriors of the links of every source and of every target token are multiplied by when decoding.

    c / (c + ``rare_discount``) for a word that occurred c times in training; 1 for new words, whose links did not
    confirm themselves, and for tokens with an anchor. A link takes the smaller share of its two tokens.
    """
    strength = aligner.rare_discount
    source, target = (
        np.where(found > 0, found / np.maximum(found + strength, 1.0), 1.0)
        for found in (
            np.append(counts, 0)[tokens]  # unknown words are -1
            for counts, tokens in (
                (aligner.source_counts_, shard.source_tokens),
                (aligner.target_counts_, shard.target_tokens),
            )
        )
    )
    if shard.anchors is not None:
        links = shard.anchors.links
        source[shard.pairs.source_offsets[links.sentence] + links.source] = 1.0
        target[shard.pairs.target_offsets[links.sentence] + links.target] = 1.0
    return source, target


def as_matrices(shard: BitextShard, forward: Floats, backward: Floats) -> LinkPosteriors:
    """The posteriors of the cells of a shard, pair by pair."""
    sources, targets = shard.source_lengths, shard.target_lengths
    matrices = [
        [
            mass[begin : begin + n * m].reshape(n, m)
            for begin, n, m in zip(shard.pairs.cell_offsets, sources, targets, strict=False)
        ]
        for mass in (forward, backward)
    ]
    return LinkPosteriors(sources, targets, *matrices)


def concatenate_posteriors(parts: list[LinkPosteriors]) -> LinkPosteriors:
    """Posteriors of consecutive runs of sentences as those of one run."""
    nothing = np.zeros(0, np.int64)
    return LinkPosteriors(
        np.concatenate([nothing, *(part.source_lengths for part in parts)]),
        np.concatenate([nothing, *(part.target_lengths for part in parts)]),
        [matrix for part in parts for matrix in part.forward],
        [matrix for part in parts for matrix in part.backward],
    )


def links_above(shard: BitextShard, mass: Floats, threshold: float) -> Links:
    """Cells with more than ``threshold`` of mass (minimum Bayes risk decoding, [Ganchev2010] section 5)."""
    chosen = np.flatnonzero(mass > threshold)
    cell_offsets = shard.pairs.cell_offsets
    sentence = np.searchsorted(cell_offsets, chosen, side="right") - 1
    source, target = np.divmod(chosen - cell_offsets[sentence], shard.target_lengths[sentence])
    return Links.from_arrays(sentence, source, target, n_sentences=len(shard.source_lengths))


def viterbi_links(model: AlignmentModel, params: AlignmentParameters, shard: BitextShard, decode: str) -> Links:
    """Best alignment of each direction under the model alone, one of them or both merged."""
    choices = model.structure(shard).decode(model.scores(params, shard))
    n_target = int(shard.target_lengths.sum())
    return merged_links(shard.source_lengths, shard.target_lengths, choices[:n_target], choices[n_target:], decode)


def merged_links(source_lengths: Ints, target_lengths: Ints, choices: Ints, other_choices: Ints, decode: str) -> Links:
    """Links of one direction, or of both merged; -1 chooses NULL."""
    forward = _links(target_lengths, choices, backward=False)
    if decode in ("viterbi", "forward"):
        return forward
    backward = _links(source_lengths, other_choices, backward=True)
    if decode == "backward":
        return backward
    return symmetrize(forward, backward, decode)  # type: ignore[arg-type]


def concatenate_links(parts: list[Links]) -> Links:
    """Links of consecutive runs of sentences as those of one run."""
    if not parts:
        return Links.from_pairs([])
    starts = np.cumsum([0] + [part.n_links for part in parts])
    offsets = [part.offsets[:-1] + start for part, start in zip(parts, starts, strict=False)]
    return Links(
        np.concatenate([*offsets, starts[-1:]]),
        np.concatenate([part.source for part in parts]),
        np.concatenate([part.target for part in parts]),
        np.concatenate([part.sure for part in parts]),
    )


def sample_pairs(weights: Floats) -> Ints:
    """Numbers of some hundreds of sentence pairs from all over the corpus, those of weight 0 left out."""
    counted = np.flatnonzero(weights > 0)
    return counted[np.unique(np.linspace(0, len(counted) - 1, min(SAMPLE, len(counted))).round().astype(np.int64))]


def expected_threshold(shards: Sequence[BitextShard], posteriors: Sequence[tuple[Floats, Floats]]) -> float:
    """The threshold of greatest expected F1, to four digits so that it can be printed in full.

    ``posteriors`` are those of both directions. A link above the threshold counts as right as far as both grant it.
    """
    nothing = np.zeros(0)
    weights = [np.repeat(shard.pairs.weights, np.diff(shard.pairs.cell_offsets)) for shard in shards]
    forward, backward = (
        np.clip(np.concatenate([*(pair[side] for pair in posteriors), nothing]), 0.0, 1.0) for side in (0, 1)
    )
    mean, both = (forward + backward) / 2, np.minimum(forward, backward)
    return round(expected_f1_threshold(mean, np.concatenate([*weights, nothing]), right=both), 4)


def least_error_threshold(shards: Sequence[BitextShard], masses: Sequence[Floats], gold: Links) -> tuple[float, float]:
    """Least alignment error rate of a grid of thresholds, and the middle one of those that reach it."""
    errors = np.array([
        alignment_scores(
            concatenate_links([links_above(s, m, t) for s, m in zip(shards, masses, strict=True)]), gold
        ).aer
        for t in _GRID
    ])  # fmt: skip
    ties = np.flatnonzero(errors <= errors.min() + 1e-12)
    return float(errors.min()), float(_GRID[ties[len(ties) // 2]])


def _links(lengths: Ints, choices: Ints, *, backward: bool) -> Links:
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(choices)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    linked = choices >= 0
    sentence, place, choice = sentence[linked], place[linked], choices[linked]
    source, target = (place, choice) if backward else (choice, place)
    return Links.from_arrays(sentence, source, target, n_sentences=len(lengths))
