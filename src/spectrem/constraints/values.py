"""Check that the values which constraints name occur in the data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from numpy.typing import ArrayLike

from spectrem._validate import as_bool
from spectrem.constraints.cells import as_column, missing_of
from spectrem.constraints.columns import Column, Scalar, plain
from spectrem.constraints.compilation.compile import Constraints, flatten
from spectrem.constraints.compilation.groups import distinct
from spectrem.constraints.constraint import Constraint
from spectrem.exceptions import InvalidInputError, advice, no_such

_LISTED = 20


def check_values(constraints: Constraints, column: str, values: Collection[Scalar], *, every: bool = True) -> None:
    """Refuse constraints that compare a column with a value that it never has.

    A tag with a spelling mistake would otherwise make a constraint on no part at all. Users' own constraints and
    matrices are not looked into, nor are constraints with `Constraint.allow_empty`.

    Parameters
    ----------
    constraints : as in :func:`compile_constraints`
    column : str
        For example ``"tag"``.
    values : collection
        All values of the column, in any batch.
    every : bool
        Whether all values of a list (``isin``, ``allowed_by``) must be among them, as where tags are concerned. If not,
        one of a list is enough, and dictionaries are not looked into: lists of words or countries may name more than
        occur.

    Raises
    ------
    InvalidInputError
        Naming the constraint, the value and the one most like it.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> check_values((E[part("tag") == "VRB"] >= 1).named("verbs"), "tag", ["VERB"])
    Traceback (most recent call last):
    spectrem.exceptions.InvalidInputError: 'verbs': there is no tag 'VRB'; did you mean 'VERB'? the tags are 'VERB'
    """
    as_bool(every, "every")
    known = set(values)
    text = any(isinstance(value, str) for value in known)
    for constraint, name, operation, listed in _tests(constraints):
        if name != column or (not every and operation == "allowed_by"):
            continue
        if not every:  # comparisons of text with numbers are refused when they are compiled
            listed = tuple(value for value in listed if not known or isinstance(value, str) == text)
        absent = [value for value in listed if value not in known]
        if absent and (every or len(absent) == len(listed)):
            hint = advice(f"no such {column}", "") if every else f"; {_MAY_BE_EMPTY}"
            message = no_such(column, absent[0], sorted(map(plain, known), key=repr), _LISTED)
            if not known:
                message = f"there is no {column} {absent[0]!r}, as the column is empty"
            raise InvalidInputError(f"{constraint.name!r}: {message}{hint}")


def check_columns(constraints: Constraints, columns: Mapping[str, ArrayLike]) -> None:
    """Refuse constraints that compare a column of the data with a value, or values, that no row has.

    Only for all the data at once: a batch may well lack a value that others have.

    Parameters
    ----------
    constraints : as in :func:`compile_constraints`
    columns : mapping of name -> array
        The whole data's. Columns of truth values, or of 0 and 1, count as having both.

    Raises
    ------
    InvalidInputError
        As `check_values`.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> few = (E[part("kind") == "invioce"] <= 1).named("few")
    >>> check_columns(few, {"kind": ["invoice", "letter"]})  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    spectrem.exceptions.InvalidInputError: 'few': there is no kind 'invioce'; did you mean 'invoice'? the kinds are
    'invoice', 'letter'; write .allow_empty() behind the constraint if there may be none
    >>> check_columns(few.allow_empty(), {"kind": ["invoice", "letter"]})
    """
    for name in dict.fromkeys(name for _, name, operation, _ in _tests(constraints) if operation != "allowed_by"):
        if name in columns:
            values = as_column(name, columns[name])
            missing = missing_of(values)
            known = set(distinct(values if missing is None else values[~missing])[0].tolist())
            check_values(constraints, name, known | {0, 1} if known and known <= {0, 1} else known, every=False)


_MAY_BE_EMPTY = "write .allow_empty() behind the constraint if there may be none"


def _tests(constraints: Constraints) -> Iterator[tuple[Constraint, str, str, tuple[Scalar, ...]]]:
    """Comparisons of a column with values: the constraint, the column, the operation and the values."""
    for constraint in flatten(constraints):
        if isinstance(constraint, Constraint) and not constraint.may_be_empty:
            for term in constraint.quantities:
                if isinstance(term.weight, Column):
                    yield from ((constraint, *test) for test in _compared(term.weight))


def _compared(expression: Column) -> Iterator[tuple[str, str, tuple[Scalar, ...]]]:
    """Values that an expression compares columns with by ``==``, ``!=``, ``isin`` or ``allowed_by``."""
    operation, (first, *rest) = expression.operation, expression.operands
    is_column = isinstance(first, Column) and first.operation == "part"
    if is_column and operation in ("==", "!=") and not isinstance(rest[0], Column):
        yield first.operands[0], operation, (rest[0],)
    elif is_column and operation == "isin":
        yield first.operands[0], operation, rest[0]
    elif is_column and operation == "allowed_by":
        yield first.operands[0], operation, tuple(value for _, listed in rest[1] for value in listed)
    elif operation != "part":
        for operand in expression.operands:
            if isinstance(operand, Column):
                yield from _compared(operand)
