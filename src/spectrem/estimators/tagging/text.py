"""What HMMTagger accepts as sentences, labels and weights, read into flat arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from spectrem._arrays import Bools, Ints
from spectrem.exceptions import InvalidInputError, quoted

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
    read = [_tokens(sentence, n) for n, sentence in enumerate(_sentences(sentences, "sentences"))]
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
    return LabelledText(words, lengths, *_read_labels(_sentences(y, "y"), lengths))


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
    repeated = next((tag for k, tag in enumerate(checked) if tag in checked[:k]), None)
    if not checked or repeated is not None:
        what = "none" if not checked else f"{repeated!r} twice"
        raise InvalidInputError(f"tags must be distinct and at least one, got {what}; list every tag once")
    return checked


def _sentences(value: Any, name: str) -> list[Any]:
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


def check_one_each(y: Any, lengths: Ints, what: str) -> None:
    """Raise `InvalidInputError` unless there is an entry of ``y`` for every sentence."""
    is_list = hasattr(y, "__len__") and not isinstance(y, str | Mapping)
    if not is_list or len(y) != len(lengths):
        size = len(y) if is_list else quoted(y)
        raise InvalidInputError(
            f"y must have one entry per sentence ({len(lengths)}), got {size}; use None for sentences without {what}"
        )


def _read_labels(y: list[Any], lengths: Ints) -> tuple[Ints, list[tuple[Tag, ...]]]:
    check_one_each(y, lengths, "labels")
    label = np.full(int(lengths.sum()), -1, np.int64)
    labels: list[tuple[Tag, ...]] = []
    number: dict[Any, int] = {}
    start = 0
    for n, (own, length) in enumerate(zip(y, lengths.tolist(), strict=True)):
        if own is not None:
            tags = _split(own) if isinstance(own, str) else own.tolist() if isinstance(own, np.ndarray) else own
            if not hasattr(tags, "__len__") or isinstance(tags, Mapping | set | frozenset) or len(tags) != length:
                size = len(tags) if hasattr(tags, "__len__") else repr(tags)
                raise InvalidInputError(
                    f"y must have a label per token of sentence {n} ({length}), got {size}; use None for tokens "
                    "without label"
                )
            for t, tag in enumerate(tags):
                if tag is not None:
                    key = frozenset(tag) if isinstance(tag, set | frozenset | list | tuple | np.ndarray) else tag
                    if key not in number:
                        number[key] = len(labels)
                        labels.append(_label(key, f"sentence {n}, token {t}"))
                    label[start + t] = number[key]
        start += length
    return label, labels


def _label(key: Any, place: str) -> tuple[Tag, ...]:
    if not isinstance(key, frozenset):
        return (check_tag(key, f"y ({place})"),)
    if not key:
        raise InvalidInputError(f"y must allow a tag, got an empty collection for {place}; use None to allow all tags")
    return sort_tags(check_tag(tag, f"y ({place})") for tag in key)
