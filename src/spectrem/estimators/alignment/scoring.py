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
from spectrem.estimators.alignment.esteps import coupled
from spectrem.estimators.alignment.long_pairs import LongShard
from spectrem.estimators.alignment.posteriors import believed, decode, map_shards, posteriors
from spectrem.kernels.alignments.pair_scores import explained_shares
from spectrem.models.alignment import Anchors, BitextShard, diagonal_posteriors

_LEAST = 1e-12


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
        forward, backward = posteriors(aligner, shard, aligner.gamma_)
        mass = (forward + backward) / 2
        scores = score_shard(aligner, shard, mass)
        if aligner.decode == "posterior":
            links = links_above(shard, believed(aligner, shard, mass), aligner.threshold_)
        else:
            links = decode(aligner, shard)
        return AlignedPairs(links, as_matrices(shard, forward, backward), scores)

    begin = 0
    for part in map_shards(aligner, work, bitext, None, anchors):
        end = begin + part.links.n_sentences
        yield part if anchors is None else replace(part, links=anchors.impose(part.links, begin))
        begin = end


def score_text(aligner: Any, source: Bitext | Sequence[str], target: Sequence[str] | None) -> Floats:
    """How likely each sentence pair is a translation: look at the lowest first.

    The score is the geometric mean of three numbers from 0 to 1, the last one counted twice.

    * What the links explain. A word of relative frequency q carries -log q nats of information; a link of probability p
      to a word that produces it with probability t explains p (log t - log q) of them. The share of the information of
      a sentence that the best links of its words explain is taken of the side where it is smaller, and multiplied by
      the mean probability of the best links of all words of both sides.
    * The geometric mean of the probabilities of all words of both sides given the other side, under the model without
      constraints, order and NULL included: 1 over the perplexity.
    * The ratio of the numbers of words of both sides, over that of the training text or under it.

    It has no unit. Compare scores of one aligner: they rise with the text that it was trained on, and fall as
    translations get freer.

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

    def work(shard: BitextShard) -> Floats:
        forward, backward = posteriors(aligner, shard, aligner.gamma_)
        return score_shard(aligner, shard, (forward + backward) / 2)

    parts = map_shards(aligner, work, source, target)
    return np.concatenate([np.zeros(0), *parts])


def score_shard(aligner: Any, shard: BitextShard, mass: Floats) -> Floats:
    """The scores of the pairs of a shard, see `score_text`, from the mean posteriors of its cells, shape (n_cells,)."""
    sources, targets = shard.source_lengths, shard.target_lengths
    counts = aligner.source_counts_, aligner.target_counts_
    explained = np.empty(len(sources))
    logs = [
        np.log(shard.of_entries(direction.translation, backward=backward))
        for backward, direction in ((False, aligner.params_.forward), (True, aligner.params_.backward))
    ]
    pairs = shard.pairs
    explained_shares(
        pairs.source_offsets, pairs.target_offsets, pairs.cell_offsets, pairs.cells, *logs, mass,
        _nats(counts[0], shard.source_tokens), _nats(counts[1], shard.target_tokens), explained,
    )  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore"):  # sides may be empty
        likelihoods = np.exp(_log_likelihoods(aligner, shard) / (sources + targets))
        ratios = targets / sources * (counts[0].sum() / counts[1].sum())
        # counted once, the ratio ranks sentences of which a part is missing too high
        return (explained * likelihoods * np.minimum(ratios, 1 / ratios) ** 2) ** 0.25


def _log_likelihoods(aligner: Any, shard: BitextShard) -> Floats:
    """Log-probability of the words of both sides of every pair given the other, nats."""
    params = aligner.params_
    if not isinstance(shard, LongShard):
        return coupled(aligner, aligner.model_, project=False).log_likelihoods(params, shard)
    linked, other_linked = np.zeros(len(shard.target_tokens)), []
    for forward, backward in diagonal_posteriors(params, shard, 1.0, 0, 1.0):
        linked += forward.sum(axis=0)
        other_linked.append(backward.sum(axis=1))
    total = 0.0
    # what NULL explains of a word says how probable the word is
    for side, tokens, mass in (
        (params.forward, shard.target_tokens, linked),
        (params.backward, shard.source_tokens, np.concatenate(other_linked)),
    ):
        total += float(np.sum(np.log(side.null_probability * side.null[tokens] / np.maximum(1 - mass, _LEAST))))
    return np.array([min(total, 0.0)])


def _nats(counts: Ints, tokens: NDArray[np.int32]) -> Floats:
    """Information of tokens; a word that training did not see counts as half of one seen once."""
    raised = np.append(counts, 0) + 0.5
    return -np.log(raised / raised.sum())[tokens]
