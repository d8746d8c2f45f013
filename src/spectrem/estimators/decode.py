"""From posteriors or scores of a shard of sentence pairs to links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.data import Links, symmetrize
from spectrem.models.alignment import AlignmentModel, AlignmentParameters, BitextShard

Decode = Literal["posterior", "viterbi", "forward", "backward", "intersection", "union", "grow-diag-final-and"]
DECODES: tuple[str, ...] = get_args(Decode)


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


def _links(lengths: Ints, choices: Ints, *, backward: bool) -> Links:
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(choices)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    linked = choices >= 0
    sentence, place, choice = sentence[linked], place[linked], choices[linked]
    source, target = (place, choice) if backward else (choice, place)
    return Links.from_arrays(sentence, source, target, n_sentences=len(lengths))
