"""How likely sentence pairs are translations of each other, and all that is known of them in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem.data import Bitext, Links
from spectrem.estimators.alignment.decoding import LinkPosteriors, as_matrices, links_above
from spectrem.kernels.alignments.pair_scores import pair_scores
from spectrem.models.alignment import Anchors, BitextShard


@dataclass(frozen=True)
class AlignedPairs:
    """Some sentence pairs in a row: their links, what is not linked, and how good they are.

    Attributes
    ----------
    links : Links
    posteriors : LinkPosteriors
    scores : ndarray of shape (n_pairs,)
        See `score_text`.
    """

    links: Links
    posteriors: LinkPosteriors
    scores: Floats


def align_pairs(aligner: Any, bitext: Bitext, anchors: Anchors | None = None) -> Iterator[AlignedPairs]:
    """Links, posteriors and scores of a text, trained on or new, some hundreds of pairs at a time and in order."""

    def work(shard: BitextShard) -> AlignedPairs:
        forward, backward = aligner._posteriors(shard, aligner.gamma_)
        mass = (forward + backward) / 2
        posterior = aligner.decode == "posterior"
        links = links_above(shard, mass, aligner.threshold_) if posterior else aligner._decode(shard)
        return AlignedPairs(links, as_matrices(shard, forward, backward), score_shard(aligner, shard, mass))

    begin = 0
    for part in aligner._map(work, bitext, None, anchors):
        end = begin + part.links.n_sentences
        yield part if anchors is None else replace(part, links=anchors.impose(part.links, begin))
        begin = end


def score_text(aligner: Any, source: Bitext | Sequence[str], target: Sequence[str] | None) -> Floats:
    """How likely each sentence pair is a translation: look at the lowest first.

    A word of relative frequency q carries -log q nats of information. A link of probability p to a word that produces
    it with probability t explains p (log t - log q) of them. The score is the share of the information of a sentence
    that the best links of its words explain, taken of the side where it is smaller, times the mean probability of the
    best links of all words of both sides. It has no unit. Compare scores of one aligner: they rise with the text that
    it was trained on, and fall as translations get freer.

    Parameters
    ----------
    aligner : WordAligner
    source, target
        As of `WordAligner.predict`, trained on or new.

    Returns
    -------
    ndarray of shape (n_pairs,)
        From 0 (nothing in common) to 1; NaN where a side is empty, or a pair too long to align.

    Examples
    --------
    >>> from spectrem import WordAligner
    >>> from spectrem.datasets import make_bitext
    >>> bitext = make_bitext(300, seed=1)
    >>> aligner = WordAligner(n_threads=1).fit(bitext.source, bitext.target)
    >>> good, bad = aligner.score_pairs(bitext.source[:1] * 2, [bitext.target[0], bitext.target[2]])
    >>> bool(good > 2 * bad)
    True
    """
    parts = aligner._map(
        lambda shard: score_shard(aligner, shard, aligner._masses(aligner.gamma_, shard)), source, target
    )
    return np.concatenate([np.zeros(0), *parts])


def score_shard(aligner: Any, shard: BitextShard, mass: Floats) -> Floats:
    """The scores of the pairs of a shard, see `score_text`, from the mean posteriors of its cells, shape (n_cells,)."""
    scores = np.empty(len(shard.source_lengths))
    logs = [
        np.log(shard.of_entries(direction.translation, backward=backward))
        for backward, direction in ((False, aligner.params_.forward), (True, aligner.params_.backward))
    ]
    pairs = shard.pairs
    pair_scores(
        pairs.source_offsets, pairs.target_offsets, pairs.cell_offsets, pairs.cells, *logs, mass,
        _nats(aligner.source_counts_, shard.source_tokens), _nats(aligner.target_counts_, shard.target_tokens), scores,
    )  # fmt: skip
    return scores


def _nats(counts: Ints, tokens: NDArray[np.int32]) -> Floats:
    """Information of tokens; a word that training did not see counts as half of one seen once."""
    raised = np.append(counts, 0) + 0.5
    return -np.log(raised / raised.sum())[tokens]
