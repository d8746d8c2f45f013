"""Expectations of columns under q, and what linear arithmetic makes of them: ``2 * E[a] - E[b] + 1``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import EllipsisType
from typing import TYPE_CHECKING, Literal

import numpy as np

from spectrem.constraints.columns import Column, plain, quote
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from spectrem.constraints.constraint import Constraint


@dataclass(frozen=True, eq=False)
class Term:
    """One summand ``coefficient * E[weight]`` or ``coefficient * E.count(weight)``.

    Attributes
    ----------
    coefficient : float
    kind : {"expectation", "count"}
    weight : Column or Ellipsis
        A condition, or a number per part; ``...`` is 1 on every part.
    each : str or None
        Of a count: parts with the same value of this column count once together.
    """

    coefficient: float
    kind: Literal["expectation", "count"]
    weight: Column | EllipsisType
    each: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Expectation:
    """A linear expression of expectations, counts and a number, made by ``E`` and arithmetic.

    Compare it (``<=``, ``>=``, ``==``, :meth:`between`) to make a :class:`Constraint`. Immutable; its
    ``repr`` is the source text.

    Attributes
    ----------
    terms : tuple of Term
    constant : float
    groups : tuple of str or None
        Columns given to :meth:`per`.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> 2 * E[part("tag") == "VERB"] - E[part("tag") == "NOUN"].per("sentence")
    (2 * E[part("tag") == "VERB"] - E[part("tag") == "NOUN"]).per("sentence")
    """

    terms: tuple[Term, ...]
    constant: float = 0
    groups: tuple[str, ...] | None = None

    __array_ufunc__ = None  # numpy scalars on the left leave the operator to us

    @property
    def is_single(self) -> bool:
        """Whether it is one bare ``E[...]`` or ``E.count(...)``."""
        return len(self.terms) == 1 and self.terms[0].coefficient == 1 and not self.constant

    def per(self, *columns: str) -> Expectation:
        """Take the expectation once per group: per distinct value of ``columns`` among the parts.

        All expectations of one constraint share one grouping; those without ``per`` take the others'.

        Raises
        ------
        InvalidInputError
            If no column is named, a name is no text, or it is grouped already by other columns.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> E[part("source") != -1].per("sentence", "source") <= 1
        (E[part("source") != -1] <= 1).per("sentence", "source")
        """
        return replace(self, groups=merge_groups(self.groups, check_groups(columns)))

    def between(self, low: Expectation | float, high: Expectation | float) -> Constraint:
        """``low <= self <= high``, one constraint with both bounds.

        Raises
        ------
        InvalidInputError
            If a bound is no number and no expectation, or ``low > high``.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> E[part("relation") == "born_in"].between(3, 10)
        E[part("relation") == "born_in"].between(3, 10)
        """
        lower, upper = as_expectation(low, "between"), as_expectation(high, "between")
        if not lower.terms and not upper.terms and lower.constant > upper.constant:
            raise InvalidInputError(f"between needs low <= high, got low={low!r} and high={high!r}; swap them")
        return _constraint(self, lower, upper)

    def __le__(self, other: Expectation | float) -> Constraint:
        return _constraint(self, None, as_expectation(other, "<="))

    def __ge__(self, other: Expectation | float) -> Constraint:
        return _constraint(self, as_expectation(other, ">="), None)

    def __eq__(self, other: object) -> Constraint:  # type: ignore[override]
        value = as_expectation(other, "==")
        return _constraint(self, value, value)

    def __ne__(self, other: object) -> Constraint:  # type: ignore[override]
        raise InvalidInputError(f"{self!r} != {other!r}: != is no linear constraint; use <=, >=, == or between")

    def __lt__(self, other: object) -> Constraint:
        raise InvalidInputError(f"{self!r} < {other!r}: a strict bound is not closed; use <=")

    def __gt__(self, other: object) -> Constraint:
        raise InvalidInputError(f"{self!r} > {other!r}: a strict bound is not closed; use >=")

    def __add__(self, other: Expectation | float) -> Expectation:
        value = as_expectation(other, "+")
        groups = merge_groups(self.groups, value.groups)
        return Expectation(self.terms + value.terms, self.constant + value.constant, groups)

    def __sub__(self, other: Expectation | float) -> Expectation:
        return self + -1 * as_expectation(other, "-")

    def __mul__(self, factor: float) -> Expectation:
        if isinstance(factor, Expectation):
            raise InvalidInputError(f"{self!r} * {factor!r}: a product of expectations is not linear; use a number")
        number = _number(factor, "*")
        terms = tuple(replace(term, coefficient=_short(number * term.coefficient)) for term in self.terms)
        return replace(self, terms=terms, constant=_short(number * self.constant))

    def __truediv__(self, divisor: float) -> Expectation:
        if isinstance(divisor, Expectation) or _number(divisor, "/") == 0:
            raise InvalidInputError(f"{self!r} / {divisor!r}: an expectation is divided by numbers but 0 only")
        return self * (1 / _number(divisor, "/"))

    def __neg__(self) -> Expectation:
        return self * -1

    def __radd__(self, other: Expectation | float) -> Expectation:
        return self + other

    def __rsub__(self, other: Expectation | float) -> Expectation:
        return -1 * self + other

    def __rmul__(self, factor: float) -> Expectation:
        return self * factor

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        text = ""
        for term in self.terms:
            weight = "..." if term.weight is ... else repr(term.weight)
            each = "" if term.each is None else f", each={quote(term.each)}"
            name = f"E.count({weight}{each})" if term.kind == "count" else f"E[{weight}]"
            text += _signed(term.coefficient, bool(text), name)
        if self.constant or not text:
            text += _signed(self.constant, bool(text), "")
        if not self.groups:
            return text
        return f"{text if self.is_single else f'({text})'}{groups_text(self.groups)}"


class ExpectationOperator:
    """``E``: ``E[condition]`` is the expected number of parts that meet it, under q.

    ``E[...]`` (three literal dots) counts every part; ``E[weights]`` with a numeric expression sums the
    weights of the parts; ``E.count(condition)`` is the number of rows or tokens in the data for which the condition can
    hold, which does not depend on q.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> (E[part("conserved")] >= 0.9 * E.count(part("conserved"))).per("sentence")
    (E[part("conserved")] >= 0.9 * E.count(part("conserved"))).per("sentence")
    """

    def __getitem__(self, weight: Column | EllipsisType) -> Expectation:
        return Expectation((Term(1, "expectation", _weight(weight, "E[...]")),))

    def count(self, weight: Column | EllipsisType, *, each: str | None = None) -> Expectation:
        """How many choices can meet a condition, whatever q is: a whole of which expectations are shares.

        What is counted are rows of a table or of a mixture, tokens of sentences and of a lattice, positions of an
        alignment that choose a link (the target words; in the other direction the source words; in a product of both
        directions those of both). Each counts once, however many of its labels meet the condition: a condition on
        columns of the data counts the rows that meet it, one on labels those that may have one of these labels. Within
        ``.per(...)``, each group counts its own.

        Parameters
        ----------
        weight : condition, numeric expression or ``...``
            Of numbers, the sum over choices of the largest among their labels.
        each : str, optional
            Count values of this column once each in place of rows or tokens, as ``each="document"``; parts whose value
            is missing are left out.

        Notes
        -----
        Over several instances, each counts by the weight of its instance, as in expectations.

        Examples
        --------
        >>> from spectrem.constraints import E, compile_constraints, part
        >>> from spectrem.structures import Categorical
        >>> of_a = part("group") == "a"
        >>> fifth = E[of_a & (part("label") == 2)] <= 0.2 * E.count(of_a)
        >>> compile_constraints(fifth, Categorical([3, 3, 3]), {"group": ["a", "a", "b"]}).bounds
        array([0.4])
        >>> E[part("tag") == "VERB"] >= 0.1 * E.count(..., each="occurrence")
        E[part("tag") == "VERB"] >= 0.1 * E.count(..., each="occurrence")
        """
        if each is not None and not isinstance(each, str):
            raise InvalidInputError(
                f'E.count: each must be the name of a column, got {each!r}; write each="occurrence"'
            )
        return Expectation((Term(1, "count", _weight(weight, "E.count(...)"), each),))

    def __repr__(self) -> str:
        return "E"


E = ExpectationOperator()


def as_expectation(value: object, sign: str) -> Expectation:
    """An expectation as it is, a finite number as a constant one."""
    return value if isinstance(value, Expectation) else Expectation((), _number(value, sign))


def check_groups(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Names of group columns: at least one, text, each once."""
    if not columns or len(set(columns)) != len(columns) or not all(isinstance(name, str) for name in columns):
        raise InvalidInputError(
            f'per takes one or more different names of columns, got {columns!r}; write .per("sentence")'
        )
    return columns


def merge_groups(left: tuple[str, ...] | None, right: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The one grouping of both sides of an operator."""
    if left and right and set(left) != set(right):
        raise InvalidInputError(
            f"one constraint has one grouping, got {groups_text(left)} and {groups_text(right)}; "
            "group both sides by the same columns"
        )
    return left or right


def groups_text(groups: tuple[str, ...]) -> str:
    """``.per("a", "b")``."""
    return f".per({', '.join(quote(name) for name in groups)})"


def _constraint(expression: Expectation, lower: Expectation | None, upper: Expectation | None) -> Constraint:
    from spectrem.constraints.constraint import Constraint

    sides = [side for side in (expression, lower, upper) if side is not None]
    groups: tuple[str, ...] | None = None
    for side in sides:
        groups = merge_groups(groups, side.groups)
    if not any(term.kind == "expectation" for side in sides for term in side.terms):
        raise InvalidInputError(f"{expression!r} is compared with a constant; one side needs an expectation E[...]")
    free = [None if side is None else replace(side, groups=None) for side in (expression, lower, upper)]
    assert free[0] is not None
    return Constraint(free[0], free[1], free[2], groups or ())


def _weight(weight: object, name: str) -> Column | EllipsisType:
    if isinstance(weight, (Column, EllipsisType)):
        return weight
    hint = f"write part({quote(weight)})" if isinstance(weight, str) else 'is the left side of == a part("...")?'
    raise InvalidInputError(f"{name} takes a condition or weights over part(...) columns, got {weight!r}; {hint}")


def _number(value: object, sign: str) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating)) or not -np.inf < value < np.inf:
        raise InvalidInputError(
            f"{sign} takes a finite number or an expectation, got {value!r}; for one bound per row use linear(U, b)"
        )
    number = plain(value)
    assert not isinstance(number, str)
    return number


def _short(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _signed(number: float, follows: bool, name: str) -> str:
    size = abs(number) if follows else number
    text = repr(size) if not name else name if size == 1 else f"-{name}" if size == -1 else f"{size!r} * {name}"
    return (" - " if number < 0 else " + ") + text if follows else text
