"""Numbering the distinct tuples of several columns, without a Python loop over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Ints
from spectrem.exceptions import InvalidInputError
from spectrem.structures._columns import TEXT

NO_GROUP = -1


@dataclass(frozen=True, eq=False)
class Repeats:
    """A column of things of which a choice (an item, a token) may have several or none, such as votes for its label.

    A constraint that names such a column sums over the things; any other sums over the choices, once each.

    Attributes
    ----------
    choice : ndarray of shape (n_things,), int64
        The choice that each belongs to; the same in all such columns of a batch.
    values : ndarray of shape (n_things,), or Coded
    """

    choice: Ints
    values: Any


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of text as numbers of its distinct values: a few bytes per entry, however long the text.

    NumPy takes it for the array of its text.

    Attributes
    ----------
    values : ndarray of str
        Distinct, increasing; some may not occur.
    codes : ndarray of int32
        -1 where the text is missing.
    """

    values: NDArray
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, names: NDArray, codes: NDArray) -> Coded | NDArray:
        """The names with these numbers, -1 for none; an array where names are not text.

        Examples
        --------
        >>> Coded.of(np.array(["b", "a"]), np.array([0, 1, 1])).codes.tolist()
        [1, 0, 0]
        """
        if names.dtype.kind != "U":
            return names[codes]
        order = np.argsort(names)
        place = np.append(np.argsort(order), -1).astype(np.int32)  # that of a missing name last
        return cls(names[order], place[codes])

    def __getitem__(self, index: Any) -> Coded:
        return Coded(self.values, self.codes[index])

    def __len__(self) -> int:
        return len(self.codes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return self.decode()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the column."""
        return self.codes.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the text, as NumPy would hold it."""
        return self.values.dtype

    @property
    def missing(self) -> Bools | None:
        """Where the text is missing; None if it is nowhere."""
        missing = self.codes < 0
        return missing if missing.any() else None

    def decode(self) -> NDArray:
        """The column itself, NaN where text is missing."""
        if self.missing is None:
            return self.values[self.codes]
        return np.append(self.values.astype(TEXT), np.array([np.nan], TEXT))[self.codes]

    def tolist(self) -> list[Any]:
        """The column as a list of text, NaN where it is missing."""
        return self.decode().tolist()


def number_groups(columns: Sequence[Key], size: int, missing: Bools | None = None) -> tuple[Ints, Ints]:
    """Number the distinct tuples of ``columns`` in increasing order of the tuples.

    Parameters
    ----------
    columns : sequence of ndarrays of shape (size,)
        Numbers or text, the most significant column first. Without columns there is one group, even if
        ``size`` is 0.
    size : int
    missing : ndarray of shape (size,), bool, optional
        Entries that belong to no group.

    Returns
    -------
    group : ndarray of shape (size,), int64
        Number of each entry's group, -1 for missing ones.
    first : ndarray of shape (n_groups,), int64
        The first entry of each group.

    Examples
    --------
    >>> import numpy as np
    >>> number_groups([np.array(["b", "a", "b"]), np.array([1, 7, 0])], 3)
    (array([2, 0, 1]), array([1, 2, 0]))
    """
    if not columns:
        return np.zeros(size, dtype=np.int64), np.zeros(1, dtype=np.int64)
    entries = None if missing is None or not missing.any() else np.flatnonzero(~missing)
    kept = [column if entries is None else column[entries] for column in columns]
    n = size if entries is None else len(entries)
    key, span = np.zeros(n, dtype=np.int64), 1
    for column in kept:
        codes, n_codes = _codes(column)
        if span * n_codes > _table_limit(n):
            key, span = _dense(key, span)
        if span == 1:
            key = codes
        else:
            key = key * n_codes
            key += codes
        span *= n_codes
    key, span = _dense(key, span)
    position = np.empty(span, dtype=np.int64)
    position[key[::-1]] = np.arange(n - 1, -1, -1)  # a repeated index keeps the last value: the first entry
    if entries is None:
        return key, position
    group = np.full(size, NO_GROUP, dtype=np.int64)
    group[entries] = key
    return group, entries[position]


def _table_limit(n: int) -> int:
    return 8 * n + 1024


def _codes(column: Key) -> tuple[Ints, int]:
    """Integers in [0, n_codes) in the order of the column's values, of which none is missing."""
    if len(column) == 0:
        return np.zeros(0, dtype=np.int64), 1
    if isinstance(column, Coded):
        return column.codes.astype(np.int64), len(column.values)
    if column.dtype.kind in "iub":
        low, high = int(column.min()), int(column.max())
        if high - low < _table_limit(len(column)):
            codes = column.astype(np.int64, copy=False)
            return (codes - low if low else codes), high - low + 1
    # Runs of equal values are common (a direction, a sentence's label), so sort only their heads.
    starts = np.flatnonzero(np.concatenate([[True], column[1:] != column[:-1]]))
    values, codes = distinct(column[starts])
    return np.repeat(codes, np.diff(starts, append=len(column))), len(values)


def distinct(column: Key) -> tuple[NDArray, Ints]:
    """The distinct values of a column in increasing order, NaN last, and which of them each entry is.

    Examples
    --------
    >>> import numpy as np
    >>> distinct(np.array(["b", "a", "b"]))
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1]))
    """
    if isinstance(column, Coded) and column.missing is None:
        used = np.bincount(column.codes, minlength=len(column.values)) > 0
        return column.values[used], (np.cumsum(used) - 1)[column.codes]
    if column.dtype.kind != "U":
        values, codes = np.unique(column, return_inverse=True)
        return values, codes.astype(np.int64)
    listed = column.tolist()  # hashing text is many times faster than sorting it
    known = sorted(set(listed), key=lambda value: (value != value, value == value and value))
    number = {value: code for code, value in enumerate(known)}
    return np.array(known, TEXT if isinstance(column, Coded) else column.dtype), np.fromiter(
        map(number.__getitem__, listed), np.int64, len(listed)
    )


def _dense(key: Ints, span: int) -> tuple[Ints, int]:
    """Renumber keys in [0, span) without gaps, keeping their order."""
    if span > _table_limit(len(key)):
        values, key = np.unique(key, return_inverse=True)
        return key.astype(np.int64), len(values)
    present = np.zeros(span, dtype=np.bool_)
    present[key] = True
    number = np.cumsum(present, dtype=np.int32 if span < 2**31 else np.int64)
    if number[-1] == span:
        return key, span
    return number[key].astype(np.int64) - 1, int(number[-1])


Key = NDArray | Coded


def as_key(column: Key) -> Key:
    """A column without missing values in the form in which rows keep it: text by numbers."""
    if isinstance(column, Coded):
        return column
    if column.dtype.kind != "U":
        return column
    values, codes = distinct(column)
    return Coded(values, codes.astype(np.int32))


def numbers_of(key: Key) -> NDArray:
    """Numbers that sort and compare like the column."""
    return key.codes if isinstance(key, Coded) else key


def join_keys(keys: Sequence[Key], name: str = "") -> Key:
    """The keys of several shards, one after the other; ``name`` is the column's, for errors.

    Raises
    ------
    InvalidInputError
        If some are text and others are numbers.
    """
    keys = [key for key in keys if len(numbers_of(key))] or list(keys[:1])
    if len(keys) == 1:
        return keys[0]
    coded = [key for key in keys if isinstance(key, Coded)]
    if not coded:
        return np.concatenate([numbers_of(key) for key in keys])
    if len(coded) < len(keys):
        raise InvalidInputError(f"column {name!r} must be text in all shards or in none; turn its values into text")
    if all(key.values is coded[0].values for key in coded):
        return Coded(coded[0].values, np.concatenate([key.codes for key in coded]))
    values = np.unique(np.concatenate([key.values for key in coded]))
    return Coded(
        values, np.concatenate([np.searchsorted(values, key.values).astype(np.int32)[key.codes] for key in coded])
    )


def same_keys(one: Mapping[str, Key], other: Mapping[str, Key]) -> bool:
    """Whether two sets of columns have the same names and values."""
    left, right = KeyColumns(dict(one)), KeyColumns(dict(other))
    return list(left) == list(right) and all(np.array_equal(left[name], right[name]) for name in left)


@dataclass(frozen=True)
class KeyColumns(Mapping[str, NDArray]):
    """Columns by name, decoded on access."""

    keys_by_name: dict[str, Key]

    def __getitem__(self, name: str) -> NDArray:
        key = self.keys_by_name[name]
        return key.decode() if isinstance(key, Coded) else key

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys_by_name)

    def __len__(self) -> int:
        return len(self.keys_by_name)

    def pick(self, index: Any) -> KeyColumns:
        """The same columns of some rows."""
        return KeyColumns({name: key[index] for name, key in self.keys_by_name.items()})

    @property
    def nbytes(self) -> int:
        """Memory of the columns, of coded ones without their values."""
        return sum(numbers_of(key).nbytes for key in self.keys_by_name.values())
