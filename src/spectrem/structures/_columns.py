"""Columns of several structures as one column over the parts of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError

TEXT = np.dtypes.StringDType(na_object=np.nan)
"""Text of which some is missing; text without missing values has a fixed width."""


class Member(NamedTuple):
    """What is needed of one structure of several to name its columns.

    Attributes
    ----------
    columns : mapping of name -> ndarray of shape (n_unary,)
    instance_name : str
    labels : collection of str
        Columns whose values mean something in this structure only.
    inside : bool
        Whether its instances are parts of those of the whole.
    """

    columns: Mapping[str, NDArray]
    instance_name: str
    labels: Sequence[str]
    inside: bool


Sources = dict[str, dict[str, str]]
"""For every name of a joined column, its column in each member that has it."""


def name_columns(
    members: Mapping[str, Member], taken: Sequence[str], joined: Sequence[str], apart: Sequence[str]
) -> Sources:
    """Name the columns of the whole, and say which columns of members each of them joins.

    A column that only one member has keeps its name. Of the columns that several members have, those in ``joined``
    become one; so do those of members over the instances of the whole, unless they hold labels or are in ``apart``. All
    others are renamed, ``"tag"`` of the member ``"left"`` to ``"left_tag"``, except that ``occurrence``, which counts
    through a batch, is left out. The instance column of a member over instances of its own has the name of the member.

    Raises
    ------
    InvalidInputError
        If two columns would have the same name.
    """
    holders: dict[str, list[str]] = {}
    for key, member in members.items():
        for column in member.columns:
            holders.setdefault(column, []).append(key)
    sources: Sources = {}
    for key, member in members.items():
        for column in member.columns:
            own = key if column == member.instance_name else None
            if (own and not member.inside) or column in taken[1:]:
                continue
            plain = not member.inside and column not in member.labels and column not in apart
            if own is None:
                alone = len(holders[column]) == 1
                kept = column not in taken and (alone or plain or column in joined)
                if column == "occurrence" and not kept:
                    continue
                own = column if kept else f"{key}_{column}"
            together = sources.setdefault(own, {})
            if own in taken or any(other != column for other in together.values()):
                raise InvalidInputError(
                    f"members: column {column!r} of {key!r} would be called {own!r}, which is the name of another "
                    "column; call the member otherwise"
                )
            together[key] = column
    return sources


def join_column(name: str, pieces: Mapping[str, NDArray], sizes: Mapping[str, int]) -> NDArray:
    """One column over all members; members without it have NaN there.

    Raises
    ------
    InvalidInputError
        If it holds text in one member and numbers in another, or truth values and other numbers.
    """
    kinds = {key: _kind(piece) for key, piece in pieces.items()}
    first, *others = kinds
    for other in others:
        if kinds[other] != kinds[first]:
            raise InvalidInputError(
                f"members: column {name!r} holds {kinds[first]} in {first!r} and {kinds[other]} in {other!r}; "
                f"keep them apart, as in apart=[{name!r}]"
            )
    if len(pieces) == len(sizes) and not any(piece.dtype.kind in "TO" for piece in pieces.values()):
        return np.concatenate(list(pieces.values()))
    dtype: Any = {"text": TEXT, "objects": object}.get(kinds[first], np.float64)
    whole = np.full(sum(sizes.values()), np.nan, dtype)
    start = 0
    for key, size in sizes.items():
        if key in pieces:
            whole[start : start + size] = pieces[key]
        start += size
    return whole


def check_numbering(name: str, places: Mapping[str, tuple[NDArray, NDArray[np.int64]]]) -> None:
    """Refuse to join columns that number different things; ``places`` has the column and the instance of every part."""
    instance_of = {}
    for key, (number, instance) in places.items():
        place = np.full(int(number.max(initial=-1)) + 1, -1)
        place[number] = instance
        instance_of[key] = place
    first, *others = instance_of
    for other in others:
        if not np.array_equal(instance_of[first], instance_of[other]):
            raise InvalidInputError(
                f"members: column {name!r} numbers different things in {first!r} and {other!r}, as they are not in "
                f'the same instances; keep them apart, as in apart=["token", {name!r}]'
            )


def _kind(values: NDArray) -> str:
    return {"b": "truth values", "U": "text", "T": "text", "O": "objects"}.get(values.dtype.kind, "numbers")


def missing_where(values: NDArray, lacking: NDArray[np.bool_]) -> NDArray:
    """A copy of a column that has no value at some entries (NaN, None among objects); numbers are floating-point."""
    kind = values.dtype.kind
    found = values.astype(TEXT if kind in "UT" else object if kind == "O" else np.float64)
    found[lacking] = None if kind == "O" else np.nan
    return found


def missing_of(values: NDArray) -> NDArray[np.bool_] | None:
    """Where a column has no value; None for columns of a kind that always has one."""
    return np.isnan(values) if values.dtype.kind in "fT" else None


def declared_missing(structure: Any, name: str) -> NDArray[np.bool_] | None:
    """Parts that belong to no group of a column of a structure: as it says, else those without a value."""
    if hasattr(structure, "missing"):
        found: NDArray[np.bool_] | None = structure.missing(name)
        return found
    return missing_of(np.asarray(structure.columns[name]))
