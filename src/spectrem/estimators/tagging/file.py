"""A fitted HMMTagger as a file, and one made from known tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.data import Vocabulary
from spectrem.estimators.conventions import take_course
from spectrem.estimators.storage import Codec, check_names, check_rows, check_shapes, pack_names, unpack_names
from spectrem.estimators.tagging.coding import Coding
from spectrem.estimators.tagging.parameters import check_settings
from spectrem.estimators.tagging.tables import by_cell
from spectrem.estimators.tagging.text import Tag, Word, check_tag, check_tags
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant, FitStatus
from spectrem.models.tagging import HMMParameters

_TABLES = ("initial", "transition", "second", "emission")


def _write(tagger: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    coding: Coding = tagger.coding_
    listed = list(coding.dictionary.values())
    arrays = {
        "words": pack_names(coding.vocabulary.words),
        "dictionary_words": pack_names(tuple(coding.dictionary)),
        "dictionary_offsets": np.cumsum([0] + [len(states) for states in listed]),
        "dictionary_states": np.array([state for states in listed for state in states], np.int64),
    }
    tables = {name: getattr(tagger.params_, name) for name in _TABLES}
    arrays |= {name: table for name, table in tables.items() if table is not None}
    return {"tags": list(coding.tags), "free": list(coding.free), "unknown": coding.unknown}, arrays


def _read(tagger: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    tags = check_tags(values["tags"])
    words = unpack_names(arrays["dictionary_words"], "words")
    bounds, states = arrays["dictionary_offsets"].tolist(), arrays["dictionary_states"].tolist()
    if bounds[0] != 0 or bounds[-1] != len(states) or bounds != sorted(bounds):
        raise ValueError("dictionary_states do not fit their offsets")
    listed = (states[start:stop] for start, stop in pairwise(bounds))
    dictionary = {word: tuple(allowed) for word, allowed in zip(words, listed, strict=True)}
    vocabulary = Vocabulary(unpack_names(arrays["words"], "words"))
    [unknown] = check_names((values["unknown"],), "the unknown word")
    coding = Coding(tags, vocabulary, dictionary, tuple(values["free"]), unknown)
    tables = HMMParameters(arrays["initial"], arrays["transition"], arrays.get("second"), arrays["emission"])
    params = _checked(coding, tables)
    named = {word: [tags[state] for state in allowed] for word, allowed in dictionary.items()}
    tagger.set_params(tags=list(tags), dictionary=named or None)
    tagger._take(coding, params, tagger.gamma_)


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
    second = params.second is not None
    shapes = {"initial": (n,), "transition": (n,) * (3 if second else 2), "emission": (n_cells,)}
    shapes |= {"second": (n, n)} if second else {}
    check_shapes(vars(params), shapes, probabilities=shapes)
    for name in shapes.keys() - {"emission"}:
        check_rows(name, getattr(params, name))
    return params


CODEC = Codec(
    kind="HMMTagger",
    layout=1,
    members={
        **{"words": ("u1", 1), "dictionary_words": ("u1", 1), "dictionary_offsets": ("i8", 1)},
        **{"dictionary_states": ("i8", 1), "initial": ("f8", 1), "transition": ("f8", 3), "second": ("f8", 2)},
        "emission": ("f8", 1),
    },
    write=_write,
    read=_read,
    # The dictionary is saved as arrays, and the tags and the vocabulary of a fitted tagger as they were learned.
    apart=("dictionary", "vocabulary", "tags"),
    check=check_settings,
)
