"""The columns that a user gives with a table: a data frame, or a mapping of arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spectrem.constraints.cells import as_column
from spectrem.constraints.groups import Key
from spectrem.data.frames import as_frame
from spectrem.exceptions import InvalidInputError


@dataclass(frozen=True)
class UserColumns(Mapping[str, Key]):
    """Columns of a mapping or a data frame, turned into arrays when a constraint asks for them.

    Parameters
    ----------
    source : mapping of name -> array-like, or data frame of narwhals
    names : mapping of str -> name in the source
    lengths : mapping of unit -> int
        How many values a column may have: one per unit ("rows") of each of these.
    hint : str
        What to do about a column of another length.

    Raises
    ------
    InvalidInputError
        If a column has another length, or holds neither numbers nor truth values nor text.

    Examples
    --------
    >>> columns = read_columns({"document": ["a", "a", "b"]}, {"rows": 3})
    >>> columns["document"].tolist()
    ['a', 'a', 'b']
    """

    source: Any
    names: Mapping[str, Any]
    lengths: Mapping[str, int]
    hint: str

    def __getitem__(self, name: str) -> Key:
        column = as_column(name, self.source[self.names[name]])
        if len(column) not in self.lengths.values():
            sizes = ", ".join(f"{size} {unit}" for unit, size in self.lengths.items())
            raise InvalidInputError(
                f"columns: {name!r} has shape {column.shape}, and the table has {sizes}; {self.hint}"
            )
        return column

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        yield from self.names

    def __len__(self) -> int:
        return len(self.names)


def read_columns(
    columns: Any, lengths: Mapping[str, int], *, taken: Collection[str] = (), hint: str = "give one for each"
) -> UserColumns:
    """A user's columns under their names; None has none.

    Raises
    ------
    InvalidInputError
        If it is neither a mapping nor a frame, or has a column whose name is ``taken``.
    """
    source: Any = {} if columns is None else as_frame(columns, "columns")
    if source is None and not isinstance(columns, Mapping):
        raise InvalidInputError(
            f"columns must be a data frame or a mapping from names to arrays, got {type(columns).__name__}; "
            'write columns={"document": [...]}'
        )
    source = columns if source is None else source
    listed = {str(name): name for name in getattr(source, "columns", source)}
    for name in taken:
        if name in listed:
            raise InvalidInputError(f"columns: the name {name!r} belongs to the table; rename the column")
    return UserColumns(source, listed, lengths, hint)
