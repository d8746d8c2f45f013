"""Parts elsewhere in an instance that a group refers to: those at the value of one of its columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints.compilation.groups import NO_GROUP, as_key, join_keys, number_groups, numbers_of
from spectrem.constraints.compilation.table import PartTable
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import offsets_of, ranges_of


class Places(NamedTuple):
    """Parts, each with a group that refers to it; a part may have several."""

    part: NDArray[np.int64]
    group: NDArray[np.int64]


def find_places(
    at: tuple[str, str],
    table: PartTable,
    group: NDArray[np.int64],
    first: NDArray[np.int64],
    among: NDArray[np.int64],
    name: str,
) -> Places:
    """The parts that groups refer to.

    Parameters
    ----------
    at : (str, str)
        The column of the parts, and the column of a group whose value that of the part must be.
    table : PartTable
    group : ndarray of shape (n_unary,)
        The group of every part, which lies inside an instance, or `NO_GROUP`.
    first : ndarray of shape (n_groups,)
        A part of every group.
    among : ndarray of int64
        The parts that are looked at.
    name : str
        Of the constraint, for errors.

    Raises
    ------
    InvalidInputError
        If there is no such column, one is text and the other is not, or a group has several values.
    """
    column, key = (table.column(one) for one in at)
    lacking = [table.missing(one, values) for one, values in zip(at, (column, key), strict=True)]
    known = group != NO_GROUP
    if lacking[0] is not None:
        among = among[~lacking[0][among]]
    if lacking[1] is not None:
        known &= ~lacking[1]
    keyed = np.flatnonzero(known)
    holder = np.full(len(first), -1)  # of every group, a part that has the key
    holder[group[keyed]] = keyed
    same = numbers_of(key[keyed]) == numbers_of(key[holder[group[keyed]]])
    if not same.all():
        bad = key[keyed[~same]].tolist()[0], key[holder[group[keyed[~same]]]].tolist()[0]
        raise InvalidInputError(
            f"{name!r}: {at[1]!r} must have one value in every group to look for {at[0]!r} there, got {bad[0]!r} and "
            f"{bad[1]!r} in one; name more columns in .per"
        )
    groups = np.flatnonzero(holder >= 0)
    instance = table.structure.instance
    values = join_keys([as_key(column[among]), as_key(key[holder[groups]])], at[1])
    instances = np.concatenate([instance[among], instance[first[groups]]])
    number, _ = number_groups([instances, numbers_of(values)], len(instances))
    there, wanted = number[: len(among)], number[len(among) :]
    sizes = np.bincount(there, minlength=int(number.max(initial=-1)) + 1)
    entries = ranges_of(offsets_of(sizes)[:-1][wanted], sizes[wanted])
    return Places(among[np.argsort(there, kind="stable")][entries], np.repeat(groups, sizes[wanted]))
