"""Columns for constraints that are given with sentences: a value for each, for each of its words, or of its arcs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Ints
from spectrem.constraints import check_columns, check_values
from spectrem.constraints.cells import as_column
from spectrem.constraints.values import MAY_BE_EMPTY, check_spelling
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.shards import Columns


def read_sentence_columns(columns: Any, lengths: Ints, taken: Collection[str], *, arcs: bool = True) -> Columns:
    """Columns as arrays, in which values that are missing are so however they are spelled.

    Parameters
    ----------
    columns : mapping of name -> sequence, or None
        For every sentence a value, a sequence of a value per word or, with ``arcs``, a matrix of a value per arc.
    lengths : ndarray of shape (n_sentences,), int64
    taken : collection of str
        Names that constraints have already.
    arcs : bool
        Whether constraints speak of arcs: they then name columns of words with "head_" and "dependent_" before the
        name.

    Raises
    ------
    InvalidInputError
        If it is not such a mapping, a name is taken, or there is not one value for each.

    Examples
    --------
    >>> found = read_sentence_columns({"genre": ["news", None], "case": [["nom", "acc"], [None]]}, np.array([2, 1]), ())
    >>> found.of_sentences["genre"].tolist(), found.of_words["case"].tolist()
    (['news', nan], ['nom', 'acc', nan])
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidInputError(f"columns must map names to values, got {quoted(columns)}; give a dictionary")
    kinds = "a value, a sequence of values of its words, or a matrix of its arcs," if arcs else "a value, or a sequence"
    found: tuple[dict[str, Any], ...] = ({}, {}, {})
    for name, values in (columns or {}).items():
        if not {name, f"head_{name}", f"dependent_{name}"}.isdisjoint(taken):
            raise InvalidInputError(f"columns must not be called {name!r}, which constraints have already; rename it")
        listed = [] if isinstance(values, str | Mapping) or not hasattr(values, "__iter__") else list(values)
        if len(listed) != len(lengths):
            raise InvalidInputError(
                f"columns[{name!r}] must have one entry per sentence ({len(lengths)}), got "
                f"{len(listed) or quoted(values)}; give {kinds} for each"
            )
        pieces = [_as_array(own) for own in listed]
        n_axes = {piece.ndim for piece in pieces} or {0}
        if len(n_axes) > 1 or max(n_axes) > 1 + arcs:
            raise InvalidInputError(
                f"columns[{name!r}] must have entries of one kind, got arrays of {sorted(n_axes)} axes; give {kinds} "
                "for each sentence"
            )
        (axes,) = n_axes
        for number, (piece, length) in enumerate(zip(pieces, lengths.tolist(), strict=True)):
            if piece.shape != (length,) * axes:
                rule = (
                    f"shape {(length,) * axes} for sentence {number}, got {piece.shape}; matrices are [dependent, "
                    "head], with arcs from the root on the diagonal"
                    if arcs
                    else f"a value per token of sentence {number} ({length}), got {len(piece)}; give one for each"
                )
                raise InvalidInputError(f"columns[{name!r}] must have {rule}")
        if len({piece.dtype.kind for piece in pieces}) > 1:  # which NumPy would write as one, such as text
            pieces = [piece.astype(object) for piece in pieces]
        flat = np.concatenate([piece.ravel() for piece in pieces]) if pieces else np.zeros(0)
        found[axes][name] = as_column(name, flat)
    return Columns(*found)


def tag_names(tags: Sequence[Any]) -> tuple[Any, ...]:
    """What constraints call tags: whole numbers if all tags are, else text."""
    return tuple(map(str, tags)) if any(isinstance(tag, str) for tag in tags) else tuple(tags)


def check_tree_values(constraints: Any, tags: Mapping[str, Collection[Any]], columns: Columns) -> None:
    """Refuse constraints on trees that name a tag which there is not, or a value that no word, arc or sentence has.

    Parameters
    ----------
    constraints : as in `check_values`
    tags : mapping of name -> collection
        All tags of words, by the names of the columns.
    columns : Columns
        Of all sentences.
    """
    ends = ("head", "dependent")
    for name, values in tags.items():
        for end in ends:
            check_values(constraints, f"{end}_{name}", values, hint=MAY_BE_EMPTY)
            check_spelling(constraints, f"{end}_{name}", values)
    of_words = {f"{end}_{name}": values for name, values in columns.of_words.items() for end in ends}
    check_columns(constraints, {**columns.of_sentences, **of_words, **columns.of_arcs})


def _as_array(values: Any) -> NDArray:
    """Values of a sentence as an array, of objects unless they are one already: NumPy would write NaN as text."""
    given = values.tolist() if isinstance(values, np.ma.MaskedArray) else values
    return given if isinstance(given, np.ndarray) else np.asarray(given, object)
