"""What HMMTagger accepts as sentences, labels and weights, read into flat arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from spectrem._arrays import Bools, Ints
from spectrem.estimators.labels import LabelReader, is_unlabelled, plain_tokens
from spectrem.exceptions import InvalidInputError

Word: TypeAlias = str | int
Tag: TypeAlias = str | int
Sentences: TypeAlias = Sequence[str] | Sequence[Sequence[Word]]
Labels: TypeAlias = Sequence[Sequence[Any] | str | None]


@dataclass(frozen=True, eq=False)
class LabelledText:
    """Sentences as one run of words, and what is known of their tags.

    Attributes
    ----------
    words : list of n_tokens str or int
    lengths : ndarray of shape (n_sentences,), int64
    label : ndarray of shape (n_tokens,), int64, or None
        Which of ``labels`` a token has; -1 for none.
    labels : list of tuple
        Sets of tags that a token may have, without repetitions and sorted.
    """

    words: list[Word]
    lengths: Ints
    label: Ints | None
    labels: list[tuple[Tag, ...]]

    def labelled(self) -> Bools:
        """Sentences with a single tag on every token, shape (n_sentences,)."""
        if self.label is None:
            return np.zeros(len(self.lengths), np.bool_)
        single = np.append([len(tags) == 1 for tags in self.labels], False)[self.label]
        found = np.bincount(np.repeat(np.arange(len(self.lengths)), self.lengths), single, len(self.lengths))
        return (found == self.lengths) & (self.lengths > 0)

    def place(self, token: int) -> str:
        """Where a token stands, for messages."""
        return ", ".join(f"{name} {number}" for name, number in self.keys(token).items())

    def keys(self, token: int) -> dict[str, int]:
        """Sentence and position of a token, from 0."""
        ends = np.cumsum(self.lengths)
        sentence = int(np.searchsorted(ends, token, side="right"))
        return {"sentence": sentence, "token": token - int(ends[sentence] - self.lengths[sentence])}


def read_text(sentences: Sentences, y: Labels | None = None) -> LabelledText:
    """Flatten sentences and labels.

    Raises
    ------
    InvalidInputError
        If either is not a sequence of sentences, a word is neither text nor a whole number, ``y`` has another length
        than its sentences, or a label is not a tag, or an empty collection.
    """
    read = [_tokens(sentence, n) for n, sentence in enumerate(as_sentences(sentences, "sentences"))]
    lengths = np.array([len(sentence) for sentence in read], np.int64)
    words = [word for sentence in read for word in sentence]
    for kind in set(map(type, words)):
        if kind is bool or not issubclass(kind, str | int):
            at = next(n for n, word in enumerate(words) if type(word) is kind)
            text = LabelledText(words, lengths, None, [])
            raise InvalidInputError(
                f"words must be text or whole numbers, got {words[at]!r} in {text.place(at)}; turn tokens into strings"
            )
    if y is None:
        return LabelledText(words, lengths, None, [])

    def tokens(own: Any, number: int) -> Any:
        return _split(own) if isinstance(own, str) else plain_tokens(own)

    reader = LabelReader(check_tag, "tag", soft=False)
    known = reader.read_sentences(as_sentences(y, "y"), lengths, tokens)
    return LabelledText(words, lengths, known.kind, [tags for tags, _ in known.kinds])


def sort_tags(tags: Iterable[Tag]) -> tuple[Tag, ...]:
    """Distinct tags in increasing order, numbers before text."""
    return tuple(sorted(set(tags), key=lambda tag: (isinstance(tag, str), tag)))


def check_tag(tag: object, where: str) -> Tag:
    """A tag as plain text or number.

    Raises
    ------
    InvalidInputError
        If it is neither.
    """
    plain = tag.item() if isinstance(tag, np.generic) else tag
    if isinstance(plain, bool) or not isinstance(plain, str | int):
        raise InvalidInputError(f"{where} must hold tags (text or whole numbers), got {tag!r}; name the tag")
    return plain


def check_tags(tags: Any) -> tuple[Tag, ...]:
    """The parameter ``tags`` as plain texts or numbers.

    Raises
    ------
    InvalidInputError
        If it is a string, empty, holds something else than tags, or one of them twice.
    """
    if isinstance(tags, str):
        raise InvalidInputError(f"tags must be a sequence of tags, got the string {tags!r}; put it in a list")
    checked = tuple(check_tag(tag, "tags") for tag in tags)
    marks = [tag for tag in checked if is_unlabelled(tag)]
    if marks:
        raise InvalidInputError(f"tags must not hold {marks[0]!r}, which marks tokens without one; leave it out")
    repeated = next((tag for k, tag in enumerate(checked) if tag in checked[:k]), None)
    if not checked or repeated is not None:
        what = "none" if not checked else f"{repeated!r} twice"
        raise InvalidInputError(f"tags must be distinct and at least one, got {what}; list every tag once")
    return checked


def as_sentences(value: Any, name: str) -> list[Any]:
    """A list of sentences, or of what is known of their labels; ``name`` is the argument that errors speak of."""
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__"):
        what = f"the string {value!r}" if isinstance(value, str) else f"{type(value).__name__} {value!r}"
        raise InvalidInputError(f"{name} must be a sequence of sentences, got {what}; put it in a list")
    return list(value)


def _split(text: str) -> list[str]:
    """Tokens between blanks and tabs; no-break spaces, such as those in numbers, are parts of words."""
    return re.findall(r"[^ \t\r\n]+", text)


def _tokens(sentence: Any, n: int) -> list[Word]:
    if isinstance(sentence, str):
        return list(_split(sentence))
    if isinstance(sentence, np.ndarray):
        return sentence.tolist()
    if isinstance(sentence, Mapping | bytes) or not hasattr(sentence, "__iter__"):
        raise InvalidInputError(
            f"every sentence must be a sequence of words or a string, got {sentence!r} for sentence {n}; for a single "
            "sentence, put it in a list"
        )
    return [word.item() if isinstance(word, np.generic) else word for word in sentence]
