"""The columns that constraints over one batch can name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.cells import as_column, missing_of, same_values
from spectrem.constraints.compilation.groups import Coded, Key, as_key, distinct, number_groups, numbers_of
from spectrem.exceptions import InvalidInputError, no_such
from spectrem.structures.structure import Structure

_FREQUENCY = "_frequency"
_PIECE = 1 << 16


@dataclass(frozen=True)
class PartTable:
    """A structure's own columns and a user's, each with one value per part.

    Parameters
    ----------
    structure : Structure
    extra_columns : mapping of name -> array
        One value per part, per instance, or (where the structure has a column ``"occurrence"``) per
        occurrence; which one is told by the length. A column named like one of the structure's takes its place.
    first_instance, first_occurrence : int
        Added to the structure's instance column and to ``"occurrence"``, which count from 0 in every shard.
    frequencies : mapping of name -> counts, or None
        How often each value of a column occurs in the corpus; None where the batch is the corpus.
    weights : ndarray of shape (n_instances,) or None
        How often each instance counts in counts over the corpus.

    Notes
    -----
    ``"label"`` is the column ``"tag"`` where a structure has tags and no column is called so.

    A name like ``"word_frequency"`` that no column has is derived from the column ``"word"``: the number of
    occurrences in the corpus with the same value.

    Raises
    ------
    InvalidInputError
        If an extra column takes the place of the instance column or of ``"occurrence"`` but has the same value in two
        instances or occurrences.
    """

    structure: Structure
    extra_columns: Mapping[str, ArrayLike] = field(default_factory=dict)
    first_instance: int = 0
    first_occurrence: int = 0
    frequencies: Mapping[str, Mapping[object, int]] | None = None
    weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name in {self.instance_column, "occurrence"} & set(self.extra_columns):
            unit = self.structure.instance if name == self.instance_column else np.asarray(self.own["occurrence"])
            _check_numbering(name, distinct(self.column(name))[1], unit)

    @cached_property
    def own(self) -> Mapping[str, NDArray]:
        """The structure's columns, asked for once since structures may build them anew."""
        return self.structure.columns

    @cached_property
    def _known(self) -> dict[str, Key]:
        """The columns that were asked for: constraints name the same ones again and again."""
        return {}

    @property
    def instance_column(self) -> str:
        """Name of the column that numbers the instances."""
        return self.structure.instance_name

    @cached_property
    def n_occurrences(self) -> int:
        """Occurrences (tokens) in the batch, 0 where the structure knows none."""
        occurrence = np.asarray(self.own.get("occurrence", ()))
        return int(np.fmax.reduce(occurrence, initial=-1)) + 1

    @property
    def numbered(self) -> dict[str, Literal["instance", "occurrence"]]:
        """Columns that number instances or occurrences, counted on from shard to shard."""
        named: dict[str, Literal["instance", "occurrence"]] = {self.instance_column: "instance"}
        if "occurrence" in self.own:
            named["occurrence"] = "occurrence"
        return {name: unit for name, unit in named.items() if self.is_own(name)}

    def is_own(self, name: str) -> bool:
        """Whether the column is the structure's, and no other took its place."""
        return name in self.own and name not in self.extra_columns

    def has(self, name: str) -> bool:
        """Whether there is such a column, not counting derived ones."""
        return name in self.own or name in self.extra_columns

    def derived_from(self, name: str) -> str | None:
        """The column whose frequency a derived column gives: ``"word"`` for ``"word_frequency"``."""
        counted = name.removesuffix(_FREQUENCY)
        return counted if counted != name and self.has(counted) and not self.has(name) else None

    def column(self, name: str) -> Key:
        """Values of a column, shape (n_unary,); text of which some is missing is coded.

        Raises
        ------
        InvalidInputError
            If there is no such column, or a user's column fits no length or several.
        """
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> Key:
        if name in self.extra_columns:
            return self._spread(name, as_column(name, self.extra_columns[name]))
        if name in self.own:
            values = as_column(name, self.own[name])
            first = {"occurrence": self.first_occurrence, self.instance_column: self.first_instance}.get(name, 0)
            return numbers_of(values) + first if first else values
        if (counted := self.derived_from(name)) is not None:
            counts = self.count(counted) if self.frequencies is None else self.frequencies[counted]
            found, code = distinct(self.column(counted))
            return np.array([counts[value] for value in found.tolist()], np.int64)[code]
        if name == "label" and "tag" in self.own:
            return self.column("tag")
        raise InvalidInputError(no_such("column", name, dict.fromkeys([*self.own, *self.extra_columns])))

    def count(self, name: str) -> Counter[object]:
        """How many occurrences of the batch have each value of a column.

        Raises
        ------
        InvalidInputError
            If the structure knows no occurrences.
        """
        if "occurrence" not in self.own:
            raise InvalidInputError(
                f"there is no column {name + _FREQUENCY!r}, and the structure has no occurrences to count; "
                "give the column yourself"
            )
        occurrence = np.asarray(self.own["occurrence"])
        _, first = number_groups([occurrence], self.structure.n_unary, missing_of(occurrence))
        values = self.column(name)
        missing = self.missing(name, values)
        return Counter(values[first if missing is None else first[~missing[first]]].tolist())

    def missing(self, name: str, values: Key) -> NDArray[np.bool_] | None:
        """Where a column gives no group: where values are missing, and where the structure says so of its own."""
        lacking = missing_of(values)
        declared = self.structure.missing(name) if self.is_own(name) and hasattr(self.structure, "missing") else None
        return declared if lacking is None else lacking if declared is None else lacking | declared

    def is_steady(self, name: str) -> bool:
        """Whether the parts of every instance that have a value in a column have the same one."""
        column, instance = self.column(name), self.structure.instance
        values, missing = numbers_of(column), self.missing(name, column)
        known = np.arange(len(values)) if missing is None else np.flatnonzero(~missing)
        first = np.empty(self.structure.n_instances, np.int64)
        first[instance[known[::-1]]] = known[::-1]  # a repeated index keeps the last value: the first part
        pieces = (known[start : start + _PIECE] for start in range(0, len(known), _PIECE))
        return all(bool((values[piece] == values[first[instance[piece]]]).all()) for piece in pieces)

    def _spread(self, name: str, values: Key) -> Key:
        structure = self.structure
        if isinstance(values, np.ndarray) and values.ndim == 2:
            return self._flat(name, values)
        lengths = {"parts": structure.n_unary, "instances": structure.n_instances}
        found: list[Key] = []
        if len(values) == structure.n_unary:
            found.append(values)
        if len(values) == structure.n_instances:
            found.append(values[structure.instance])
        if "occurrence" in self.own:
            lengths["occurrences"] = self.n_occurrences
            if len(values) == self.n_occurrences:
                occurrence = np.asarray(self.own["occurrence"])
                lacking = missing_of(occurrence)
                found.append(values[occurrence] if lacking is None else _spread_known(values, occurrence, lacking))
        sizes = ", ".join(f"{size} {what}" for what, size in lengths.items())
        if not found:
            raise InvalidInputError(
                f"extra column {name!r} has {len(values)} values, and the batch has {sizes}; "
                "give one value for each of one of these"
            )
        if any(not same_values(found[0], other) for other in found[1:]):
            raise InvalidInputError(
                f"extra column {name!r} has {len(values)} values, which fits more than one of {sizes}; "
                f"spread it over the parts yourself, as in values[structure.instance]"
            )
        return found[0]

    def _flat(self, name: str, values: NDArray) -> NDArray:
        """A matrix with a row for every choice (a row of a table, a token) and a column for every label, by parts."""
        choice, state_part = self.structure.choice, getattr(self.structure, "state_part", None)
        if state_part is not None:  # of an edge chain, whose parts are pairs of labels
            choice = choice[np.unique(state_part, return_index=True)[1]]
        _, sizes = np.unique(choice, return_counts=True)
        ordered = bool((np.diff(choice) >= 0).all())
        if not ordered or values.size != len(choice) or not (sizes == values.shape[1]).all():
            labels = f"{sizes.min()} to {sizes.max()}" if len(set(sizes.tolist())) > 1 else str(sizes.max(initial=0))
            raise InvalidInputError(
                f"extra column {name!r} is a matrix of shape {values.shape}, and the batch has {len(sizes)} rows or "
                f"tokens with {labels} labels; give a value for each label of each"
            )
        return values.ravel() if state_part is None else values.ravel()[state_part]


def _spread_known(values: Key, occurrence: NDArray, lacking: NDArray[np.bool_]) -> Key:
    known = values[occurrence[~lacking].astype(np.int64)]
    text = as_key(known) if known.dtype.kind == "U" else None
    out = np.full(len(lacking), np.nan) if text is None else np.full(len(lacking), -1, np.int32)
    out[~lacking] = numbers_of(known if text is None else text)
    return Coded(text.values, out) if isinstance(text, Coded) else out


def _check_numbering(name: str, code: NDArray[np.int64], unit: NDArray[np.int64]) -> None:
    sizes = {len(number_groups(columns, len(unit))[1]) for columns in ([code, unit], [code], [unit])}
    if len(sizes) > 1:
        raise InvalidInputError(
            f"extra column {name!r} takes the place of the structure's own and must number the same things, each with "
            "a value of its own; choose another name"
        )
