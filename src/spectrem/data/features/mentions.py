"""Features of mentions of entities and of ordered pairs of them, in the manner of [RothSmall2009]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from spectrem.data.features.templates import word_shape
from spectrem.data.relations import RelationSentence

_WINDOW, _CONTEXT = 2, 3  # words on either side of a mention, and of a pair
_MOST_BETWEEN, _LONGEST_PHRASE, _LONGEST_PATTERN = 15, 4, 8
_DISTANCES = np.array([0, 1, 2, 3, 5, 8, 12, 18])
_MOST_MENTIONS = 4
_OPEN = ("N", "V", "J", "C", "R")  # first letters of the parts of speech of content words
_Span = tuple[int, int]

CONTEXTS = ("distance=", "mentions=")
"""Beginnings, behind the sign, of the features of pairs that tell how two mentions stand to each other."""


def mention_features(sentence: RelationSentence) -> list[list[str]]:
    """Features of every mention, each once.

    Its words in lower case, shapes and parts of speech, one by one and together; the first and the last word with their
    beginnings and endings of two to four characters; the number of words; and, on either side, two words with shapes
    and parts of speech, and the pair of them.

    Parameters
    ----------
    sentence : RelationSentence
        Without parts of speech, features do without them.

    Examples
    --------
    >>> sentence = RelationSentence(["Oswald", "shot", "Kennedy"], [(0, 1), (2, 3)], tags=["NNP", "VBD", "NNP"])
    >>> mention_features(sentence)[1][-4:]
    ['shape-2=Xx', 'tag-2=NNP', 'before=oswald_shot', '__EOS__']
    """
    lower = [word.lower() for word in sentence.words]
    return [list(dict.fromkeys(_of_mention(sentence, lower, *span))) for span in sentence.mentions]


def pair_features(sentence: RelationSentence) -> list[list[str]]:
    """Features of every ordered pair of mentions, in the order of ``sentence.pairs``, each once.

    Whether the first argument stands to the left (``>``) or to the right, which most features of what is between the
    two begin with: how many words and mentions, the words, their pairs and triples, the pairs of their parts of speech,
    and the pattern of mentions (M), function words and parts of speech of content words. Also, with the same sign,
    the first five letters of nouns, verbs and adjectives before, between and behind, and the words around the pair;
    and for each argument its words, shapes, parts of speech and endings. What types the arguments have is left to
    others.

    Parameters
    ----------
    sentence : RelationSentence

    Examples
    --------
    >>> sentence = RelationSentence(["Oswald", "shot", "Kennedy"], [(0, 1), (2, 3)], tags=["NNP", "VBD", "NNP"])
    >>> [feature for feature in pair_features(sentence)[1] if "shot" in feature][:3]
    ['<b=shot', '<between=shot', '<b1=shot']
    """
    lower = [word.lower() for word in sentence.words]
    shared: dict[_Span, list[str]] = {}
    found = []
    for first, second in sentence.pairs:
        sign, one, other = (">", first, second) if _in_order(sentence, first, second) else ("<", second, first)
        if (one, other) not in shared:
            shared[one, other] = list(_of_place(sentence, lower, sentence.mentions[one], sentence.mentions[other]))
        own = [sign, *(sign + feature for feature in shared[one, other])]
        for argument, mention in (("1", first), ("2", second)):
            own.extend(f"{argument}{feature}" for feature in _of_argument(sentence, lower, *sentence.mentions[mention]))
        ends = (word_shape(sentence.words[sentence.mentions[mention][1] - 1]) for mention in (first, second))
        own.append(f"{sign}shapes={'|'.join(ends)}")
        found.append(list(dict.fromkeys(own)))
    return found


def _in_order(sentence: RelationSentence, first: int, second: int) -> bool:
    return sentence.mentions[first] < sentence.mentions[second]


def _distance(left: _Span, right: _Span) -> int:
    """The number of words between two mentions, in one of the classes 1 to 8."""
    return int(np.searchsorted(_DISTANCES, max(right[0] - left[1], 0), side="right"))


def _mentions_between(sentence: RelationSentence, left: _Span, right: _Span) -> int:
    return min(sum(left < span < right for span in sentence.mentions), _MOST_MENTIONS)


def _of_mention(sentence: RelationSentence, lower: Sequence[str], start: int, stop: int) -> Iterator[str]:
    words, tags = sentence.words, sentence.tags
    shapes = [word_shape(word) for word in words[start:stop]]
    yield f"phrase={'_'.join(lower[start:stop])}"
    yield f"length={min(stop - start, 5)}"
    yield f"shapes={'_'.join(shapes[:_LONGEST_PHRASE])}"
    yield from (f"w={word}" for word in lower[start:stop])
    yield from (f"shape={shape}" for shape in shapes)
    if tags is not None:
        yield from (f"tag={tag}" for tag in tags[start:stop])
        yield f"tags={'_'.join(tags[start:stop][:_LONGEST_PHRASE])}"
    for name, word in (("first", lower[start]), ("last", lower[stop - 1])):
        yield f"{name}={word}"
        for size in range(2, min(len(word), 4) + 1):
            yield f"{name}-prefix={word[:size]}"
            yield f"{name}-suffix={word[-size:]}"
    for distance in range(1, _WINDOW + 1):
        for at, place in ((start - distance, -distance), (stop - 1 + distance, distance)):
            if 0 <= at < len(words):
                yield f"w{place:+d}={lower[at]}"
                yield f"shape{place:+d}={word_shape(words[at])}"
                if tags is not None:
                    yield f"tag{place:+d}={tags[at]}"
    if start >= _WINDOW:
        yield f"before={'_'.join(lower[start - _WINDOW : start])}"
    if stop + _WINDOW <= len(words):
        yield f"behind={'_'.join(lower[stop : stop + _WINDOW])}"
    if start == 0:
        yield "__BOS__"
    if stop == len(words):
        yield "__EOS__"


def _of_argument(sentence: RelationSentence, lower: Sequence[str], start: int, stop: int) -> Iterator[str]:
    """Features of a mention as an argument of a pair."""
    yield from (f"w={word}" for word in lower[start:stop])
    last = lower[stop - 1]
    yield from (f"last={last}", f"suffix={last[-3:]}", f"suffix={last[-4:]}", f"length={min(stop - start, 5)}")
    yield f"shapes={'_'.join(map(word_shape, sentence.words[start:stop][:_LONGEST_PHRASE]))}"
    if sentence.tags is not None:
        yield f"tags={'_'.join(sentence.tags[start:stop][:_LONGEST_PHRASE])}"


def _of_place(sentence: RelationSentence, lower: Sequence[str], left: _Span, right: _Span) -> Iterator[str]:
    """Features of what is between and around two mentions."""
    tags = sentence.tags
    start, stop = left[1], max(right[0], left[1])
    between = lower[start:stop]
    yield f"mentions={_mentions_between(sentence, left, right)}"
    yield f"distance={_distance(left, right)}"
    if len(between) <= _MOST_BETWEEN:
        yield from (f"b={word}" for word in between)
        yield from (f"b={'_'.join(two)}" for two in pairwise(between))
        yield from (f"b={'_'.join(three)}" for three in zip(between, between[1:], between[2:], strict=False))
        if tags is not None:
            yield from (f"t={'_'.join(two)}" for two in pairwise(tags[start:stop]))
    if len(between) <= _LONGEST_PHRASE:
        yield f"between={'_'.join(between)}"
        if tags is not None:
            yield f"tags={'_'.join(tags[start:stop])}"
    if between:
        yield f"b1={between[0]}"
        yield f"bn={between[-1]}"
    yield from _patterns(sentence, lower, left, right)
    for place, span in (("l", range(left[0])), ("m", range(start, stop)), ("r", range(right[1], len(lower)))):
        for at in span:
            if tags is None or tags[at][:1] in _OPEN[:3]:
                yield f"{place}stem={lower[at][:5]}"
    for distance in range(1, _WINDOW + 1):
        if left[0] >= distance:
            yield f"l{distance}={lower[left[0] - distance]}"
        if right[1] + distance <= len(lower):
            yield f"r{distance}={lower[right[1] + distance - 1]}"


def _patterns(sentence: RelationSentence, lower: Sequence[str], left: _Span, right: _Span) -> Iterator[str]:
    """Sequences of mentions, function words and parts of speech of content words between and around two mentions."""
    starts = {start for start, _ in sentence.mentions}
    inside = {at for start, stop in sentence.mentions for at in range(start, stop)}

    def kinds(first: int, last: int) -> list[str]:
        found = []
        for at in range(max(first, 0), min(last, len(lower))):
            if at in starts:
                found.append("M")
            elif at not in inside:
                tag = "" if sentence.tags is None else sentence.tags[at]
                found.append(tag[:2] if tag[:1] in _OPEN and tag != "CC" else lower[at])
        return found

    middle, before = kinds(left[1], right[0]), kinds(left[0] - _CONTEXT, left[0])
    behind = kinds(right[1], right[1] + _CONTEXT)
    if len(middle) <= _LONGEST_PATTERN:
        yield f"pattern={'_'.join(middle)}"
    yield from (f"p={'_'.join(three)}" for three in zip(middle, middle[1:], middle[2:], strict=False))
    yield f"before={'_'.join(before)}"
    yield f"behind={'_'.join(behind)}"
    yield f"around={'_'.join([*before[-1:], 'M', *behind[:1]])}"
