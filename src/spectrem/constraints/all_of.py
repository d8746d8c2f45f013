"""Several constraints as one, ``c1 & c2``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from spectrem.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class AllOf(Sequence[Any]):
    """Several constraints, all of which must hold; made by ``&`` and by shortcuts such as `label_proportions`.

    A sequence of its members, in order. What is said of it is said of each of them.

    Attributes
    ----------
    members : tuple of constraints

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> both = (E[part("label") == "title"] <= 1) & (E[part("label") == "author"] >= 1)
    >>> both.per("document")
    (E[part("label") == "title"] <= 1).per("document") & (E[part("label") == "author"] >= 1).per("document")
    >>> [one.name for one in both.named("front page")]
    ['front page (1)', 'front page (2)']
    """

    members: tuple[Any, ...]

    def per(self, *columns: str | Sequence[str]) -> AllOf:
        """Each of them :meth:`Constraint.per` these columns."""
        return self._each("per", *columns)

    def slack(self, **options: Any) -> AllOf:
        """Each of them with a :meth:`Constraint.slack` of its own."""
        return self._each("slack", **options)

    def allow_empty(self) -> AllOf:
        """Each of them with :meth:`Constraint.allow_empty`."""
        return self._each("allow_empty")

    def named(self, name: str) -> AllOf:
        """Names that begin so: of members with a name, that follows; others are numbered from 1."""
        made = []
        for number, one in enumerate(self.members, 1):
            own = getattr(one, "label", None)
            made.append(one.named(f"{name} ({number})" if own is None else f"{name}: {own}"))
        return AllOf(tuple(made))

    def __and__(self, other: object) -> AllOf:
        """All of both."""
        return join(self, other)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> AllOf: ...
    def __getitem__(self, index: int | slice) -> Any:
        return AllOf(self.members[index]) if isinstance(index, slice) else self.members[index]

    def __len__(self) -> int:
        return len(self.members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AllOf) and self.members == other.members

    def __hash__(self) -> int:
        return hash(self.members)

    def __repr__(self) -> str:
        return " & ".join(f"({one!r})" if getattr(one, "is_comparison", False) else repr(one) for one in self.members)

    def _each(self, method: str, *columns: Any, **options: Any) -> AllOf:
        for one in self.members:
            if not hasattr(one, method):
                raise InvalidInputError(f"{one!r} has no .{method}(...); write it behind the others, before &")
        return AllOf(tuple(getattr(one, method)(*columns, **options) for one in self.members))


def join(*constraints: object) -> AllOf:
    """All of several constraints.

    Raises
    ------
    InvalidInputError
        If something is not a constraint.
    """
    members: list[Any] = []
    for one in constraints:
        if not isinstance(one, AllOf) and not hasattr(one, "allowance") and not hasattr(one, "rows"):
            raise InvalidInputError(
                f"& joins constraints, got {one!r}; put each comparison in parentheses, as in (E[...] <= 1) & (...)"
            )
        members += one.members if isinstance(one, AllOf) else [one]
    return AllOf(tuple(members))
