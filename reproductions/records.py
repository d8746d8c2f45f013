"""Trainings as named tuples, one per training or measurement: choosing among them and grouping them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np

Record = TypeVar("Record", bound=NamedTuple)


def where(records: Iterable[Record], **fields: Any) -> list[Record]:
    """The records whose fields have these values.

    Examples
    --------
    >>> Run = NamedTuple("Run", [("size", int), ("aer", float)])
    >>> where([Run(10, 0.2), Run(20, 0.1)], size=20)
    [Run(size=20, aer=0.1)]
    """
    return [record for record in records if all(getattr(record, name) == value for name, value in fields.items())]


def group(records: Iterable[Record], *fields: str) -> dict[Any, list[Record]]:
    """Records by the value of a field, or by the values of several; keys and records keep their order.

    Examples
    --------
    >>> Run = NamedTuple("Run", [("size", int), ("aer", float)])
    >>> list(group([Run(20, 0.1), Run(10, 0.2), Run(20, 0.3)], "size"))
    [20, 10]
    """
    groups: dict[Any, list[Record]] = {}
    for record in records:
        values = tuple(getattr(record, field) for field in fields)
        groups.setdefault(values if len(fields) > 1 else values[0], []).append(record)
    return groups


class Spread(NamedTuple):
    """Of several trainings that differ in their start."""

    mean: float
    deviation: float


def spread(records: Iterable[Record], field: str, *, ddof: int = 0) -> Spread:
    """Mean and standard deviation of a field, the latter 0 for a single record.

    Parameters
    ----------
    records : iterable of named tuples
    field : str
    ddof : int
        What is taken from the number of records to divide by.

    Examples
    --------
    >>> Run = NamedTuple("Run", [("seed", int), ("aer", float)])
    >>> spread([Run(0, 0.25), Run(1, 0.75)], "aer")
    Spread(mean=0.5, deviation=0.25)
    """
    values = np.array([getattr(record, field) for record in records])
    return Spread(float(values.mean()), float(values.std(ddof=ddof)) if len(values) > 1 else 0.0)
