"""The columns that constraints over one batch can name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.exceptions import InvalidInputError
from spectrem.structures.alignment import NULL
from spectrem.structures.structure import Structure


@dataclass(frozen=True)
class PartTable:
    """A structure's own columns and a user's, each with one value per part.

    Parameters
    ----------
    structure : Structure
    extra_columns : mapping of name -> array
        One value per part, per instance, or (where the structure has a column ``"occurrence"``) per
        occurrence; which one is told by the length.
    first_instance, first_occurrence : int
        Added to the structure's instance column and to ``"occurrence"``, which count from 0 in every shard.

    Raises
    ------
    InvalidInputError
        If an extra column has the name of one of the structure's.
    """

    structure: Structure
    extra_columns: Mapping[str, ArrayLike] = field(default_factory=dict)
    first_instance: int = 0
    first_occurrence: int = 0

    def __post_init__(self) -> None:
        twice = sorted(set(self.extra_columns) & set(self.own))
        if twice:
            raise InvalidInputError(f"extra_columns: {twice[0]!r} is a column of the structure; choose another name")

    @cached_property
    def own(self) -> Mapping[str, NDArray]:
        """The structure's columns, asked for once since structures may build them anew."""
        return self.structure.columns

    @property
    def instance_column(self) -> str:
        """Name of the column that numbers the instances: the structure's first."""
        return next(iter(self.own))

    @cached_property
    def n_occurrences(self) -> int:
        """Occurrences (tokens) in the batch, 0 where the structure knows none."""
        occurrence = self.own.get("occurrence")
        return 0 if occurrence is None or len(occurrence) == 0 else int(occurrence.max()) + 1

    def is_own(self, name: str) -> bool:
        return name in self.own

    def column(self, name: str) -> NDArray:
        """Values of a column, shape (n_unary,).

        Raises
        ------
        InvalidInputError
            If there is no such column, or a user's column fits no length or several.
        """
        if self.is_own(name):
            values = np.asarray(self.own[name])
            first = {"occurrence": self.first_occurrence, self.instance_column: self.first_instance}.get(name, 0)
            return values + first if first else values
        if name not in self.extra_columns:
            known = ", ".join(repr(n) for n in [*self.own, *self.extra_columns])
            raise InvalidInputError(f"there is no column {name!r}; the columns are {known}")
        return self._spread(name, _typed(name, self.extra_columns[name]))

    def missing(self, name: str, values: NDArray) -> NDArray[np.bool_] | None:
        """Where a column gives no group: NULL in the structure's own, NaN in a user's."""
        if self.is_own(name):
            return values == NULL if values.dtype.kind == "i" else None
        return np.isnan(values) if values.dtype.kind == "f" else None

    def _spread(self, name: str, values: NDArray) -> NDArray:
        structure = self.structure
        lengths = {"parts": structure.n_unary, "instances": structure.n_instances}
        found = []
        if len(values) == structure.n_unary:
            found.append(values)
        if len(values) == structure.n_instances:
            found.append(values[structure.instance])
        if "occurrence" in self.own:
            lengths["occurrences"] = self.n_occurrences
            if len(values) == self.n_occurrences:
                found.append(values[self.own["occurrence"]])
        sizes = ", ".join(f"{size} {what}" for what, size in lengths.items())
        if not found:
            raise InvalidInputError(
                f"extra column {name!r} has {len(values)} values, and the batch has {sizes}; "
                "give one value for each of one of these"
            )
        if any(not np.array_equal(found[0], other) for other in found[1:]):
            raise InvalidInputError(
                f"extra column {name!r} has {len(values)} values, which fits more than one of {sizes}; "
                f"spread it over the parts yourself, as in values[structure.instance]"
            )
        return found[0]


def _typed(name: str, values: ArrayLike) -> NDArray:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInputError(f"extra column {name!r} must have one dimension, got shape {array.shape}")
    if array.dtype.kind == "O":
        with suppress(ValueError, TypeError):  # unless all are text
            array = array.astype(np.dtypes.StringDType(coerce=False))
    if array.dtype.kind == "T":
        array = np.array(array.tolist(), dtype=np.str_)
    if array.dtype.kind not in "biufU":
        raise InvalidInputError(
            f"extra column {name!r} must hold numbers, truth values or text, got dtype {array.dtype}; "
            "convert it, and replace missing values"
        )
    return array
