"""A fitted HMMTagger as a file, and one made from known tables."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.data import Vocabulary
from spectrem.estimators.conventions import take_course
from spectrem.estimators.shared_parameters import NOT_SAVED
from spectrem.estimators.storage import (
    check_probabilities,
    damage_named,
    load_arrays,
    read_parameters,
    save_arrays,
    settings_of,
    take_saved_course,
)
from spectrem.estimators.tagging.coding import Coding
from spectrem.estimators.tagging.parameters import check_settings
from spectrem.estimators.tagging.tables import by_cell
from spectrem.estimators.tagging.text import Tag, Word, check_tag
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant, FitStatus
from spectrem.learning.schedule import check_gamma
from spectrem.models.tagging import HMMParameters

_KIND, _LAYOUT = "HMMTagger", 1
_MEMBERS = {
    **{"words": ("u1", 1), "dictionary_words": ("u1", 1), "dictionary_offsets": ("i8", 1)},
    **{"dictionary_states": ("i8", 1), "initial": ("f8", 1), "transition": ("f8", 3), "second": ("f8", 2)},
    "emission": ("f8", 1),
}
# The dictionary is saved as arrays, and the tags and the vocabulary of a fitted tagger as they were learned.
_APART = ("dictionary", "vocabulary", "tags", *NOT_SAVED)


def save(tagger: Any, path: str | os.PathLike[str]) -> None:
    """Write tags, words, dictionary, parameters, and the settings that JSON can hold."""
    coding: Coding = tagger.coding_
    listed = list(coding.dictionary.values())
    arrays = {
        "words": _pack(coding.vocabulary.words),
        "dictionary_words": _pack(tuple(coding.dictionary)),
        "dictionary_offsets": np.cumsum([0] + [len(states) for states in listed]),
        "dictionary_states": np.array([state for states in listed for state in states], np.int64),
    }
    tables = {name: getattr(tagger.params_, name) for name in ("initial", "transition", "second", "emission")}
    arrays |= {name: table for name, table in tables.items() if table is not None}
    header = {
        **settings_of(tagger, _APART),
        "tags": list(coding.tags),
        "free": list(coding.free),
        "unknown": coding.unknown,
        "gamma": tagger.gamma_,
    }
    save_arrays(path, _KIND, _LAYOUT, header, arrays)


def load(tagger: Any, path: str | os.PathLike[str]) -> Any:
    """Fill a new tagger with what `save` wrote, and return it."""
    header, arrays = load_arrays(path, _KIND, _LAYOUT, _MEMBERS)
    with damage_named(path, _KIND):
        tagger.set_params(**read_parameters(header))
        check_settings(tagger)
        tags = _distinct(tuple(check_tag(tag, "tags") for tag in header["tags"]), "tags")
        bounds = arrays["dictionary_offsets"].tolist()
        words = _unpack(arrays["dictionary_words"])
        states = arrays["dictionary_states"].tolist()
        if bounds[0] != 0 or bounds[-1] != len(states) or bounds != sorted(bounds):
            raise ValueError("dictionary_states do not fit their offsets")
        dictionary = {
            word: tuple(states[start:stop]) for word, start, stop in zip(words, bounds[:-1], bounds[1:], strict=True)
        }
        vocabulary = Vocabulary(_unpack(arrays["words"]))
        [unknown] = _distinct((header["unknown"],), "the unknown word")
        coding = Coding(tags, vocabulary, dictionary, tuple(header["free"]), unknown)
        params = _checked(
            coding, HMMParameters(arrays["initial"], arrays["transition"], arrays.get("second"), arrays["emission"])
        )
        gamma = float(header["gamma"])
        check_gamma(gamma)
        named = {word: [tags[state] for state in own] for word, own in dictionary.items()}
        tagger.set_params(tags=list(tags), dictionary=named or None)
        take_saved_course(tagger, header)
    tagger._take(coding, params, gamma)
    return tagger


def from_tables(
    tagger: Any,
    tables: tuple[ArrayLike, ArrayLike, ArrayLike | None, ArrayLike],
    tags: Sequence[Tag] | None,
    vocabulary: Sequence[Word] | None,
) -> Any:
    """Fill a new tagger with known tables."""
    initial, transition, emission = (np.array(table, np.float64) for table in (*tables[:2], tables[3]))
    second = None if tables[2] is None else np.array(tables[2], np.float64)
    n_states, n_words = emission.shape if emission.ndim == 2 else (len(initial), -1)
    names = tuple(range(n_states)) if tags is None else tuple(check_tag(tag, "tags") for tag in tags)
    words = tuple(range(max(n_words, 0))) if vocabulary is None else tuple(vocabulary)
    if len(names) != n_states or len(words) != n_words:
        raise InvalidInputError(
            f"emission must have shape {(len(names), len(words))}, as tags and vocabulary say, got {emission.shape}; "
            "name all of them or none"
        )
    free = tuple(range(n_states))
    coding = Coding(names, Vocabulary(words), {}, free, tagger.unknown)  # type: ignore[arg-type]
    for name, table in (("initial", initial), ("transition", transition), ("second", second), ("emission", emission)):
        if table is not None and not np.allclose(table.sum(axis=-1), 1.0, atol=1e-6):
            raise InvalidInputError(
                f"{name} must have rows that sum to 1, got sums from {table.sum(axis=-1).min():g} to "
                f"{table.sum(axis=-1).max():g}; give probabilities [from, to], not logarithms or counts"
            )
    try:
        params = _checked(coding, HMMParameters(initial, transition, second, by_cell(coding, emission)))
    except ValueError as error:
        raise InvalidInputError(f"tables must fit each other: {error}") from None
    # training, if asked for, goes on from here
    tagger.set_params(order=params.order, tags=list(names), vocabulary=words, init=params)
    check_settings(tagger)
    schedule = tagger.schedule or Constant(tagger.gamma)
    tagger._take(coding, params, float(list(schedule.gammas())[-1]))
    take_course(tagger, [], FitStatus.FIXED_ITERATIONS)
    return tagger


def _checked(coding: Coding, params: HMMParameters) -> HMMParameters:
    """Raise ValueError unless all arrays belong together; kernels trust them."""
    n = len(coding.tags)
    for states in (*coding.dictionary.values(), coding.free):
        whole = all(isinstance(state, int) and 0 <= state < n for state in states)
        if not whole or not states or any(first >= second for first, second in pairwise(states)):
            raise ValueError("states do not fit the tags")
    # counted here, since the lexicon itself may be far larger than the file
    words = coding.vocabulary.words
    n_cells = sum(n if word == coding.unknown else len(coding.states(word)) for word in words)
    shapes = [(n,), (n, n), (n_cells,)]
    if params.second is not None:
        shapes = [(n,), (n, n, n), (n_cells,), (n, n)]
    for name, shape in zip(("initial", "transition", "emission", "second"), shapes, strict=False):
        table = getattr(params, name)
        if table.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {table.shape}")
        check_probabilities(name, table)
        # a mean-field prior makes the sums smaller
        if name != "emission" and (table.sum(axis=-1) > 1 + 1e-6).any():
            raise ValueError(f"{name} must have rows that sum to 1 at most")
    return params


def _distinct(names: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """Raise ValueError if one is there twice, or is neither text nor a whole number."""
    if len(set(names)) < len(names) or not all(type(name) in (str, int) for name in names):
        raise ValueError(f"{what} must be distinct texts or numbers")
    return names


def _pack(words: tuple[Any, ...]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(words).encode(), np.uint8)


def _unpack(data: NDArray[np.uint8]) -> tuple[Any, ...]:
    return _distinct(tuple(json.loads(data.tobytes())), "words")
