"""Expectations under q, ``2 * E[a] - E[b] + 1``, and the constraints that comparisons of them make."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from types import EllipsisType
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats
from spectrem._first_use import sparse as sp
from spectrem._html import MOST_LINES, and_more, page
from spectrem.constraints.columns import Column, plain, quote
from spectrem.constraints.compilation.rows import Norm, Slack
from spectrem.exceptions import InvalidInputError, counted, quoted, shorten
from spectrem.structures.structure import Structure


@dataclass(frozen=True, eq=False, repr=False)
class AllOf(Sequence[Any]):
    """Several constraints, all of which must hold; made by ``&`` and by shortcuts such as `label_proportions`.

    A sequence of its members, in order. What is said of it is said of each of them. A group of one equals its member,
    as which its ``repr`` is read back.

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
        """Each of them :meth:`Constraint.per` these columns.

        Parameters
        ----------
        *columns : str, or one sequence of str

        Returns
        -------
        AllOf

        Raises
        ------
        InvalidInputError
            As :meth:`Constraint.per`.
        """
        return self._each("per", *columns)

    def slack(self, **options: Any) -> AllOf:
        """Each of them with a :meth:`Constraint.slack` of its own.

        Parameters
        ----------
        **options
            Those of :meth:`Constraint.slack`.

        Returns
        -------
        AllOf
        """
        return self._each("slack", **options)

    def allow_empty(self) -> AllOf:
        """Each of them with :meth:`Constraint.allow_empty`.

        Returns
        -------
        AllOf
        """
        return self._each("allow_empty")

    def named(self, name: str) -> AllOf:
        """Names that begin so: of members with a name, that follows; others are numbered from 1.

        Parameters
        ----------
        name : str

        Returns
        -------
        AllOf
        """
        made = []
        for number, one in enumerate(self.members, 1):
            label = getattr(one, "label", None)
            made.append(one.named(f"{name} ({number})" if label is None else f"{name}: {label}"))
        return AllOf(tuple(made))

    def __and__(self, other: object) -> AllOf:
        """All of both."""
        return join(self, other)

    def __getitem__(self, index: Any) -> Any:
        return AllOf(self.members[index]) if isinstance(index, slice) else self.members[index]

    def __len__(self) -> int:
        return len(self.members)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AllOf):
            return self.members == other.members
        return len(self.members) == 1 and bool(self.members[0] == other)

    def __hash__(self) -> int:
        return hash(self.members[0] if len(self.members) == 1 else self.members)

    def __repr__(self) -> str:
        return " & ".join(f"({one!r})" if getattr(one, "is_comparison", False) else repr(one) for one in self.members)

    def _repr_html_(self) -> str:
        return _page_of(self.members)

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


def _page_of(constraints: Sequence[Any]) -> str:
    """Constraints as notebooks show them: their names, and their text without these."""
    lines = []
    for one in constraints[:MOST_LINES]:
        label = getattr(one, "label", None)
        unnamed = replace(one, label=None) if isinstance(one, Constraint) else one
        name = "" if label is None else f"<strong>{escape(shorten(label))}</strong>: "
        lines.append(f"<p>{name}<code>{escape(shorten(repr(unnamed), 300))}</code></p>")
    title = f"{counted(len(constraints), 'constraint')}{', all of which must hold' * (len(constraints) > 1)}"
    return page(title, *lines, and_more(len(constraints) - len(lines)))


Sense = Literal["<=", ">=", "=="]
_SHARE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*%\s*")


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
    raise InvalidInputError(f"{name} takes a condition or weights over part(...) columns, got {quoted(weight)}; {hint}")


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
        return not self.constant and [(term.coefficient, term.over) for term in self.terms] == [(1, None)]

    def per(self, *columns: str | Sequence[str]) -> Expectation:
        """Take the expectation once per group: per distinct value of ``columns`` among the parts.

        All expectations of one constraint share one grouping; those without ``per`` take the others'.

        Parameters
        ----------
        *columns : str, or one sequence of str
            Names of columns; of several, every combination of values that some part has is a group.

        Returns
        -------
        Expectation

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

        Parameters
        ----------
        column : str
            Of the parts whose expectation is taken.
        key : str
            Of the groups that the constraint speaks of.

        Returns
        -------
        Expectation

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
        named = isinstance(column, str) and isinstance(key, str)
        if not named or any(term.at or term.kind == "count" for term in self.terms):
            raise InvalidInputError(
                f"{quoted(self)}.at({column!r}, {key!r}): at takes the names of two columns, once, behind an "
                'expectation; write E[...].at("mention", "first")'
            )
        return replace(self, terms=tuple(replace(term, at=(column, key)) for term in self.terms))

    def between(self, low: Expectation | float | str, high: Expectation | float | str) -> Constraint:
        """``low <= self <= high``, one constraint with both bounds.

        Parameters
        ----------
        low, high : number, share as ``"20%"``, or Expectation
            A share is one of ``E.count(...)``, the rows of a table or the tokens of text, within each group of
            ``.per(...)``; of an expression that is divided by a count it is the number 0.2.

        Returns
        -------
        Constraint

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
        raise InvalidInputError(
            f"{quoted(self)} != {quoted(other)}: != is not a linear constraint; use <=, >=, == or between"
        )

    def __lt__(self, other: object) -> Constraint:
        raise InvalidInputError(f"{quoted(self)} < {quoted(other)}: a strict bound is not closed; use <=")

    def __gt__(self, other: object) -> Constraint:
        raise InvalidInputError(f"{quoted(self)} > {quoted(other)}: a strict bound is not closed; use >=")

    def __add__(self, other: Expectation | float) -> Expectation:
        value = as_expectation(other, "+")
        groups = merge_groups(self.groups, value.groups)
        return Expectation(self.terms + value.terms, self.constant + value.constant, groups)

    def __sub__(self, other: Expectation | float) -> Expectation:
        return self + -1 * as_expectation(other, "-")

    def __mul__(self, factor: float | str) -> Expectation:
        if isinstance(factor, Expectation):
            raise InvalidInputError(
                f"{quoted(self)} * {quoted(factor)}: a product of expectations is not linear; use a number"
            )
        number = as_share(factor) if isinstance(factor, str) else _number(factor, "*")
        terms = tuple(replace(term, coefficient=_short(number * term.coefficient)) for term in self.terms)
        return replace(self, terms=terms, constant=_short(number * self.constant))

    def __truediv__(self, divisor: Expectation | float) -> Expectation:
        if isinstance(divisor, Expectation):
            return self._share_of(divisor)
        if _number(divisor, "/") == 0:
            raise InvalidInputError(
                f"{quoted(self)} / {quoted(divisor)}: an expectation is divided by a count or a number but 0"
            )
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
            f"{quoted(self)} & {quoted(other)}: & joins constraints or conditions; put each comparison in parentheses, "
            "as in (E[...] <= 1) & (E[...] >= 0)"
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
                f"{quoted(self)} {sign} {quoted(value)}: of what? write the share as a number, or {share!r} * "
                "E.count(...)"
            )
        return _short(share) * E.count(...)

    def _share_of(self, divisor: Expectation) -> Expectation:
        """Each term divided by one count."""
        whole = divisor.terms[0] if len(divisor.terms) == 1 and not divisor.constant else None
        if whole is None or whole.kind != "count" or whole.over is not None or whole.coefficient == 0:
            raise InvalidInputError(
                f"{quoted(self)} / {quoted(divisor)}: an expectation is divided by one E.count(...) or by a number, "
                "since the rest is not linear; for a ratio of expectations write E[a] <= 0.2 * E[b]"
            )
        if self.constant or any(term.over is not None for term in self.terms):
            raise InvalidInputError(
                f"{quoted(self)} / {quoted(divisor)}: expectations and counts are divided by a count, once; "
                "write numbers outside"
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
            f"{place}expected a number, a share as '20%' or an expectation, got the text {shorten(quote(text))}"
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
            f"{sign} takes a finite number or an expectation, got {quoted(value)}; for one bound per row use "
            "linear(U, b)"
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


@dataclass(frozen=True, eq=False, repr=False)
class Constraint:
    """``lower <= expression <= upper`` on expectations under q, once per group of parts.

    Made by comparing expectations. Immutable; its ``repr`` is source text that evaluates back to an equal
    constraint, and constraints with the same text are equal.

    Attributes
    ----------
    expression : Expectation
    lower, upper : Expectation or None
        Equal texts for an equality; None for no bound on that side.
    groups : tuple of str
        Columns of ``.per``; empty for one row over the whole corpus.
    allowance : Slack or None
        How far it may be violated; None for not at all.
    label : str or None
        Name given with :meth:`named`.
    over : str or None
        Column of `max_over`.
    may_be_empty : bool
        Set by :meth:`allow_empty`.

    Notes
    -----
    Groups are the distinct values of the group columns among *all* parts, so that a sentence in which no part
    meets the condition still has to meet ``>= 1`` (and is reported, since it cannot). A part whose
    value in one of the structure's own columns is NULL (-1), or missing in a user's column, belongs to no group.
    Rows that hold whatever q is (``0 <= 1``) are left out.

    Scope: a constraint whose groups name the structure's instance column (its first) stays inside instances. One with
    a group column that is constant inside every instance, such as its document, is as many small problems as there are
    groups, unless the norm of its slack ties them. Every other one holds over the corpus.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> (E[part("tag") == "VERB"] >= 1).per("sentence").named("one verb per sentence")
    (E[part("tag") == "VERB"] >= 1).per("sentence").named("one verb per sentence")
    """

    expression: Expectation
    lower: Expectation | None
    upper: Expectation | None
    groups: tuple[str, ...] = ()
    allowance: Slack | None = None
    label: str | None = None
    over: str | None = None
    may_be_empty: bool = False

    @property
    def name(self) -> str:
        """The name in errors and reports: the given one, else the text of the constraint."""
        return self.label if self.label is not None else repr(self)

    @property
    def equality(self) -> bool:
        """Whether both bounds are the same expression."""
        return self.lower is not None and self.upper is not None and repr(self.lower) == repr(self.upper)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the expression and of its bounds."""
        sides = (self.expression, self.lower, self.upper)
        return tuple(term for side in sides if side is not None for term in side.terms)

    @property
    def quantities(self) -> tuple[Term, ...]:
        """Its terms, and the counts by which they are divided."""
        return (*self.terms, *(term.over for term in self.terms if term.over is not None))

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns whose values tell its rows apart: those of `per`, and that of `max_over`."""
        return self.groups if self.over is None else (*self.groups, self.over)

    @property
    def sides(self) -> list[Expectation]:
        """Expressions that must be at most 0, or equal to 0: first for the upper bound, then for the lower one."""
        upper = [] if self.upper is None else [self.expression - self.upper]
        return upper if self.lower is None or self.equality else [*upper, self.lower - self.expression]

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The share of one count that each of the `sides` is bounded by; None where bounds are not shares.

        Empty where expectations are divided by counts, so that bounds are numbers up to 1. A share of 0 is none.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> spam, of_a = part("label") == "spam", part("group") == "a"
        >>> rules = E[spam].between("15%", "25%"), E[spam & of_a] / E.count(of_a) <= 0.3, E[spam] <= 9
        >>> [rule.shares for rule in rules]
        [(0.25, 0.15), (), None]
        """
        bounds = [bound for bound in (self.upper, None if self.equality else self.lower) if bound is not None]
        terms, divided = self.expression.terms, [term.over is not None for term in self.expression.terms]
        if self.over is not None or self.expression.constant or any(term.kind == "count" for term in terms):
            return None
        if any(divided):
            return () if all(term.over is not None for term in self.terms) else None
        wholes = {tuple(replace(term, coefficient=1) for term in bound.terms) for bound in bounds}
        if len(wholes) > 1 or any(bound.constant or [t.kind for t in bound.terms] != ["count"] for bound in bounds):
            return None
        shares = tuple(bound.terms[0].coefficient for bound in bounds)
        return shares if all(0 < share <= 1 for share in shares) else None

    def per(self, *columns: str | Sequence[str]) -> Constraint:
        """Demand it once per group: per distinct value of ``columns`` among the parts.

        Parameters
        ----------
        *columns : str, or one sequence of str
            Names of columns; of several, every combination of values that some part has is a group.

        Returns
        -------
        Constraint

        Raises
        ------
        InvalidInputError
            If no column is named, a name is not text, or it is grouped already by other columns.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> ((E[part("tag") == "VERB"] >= 1).per("sentence")
        ...     == (E[part("tag") == "VERB"].per("sentence") >= 1))
        True
        """
        if self.over is not None:
            raise InvalidInputError("max_over is grouped inside: write max_over(column, E[...].per(...)).penalty(...)")
        return replace(self, groups=merge_groups(self.groups, check_groups(columns)) or ())

    def slack(self, *, penalty: float | None = None, bound: float | None = None, norm: Norm = "l2") -> Constraint:
        """Allow violations, at a price or up to a bound.

        Parameters
        ----------
        penalty : float, optional
            Nats per unit of ``norm`` of the violations ([Ganchev2010] eq. 22); positive.
        bound : float, optional
            Largest ``norm`` of the violations ([Ganchev2010] eq. 6); positive. Exactly one of both is given.
        norm : {"l1", "l2", "linf"}
            Over the rows of each instance, or over all rows where they are not inside instances.

        Returns
        -------
        Constraint

        Raises
        ------
        InvalidInputError
            If not exactly one of both is given, a number is not positive, or the norm does not exist.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> (E[part("tag") == "VERB"] >= 1).per("sentence").slack(penalty=10, norm="l2")
        (E[part("tag") == "VERB"] >= 1).per("sentence").slack(penalty=10, norm="l2")
        """
        if self.over is not None:
            raise InvalidInputError("max_over(...).penalty(...) is slack already; leave .slack(...) out")
        return replace(self, allowance=make_slack(penalty, bound, norm))

    def named(self, name: str) -> Constraint:
        """Give the name that errors and reports use.

        Parameters
        ----------
        name : str

        Returns
        -------
        Constraint

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> (E[part("tag") == "VERB"] <= 9).named("few verbs").name
        'few verbs'
        """
        return replace(self, label=check_name(name))

    def allow_empty(self) -> Constraint:
        """Let it name values that the data do not have, in which case it may bind nothing.

        Without it, `spectrem.project` and ``fit`` refuse a value that no row has, since that is mostly a slip. Use when
        a table is one of many and a kind of rows may be absent from it.

        Returns
        -------
        Constraint

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> (E[part("kind") == "invoice"] <= 3).allow_empty()
        (E[part("kind") == "invoice"] <= 3).allow_empty()
        """
        return replace(self, may_be_empty=True)

    __and__ = join

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other) if isinstance(other, Constraint) else NotImplemented

    def __hash__(self) -> int:
        return hash(repr(self))

    def __bool__(self) -> bool:
        raise InvalidInputError(
            f"{quoted(self)} is a constraint, neither true nor false; for two bounds write E[...].between(low, high) "
            "in place of low <= E[...] <= high"
        )

    def __repr__(self) -> str:
        groups = groups_text(self.groups) if self.groups else ""
        last = ".allow_empty()" * self.may_be_empty
        last += "" if self.label is None else f".named({quote(self.label)})"
        if self.over is not None:
            assert self.allowance is not None
            inner = repr(replace(self.expression, groups=self.groups or None))
            text = f"max_over({quote(self.over)}, {inner}).penalty({self.allowance.strength!r})"
            return text + last
        rest = groups + _slack_text(self.allowance) + last
        if self.lower is not None and self.upper is not None and not self.equality:
            left = repr(self.expression) if self.expression.is_single else f"({self.expression!r})"
            return f"{left}.between({self.lower!r}, {self.upper!r}){rest}"
        sign, bound = ("==" if self.equality else "<=", self.upper) if self.upper is not None else (">=", self.lower)
        text = f"{self.expression!r} {sign} {bound!r}"
        return f"({text}){rest}" if rest else text

    def _repr_html_(self) -> str:
        return _page_of([self])

    @property
    def is_comparison(self) -> bool:
        """Whether its text is a bare comparison, which stands in parentheses beside operators."""
        one_bound = self.over is None and (self.equality or self.lower is None or self.upper is None)
        return one_bound and not (self.groups or self.allowance or self.may_be_empty or self.label is not None)


@dataclass(frozen=True, eq=False, repr=False)
class LinearConstraint:
    """Rows given as a sparse matrix over the parts of one batch; see :func:`linear`.

    A constraint of one's own may also tell what its rows are called in errors and reports (``keys``, a value per row
    under each name), and that instances count once in them whatever they weigh (``weighted=False``).

    Attributes
    ----------
    matrix : csr_array of shape (n_rows, n_unary)
    bounds : ndarray of shape (n_rows,)
    sense : {"<=", ">=", "=="}
    label : str
        The name in errors and reports.
    scope : {"instance", "corpus"}
        Whether every row lies inside an instance.
    allowance : Slack or None
    keys : mapping of name -> ndarray of shape (n_rows,)
    weighted : bool

    Examples
    --------
    >>> from spectrem import linear
    >>> linear([[0, 1, 0, 1]], [1.0], ">=", name="one of them").bounds
    array([1.])
    """

    matrix: sp.csr_array
    bounds: Floats
    sense: Sense
    label: str
    scope: Literal["instance", "corpus"]
    allowance: Slack | None = field(default=None)
    keys: Mapping[str, NDArray] = field(default_factory=dict)
    weighted: bool = True

    @property
    def name(self) -> str:
        return self.label

    def slack(self, *, penalty: float | None = None, bound: float | None = None, norm: Norm = "l2") -> LinearConstraint:
        """As :meth:`Constraint.slack`.

        Parameters
        ----------
        penalty, bound, norm
            As of :meth:`Constraint.slack`.

        Returns
        -------
        LinearConstraint
        """
        return replace(self, allowance=make_slack(penalty, bound, norm))

    def named(self, name: str) -> LinearConstraint:
        """As :meth:`Constraint.named`.

        Parameters
        ----------
        name : str

        Returns
        -------
        LinearConstraint
        """
        return replace(self, label=check_name(name))

    __and__ = join

    def __repr__(self) -> str:
        rows, parts = self.matrix.shape
        text = f"<{rows} x {parts} matrix, {self.matrix.nnz} stored>"
        return f"linear({text}, b, {quote(self.sense)}, name={quote(self.label)}, scope={quote(self.scope)})" + (
            _slack_text(self.allowance)
        )

    def _repr_html_(self) -> str:
        return _page_of([self])


class CustomConstraint(Protocol):
    """A user's own constraint: any object with this one method.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> class Half:
    ...     def rows(self, structure):
    ...         return E[part("label") == 1] <= structure.n_instances / 2
    >>> project([[0.1, 0.9], [0.3, 0.7]], Half()).proba.sum(axis=0).round(3).tolist()
    [1.0, 1.0]
    """

    def rows(self, structure: Structure) -> Constraint | LinearConstraint:
        """The constraint on one batch.

        For every shard of a corpus it must be the same constraint, or a matrix whose rows over the corpus have the same
        bounds in every shard: those of the whole corpus.

        Parameters
        ----------
        structure : Structure
            The structures of one batch, with their columns.

        Returns
        -------
        Constraint or LinearConstraint
        """


AnyConstraint = Constraint | LinearConstraint | CustomConstraint


def linear(
    U: sp.sparray | sp.spmatrix | ArrayLike,
    b: ArrayLike,
    sense: Sense = "<=",
    *,
    name: str = "linear",
    scope: Literal["instance", "corpus"] = "corpus",
) -> LinearConstraint:
    """Constraints ``U @ mu <= b`` (or ``>=``, ``==``) on the unary marginals of one batch, given as they are.

    Parameters
    ----------
    U : sparse array or array of shape (n_rows, n_unary)
        Finite coefficients.
    b : float or array of shape (n_rows,)
        Finite bounds.
    sense : {"<=", ">=", "=="}
    name : str
        How errors and reports call it.
    scope : {"instance", "corpus"}
        ``"instance"`` if every row stays inside one instance.

    Returns
    -------
    LinearConstraint

    Raises
    ------
    InvalidInputError
        If shapes do not fit, a number is not finite, or an option is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> linear(np.array([[1.0, 0.0, 1.0]]), 1.0, "==", name="both or none")
    linear(<1 x 3 matrix, 2 stored>, b, "==", name="both or none", scope="corpus")
    """
    if sense not in ("<=", ">=", "=="):
        raise InvalidInputError(f'linear: sense must be "<=", ">=" or "==", got {sense!r}')
    if scope not in ("instance", "corpus"):
        raise InvalidInputError(f'linear: scope must be "instance" or "corpus", got {scope!r}')
    matrix = sp.csr_array(U if sp.issparse(U) else np.atleast_2d(np.asarray(U)), dtype=np.float64, copy=True)
    bounds = np.asarray(b, dtype=np.float64)
    if bounds.ndim > 1 or (bounds.ndim == 1 and len(bounds) != matrix.shape[0]):
        raise InvalidInputError(
            f"linear: b needs one number or one per row of U, got shape {bounds.shape} for {matrix.shape[0]} rows"
        )
    if not np.isfinite(matrix.data).all() or not np.isfinite(bounds).all():
        raise InvalidInputError("linear: U and b must be finite, got NaN or infinity; leave rows without a bound out")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return LinearConstraint(matrix, np.broadcast_to(bounds, matrix.shape[0]).copy(), sense, check_name(name), scope)


def make_slack(penalty: float | None, bound: float | None, norm: Norm) -> Slack:
    """A validated :class:`Slack`."""
    if (penalty is None) == (bound is None):
        raise InvalidInputError(
            f"slack takes exactly one of penalty= and bound=, got penalty={penalty!r} and bound={bound!r}"
        )
    if norm not in ("l1", "l2", "linf"):
        raise InvalidInputError(f'slack: norm must be "l1", "l2" or "linf", got {norm!r}')
    strength = penalty if penalty is not None else bound
    if not isinstance(strength, (int, float, np.integer, np.floating)) or not (0 < strength < math.inf):
        which = "penalty" if penalty is not None else "bound"
        raise InvalidInputError(
            f"slack: {which} must be a positive finite number, got {strength!r}; for no slack leave slack out"
        )
    value = float(strength)
    return Slack("penalty" if penalty is not None else "bound", norm, int(value) if value.is_integer() else value)


def check_name(name: str) -> str:
    """A name for errors and reports: a text that is not empty."""
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"a constraint's name must be a text that is not empty, got {name!r}")
    return name


def _slack_text(slack: Slack | None) -> str:
    return "" if slack is None else f".slack({slack.kind}={slack.strength!r}, norm={quote(slack.norm)})"


@dataclass(frozen=True, eq=False)
class MaxOver:
    """The largest expectation over a column, waiting for its ``penalty``; see :func:`max_over`.

    Attributes
    ----------
    column : str
    expression : Expectation

    Examples
    --------
    >>> from spectrem import E, max_over, part
    >>> max_over("occurrence", E[part("tag") == "NOUN"].per("word"))
    max_over("occurrence", E[part("tag") == "NOUN"].per("word"))
    """

    column: str
    expression: Expectation

    def penalty(self, strength: float) -> Constraint:
        """Pay ``strength`` nats per unit of the maximum, added over groups.

        Parameters
        ----------
        strength : float
            Positive; nats per unit.

        Returns
        -------
        Constraint
        """
        return Constraint(
            replace(self.expression, groups=None),
            None,
            Expectation(()),
            self.expression.groups or (),
            make_slack(strength, None, "linf"),
            over=self.column,
        )

    def __repr__(self) -> str:
        return f"max_over({quote(self.column)}, {self.expression!r})"


def max_over(column: str, expression: Expectation) -> MaxOver:
    """The ℓ1/ℓ∞ penalty: per group, the largest expectation over the values of ``column``.

    Minimises ``strength * sum over groups of max over column of expression``, [Ganchev2010] §8: few groups
    are used at all. Use when few tags per word, or few relations per pattern, are expected.

    Parameters
    ----------
    column : str
        For example ``"occurrence"``: the tokens of each word.
    expression : Expectation
        Grouped by ``.per``, for example ``E[...].per("word", "tag")``.

    Returns
    -------
    MaxOver
        Call its ``penalty(strength)``.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> max_over("occurrence", E[part("frequency") >= 10].per("word", "tag")).penalty(32)
    max_over("occurrence", E[part("frequency") >= 10].per("word", "tag")).penalty(32)
    """
    if not isinstance(column, str) or not isinstance(expression, Expectation):
        raise InvalidInputError(
            'max_over takes the name of a column and an expectation, as max_over("occurrence", E[...].per("word")), '
            f"got {column!r} and {expression!r}"
        )
    if column in (expression.groups or ()):
        raise InvalidInputError(f"max_over: {quote(column)} must not be among the groups of {expression!r}; drop it")
    if not any(term.kind == "expectation" for term in expression.terms):
        raise InvalidInputError(f"max_over needs an expectation E[...], got the constant {expression!r}")
    return MaxOver(column, expression)
