"""Text, trained on or new, as a fitted WordAligner reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from spectrem.data import Bitext
from spectrem.estimators.aligner_input import Lines, as_bitext, recode
from spectrem.estimators.long_pairs import LongPair, LongShard, cut_shards, most_cells
from spectrem.models.alignment import BitextShard, Language, NewText, UnseenPairs


def read_text(
    aligner: Any, source: Bitext | Lines, target: Lines | None
) -> Iterator[Callable[[], BitextShard | LongShard]]:
    """What makes each shard of a text, one after another, with the word pairs that training did not see.

    Long pairs are completed without those: they may have millions, each as improbable as training leaves a pair.
    """
    bitext = as_bitext(source, target)
    known = recode(bitext, (aligner.source_vocabulary_, aligner.target_vocabulary_))
    table = aligner.table_
    shards = cut_shards(known, table, most_cells(aligner, aligner.gamma_))

    def completed() -> Iterator[Callable[[], BitextShard | LongShard]]:
        new = None
        for shard in shards:
            if isinstance(shard, LongPair):
                yield partial(shard.load, table)
            elif shard.is_seen(table):
                yield partial(_same, shard)
            else:
                new = new or NewText.of(_unseen_pairs(aligner), bitext)
                yield partial(new.complete, shard)

    return completed()


def _same(shard: BitextShard) -> BitextShard:
    return shard


def unknown_shares(aligner: Any, source: Bitext | Lines, target: Lines | None) -> tuple[float, float]:
    """Parts of the source and of the target tokens whose words did not occur in training."""
    known = recode(as_bitext(source, target), (aligner.source_vocabulary_, aligner.target_vocabulary_))
    shares = []
    for tokens, counts in (
        (known.source_tokens, aligner.source_counts_),
        (known.target_tokens, aligner.target_counts_),
    ):
        shares.append(float(np.mean(np.append(counts, 0)[tokens] == 0)) if len(tokens) else 0.0)
    return shares[0], shares[1]


def _unseen_pairs(aligner: Any) -> UnseenPairs:
    """What the model says of word pairs that training did not see; made when first needed, kept until refitted."""
    kept = getattr(aligner, "_unseen", None)
    if kept is None or kept.table is not aligner.table_:
        kept = aligner._unseen = UnseenPairs.of(
            aligner.table_,
            aligner.params_,
            Language.of(aligner.source_vocabulary_, aligner.source_counts_),
            Language.of(aligner.target_vocabulary_, aligner.target_counts_),
            stem_strength=aligner.stem_strength,
            cognate_strength=aligner.cognate_strength,
        )
    return kept
