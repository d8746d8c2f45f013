"""The summands of an expectation: what ``E[...]`` and ``E.count(...)`` stand for, times a number."""

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType
from typing import Literal

from spectrem.constraints.columns import Column, quote
from spectrem.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class Term:
    """One summand ``coefficient * E[weight]`` or ``coefficient * E.count(weight)``, perhaps divided by a count.

    Attributes
    ----------
    coefficient : float
    kind : {"expectation", "count"}
        A count does not depend on q.
    weight : Column or Ellipsis
        A condition, or a number per part; ``...`` is 1 on every part.
    each : str or None
        The column, if any, whose values a count counts once each, however many parts have them.
    over : Term or None
        The count by which it is divided, of coefficient 1.
    at : (str, str) or None
        Of an expectation that is taken elsewhere in the instance: the column that parts there have, and the column of
        the group whose value it must have.
    """

    coefficient: float
    kind: Literal["expectation", "count"]
    weight: Column | EllipsisType
    each: str | None = None
    over: Term | None = None
    at: tuple[str, str] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and (self.coefficient, repr(self)) == (other.coefficient, repr(other))

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        """The text of the term without its coefficient."""
        weight = "..." if isinstance(self.weight, EllipsisType) else repr(self.weight)
        each = "" if self.each is None else f", each={quote(self.each)}"
        text = f"E[{weight}]" if self.kind == "expectation" else f"E.count({weight}{each})"
        text += "" if self.at is None else f".at({', '.join(map(quote, self.at))})"
        return text if self.over is None else f"{text} / {self.over!r}"


def as_weight(weight: object, name: str) -> Column | EllipsisType:
    """The weight in ``E[weight]`` or ``E.count(weight)``, checked; ``name`` begins errors."""
    if isinstance(weight, (Column, EllipsisType)):
        return weight
    hint = f"write part({quote(weight)})" if isinstance(weight, str) else 'is the left side of == a part("...")?'
    raise InvalidInputError(f"{name} takes a condition or weights over part(...) columns, got {weight!r}; {hint}")
