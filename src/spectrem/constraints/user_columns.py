"""The columns that a user gives with a table: a data frame, or a mapping of arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from spectrem.constraints.cells import as_column
from spectrem.constraints.compilation.groups import Key, as_key
from spectrem.data.frames import as_frame
from spectrem.exceptions import InvalidInputError


@dataclass(frozen=True)
class UserColumns(Mapping[str, Key]):
    """Columns of a mapping or a data frame, turned into arrays when a constraint asks for them.

    Parameters
    ----------
    source : mapping of str -> array-like
    lengths : mapping of unit -> int
        How many values a column may have: one per unit ("rows") of each of these.
    hint : str
        The end of an error about a column of another length: what to do about it.

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

    source: Mapping[str, Any]
    lengths: Mapping[str, int]
    hint: str
    _known: dict[str, Key] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Key:
        if name not in self._known:
            column = as_key(as_column(name, self.source[name]))
            if len(column) not in self.lengths.values():
                sizes = ", ".join(f"{size} {unit}" for unit, size in self.lengths.items())
                raise InvalidInputError(
                    f"columns: {name!r} has shape {column.shape}, and the table has {sizes}; {self.hint}"
                )
            self._known[name] = column
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self.source

    def __iter__(self) -> Iterator[str]:
        yield from self.source

    def __len__(self) -> int:
        return len(self.source)


def read_columns(
    columns: Any, lengths: Mapping[str, int], *, taken: Collection[str] = (), hint: str = "give one for each"
) -> UserColumns:
    """A user's columns under their names; None has none.

    Raises
    ------
    InvalidInputError
        If it is neither a mapping nor a frame, or has a column whose name is ``taken``.
    """
    frame = as_frame(columns, "columns")
    if frame is not None:
        columns = dict(zip(frame.columns, frame.iter_columns(), strict=True))
    elif columns is not None and not isinstance(columns, Mapping):
        raise InvalidInputError(
            f"columns must be a data frame or a mapping from names to arrays, got {type(columns).__name__}; "
            'write columns={"document": [...]}'
        )
    source = {str(name): column for name, column in (columns or {}).items()}
    for name in taken:
        if name in source:
            raise InvalidInputError(f"columns: the name {name!r} belongs to the table; rename the column")
    return UserColumns(source, lengths, hint)
