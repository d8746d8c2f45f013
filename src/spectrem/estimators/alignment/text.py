"""The input of WordAligner: texts and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem.data import Bitext, Links, Vocabulary, encode_bitext
from spectrem.estimators.alignment.known_links import KnownLinks, read_anchors
from spectrem.estimators.alignment.long_pairs import LongPair, LongShard, cut_shards, find_untrainable, most_cells
from spectrem.estimators.conventions import row_weights
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant
from spectrem.models.alignment import (
    Anchors,
    BitextShard,
    Language,
    NewText,
    PairTable,
    TextShard,
    UnseenPairs,
    count_words,
)

Lines: TypeAlias = Sequence[str]


def as_bitext(source: Bitext | Lines, target: Lines | None) -> Bitext:
    if isinstance(source, Bitext):
        return source
    if target is None:
        raise InvalidInputError("target must be given when source is a sequence of lines; or pass one Bitext")
    return encode_bitext(source, target)


def judged_text(source: Bitext | Lines, target: Lines | None, gold: Links) -> Bitext:
    """The pairs of a text, between whose words gold links must be."""
    bitext = as_bitext(source, target)
    gold.check_inside(bitext.source_lengths, bitext.target_lengths, "gold")
    return bitext


def recode(bitext: Bitext, vocabularies: tuple[Vocabulary, Vocabulary]) -> Bitext:
    """The same sentences with the word numbers of other vocabularies."""
    tokens = []
    for own, known, numbers in (
        (bitext.source_vocabulary, vocabularies[0], bitext.source_tokens),
        (bitext.target_vocabulary, vocabularies[1], bitext.target_tokens),
    ):
        if own.words == known.words:
            tokens.append(numbers)
        else:
            renumbered = np.append(known.lookup(own.words), np.int32(-1))
            tokens.append(renumbered[numbers])
    return Bitext(tokens[0], bitext.source_offsets, tokens[1], bitext.target_offsets, *vocabularies)


def check_words(bitext: Bitext) -> None:
    """Raise if there are words without a number, which training cannot count."""
    unknown = int((bitext.source_tokens < 0).sum() + (bitext.target_tokens < 0).sum())
    if unknown:
        raise InvalidInputError(
            f"source must be a Bitext without unknown words to be trained on, got one with {unknown} of them; "
            "encode it without vocabularies"
        )


def count_sides(bitext: Bitext) -> tuple[Ints, Ints]:
    """Tokens of every source word and of every target word, each of shape (n_words,)."""
    return (
        count_words(bitext.source_tokens, len(bitext.source_vocabulary)),
        count_words(bitext.target_tokens, len(bitext.target_vocabulary)),
    )


def select_pairs(
    bitext: Bitext, weights: Floats, anchors: Anchors | None, max_length: int | None, too_long: NDArray[np.integer]
) -> tuple[Bitext, Floats, Anchors | None]:
    """Drop pairs longer than ``max_length``, but those of which all links are given, and those that are too long."""
    kept = np.ones(bitext.n_pairs, np.bool_)
    if max_length is not None:
        kept = np.maximum(bitext.source_lengths, bitext.target_lengths) <= max_length
    if anchors is not None:
        kept |= anchors.complete
    kept[too_long] = False
    if kept.all():
        return bitext, weights, anchors
    order = np.flatnonzero(kept)
    return bitext.take(order), weights[order], None if anchors is None else anchors.take(order)


def read_training(
    aligner: Any,
    source: Bitext | Lines,
    target: Lines | None,
    known: KnownLinks | None,
    anchors: KnownLinks | None,
    sample_weight: ArrayLike | None,
) -> tuple[Bitext, Floats, Anchors | None, int]:
    """The pairs of a text to train on, their weights, their known links, and how many pairs were left out."""
    gammas = (aligner.schedule or Constant(aligner.gamma)).gammas()
    bitext = as_bitext(source, target)
    check_words(bitext)
    weights = row_weights(sample_weight, bitext.n_pairs, "sentence pair")
    too_long = find_untrainable(bitext, most_cells(aligner, min(gammas)))
    held = read_anchors(bitext, known, anchors)
    chosen, weights, held = select_pairs(bitext, weights, held, aligner.max_length, too_long)
    return chosen, weights, held, bitext.n_pairs - chosen.n_pairs


def read_text(
    aligner: Any, source: Bitext | Lines, target: Lines | None, anchors: Anchors | None = None
) -> Iterator[Callable[[], BitextShard | LongShard]]:
    """Functions that make the shards of a text, one after another, with the word pairs that training did not see.

    Long pairs are completed without those: they may have millions, each as improbable as training leaves a pair.
    """
    bitext = as_bitext(source, target)
    known = recode(bitext, (aligner.source_vocabulary_, aligner.target_vocabulary_))
    shards = cut_shards(known, most_cells(aligner, aligner.gamma_), anchors)
    new = _Once(lambda: NewText.of(unseen_pairs(aligner), bitext))
    return (partial(_completed, shard, aligner.table_, new) for shard in shards)


def _completed(shard: TextShard | LongPair, table: PairTable, new: _Once) -> BitextShard | LongShard:
    """A shard with its cells, those of unseen word pairs, too."""
    if isinstance(shard, LongPair):
        return shard.load(table)
    found = shard.index(table)
    return found if found.is_seen(table) else new().complete(found)


class _Once:
    """What is made when the first of several threads asks for it."""

    def __init__(self, make: Callable[[], NewText]) -> None:
        self._make, self._lock = make, Lock()
        self._made: NewText | None = None

    def __call__(self) -> NewText:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


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


def unseen_pairs(aligner: Any) -> UnseenPairs:
    """Probabilities of word pairs that training did not see; made when first needed, kept until the next fit."""
    made = aligner.fitted_with_.made
    if "unseen" not in made:
        made["unseen"] = UnseenPairs.of(
            aligner.table_,
            aligner.params_,
            Language.of(aligner.source_vocabulary_, aligner.source_counts_),
            Language.of(aligner.target_vocabulary_, aligner.target_counts_),
            stem_strength=aligner.stem_strength,
            cognate_strength=aligner.cognate_strength,
        )
    found: UnseenPairs = made["unseen"]
    return found
