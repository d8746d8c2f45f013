"""A trained model and what it learned from new text, as one model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats
from spectrem.data import Vocabulary
from spectrem.kernels.alignments.continued import splice_tables
from spectrem.models.alignment.continued import Continuation
from spectrem.models.alignment.pairs import PairTable
from spectrem.models.alignment.parameters import AlignmentParameters, DirectionParameters, Totals, as_single, with_floor
from spectrem.structures._ragged import offsets_of


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
    merged = (
        vocabularies[0].extend(new.bitext.source_vocabulary.words),
        vocabularies[1].extend(new.bitext.target_vocabulary.words),
    )
    source = merged[0].lookup(new.bitext.source_vocabulary.words)
    target = merged[1].lookup(new.bitext.target_vocabulary.words)
    sizes = np.append(np.diff(old.row_offsets), np.zeros(len(merged[0]) - old.n_source_words, np.int64))
    sizes[source] += np.bincount(new.table.sources[new.found < 0], minlength=new.table.n_source_words)
    row_offsets = offsets_of(sizes)
    targets = np.empty(row_offsets[-1], np.int32)
    forward, backward = np.zeros(len(targets) + 1), np.zeros(len(targets) + 1)
    sides = old_params.forward, old_params.backward
    learned = params.forward, params.backward
    words = [
        _totals(side, own, number, len(vocabulary), new.strength)
        for side, own, number, vocabulary in zip(sides, learned, (source, target), merged, strict=True)
    ]
    scales = [_scale(side, total, new.strength) for side, total in zip(sides, words, strict=True)]
    new_row = np.full(len(merged[0]), -1, np.int32)
    new_row[source] = np.arange(len(source))
    own_targets = target[new.table.targets]
    order = np.lexsort((own_targets, new.table.sources))
    splice_tables(
        old.row_offsets, old.targets, sides[0].translation, sides[1].translation, *scales, new.table.row_offsets,
        own_targets[order], learned[0].translation[order], learned[1].translation[order], new_row, row_offsets,
        targets, forward, backward,
    )  # fmt: skip
    spliced = AlignmentParameters(
        _whole(sides[0], learned[0], forward, words[0], target, len(merged[1]), new.strength),
        _whole(sides[1], learned[1], backward, words[1], source, len(merged[0]), new.strength),
    )
    return PairTable(row_offsets, targets, len(merged[1])), spliced, merged


def _totals(
    old: DirectionParameters, new: DirectionParameters, number: NDArray[np.int32], n_words: int, strength: float
) -> Floats:
    assert old.totals is not None
    assert new.totals is not None
    words = np.zeros(n_words)
    words[: len(old.totals.words)] = strength * old.totals.words
    words[number] = new.totals.words
    return words


def _scale(old: DirectionParameters, totals: Floats, strength: float) -> Floats:
    """What the probabilities of every old conditioning word are multiplied by where new text does not replace them."""
    assert old.totals is not None
    before, now = strength * old.totals.words, totals[: len(old.totals.words)]
    return np.divide(before, now, out=np.ones(len(before)), where=now > 0)


def _whole(
    old: DirectionParameters,
    new: DirectionParameters,
    translation: Floats,
    words: Floats,
    number: NDArray[np.int32],
    n_produced: int,
    strength: float,
) -> DirectionParameters:
    assert old.totals is not None
    assert new.totals is not None
    before, now = strength * old.totals.null, new.totals.null
    null = np.zeros(n_produced + 1)
    null[: len(old.null) - 1] = old.null[:-1] * (before / now if now > 0 else 1.0)
    null[number] = new.null[:-1]
    totals = Totals(words, now, new.totals.jumps, new.totals.ends)
    return replace(new, translation=as_single(with_floor(translation)), null=with_floor(null), totals=totals)
