"""Expectations of columns under q, and what linear arithmetic makes of them: ``2 * E[a] - E[b] + 1``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import TYPE_CHECKING, cast

import numpy as np

from spectrem.constraints.columns import Column, plain, quote
from spectrem.constraints.terms import Term, as_weight
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from spectrem.constraints.constraint import Constraint


_SHARE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*%\s*")


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
        if len(self.terms) != 1 or self.constant:
            return False
        return self.terms[0].coefficient == 1 and self.terms[0].over is None

    def per(self, *columns: str | Sequence[str]) -> Expectation:
        """Take the expectation once per group: per distinct value of ``columns`` among the parts.

        All expectations of one constraint share one grouping; those without ``per`` take the others'.

        Parameters
        ----------
        *columns : str, or one sequence of str
            Names of columns; of several, every combination of values that some part has is a group.

        Raises
        ------
        InvalidInputError
            If no column is named, a name is not text, or it is grouped already by other columns.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> E[part("source") != -1].per("sentence", "source") <= 1
        (E[part("source") != -1] <= 1).per("sentence", "source")
        """
        return replace(self, groups=merge_groups(self.groups, check_groups(columns)))

    def at(self, column: str, key: str) -> Expectation:
        """The same elsewhere in the instance: of parts whose ``column`` has the value that ``key`` has in the group.

        So what is expected of one variable is compared with what is expected of those that it refers to, such as a
        relation with its arguments. A group without ``key`` has 0 there.

        Raises
        ------
        InvalidInputError
            If a name is not text, or a count or an expectation that is elsewhere already is among its terms.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> (E[part("relation") == "Kill"] <= E[part("type") == "Peop"].at("mention", "first")).per("sentence", "pair")
        (E[part("relation") == "Kill"] <= E[part("type") == "Peop"].at("mention", "first")).per("sentence", "pair")
        """
        if (
            not isinstance(column, str)
            or not isinstance(key, str)
            or any(t.at or t.kind == "count" for t in self.terms)
        ):
            raise InvalidInputError(
                f"{self!r}.at({column!r}, {key!r}): at takes the names of two columns, once, behind an expectation; "
                'write E[...].at("mention", "first")'
            )
        return replace(self, terms=tuple(replace(term, at=(column, key)) for term in self.terms))

    def between(self, low: Expectation | float | str, high: Expectation | float | str) -> Constraint:
        """``low <= self <= high``, one constraint with both bounds.

        Parameters
        ----------
        low, high : number, share as ``"20%"``, or Expectation
            A share is one of ``E.count(...)``, the rows of a table or the tokens of text, within each group of
            ``.per(...)``; of an expression that is divided by a count it is the number 0.2.

        Raises
        ------
        InvalidInputError
            If a bound is not a number, share or expectation, or ``low > high``.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> E[part("relation") == "born_in"].between(3, 10)
        E[part("relation") == "born_in"].between(3, 10)
        >>> E[part("label") == "spam"].between("15%", "25%")
        E[part("label") == "spam"].between(0.15 * E.count(...), 0.25 * E.count(...))
        """
        lower, upper = self._bound(low, "between"), self._bound(high, "between")
        numbers = not lower.terms and not upper.terms
        if (numbers and lower.constant > upper.constant) or (
            isinstance(low, str) and isinstance(high, str) and as_share(low) > as_share(high)
        ):
            raise InvalidInputError(f"between needs low <= high, got low={low!r} and high={high!r}; swap them")
        return _constraint(self, lower, upper)

    def __le__(self, other: Expectation | float | str) -> Constraint:
        return _constraint(self, None, self._bound(other, "<="))

    def __ge__(self, other: Expectation | float | str) -> Constraint:
        return _constraint(self, self._bound(other, ">="), None)

    def __eq__(self, other: object) -> Constraint:  # type: ignore[override]
        value = self._bound(other, "==")
        return _constraint(self, value, value)

    def __ne__(self, other: object) -> Constraint:  # type: ignore[override]
        raise InvalidInputError(f"{self!r} != {other!r}: != is not a linear constraint; use <=, >=, == or between")

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

    def __mul__(self, factor: float | str) -> Expectation:
        if isinstance(factor, Expectation):
            raise InvalidInputError(f"{self!r} * {factor!r}: a product of expectations is not linear; use a number")
        number = as_share(factor) if isinstance(factor, str) else _number(factor, "*")
        terms = tuple(replace(term, coefficient=_short(number * term.coefficient)) for term in self.terms)
        return replace(self, terms=terms, constant=_short(number * self.constant))

    def __truediv__(self, divisor: Expectation | float) -> Expectation:
        if isinstance(divisor, Expectation):
            return self._share_of(divisor)
        if _number(divisor, "/") == 0:
            raise InvalidInputError(f"{self!r} / {divisor!r}: an expectation is divided by a count or a number but 0")
        return self * (1 / _number(divisor, "/"))

    def __neg__(self) -> Expectation:
        return self * -1

    def __radd__(self, other: Expectation | float) -> Expectation:
        return self + other

    def __rsub__(self, other: Expectation | float) -> Expectation:
        return -1 * self + other

    def __rmul__(self, factor: float | str) -> Expectation:
        return self * factor

    def __and__(self, other: object) -> Expectation:
        raise InvalidInputError(
            f"{self!r} & {other!r}: & joins constraints or conditions; put each comparison in parentheses, as in "
            "(E[...] <= 1) & (E[...] >= 0)"
        )

    __rand__ = __and__

    def __hash__(self) -> int:
        return hash(repr(self))

    def _bound(self, value: object, sign: str) -> Expectation:
        """The other side of a comparison; ``"20%"`` is 0.2 of ``E.count(...)``, or 0.2 where a share is compared."""
        if not isinstance(value, str):
            return as_expectation(value, sign)
        share, divided = as_share(value), [term.over is not None for term in self.terms]
        if all(divided) and divided:
            return Expectation((), _short(share))
        if any(divided) or self.constant:
            raise InvalidInputError(
                f"{self!r} {sign} {value!r}: of what? write the share as a number, or {share!r} * E.count(...)"
            )
        return _short(share) * E.count(...)

    def _share_of(self, divisor: Expectation) -> Expectation:
        """Each term divided by one count."""
        whole = divisor.terms[0] if len(divisor.terms) == 1 and not divisor.constant else None
        if whole is None or whole.kind != "count" or whole.over is not None or whole.coefficient == 0:
            raise InvalidInputError(
                f"{self!r} / {divisor!r}: an expectation is divided by one E.count(...) or by a number, since the "
                "rest is not linear; for a ratio of expectations write E[a] <= 0.2 * E[b]"
            )
        if self.constant or any(term.over is not None for term in self.terms):
            raise InvalidInputError(
                f"{self!r} / {divisor!r}: expectations and counts are divided by a count, once; write numbers outside"
            )
        scaled = self if whole.coefficient == 1 else self / whole.coefficient
        over, groups = replace(whole, coefficient=1), merge_groups(self.groups, divisor.groups)
        return Expectation(tuple(replace(term, over=over) for term in scaled.terms), 0, groups)

    def __repr__(self) -> str:
        text = ""
        for term in self.terms:
            text += _signed(term.coefficient, bool(text), repr(term))
        if self.constant or not text:
            text += _signed(self.constant, bool(text), "")
        if not self.groups:
            return text
        return f"{text if self.is_single else f'({text})'}{groups_text(self.groups)}"


class ExpectationOperator:
    """``E``: ``E[condition]`` is the expected number of parts that meet it, under q.

    ``E[...]`` (three literal dots) counts every part; ``E[weights]`` with a numeric expression sums the
    weights of the parts; ``E.count(condition)`` is the number of rows or tokens in the data for which the condition can
    hold, which does not depend on q. ``E[a] / E.count(b)`` is a share; a group in which the count is 0 has none, and is
    left out.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> (E[part("conserved")] >= 0.9 * E.count(part("conserved"))).per("sentence")
    (E[part("conserved")] >= 0.9 * E.count(part("conserved"))).per("sentence")
    """

    def __getitem__(self, weight: Column | EllipsisType) -> Expectation:
        return Expectation((Term(1, "expectation", as_weight(weight, "E[...]")),))

    def count(self, weight: Column | EllipsisType, *, each: str | None = None) -> Expectation:
        """How many choices can meet a condition, whatever q is: a whole of which expectations are shares.

        Choices are the rows of a table or of a mixture, the tokens of sentences or of a lattice, and the positions of
        an alignment that choose a link (target words; source words in the other direction; both in a product of both
        directions). Each counts once, however many of its labels meet the condition: a condition on columns of the data
        counts the rows that meet it, a condition on labels the rows that may have one of these labels. Within
        ``.per(...)``, each group has its own count.

        Parameters
        ----------
        weight : condition, numeric expression or ``...``
            For numbers the count is a sum over choices, of the largest number among the labels of each.
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
        return Expectation((Term(1, "count", as_weight(weight, "E.count(...)"), each),))

    def __repr__(self) -> str:
        return "E"


E = ExpectationOperator()


def as_expectation(value: object, sign: str) -> Expectation:
    """An expectation as it is, a finite number as a constant one."""
    return value if isinstance(value, Expectation) else Expectation((), _number(value, sign))


def as_share(text: str, name: str = "") -> float:
    """The number of a share such as ``"20%"``; ``name`` begins errors.

    Raises
    ------
    InvalidInputError
        If the text is not a share, or the share is above 100 %.

    Examples
    --------
    >>> as_share("20%")
    0.2
    """
    match, place = _SHARE.fullmatch(text), f"{name}: " if name else ""
    if match is None:
        raise InvalidInputError(
            f"{place}expected a number, a share as '20%' or an expectation, got the text {quote(text)}"
        )
    share = float(match[1]) / 100
    if share > 1:
        raise InvalidInputError(f"{place}a share is 100% at most, got {text!r}; lower it")
    return share


def check_groups(columns: tuple[str | Sequence[str], ...]) -> tuple[str, ...]:
    """Names of group columns, given one by one or as one list: at least one, text, each once."""
    if len(columns) == 1 and not isinstance(columns[0], str) and isinstance(columns[0], Sequence):
        columns = tuple(columns[0])
    if not columns or len(set(columns)) != len(columns) or not all(isinstance(name, str) for name in columns):
        raise InvalidInputError(
            f'per takes one or more different names of columns, got {columns!r}; write .per("sentence")'
        )
    return cast("tuple[str, ...]", columns)


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
