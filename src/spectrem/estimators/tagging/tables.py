"""What users fix, forbid or expect of a tagger's tables, as restrictions and priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spectrem._arrays import Bools, Floats
from spectrem.estimators.tagging.coding import Coding
from spectrem.estimators.tagging.text import Tag, Word
from spectrem.exceptions import InvalidInputError
from spectrem.models.tagging import Restriction, Restrictions

FIXABLE = ("initial", "transition", "second", "emission")


def restrictions(coding: Coding, order: int, fixed: Any, transition_mask: Any) -> Restrictions:
    """Restrictions from ``fixed`` and ``transition_mask`` of a tagger.

    Raises
    ------
    InvalidInputError
        If arrays have the wrong shape or names are not tags, words or tables.
    """
    rules: dict[str, Restriction] = {}
    given = fixed or {}
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"fixed must map tables ({', '.join(FIXABLE)}) to their fixed entries, got {type(given).__name__}; write "
            'fixed={"transition": array with NaN where free}'
        )
    tables = FIXABLE if order == 2 else tuple(name for name in FIXABLE if name != "second")
    for name, entries in given.items():
        if name not in tables:
            raise InvalidInputError(f"fixed must name tables among {', '.join(tables)}, got {name!r}")
        values = _emission(coding, entries) if name == "emission" else _dense(coding, order, name, entries)
        known = ~np.isnan(values)
        rules[name] = Restriction(fixed=known, values=np.where(known, values, 0.0))
    if transition_mask is not None:
        impossible = ~_mask(coding, order, transition_mask)
        if order == 2 and impossible.ndim == 2:
            rules["second"] = _forbid(rules.get("second"), impossible)
            impossible = np.repeat(impossible[None], len(impossible), axis=0)
        rules["transition"] = _forbid(rules.get("transition"), impossible)
    return Restrictions(**rules)


def by_cell(coding: Coding, emission: Floats) -> Floats:
    """Emissions by cell from a table of shape (n_states, n_words); those by cell stay as they are.

    Raises
    ------
    InvalidInputError
        If the shape is neither.
    """
    lexicon = coding.lexicon
    table = np.asarray(emission, np.float64)
    if table.shape == (lexicon.n_cells,):
        return table
    if table.shape != (lexicon.n_states, lexicon.n_words):
        raise InvalidInputError(
            f"emission must have shape {(lexicon.n_states, lexicon.n_words)}, tags by words of the vocabulary (or "
            f"{(lexicon.n_cells,)}, by cell of the lexicon), got {table.shape}; give vocabulary to fix the words' order"
        )
    return table[lexicon.cell_states, lexicon.cell_words]


def _forbid(rule: Restriction | None, impossible: Bools) -> Restriction:
    if rule is None:
        return Restriction(impossible=impossible)
    return Restriction(impossible, rule.fixed, rule.values)


def _mask(coding: Coding, order: int, mask: Any) -> Bools:
    n = len(coding.tags)
    if isinstance(mask, Mapping):
        allowed = np.ones((n, n), np.bool_)
        for tag, followers in mask.items():
            row = _state(coding, tag, "transition_mask")
            if isinstance(followers, str) or not hasattr(followers, "__iter__"):
                raise InvalidInputError(
                    f"transition_mask must list the tags that may follow a tag, got {followers!r} for {tag!r}; write "
                    f"[{followers!r}]"
                )
            allowed[row] = False
            allowed[row, [_state(coding, follower, "transition_mask") for follower in followers]] = True
        return allowed
    table = np.asarray(mask)
    shapes: Sequence[tuple[int, ...]] = [(n, n)] if order == 1 else [(n, n), (n, n, n)]
    if table.shape not in shapes or table.dtype != np.bool_:
        raise InvalidInputError(
            f"transition_mask must be a boolean array of shape {' or '.join(map(str, shapes))}, True where a tag may "
            f"follow, or a mapping of tags to their followers, got dtype {table.dtype}, shape {table.shape}"
        )
    return table


def _dense(coding: Coding, order: int, name: str, entries: Any) -> Floats:
    n = len(coding.tags)
    axes = {"initial": 1, "second": 2}.get(name, order + 1)
    if not isinstance(entries, Mapping):
        values = np.array(entries, np.float64)
        if values.shape != (n,) * axes:
            raise InvalidInputError(
                f"fixed[{name!r}] must have shape {(n,) * axes}, NaN where free, or map tags to probabilities, got "
                f"shape {values.shape}"
            )
        return values
    values = np.full((n,) * axes, np.nan)
    for key, value in entries.items():
        names = (key,) if axes == 1 else key
        if not isinstance(names, tuple) or len(names) != axes:
            raise InvalidInputError(
                f"fixed[{name!r}] must have keys of {axes} tags, got {key!r}; write them as a tuple"
            )
        values[tuple(_state(coding, tag, f"fixed[{name!r}]") for tag in names)] = value
    return values


def _emission(coding: Coding, entries: Any) -> Floats:
    if not isinstance(entries, Mapping):
        return by_cell(coding, entries)
    lexicon = coding.lexicon
    values = np.full(lexicon.n_cells, np.nan)
    for key, value in entries.items():
        if not isinstance(key, tuple) or len(key) != 2:
            raise InvalidInputError(f"fixed['emission'] must have keys (tag, word), got {key!r}; write them as a tuple")
        state, word = _state(coding, key[0], "fixed['emission']"), _word(coding, key[1])
        start, stop = lexicon.cell_offsets[word], lexicon.cell_offsets[word + 1]
        at = start + int(np.searchsorted(lexicon.cell_states[start:stop], state))
        if at < stop and lexicon.cell_states[at] == state:
            values[at] = value
        elif value != 0:
            raise InvalidInputError(
                f"fixed['emission'] must keep to the dictionary, got {value} for {key!r}, which it forbids; add the "
                "tag to the word's entry"
            )
    return values


def _state(coding: Coding, tag: Tag, where: str) -> int:
    if tag not in coding.tags:
        raise InvalidInputError(f"{where} must name tags of the tag set, got {tag!r}; see tags_ for those there are")
    return coding.tags.index(tag)


def _word(coding: Coding, word: Word) -> int:
    number = coding.vocabulary.index.get(word)  # type: ignore[arg-type]
    if number is None:
        raise InvalidInputError(
            f"fixed['emission'] must name words of the vocabulary, got {word!r}; rare words are {coding.unknown!r}"
        )
    return int(number)
