"""From sentences of tags to shards of numbered spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.estimators.conventions import check_words_to_learn
from spectrem.estimators.tagging.text import LabelledText, Sentences, Word, read_text, sort_tags
from spectrem.exceptions import InvalidInputError
from spectrem.models.bracketing import BracketShard, SpanVocabulary, build_shards

# Numbers, scores and posteriors of a span take about a hundred bytes.
_BYTES_PER_SPAN, _MOST_SPANS = 100, 1 << 27


@dataclass(frozen=True, eq=False)
class SpanCoding:
    """How a model numbers tags and spans.

    Attributes
    ----------
    tags : tuple of str or int
    vocabulary : SpanVocabulary
    """

    tags: tuple[Word, ...]
    vocabulary: SpanVocabulary

    @property
    def names(self) -> tuple[Word, ...]:
        """What constraints call the tags: text, or whole numbers if all are."""
        return self.tags if all(not isinstance(tag, str) for tag in self.tags) else tuple(map(str, self.tags))

    def encode(self, text: LabelledText) -> list[BracketShard]:
        """Shards of other sentences; tags and spans that training did not meet have no number."""
        tags = _numbers(self.tags, text.words)
        return build_shards(text.lengths, tags, self.vocabulary.number(text.lengths, tags))


def read_sentences(sentences: Sentences) -> LabelledText:
    """Sentences as flat arrays.

    Raises
    ------
    InvalidInputError
        If they are not sequences of tags, or have so many spans that their arrays would not fit into memory.
    """
    text = read_text(sentences)
    n_spans = text.lengths * (text.lengths + 1) // 2
    if n_spans.sum() > _MOST_SPANS:
        longest = int(np.argmax(text.lengths))
        raise InvalidInputError(
            f"sentences have {int(n_spans.sum()):,} spans, which would take about "
            f"{n_spans.sum() * _BYTES_PER_SPAN / 2**30:.0f} GiB, {int(n_spans[longest]):,} of them in sentence "
            f"{longest} of {int(text.lengths[longest]):,} words; leave out long sentences"
        )
    return text


def learn_spans(text: LabelledText, weights: Floats) -> tuple[SpanCoding, list[BracketShard]]:
    """Number the tags and spans of sentences to train on; those of weight 0 are left out.

    Raises
    ------
    InvalidInputError
        If no sentence with a weight above 0 has a word.
    """
    check_words_to_learn("sentences", text.lengths, weights)
    counted = weights > 0
    kept = np.repeat(counted, text.lengths)
    words: list[Any] = text.words if kept.all() else [text.words[k] for k in np.flatnonzero(kept)]
    tags = sort_tags(words)
    flat = _numbers(tags, words)
    # Sentences of weight 0 keep their numbers, as sentences without words.
    lengths = np.where(counted, text.lengths, 0)
    vocabulary, numbers = SpanVocabulary.learn(lengths, flat, len(tags))
    return SpanCoding(tags, vocabulary), build_shards(lengths, flat, numbers, weights)


def _numbers(tags: tuple[Word, ...], words: list[Any]) -> Ints:
    index = {tag: number for number, tag in enumerate(tags)}
    return np.fromiter((index.get(word, -1) for word in words), np.int64, len(words))
