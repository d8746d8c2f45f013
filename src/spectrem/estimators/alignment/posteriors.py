"""Posteriors and links of the shards of a text, under a fitted WordAligner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from spectrem._arrays import Floats
from spectrem._validate import as_bool
from spectrem.corpus import Local, stream
from spectrem.data import Bitext, Links
from spectrem.estimators.alignment.decoding import (
    expected_threshold,
    links_above,
    sample_pairs,
    trusted_shares,
    viterbi_links,
)
from spectrem.estimators.alignment.esteps import choose_estep, coupled, is_coupled
from spectrem.estimators.alignment.long_pairs import LongShard, long_links, long_posteriors
from spectrem.estimators.alignment.text import Lines, read_text
from spectrem.estimators.conventions import not_fitted
from spectrem.kernels.alignments.cells import discount_links
from spectrem.learning import EStep, Step
from spectrem.learning.posed_corpus import posterior_alone
from spectrem.models.alignment import Anchors, BitextShard, iter_shards

Result = TypeVar("Result")


def map_shards(
    aligner: Any,
    work: Callable[[BitextShard], Result],
    source: Bitext | Lines,
    target: Lines | None = None,
    held: Anchors | None = None,
) -> Iterator[Result]:
    """Apply ``work`` to the shards of a text, trained on or new, and return the results in order.

    Raises
    ------
    NotFittedError
        If the aligner is not fitted.
    """
    if not hasattr(aligner, "params_"):
        raise not_fitted(aligner)
    return stream(_work, read_text(aligner, source, target, held), work, n_threads=aligner.n_threads)


def _work(complete: Callable[[], BitextShard], work: Callable[[BitextShard], Result]) -> Result:
    return work(complete())


def posteriors(aligner: Any, shard: BitextShard, gamma: float) -> tuple[Floats, Floats]:
    """Probability of every cell, forward and backward, each of shape (n_cells,)."""
    if isinstance(shard, LongShard):
        return long_posteriors(aligner, shard, gamma)
    project = as_bool(aligner.project_at_predict, "project_at_predict")
    if gamma > 0 and (not project or is_coupled(aligner, gamma)):
        return coupled(aligner, aligner.model_, project).posteriors(aligner.params_, shard, gamma)
    estep = choose_estep(aligner, aligner.model_, gamma) if project else EStep()
    found = posterior_alone(shard, Step(aligner.model_, aligner.params_, gamma, estep))
    return aligner.model_.cell_masses(shard, found.marginals)


def believed(aligner: Any, shard: BitextShard, mass: Floats) -> Floats:
    """The same masses of all cells, those of words that were rare in training discounted in place."""
    if aligner.rare_discount > 0:
        shares = trusted_shares(aligner, shard)
        discount_links(shard.pairs.source_offsets, shard.pairs.target_offsets, *shares, mass)
    return mass


def masses(aligner: Any, shard: BitextShard, gamma: float) -> Floats:
    """What is held against the threshold: the mean of both directions as far as it is believed, shape (n_cells,)."""
    forward, backward = posteriors(aligner, shard, gamma)
    forward += backward
    forward /= 2
    return believed(aligner, shard, forward)


def decode(aligner: Any, shard: BitextShard) -> Links:
    """Links of the shard, as ``aligner.decode`` says."""
    if isinstance(shard, LongShard):
        return long_links(aligner, shard)
    if aligner.decode == "posterior":
        return links_above(shard, masses(aligner, shard, aligner.gamma_), aligner.threshold_)
    return viterbi_links(aligner.model_, aligner.params_, shard, aligner.decode)


def choose_threshold(aligner: Any, bitext: Bitext, weights: Floats, held: Anchors | None) -> float:
    """The threshold of greatest expected F1 on a sample of the training text."""
    sample = sample_pairs(weights)
    held = None if held is None else held.take(sample)
    shards = list(iter_shards(bitext.take(sample), aligner.table_, weights[sample], held))
    found = Local(shards, aligner.n_threads).collect(partial(_believed_at, aligner, aligner.gamma_))
    return expected_threshold(shards, list(found))


def _believed_at(aligner: Any, gamma: float, shard: BitextShard) -> tuple[Floats, Floats]:
    forward, backward = posteriors(aligner, shard, gamma)
    return believed(aligner, shard, forward), believed(aligner, shard, backward)
