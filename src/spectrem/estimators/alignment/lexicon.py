"""What a WordAligner has learned of words: probabilities, or expected counts, of word pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spectrem._arrays import Reals
from spectrem.data import prior_lines
from spectrem.exceptions import InvalidInputError
from spectrem.models.alignment import DirectionParameters, Totals


def list_pairs(aligner: Any, min_probability: float) -> Iterator[tuple[str, str, float, float]]:
    """Word pairs with p(target | source) and p(source | target), if either reaches ``min_probability``."""
    forward, backward = (side.translation[:-1] for side in _sides(aligner))
    return _named(aligner, np.maximum(forward, backward) >= min_probability, forward, backward)


def list_priors(aligner: Any, min_probability: float) -> Iterator[str]:
    """Lines of what an aligner expected of its text, as eflomal reads priors; see `spectrem.data.prior_lines`.

    The count of a word pair is the mean over both directions of its probability times the total of its conditioning
    word, pseudo-counts of priors included. Ends of sentences are jumps behind the last word.

    Raises
    ------
    InvalidInputError
        If the model was saved by an earlier version, which did not keep totals.
    """
    table, (one, other) = aligner.table_, _sides(aligner)
    totals = one.totals, other.totals
    if totals[0] is None or totals[1] is None:
        raise InvalidInputError(
            "priors need the counts behind the model's probabilities, which files saved by earlier versions lack; fit "
            "and save it again"
        )
    forward, backward = one.translation[:-1], other.translation[:-1]
    counts = (forward * totals[0].words[table.sources] + backward * totals[1].words[table.targets]) / 2
    kept = np.maximum(forward, backward) >= min_probability
    links = ((source, target, count) for source, target, count, _ in _named(aligner, kept, counts, counts))
    return prior_lines(links, _jumps(one, totals[0]), _jumps(other, totals[1]))


def _sides(aligner: Any) -> tuple[DirectionParameters, DirectionParameters]:
    return aligner.params_.forward, aligner.params_.backward


def _named(aligner: Any, kept: np.ndarray, forward: Reals, backward: Reals) -> Iterator[tuple[str, str, float, float]]:
    sources, targets = aligner.table_.sources, aligner.table_.targets
    for k in np.flatnonzero(kept):
        yield (
            aligner.source_vocabulary_.words[sources[k]],
            aligner.target_vocabulary_.words[targets[k]],
            float(forward[k]),
            float(backward[k]),
        )


def _jumps(side: DirectionParameters, totals: Totals) -> dict[int, float]:
    """Counts of at least a thousandth, by width; widths that the model puts together stand for the least of them."""
    width = side.max_jump
    counts = np.zeros(2 * width + 2)
    counts[:-1] += totals.jumps * side.jump
    counts[width + 1 :] += totals.ends * side.end
    return {d - width: float(counts[d]) for d in np.flatnonzero(counts >= 1e-3).tolist()}
