"""Values that constraints name, held against those that there are."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from spectrem.constraints.columns import Column, Scalar
from spectrem.constraints.compile import Constraints, flatten
from spectrem.constraints.constraint import Constraint
from spectrem.exceptions import InvalidInputError


def check_values(constraints: Constraints, column: str, values: Collection[Scalar]) -> None:
    """Refuse constraints that compare a column with a value that it never has.

    A tag with a spelling mistake would otherwise make a constraint on no part at all. Users' own constraints and
    matrices are not looked into.

    Parameters
    ----------
    constraints : as in :func:`compile_constraints`
    column : str
        For example ``"tag"``.
    values : collection
        All values of the column, in any batch.

    Raises
    ------
    InvalidInputError
        Naming the constraint and the value.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> check_values((E[part("tag") == "VRB"] >= 1).named("a verb"), "tag", ["NOUN", "VERB"])
    Traceback (most recent call last):
    spectrem.exceptions.InvalidInputError: 'a verb': there is no tag 'VRB'; the tags are 'NOUN', 'VERB'
    """
    known = set(values)
    for constraint in flatten(constraints):
        if not isinstance(constraint, Constraint):
            continue
        sides = [side for side in (constraint.expression, constraint.lower, constraint.upper) if side is not None]
        for weight in (term.weight for side in sides for term in side.terms):
            for value in _named(weight, column) if isinstance(weight, Column) else ():
                if value not in known:
                    listed = ", ".join(map(repr, sorted(known, key=repr)[:20])) + (", ..." if len(known) > 20 else "")
                    raise InvalidInputError(
                        f"{constraint.name!r}: there is no {column} {value!r}; the {column}s are {listed}"
                    )


def _named(expression: Column, column: str) -> Iterator[Scalar]:
    """Values that an expression compares the column with by ``==``, ``!=``, ``isin`` or ``allowed_by``."""
    first, *rest = expression.operands
    is_column = isinstance(first, Column) and first.operation == "part" and first.operands[0] == column
    if is_column and expression.operation in ("==", "!=") and not isinstance(rest[0], Column):
        yield rest[0]
    elif is_column and expression.operation == "isin":
        yield from rest[0]
    elif is_column and expression.operation == "allowed_by":
        yield from (value for _, listed in rest[1] for value in listed)
    elif expression.operation != "part":
        for operand in expression.operands:
            if isinstance(operand, Column):
                yield from _named(operand, column)
