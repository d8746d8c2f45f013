"""Descriptions of tokens in the convention of python-crfsuite: a list of names, or names with values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

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
