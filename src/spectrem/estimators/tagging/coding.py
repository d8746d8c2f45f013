"""Numbers of words and tags, and which tags a word may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spectrem._arrays import Ints
from spectrem.data import Vocabulary
from spectrem.estimators.sentences import LabelledText, Tag, Word, check_tag, check_tags, shown_tags, sort_tags
from spectrem.exceptions import InvalidInputError
from spectrem.models.tagging import Lexicon, Names


@dataclass(frozen=True, eq=False)
class Coding:
    """How a tagger numbers text.

    Attributes
    ----------
    tags : tuple of str or int
        Tag of every state.
    vocabulary : Vocabulary
        Words with emission probabilities of their own; ``unknown`` among them if it stands for others.
    dictionary : mapping of word -> tuple of int
        States of the words that have an entry.
    free : tuple of int
        States of words without an entry.
    unknown : str
    """

    tags: tuple[Tag, ...]
    vocabulary: Vocabulary
    dictionary: Mapping[Word, tuple[int, ...]]
    free: tuple[int, ...]
    unknown: str

    @cached_property
    def lexicon(self) -> Lexicon:
        """Cells of all words; the unknown word has all states, its tokens those of their spelling."""
        words = self.vocabulary.words
        every = tuple(range(len(self.tags)))
        if len(self.free) == len(every) and not any(word in self.dictionary for word in words):
            return Lexicon.full(len(words), len(self.tags))
        allowed = [every if word == self.unknown else self.states(word) for word in words]
        offsets = np.cumsum([0] + [len(states) for states in allowed])
        return Lexicon.from_allowed(offsets, np.array([s for states in allowed for s in states], np.int64), len(every))

    @cached_property
    def names(self) -> Names:
        """What constraints call tags and words; those that are their own numbers stay numbers."""
        tags, words = self.tags, self.vocabulary.words
        return Names(
            None if tags == tuple(range(len(tags))) else [str(tag) for tag in tags],
            None if words == tuple(range(len(words))) else [str(word) for word in words],
            self.unknown,
        )

    @property
    def tag_values(self) -> Sequence[Tag]:
        """The tags as constraints see them."""
        return self.tags if self.names.tags is None else self.names.tags

    def states(self, word: Word) -> tuple[int, ...]:
        """The states that a word may have."""
        return self.dictionary.get(word, self.free)

    def encode(self, text: LabelledText) -> tuple[Lexicon, Ints]:
        """A lexicon with the entries that a text needs, and the entry of every token.

        Raises
        ------
        InvalidInputError
            If a label is not a tag, or leaves a token without any tag that its word may have.
        """
        known: Mapping[Word, int] = self.vocabulary.index  # type: ignore[assignment]
        # spellings that are not in the vocabulary get the next numbers
        more = {word: len(known) + k for k, word in enumerate(dict.fromkeys(w for w in text.words if w not in known))}
        number = {**known, **more} if more else known
        entries = np.fromiter(map(number.__getitem__, text.words), np.int64, len(text.words))
        label, numbers = text.labels.kind, text.labels.numbers(self.tags)
        stand_in = known.get(self.unknown, -1)
        special = np.flatnonzero((entries >= len(known)) | (label >= 0) | ((entries == stand_in) & (stand_in >= 0)))
        if not len(special):
            return self.lexicon, entries
        keys = entries[special] * (len(numbers) + 1) + label[special] + 1
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        first = special[first]
        given = [tuple(sorted(states.tolist())) for states in numbers]
        allowed = [self._allowed(text, int(t), None if label[t] < 0 else given[label[t]]) for t in first]
        words = np.where(entries[first] < len(known), entries[first], stand_in)
        lexicon, found = self.lexicon.with_entries(words, allowed)
        entries[special] = found[inverse]
        return lexicon, entries

    def _allowed(self, text: LabelledText, token: int, labels: tuple[int, ...] | None) -> tuple[int, ...]:
        own = self.states(text.words[token])
        if labels is None:
            return own
        both = tuple(state for state in labels if state in own)
        if not both:
            error = InvalidInputError(
                f"labels must agree with the dictionary, got {shown_tags([self.tags[s] for s in labels])} for "
                f"{text.words[token]!r} in {text.labels.place(token)}, which may be "
                f"{shown_tags([self.tags[s] for s in own])}; add the tag to the word's entry or correct the label"
            )
            error.keys = text.labels.keys(token)
            raise error
        return both


def learn_coding(tagger: Any, text: LabelledText) -> Coding:
    """Number the tags and words of a training text as the settings of an HMMTagger say.

    Raises
    ------
    InvalidInputError
        If nothing says which tags there are, tags repeat or contradict ``n_states``, or an entry of the dictionary is
        empty, no list or names an unknown tag.
    """
    listed = {word: _entry(word, entry) for word, entry in (tagger.dictionary or {}).items()}
    names = _tags(
        tagger.tags, tagger.n_states, [*listed.values(), *(tags for tags, _ in text.labels.kinds)], bool(listed)
    )
    number = {tag: state for state, tag in enumerate(names)}
    for word, entry in listed.items():
        for tag in entry:
            if tag not in number:
                raise InvalidInputError(
                    f"dictionary must name tags of the tag set ({shown_tags(names)}), got {tag!r} for {word!r}; add it "
                    "to tags or correct the entry"
                )
    states = {word: tuple(sorted(number[tag] for tag in entry)) for word, entry in listed.items()}
    free = states.get(tagger.unknown, tuple(range(len(names))))
    vocabulary = _vocabulary(text, tagger.vocabulary, tagger.unknown, tagger.min_count)
    return Coding(names, vocabulary, states, free, tagger.unknown)


def _vocabulary(
    text: LabelledText, given: Sequence[Word] | Vocabulary | None, unknown: str, min_count: int
) -> Vocabulary:
    if isinstance(given, Vocabulary):
        return given
    if given is not None:
        return Vocabulary(tuple(given))  # type: ignore[arg-type]
    counts: dict[Word, int] = {}
    for word in text.words:
        counts[word] = counts.get(word, 0) + 1
    kept = [word for word, count in counts.items() if count >= min_count]
    if len(kept) < len(counts) and unknown not in kept:
        kept.append(unknown)
    return Vocabulary(tuple(kept))  # type: ignore[arg-type]


def _tags(
    tags: Sequence[Tag] | None, n_states: int | None, named: list[tuple[Tag, ...]], from_dictionary: bool
) -> tuple[Tag, ...]:
    if tags is not None:
        names = check_tags(tags)
    elif named:
        names = sort_tags(tag for entry in named for tag in entry)
    elif n_states is not None:
        return tuple(range(n_states))
    else:
        raise InvalidInputError(
            "n_states must be given when there are neither tags nor a dictionary nor labels; how many tags are there "
            "to find?"
        )
    if n_states is not None and n_states != len(names):
        source = "tags" if tags is not None else "the dictionary and y" if from_dictionary else "y"
        raise InvalidInputError(
            f"n_states must be the number of tags, {len(names)} in {source}, got {n_states}; leave it out, or list all "
            "tags in tags"
        )
    return names


def _entry(word: object, entry: Any) -> tuple[Tag, ...]:
    if isinstance(entry, str) or not hasattr(entry, "__iter__"):
        raise InvalidInputError(
            f"dictionary must list the tags of every word, got {entry!r} for {word!r}; write [{entry!r}]"
        )
    tags = sort_tags(check_tag(tag, f"dictionary ({word!r})") for tag in entry)
    if not tags:
        raise InvalidInputError(
            f"dictionary must allow every word in it a tag, got an empty entry for {word!r}; add its tags, or leave "
            "the word out: it may then be any"
        )
    return tags
