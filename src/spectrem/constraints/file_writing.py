"""Constraints as plain data: the entries that :mod:`spectrem.constraints.file_entries` reads back."""

from __future__ import annotations

from collections.abc import Iterable
from types import EllipsisType
from typing import Any

from spectrem.constraints.clusters import ColumnLinks, RowLinks
from spectrem.constraints.columns import Column, Scalar
from spectrem.constraints.constraint import Constraint, LinearConstraint, MaxOver
from spectrem.constraints.expectation import Expectation, Term
from spectrem.constraints.file_columns import ARITHMETIC, COMPARISONS, JOINS, RESERVED
from spectrem.exceptions import InvalidInputError

_LONGEST_KEY = 500  # YAML reads no longer ones than 1024 characters, quotes and escapes included
_JOIN_NAMES = {sign: name for name, sign in JOINS.items()}


def entry_data(constraint: object, number: int) -> dict[str, Any]:
    """One entry of a file: mappings, lists and plain values.

    Parameters
    ----------
    constraint : Constraint, or links of rows
    number : int
        Its place in the list, for errors.

    Raises
    ------
    InvalidInputError
        If it is anything but a constraint of the language.

    Examples
    --------
    >>> from spectrem.constraints import at_least
    >>> entry_data(at_least(1, "VERB"), 0)  # doctest: +NORMALIZE_WHITESPACE
    {'expect': {'tag': 'VERB'}, 'at_least': 1, 'per': 'sentence', 'name': 'at least 1 VERB per sentence'}
    """
    if isinstance(constraint, ColumnLinks):
        return {"must_link" if constraint.together else "cannot_link": {"column": constraint.column}}
    if isinstance(constraint, RowLinks):
        return {"must_link" if constraint.together else "cannot_link": constraint.pairs.tolist()}
    if not isinstance(constraint, Constraint):
        raise InvalidInputError(f"write_constraints: constraint {number} cannot be written: {_why_not(constraint)}")
    entry: dict[str, Any] = {"expect": _side(constraint.expression, plain_text=True)}
    if constraint.over is not None:
        entry["max_over"] = _name(constraint.over)
    else:
        entry |= _bounds(constraint)
    if constraint.groups:
        names = [_name(group) for group in constraint.groups]
        entry["per"] = names[0] if len(names) == 1 else names
    slack = constraint.allowance
    if constraint.over is not None and slack is not None:
        entry["penalty"] = slack.strength
    elif slack is not None:
        entry["slack"] = {slack.kind: slack.strength, "norm": slack.norm}
    if constraint.may_be_empty:
        entry["allow_empty"] = True
    if constraint.label is not None:
        entry["name"] = constraint.label
    return entry


def condition_data(expression: Column) -> Any:
    """A condition or weight: a column's name, a mapping of tests, or one operator.

    Examples
    --------
    >>> from spectrem.constraints import part
    >>> condition_data((part("tag") == "VERB") & part("word").isin(["be", "do"]))
    {'tag': 'VERB', 'word': ['be', 'do']}
    """
    operation, operands = expression.operation, expression.operands
    if operation == "part":
        return {"column": "all"} if operands[0] == "all" else _name(operands[0])
    test = _column_test(expression)
    if test is not None:
        return test
    if operation == "~":
        return {"not": condition_data(operands[0])}
    if operation == "&":
        return _all_of(expression)
    if operation in _JOIN_NAMES:
        return {_JOIN_NAMES[operation]: [_member(operand, expression) for operand in _spine(expression)]}
    if operation == "negative":
        return {"-": [condition_data(operands[0])]}
    if operation in ARITHMETIC:
        return {operation: [_member(operand, expression) for operand in _spine(expression)]}
    if operation == "isin":
        return {"in": [condition_data(operands[0]), list(operands[1])]}
    if operation == "allowed_by":
        return {"allowed_by": [condition_data(operands[0]), condition_data(operands[1]), _dictionary(operands[2])]}
    return {operation: [condition_data(operands[0]), _operand(operands[1])]}


def _why_not(constraint: object) -> str:
    if isinstance(constraint, LinearConstraint):
        return (
            f"{constraint!r} is a matrix over the parts of one batch; say it with E[...], or keep the matrix in a "
            "file of its own"
        )
    if isinstance(constraint, MaxOver):
        return f"{constraint!r} is not finished; add .penalty(strength)"
    if hasattr(constraint, "rows"):
        return f"{type(constraint).__name__} is an object with code of its own; make it where the file is read"
    return f"expected a constraint made with E[...], got {constraint!r}"


def _bounds(constraint: Constraint) -> dict[str, Any]:
    lower, upper = constraint.lower, constraint.upper
    sides = [side for side in (lower, upper) if side is not None]
    if constraint.equality or len(sides) == 1:
        field = "equals" if constraint.equality else "at_least" if lower is not None else "at_most"
        share = _share(sides[0])
        return {field: _side(sides[0])} if share is None else {field: share[0], "of": share[1]}
    low, high = _share(sides[0]), _share(sides[1])
    if low is not None and high is not None and low[1] == high[1] and low[0] <= high[0]:
        return {"between": [low[0], high[0]], "of": low[1]}
    return {"between": [_side(side) for side in sides]}


def _share(side: Expectation) -> tuple[float, Any] | None:
    """A side that is a share of one count or expectation, as the share and its whole."""
    if len(side.terms) != 1 or side.constant:
        return None
    [term] = side.terms
    if term.kind == "count" and isinstance(term.weight, EllipsisType) and term.each:
        return _number(term.coefficient), term.each
    if term.kind == "expectation" and term.coefficient == 1:
        return None
    return _number(term.coefficient), _term(Term(1, term.kind, term.weight, term.each))


def _side(side: Expectation, plain_text: bool = False) -> Any:
    members = [_term(term) for term in side.terms]
    if side.constant or not members:
        members.append(_number(side.constant))
    only = members[0]
    if len(members) > 1:
        return members
    if plain_text and isinstance(only, dict) and set(only) == {"expect"}:
        return only["expect"]
    return only


def _term(term: Term) -> Any:
    weight = "all" if isinstance(term.weight, EllipsisType) else condition_data(term.weight)
    times = {} if term.coefficient == 1 else {"times": _number(term.coefficient)}
    if term.kind == "count":
        return {"count": weight, **({} if term.each is None else {"each": _name(term.each)}), **times}
    return weight if not times and isinstance(weight, dict) else {"expect": weight, **times}


def _all_of(expression: Column) -> Any:
    """Tests of different columns in one mapping where that is all there is, else a list."""
    members = _spine(expression)
    tests = [_column_test(member) if isinstance(member, Column) else None for member in members]
    merged: dict[str, Any] = {}
    for test in tests:
        merged |= test or {}
    if None not in tests and len(merged) == len(tests):
        return merged
    return {"all": [_member(member, expression) for member in members]}


def _column_test(expression: Column) -> dict[str, Any] | None:
    """``{column: test}`` for what such a mapping can say."""
    operation, operands = expression.operation, expression.operands
    if operation == "~" and operands[0].operation == "isin":
        inner = _column_test(operands[0])
        return None if inner is None else {name: {"not": test} for name, test in inner.items()}
    first = operands[0]
    if not isinstance(first, Column) or first.operation != "part":
        return None
    name = first.operands[0]
    if name in RESERVED or not 0 < len(name) <= _LONGEST_KEY:
        return None
    if operation == "isin":
        return {name: list(operands[1])}
    if operation == "allowed_by":
        key = operands[1]
        if key.operation != "part" or not 0 < len(key.operands[0]) <= _LONGEST_KEY:
            return None
        return {name: {"allowed_by": {key.operands[0]: _dictionary(operands[2])}}}
    if operation == "==" and not isinstance(operands[1], Column):
        return {name: operands[1]}
    if operation == "!=" and not isinstance(operands[1], Column):
        return {name: {"not": operands[1]}}
    return {name: {operation: _operand(operands[1])}} if operation in COMPARISONS else None


def _spine(expression: Column) -> list[Any]:
    """Operands of ``((a + b) + c)``."""
    right: list[Any] = []
    left: Any = expression
    while isinstance(left, Column) and left.operation == expression.operation:
        left, last = left.operands
        right.append(last)
    return [left, *reversed(right)]


def _member(operand: Column | Scalar, expression: Column) -> Any:
    """A member of a sum or of ``all``."""
    if isinstance(operand, str):
        raise InvalidInputError(f"write_constraints: {expression!r} has no value, since {operand!r} is a text")
    return condition_data(operand) if isinstance(operand, Column) else operand


def _operand(operand: Column | Scalar) -> Any:
    """What a column is compared with; a column's name stands in braces, to tell it from a text."""
    if not isinstance(operand, Column):
        return operand
    data = condition_data(operand)
    return {"column": data} if isinstance(data, str) else data


def _dictionary(entries: Iterable[tuple[Scalar, tuple[Scalar, ...]]]) -> Any:
    pairs = [(key, list(values)) for key, values in entries]
    if all(isinstance(key, str) and len(key) <= _LONGEST_KEY for key, _ in pairs):
        return dict(pairs)
    return [[key, values] for key, values in pairs]


def _name(column: str) -> str:
    if not column:
        raise InvalidInputError("write_constraints: a column whose name is empty cannot be written; rename it")
    return column


def _number(value: float) -> float:
    """A truth value counts as 0 or 1."""
    return int(value) if isinstance(value, bool) else value
