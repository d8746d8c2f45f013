"""Check that the values which constraints name occur in the data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from numpy.typing import ArrayLike

from spectrem._validate import as_bool
from spectrem.constraints.columns import Column, Scalar, as_column, compared, holds_tags, missing_of, plain
from spectrem.constraints.compilation.groups import distinct
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.text import Constraints, flatten
from spectrem.data.tagged import STANDARD_TAGS
from spectrem.exceptions import InvalidInputError, advice, did_you_mean, listed, no_such, quoted

_LISTED = 20
MAY_BE_EMPTY = "; write .allow_empty() behind the constraint if there may be none"
"""The end of an error about a value that data may well lack."""


def check_values(
    constraints: Constraints, column: str, values: Collection[Scalar], *, every: bool = True, hint: str = ""
) -> None:
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
    hint : str
        The end of the error, such as `MAY_BE_EMPTY`.

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
    alike = known | set(map(str, known)) if holds_tags(column) else known
    for constraint, name, operation, own in _tests(constraints):
        if name != column or (not every and operation == "allowed_by"):
            continue
        if not every and alike is known:  # comparisons of text with numbers are refused when they are compiled
            own = tuple(value for value in own if not known or isinstance(value, str) == text)
        absent = [value for value in own if value not in alike and (alike is known or str(value) not in alike)]
        if absent and (every or len(absent) == len(own)):
            message = no_such(column, absent[0], sorted(map(plain, known), key=repr), _LISTED)
            if not known:
                message = f"there is no {column} {absent[0]!r}, as the column is empty"
            end = advice(f"no such {column}", hint) if every else MAY_BE_EMPTY
            raise InvalidInputError(f"{quoted(constraint.name)}: {message}{end}")


def check_spelling(constraints: Constraints, column: str, values: Collection[Scalar]) -> None:
    """Refuse constraints with `Constraint.allow_empty` that name a tag which is spelt almost like one that there is.

    It would have no effect, and nobody would notice. Standard tags, which a text may well lack, are no slips; but a
    constraint that demands some of them in a text that has none is one for other tags.

    Parameters
    ----------
    constraints, column, values
        As for `check_values`.

    Raises
    ------
    InvalidInputError
        Naming the constraint, the tag and the one most like it.
    """
    there = set(map(str, values))
    demanded: dict[Constraint, set[str]] = {}
    for constraint, name, _, own in _tests(constraints, may_be_empty=True):
        if name != column:
            continue
        if constraint.lower is not None:
            demanded.setdefault(constraint, set()).update(map(str, own))
        for value in own:
            if isinstance(value, str) and value not in there | STANDARD_TAGS and did_you_mean(value, values):
                message = no_such(column, value, sorted(map(plain, values), key=repr), _LISTED)
                raise InvalidInputError(f"{quoted(constraint.name)}: {message}; leave out a tag that the text lacks")
    for constraint, tags in demanded.items():
        if column.startswith("dependent_") and there and tags.isdisjoint(there):
            raise InvalidInputError(
                f"{quoted(constraint.name)}: asks for words tagged {listed(sorted(tags), _LISTED)}, but the tags of "
                f"the text are {listed(sorted(there), _LISTED)}; write it for these, or choose the other tags"
            )


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


def _tests(
    constraints: Constraints, *, may_be_empty: bool = False
) -> Iterator[tuple[Constraint, str, str, tuple[Scalar, ...]]]:
    """Comparisons of a column with values: the constraint, the column, the operation and the values."""
    for constraint in flatten(constraints):
        if isinstance(constraint, Constraint) and constraint.may_be_empty == may_be_empty:
            for term in constraint.quantities:
                if isinstance(term.weight, Column):
                    yield from ((constraint, *test) for test in compared(term.weight))
