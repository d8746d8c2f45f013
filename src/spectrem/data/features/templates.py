"""Sets of templates that make features of the words of a sentence, and of tags that are known for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from spectrem.exceptions import InvalidInputError, quoted

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
    given = [tokens] if n_columns == 1 else list(map(list, zip(*tokens, strict=True))) if _are_pairs(tokens) else []
    if n_columns == 2 and not tokens:
        return [[], []]
    if len(given) != n_columns or isinstance(sentence, str) or not all(set(map(type, own)) <= {str} for own in given):
        wanted = "a word" if n_columns == 1 else "a pair of a word and its tag"
        bad = next((t for t, token in enumerate(tokens) if not _is_token(token, n_columns)), 0)
        shown = sentence if isinstance(sentence, str) else tokens[bad]
        error = InvalidInputError(
            f"every token must be {wanted} for the templates {templates!r}, got {quoted(shown)} in sentence {number}, "
            f"token {bad}; split sentences into tokens, or choose other templates"
        )
        error.keys = {"sentence": number, "token": bad}
        raise error
    return given


def _are_pairs(tokens: list[Any]) -> bool:
    return all(isinstance(token, tuple | list) and len(token) == 2 for token in tokens)


def _is_token(token: Any, n_columns: int) -> bool:
    if n_columns == 1:
        return isinstance(token, str)
    return isinstance(token, tuple | list) and len(token) == 2 and all(isinstance(part, str) for part in token)


def _words(words: list[str]) -> list[list[str]]:
    around = [_at("w", words, offset) for offset in (-2, -1, 1, 2)]
    pairs = [_joined("w", words, (-1, 0)), _joined("w", words, (0, 1))]
    shapes = [_at("shape", list(map(word_shape, words)), offset) for offset in (-1, 1)]
    return _by_token([*map(_own_features, words)], [*around, *pairs, *shapes])


def _chunking(words: list[str], tags: list[str]) -> list[list[str]]:
    columns = [_at("w", words, offset) for offset in range(-2, 3)]
    columns += [_joined("w", words, (-1, 0)), _joined("w", words, (0, 1)), *_tag_columns(tags)]
    return _by_token([() for _ in words], columns)


def _words_and_tags(words: list[str], tags: list[str]) -> list[list[str]]:
    found = _words(words)
    for own, more in zip(found, _by_token([() for _ in words], _tag_columns(tags), marks=False), strict=True):
        own += more
    return found


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


def _by_token(own: Sequence[Sequence[str]], columns: Columns, *, marks: bool = True) -> list[list[str]]:
    """The features of every token: its own and those of all columns, without None; marks of first and last token."""
    found = [
        [*mine, *(feature for feature in row if feature is not None)]
        for mine, row in zip(own, zip(*columns, strict=True), strict=True)
    ]
    if marks and found:
        found[0].append("__BOS__")
        found[-1].append("__EOS__")
    return found


@lru_cache(1 << 16)
def _own_features(word: str) -> tuple[str, ...]:
    """Features of a word without its neighbours."""
    ends = range(1, min(len(word), 4) + 1)
    kinds = {"capital": str.isupper, "digit": str.isdigit, "hyphen": "-".__eq__}
    return (
        f"w[0]={word}",
        f"lower={word.lower()}",
        *(f"prefix={word[:size]}" for size in ends),
        *(f"suffix={word[-size:]}" for size in ends),
        f"shape={word_shape(word)}",
        *(f"has-{name}" for name, is_kind in kinds.items() if any(map(is_kind, word))),
    )


@lru_cache(1 << 16)
def word_shape(word: str) -> str:
    """Upper case as X, lower case as x, digits as d, anything else as it is; runs of one kind once.

    Examples
    --------
    >>> word_shape("Mid-1990s")
    'Xx-dx'
    """
    kinds = ["X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word]
    return "".join(kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before)
