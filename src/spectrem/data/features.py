"""Features of tokens, mentions and pairs of mentions, as names and as numbers."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, count, pairwise, repeat
from numbers import Real
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.data.relations import RelationSentence
from spectrem.exceptions import InvalidInputError, quoted

_LISTS = frozenset({list, tuple})
LARGEST_VALUE = 1e100
"""Values of features are smaller in size than this, so that their squares add up to numbers."""


def check_sentence(sentence: Any, number: int) -> None:
    """Raise `InvalidInputError` unless a sentence is a sequence of tokens."""
    if isinstance(sentence, str | bytes | Mapping) or not hasattr(sentence, "__len__"):
        raise InvalidInputError(
            f"every sentence must be a sequence of tokens, got {quoted(sentence)} for sentence {number}; a token is a "
            "list of features, or a mapping of features to values"
        )


def is_plain(sentence: Sequence[Any]) -> bool:
    """Whether all tokens are lists or tuples, most likely of names."""
    return set(map(type, sentence)) <= _LISTS


def pairs_of(token: Any, sentence: int, position: int) -> tuple[list[str], list[float]]:
    """Names and values of the features of a token; the rules are those of `FeatureIndex`.

    Raises
    ------
    InvalidInputError
        Naming the sentence and the token.

    Examples
    --------
    >>> pairs_of({"word": "dog", "length": 3, "suffix": ["g", "og"], "next": {"word": "barks", "capital": True}}, 0, 0)
    (['word:dog', 'length', 'suffix:g', 'suffix:og', 'next:word:barks', 'next:capital'], [1.0, 3.0, 1.0, 1.0, 1.0, 1.0])
    """
    where = f"in sentence {sentence}, token {position}"
    try:
        pairs = list(_pairs(token, "", where))
    except InvalidInputError as error:
        error.keys = {"sentence": sentence, "token": position}
        raise
    return [name for name, _ in pairs], [value for _, value in pairs]


def _pairs(features: Any, prefix: str, where: str) -> Iterator[tuple[str, float]]:
    if isinstance(features, Mapping):
        for name, value in features.items():
            _check_name(name, where)
            whole = prefix + name
            if isinstance(value, str):
                yield f"{whole}:{value}", 1.0
            elif isinstance(value, Mapping | list | tuple | set | frozenset):
                yield from _pairs(value, f"{whole}:", where)
            elif number := _number(value, whole, where):
                yield whole, number
    elif isinstance(features, str | bytes) or not hasattr(features, "__iter__"):
        raise InvalidInputError(
            f"every token must be a list of features, or a mapping of features to values, got {quoted(features)} "
            f"{where}; for text, name a set of templates, such as features='words'"
        )
    else:
        for name in sorted(features, key=str) if isinstance(features, set | frozenset) else features:
            _check_name(name, where)
            yield prefix + name, 1.0


def _check_name(name: Any, where: str) -> None:
    if not isinstance(name, str):
        raise InvalidInputError(
            f"names of features must be text, got {quoted(name)} {where}; write {quoted(str(name))}"
        )


def _number(value: Any, name: str, where: str) -> float:
    if isinstance(value, Real | np.bool_) and abs(float(value)) < LARGEST_VALUE:
        return float(value)
    kind = "a number, text, or a list or mapping of further features"
    if isinstance(value, Real):
        kind = f"below {LARGEST_VALUE:g} in size" if math.isfinite(float(value)) else "finite"
    raise InvalidInputError(
        f"the value of the feature {quoted(name)} must be {kind}, got {quoted(value)} {where}; leave the feature out "
        "where it is unknown"
    )


class TokenFeatures(NamedTuple):
    """Features of the tokens of sentences, as compressed rows.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
        Tokens of every sentence.
    indptr : ndarray of shape (n_tokens + 1,), int64
        Token t has the entries ``indptr[t]:indptr[t + 1]``.
    indices : ndarray of shape (n_entries,), int32
        Number of the feature of every entry; a token may have a feature several times, whose values then add up.
    values : ndarray of shape (n_entries,), float64, or None
        None where all are 1.
    """

    lengths: Ints
    indptr: Ints
    indices: NDArray[np.int32]
    values: Floats | None


@brief_dataclass(frozen=True, eq=False)
class FeatureIndex:
    """Distinct names of features, numbered in the order given.

    A token is a list of names, each of value 1, or a mapping, in the convention of python-crfsuite: ``{"name": 0.5}``
    is the feature ``name`` of value 0.5, True is 1, and with False or 0 the token does not have the feature;
    ``{"name": "text"}`` is the feature ``name:text`` of value 1; a list, set or mapping as value is any number of
    features whose names begin with ``name:``.

    Parameters
    ----------
    names : tuple of str
        Feature ``k`` has number ``k``.

    Raises
    ------
    InvalidInputError
        If a name occurs twice.

    Examples
    --------
    >>> sentences = [[["the", "first"], {"word": "dog", "length": 3, "capital": False}]]
    >>> index, tokens = FeatureIndex.learn(sentences)
    >>> index.names
    ('the', 'first', 'word:dog', 'length')
    >>> tokens.indptr.tolist(), tokens.indices.tolist(), tokens.values.tolist()
    ([0, 2, 4], [0, 1, 2, 3], [1.0, 1.0, 1.0, 3.0])
    >>> index.encode([[["dog", "first"]]]).indices.tolist()  # what was not learned is left out
    [1]
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.numbers) < len(self.names):
            again = next(name for number, name in enumerate(self.names) if self.numbers[name] != number)
            raise InvalidInputError(f"names of features must be distinct, got {quoted(again)} twice; drop one of them")

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The inverse of ``names``."""
        return {name: number for number, name in enumerate(self.names)}

    @classmethod
    def _of_distinct(cls, names: tuple[str, ...]) -> FeatureIndex:
        """An index of names known to be distinct, whose ``numbers`` are made when first used."""
        index = object.__new__(cls)
        object.__setattr__(index, "names", names)
        return index

    def take(self, order: Ints) -> FeatureIndex:
        """The same names, those of these numbers, in this order.

        Parameters
        ----------
        order : ndarray of int
            Numbers of names, each at most once.

        Returns
        -------
        FeatureIndex
        """
        return self._of_distinct(tuple(map(self.names.__getitem__, order.tolist())))

    @classmethod
    def learn(cls, sentences: Iterable[Sequence[Any]], min_count: int = 1) -> tuple[FeatureIndex, TokenFeatures]:
        """Number the features of sentences in the order of their first occurrence, and encode the sentences.

        Parameters
        ----------
        sentences : iterable of sequences of tokens
            Gone through once, one sentence after another, so that a generator's need not be in memory together.
        min_count : int
            Features that occur less often are left out.

        Raises
        ------
        InvalidInputError
            If a sentence is not a sequence, a token neither a list nor a mapping, a name not text, or a value not a
            finite number; the message names sentence and token.
        """
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        tokens = _encode(sentences, numbers, None)
        names = tuple(numbers)
        if min_count > 1:
            kept = np.bincount(tokens.indices, minlength=len(names)) >= min_count
            place = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
            tokens = _without_unknown(tokens._replace(indices=place[tokens.indices]))
            names = tuple(name for name, keep in zip(names, kept.tolist(), strict=True) if keep)
        return cls._of_distinct(names), tokens

    def encode(self, sentences: Iterable[Sequence[Any]]) -> TokenFeatures:
        """The numbers of the features of sentences; those without a number are left out.

        Parameters
        ----------
        sentences : iterable of sequences
            As of `learn`.

        Returns
        -------
        TokenFeatures

        Raises
        ------
        InvalidInputError
            As `learn`.
        """
        return _without_unknown(_encode(sentences, self.numbers, -1))

    def __len__(self) -> int:
        return len(self.names)


def _encode(sentences: Iterable[Sequence[Any]], numbers: Mapping[str, int], unknown: int | None) -> TokenFeatures:
    """The numbers of the names of all tokens; without ``unknown`` the mapping gives new names a number of their own."""
    lengths, sizes, indices, values = array("q"), array("i"), array("i"), array("d")
    has_values = False

    def look_up(names: Iterable[str]) -> list[int]:
        return list(map(numbers.__getitem__, names) if unknown is None else map(numbers.get, names, repeat(unknown)))

    for number, sentence in enumerate(sentences):
        check_sentence(sentence, number)
        if is_plain(sentence):
            size = len(numbers)
            entries = look_up(chain.from_iterable(sentence))
            # a name that is known is text
            if (len(numbers) > size or -1 in entries) and set(map(type, chain.from_iterable(sentence))) != {str}:
                for t, token in enumerate(sentence):
                    pairs_of(token, number, t)
            sizes.extend(map(len, sentence))
            if has_values:
                values.extend(repeat(1.0, len(entries)))
        else:
            if not has_values:
                has_values = True
                values.extend(repeat(1.0, len(indices)))
            entries = []
            for t, token in enumerate(sentence):
                names, numbers_of_token = pairs_of(token, number, t)
                entries += look_up(names)
                sizes.append(len(names))
                values.extend(numbers_of_token)
        indices.fromlist(entries)
        lengths.append(len(sentence))
    indptr = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(_view(sizes, np.int32), out=indptr[1:])
    weighted = has_values and bool((_view(values, np.float64) != 1.0).any())
    return TokenFeatures(
        _view(lengths, np.int64), indptr, _view(indices, np.int32), _view(values, np.float64) if weighted else None
    )


def _view(numbers: array[Any], dtype: type) -> NDArray[Any]:
    """The numbers of an array of Python's as one of NumPy's, without a copy."""
    return np.frombuffer(numbers, dtype) if len(numbers) else np.zeros(0, dtype)


def _without_unknown(tokens: TokenFeatures) -> TokenFeatures:
    """The same tokens without the entries numbered -1."""
    known = tokens.indices >= 0
    if known.all():
        return tokens
    before = np.zeros(len(known) + 1, np.int64)
    np.cumsum(known, out=before[1:])
    values = None if tokens.values is None else tokens.values[known]
    return TokenFeatures(tokens.lengths, before[tokens.indptr], tokens.indices[known], values)


Columns = list[list[str | None]]


def token_features(sentences: Iterable[Sequence[Any]], templates: str) -> Iterator[list[list[str]]]:
    """Features of the tokens of sentences, one sentence after another.

    * ``"words"`` describes a word by itself, in lower case, by its first and last one to four characters, its shape
      (``Xx-d`` for ``Mid-90``), whether it has a capital, a digit or a hyphen, by the two words on either side, by the
      pairs that it makes with its neighbours, and by the shapes of those. Tokens are words.
    * ``"chunking"`` are the templates of CRFsuite's tutorial for the shared task CoNLL-2000: words at distance -2 to
      2, two pairs of words, tags at distance -2 to 2, the four pairs and three triples of neighbouring tags, and
      marks of the first and the last token; 19 features within a sentence. Tokens are (word, tag).
    * ``"words+tags"`` are both, each feature once. Tokens are (word, tag).

    Parameters
    ----------
    sentences : iterable of sequences of tokens
        Gone through once.
    templates : {"words", "chunking", "words+tags"}

    Yields
    ------
    list of list of str
        The features of every token.

    Raises
    ------
    InvalidInputError
        If there are no templates of that name, or a token is not what they need.

    Examples
    --------
    >>> [[first, *_, last]] = token_features([["Rome", "fell"]], "words")
    >>> first[:3], last[-3:]
    (['w[0]=Rome', 'lower=rome', 'prefix=R'], ['w[-1]|w[0]=Rome|fell', 'shape[-1]=Xx', '__EOS__'])
    >>> next(token_features([[("Rome", "NNP")]], "chunking"))
    [['w[0]=Rome', 'pos[0]=NNP', '__BOS__', '__EOS__']]
    """
    if templates not in TEMPLATES:
        raise InvalidInputError(
            f"templates must be one of {', '.join(TEMPLATES)}, got {quoted(templates)}; with features of your own, "
            "give those for every token"
        )
    make, n_columns = TEMPLATES[templates]
    for number, sentence in enumerate(sentences):
        yield make(*_columns(sentence, number, n_columns, templates))


def _columns(sentence: Sequence[Any], number: int, n_columns: int, templates: str) -> list[list[str]]:
    tokens = list(sentence)
    is_token = _is_word if n_columns == 1 else _is_tagged_word
    bad = 0 if isinstance(sentence, str) else next((t for t, token in enumerate(tokens) if not is_token(token)), None)
    if bad is not None:
        wanted = "a word" if n_columns == 1 else "a pair of a word and its tag"
        shown = sentence if isinstance(sentence, str) else tokens[bad]
        error = InvalidInputError(
            f"every token must be {wanted} for the templates {templates!r}, got {quoted(shown)} in sentence {number}, "
            f"token {bad}; split sentences into tokens, or choose other templates"
        )
        error.keys = {"sentence": number, "token": bad}
        raise error
    return [tokens] if n_columns == 1 else [[token[column] for token in tokens] for column in range(n_columns)]


def _is_word(token: Any) -> bool:
    return type(token) is str


def _is_tagged_word(token: Any) -> bool:
    return isinstance(token, tuple | list) and len(token) == 2 and all(map(_is_word, token))


def _words(words: list[str]) -> list[list[str]]:
    around = [_at("w", words, offset) for offset in (-2, -1, 1, 2)]
    pairs = [_joined("w", words, (-1, 0)), _joined("w", words, (0, 1))]
    shapes = [_at("shape", list(map(word_shape, words)), offset) for offset in (-1, 1)]
    return _by_token([*map(_word_features, words)], [*around, *pairs, *shapes])


def _chunking(words: list[str], tags: list[str]) -> list[list[str]]:
    columns = [_at("w", words, offset) for offset in range(-2, 3)]
    columns += [_joined("w", words, (-1, 0)), _joined("w", words, (0, 1)), *_tag_columns(tags)]
    return _by_token([() for _ in words], columns)


def _words_and_tags(words: list[str], tags: list[str]) -> list[list[str]]:
    features = _words(words)
    for base, more in zip(features, _by_token([() for _ in words], _tag_columns(tags), marks=False), strict=True):
        base += more
    return features


def _tag_columns(tags: list[str]) -> Columns:
    columns = [_at("pos", tags, offset) for offset in range(-2, 3)]
    columns += [_joined("pos", tags, (k, k + 1)) for k in range(-2, 2)]
    return columns + [_joined("pos", tags, (k, k + 1, k + 2)) for k in range(-2, 1)]


# From the columns of a sentence to the features of its tokens, and the number of columns.
_SETS: dict[str, tuple[Callable[..., list[list[str]]], int]] = {
    "words": (_words, 1),
    "chunking": (_chunking, 2),
    "words+tags": (_words_and_tags, 2),
}
TEMPLATES = MappingProxyType(_SETS)
"""Sets of templates by name: the function that makes features, and how many columns a token has."""


def _at(name: str, values: list[str], offset: int) -> list[str | None]:
    """The value at a distance from every token; None beyond the ends."""
    mark = f"{name}[{offset}]="
    made: list[str | None] = [mark + value for value in values[max(offset, 0) : len(values) + min(offset, 0)]]
    missing: list[str | None] = [None] * (len(values) - len(made))
    return missing + made if offset < 0 else made + missing


def _joined(name: str, values: list[str], offsets: tuple[int, ...]) -> list[str | None]:
    """The values at several neighbouring distances, with a bar between; None where one of them is beyond an end."""
    mark = "|".join(f"{name}[{offset}]" for offset in offsets) + "="
    first, last = min(offsets[0], 0), max(offsets[-1], 0)
    shifted = [values[k - offsets[0] :] for k in offsets]
    made: list[str | None] = [mark + "|".join(together) for together in zip(*shifted, strict=False)]
    if offsets[0] > 0:
        made = made[offsets[0] :]
    made = made[: max(len(values) + first - last, 0)]
    return [None] * min(-first, len(values)) + made + [None] * (len(values) - min(-first, len(values)) - len(made))


def _by_token(word_features: Sequence[Sequence[str]], columns: Columns, *, marks: bool = True) -> list[list[str]]:
    """The features of every token: of its word and of all columns, without None; marks of first and last token."""
    features = [
        [*first, *(feature for feature in row if feature is not None)]
        for first, row in zip(word_features, zip(*columns, strict=True), strict=True)
    ]
    if marks and features:
        features[0].append("__BOS__")
        features[-1].append("__EOS__")
    return features


@lru_cache(1 << 16)
def _word_features(word: str) -> tuple[str, ...]:
    """Features of a word without its neighbours."""
    ends = range(1, min(len(word), 4) + 1)
    marks = {"capital": str.isupper, "digit": str.isdigit, "hyphen": "-".__eq__}
    return (
        f"w[0]={word}",
        f"lower={word.lower()}",
        *(f"prefix={word[:size]}" for size in ends),
        *(f"suffix={word[-size:]}" for size in ends),
        f"shape={word_shape(word)}",
        *(f"has-{name}" for name, is_kind in marks.items() if any(map(is_kind, word))),
    )


@lru_cache(1 << 16)
def word_shape(word: str) -> str:
    """Upper case as X, lower case as x, digits as d, anything else as it is; runs of one kind once.

    Examples
    --------
    >>> word_shape("Mid-1990s")
    'Xx-dx'
    """
    classes = ["X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word]
    return "".join(kind for kind, before in zip(classes, ["", *classes], strict=False) if kind != before)


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

    Returns
    -------
    list of lists of str
        The names of the features of every mention.

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

    Returns
    -------
    list of lists of str
        The names of the features of every ordered pair.

    Examples
    --------
    >>> sentence = RelationSentence(["Oswald", "shot", "Kennedy"], [(0, 1), (2, 3)], tags=["NNP", "VBD", "NNP"])
    >>> [feature for feature in pair_features(sentence)[1] if "shot" in feature][:3]
    ['<b=shot', '<between=shot', '<b1=shot']
    """
    lower = [word.lower() for word in sentence.words]
    shared: dict[_Span, list[str]] = {}
    pairs = []
    for first, second in sentence.pairs:
        in_order = sentence.mentions[first] < sentence.mentions[second]
        sign, one, other = (">", first, second) if in_order else ("<", second, first)
        if (one, other) not in shared:
            shared[one, other] = list(_of_place(sentence, lower, sentence.mentions[one], sentence.mentions[other]))
        features = [sign, *(sign + feature for feature in shared[one, other])]
        for argument, mention in (("1", first), ("2", second)):
            features.extend(
                f"{argument}{feature}" for feature in _of_argument(sentence, lower, *sentence.mentions[mention])
            )
        ends = (word_shape(sentence.words[sentence.mentions[mention][1] - 1]) for mention in (first, second))
        features.append(f"{sign}shapes={'|'.join(ends)}")
        pairs.append(list(dict.fromkeys(features)))
    return pairs


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
    yield f"mentions={min(sum(left < span < right for span in sentence.mentions), _MOST_MENTIONS)}"
    yield f"distance={np.searchsorted(_DISTANCES, stop - start, side='right')}"  # in one of the classes 1 to 8
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

    def pattern_of(first: int, last: int) -> list[str]:
        pattern = []
        for at in range(max(first, 0), min(last, len(lower))):
            if at in starts:
                pattern.append("M")
            elif at not in inside:
                tag = "" if sentence.tags is None else sentence.tags[at]
                pattern.append(tag[:2] if tag[:1] in _OPEN and tag != "CC" else lower[at])
        return pattern

    middle, before = pattern_of(left[1], right[0]), pattern_of(left[0] - _CONTEXT, left[0])
    behind = pattern_of(right[1], right[1] + _CONTEXT)
    if len(middle) <= _LONGEST_PATTERN:
        yield f"pattern={'_'.join(middle)}"
    yield from (f"p={'_'.join(three)}" for three in zip(middle, middle[1:], middle[2:], strict=False))
    yield f"before={'_'.join(before)}"
    yield f"behind={'_'.join(behind)}"
    yield f"around={'_'.join([*before[-1:], 'M', *behind[:1]])}"
