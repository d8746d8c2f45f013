"""A corpus of sentences with numbered spans, cut into shards whose borders depend on the data only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_integers, as_lengths, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.models.bracketing.vocabulary import SpanNumbers
from spectrem.models.shards import Columns, cut
from spectrem.structures import Bracketings
from spectrem.structures._ragged import offsets_of, ranges_of

# Spans of a shard.
_LEAST_SPANS, _MOST_SPANS = 1 << 14, 1 << 20


@dataclass(frozen=True, eq=False)
class BracketShard:
    """Some sentences of a corpus.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
        Words of every sentence.
    tags : ndarray of shape (n_tokens,), int64
        -1 for those that are not in the vocabulary.
    yields, contexts : ndarray of shape (n_spans,), int64
        Numbers of the spans in a `SpanVocabulary`, in the order of `Bracketings`; -1 for unseen ones.
    weights : ndarray of shape (n_sentences,), float64
    instances : ndarray of shape (n_sentences,), int64
        Numbers of the sentences in the corpus.
    columns : Columns
        More columns for constraints, of sentences.
    """

    lengths: Ints
    tags: Ints
    yields: Ints
    contexts: Ints
    weights: Floats
    instances: Ints
    columns: Columns = Columns()  # noqa: RUF009


def build_shards(
    lengths: ArrayLike,
    tags: ArrayLike,
    numbers: SpanNumbers,
    weights: ArrayLike | None = None,
    columns: Columns = Columns(),  # noqa: B008
) -> list[BracketShard]:
    """Cut a corpus into shards; sentences of length 0 are in none.

    Parameters
    ----------
    lengths : array-like of shape (n_sentences,), int
        Words of every sentence, >= 0.
    tags : array-like of shape (n_tokens,), int
        Sentence after sentence.
    numbers : SpanNumbers
        Of all spans of the corpus.
    weights : array-like of shape (n_sentences,), optional
        Weight of every sentence, >= 0; default 1.
    columns : Columns, optional
        More columns for constraints, of sentences.

    Returns
    -------
    list of BracketShard
        At least one, the same for every number of workers.

    Raises
    ------
    InvalidInputError
        If lengths do not add up to the number of tags, or the numbers are not those of all spans.

    Examples
    --------
    >>> from spectrem.models.bracketing import SpanVocabulary
    >>> _, numbers = SpanVocabulary.learn([2, 1], [0, 1, 1], n_tags=2)
    >>> [shard.yields.tolist() for shard in build_shards([2, 1], [0, 1, 1], numbers)]
    [[0, 2, 1, 1]]
    """
    sizes, flat = as_lengths(lengths, "lengths"), as_integers(tags, "tags")
    if sizes.sum() != len(flat):
        raise InvalidInputError(
            f"lengths must add up to the number of tags, got {sizes.sum()} and {len(flat)}; give one tag per word"
        )
    spans, tokens = Bracketings(sizes).span_offsets, offsets_of(sizes)
    if len(numbers.yields) != spans[-1] or len(numbers.contexts) != spans[-1]:
        raise InvalidInputError(
            f"numbers must be those of all {spans[-1]} spans, got {len(numbers.yields)} yields and "
            f"{len(numbers.contexts)} contexts; number the same sentences"
        )
    weight = as_weights(weights, len(sizes))
    n_spans = np.diff(spans)
    shards = []
    for sentences, _ in cut(n_spans, [np.ones(len(sizes), np.bool_)], _LEAST_SPANS, _MOST_SPANS):
        places = ranges_of(spans[sentences], n_spans[sentences])
        words = ranges_of(tokens[sentences], sizes[sentences])
        shards.append(
            BracketShard(
                sizes[sentences], flat[words], numbers.yields[places], numbers.contexts[places], weight[sentences],
                sentences, columns.take(sentences, sizes),
            )
        )  # fmt: skip
    return shards
