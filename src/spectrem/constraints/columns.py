"""Conditions and numbers over the named columns of parts: ``part("tag") == "VERB"``."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints.compilation.groups import Coded, Key, distinct
from spectrem.exceptions import InvalidInputError

Scalar = str | bool | int | float

_COMPARISONS = {
    "==": operator.eq,
    "!=": lambda left, right: ~np.asarray(left == right),  # what is missing differs from every value
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# In structures, of the ends of arcs and of spans, and of several views.
_TAGS = re.compile("(.+_)?(tag|label|upos|xpos)|previous|first|last|before|after")
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_BINDING = {
    "part": 9,
    "isin": 9,
    "allowed_by": 9,
    "~": 8,
    "negative": 8,
    "*": 7,
    "/": 7,
    "+": 6,
    "-": 6,
    "&": 5,
    "|": 4,
}
_BINDING |= dict.fromkeys(_COMPARISONS, 3)


def _operator(sign: str) -> Callable[[Column, object], Column]:
    """The method of an operator with a column on its left."""
    return lambda self, other: Column(sign, (self, other if isinstance(other, Column) else plain(other)))


def _reflected(sign: str) -> Callable[[Column, object], Column]:
    """The method of an operator with a plain value on its left."""
    return lambda self, other: Column(sign, (plain(other), self))


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """An expression with one value per part, made from :func:`part` and the usual operators.

    Comparisons (``== != < <= > >=``), ``.isin``, arithmetic (``+ - * /``) and, between conditions, ``&``,
    ``|``, ``~``. Immutable; its ``repr`` is the source text, and two expressions with the same text hash alike.

    Attributes
    ----------
    operation : str
        ``"part"``, ``"isin"``, ``"allowed_by"``, ``"negative"`` or the operator's sign.
    operands : tuple
        Expressions and plain values; for ``"part"`` the column's name.

    Examples
    --------
    >>> (part("tag") == "VERB") & ~part("word").isin(["be", "do"])
    (part("tag") == "VERB") & ~part("word").isin(["be", "do"])
    """

    operation: str
    operands: tuple[Any, ...]

    __array_ufunc__ = None  # numpy scalars on the left leave the operator to us

    __eq__ = _operator("==")  # type: ignore[assignment]
    __ne__ = _operator("!=")  # type: ignore[assignment]
    __lt__, __le__, __gt__, __ge__ = map(_operator, ("<", "<=", ">", ">="))
    __add__, __sub__, __mul__, __truediv__ = map(_operator, "+-*/")
    __radd__, __rsub__, __rmul__, __rtruediv__ = map(_reflected, "+-*/")
    __and__, __or__ = map(_operator, "&|")

    def __neg__(self) -> Column:
        return Column("negative", (self,))

    def __invert__(self) -> Column:
        return Column("~", (self,))

    def isin(self, values: Iterable[Scalar]) -> Column:
        """Whether the value is one of ``values`` (numbers or text).

        Raises
        ------
        InvalidInputError
            If ``values`` is one text or holds anything but numbers and text.

        Examples
        --------
        >>> part("tag").isin(["VERB", "AUX"])
        part("tag").isin(["VERB", "AUX"])
        """
        if isinstance(values, str):
            raise InvalidInputError(f"isin takes a list of values, got the text {quote(values)}; write isin([...])")
        if isinstance(values, (set, frozenset)):
            values = sorted(values)
        return Column("isin", (self, tuple(plain(value) for value in values)))

    def allowed_by(self, key: Column, dictionary: Mapping[Scalar, Iterable[Scalar]]) -> Column:
        """Whether the value is listed in a dictionary under another column's value, or nothing is listed under that.

        Raises
        ------
        InvalidInputError
            If ``key`` is not a column, or ``dictionary`` is not a mapping from numbers or text to collections of them.

        Examples
        --------
        >>> part("tag").allowed_by(part("word"), {"run": ["VERB", "NOUN"]})
        part("tag").allowed_by(part("word"), {"run": ["NOUN", "VERB"]})
        """
        if not isinstance(key, Column) or not isinstance(dictionary, Mapping):
            raise InvalidInputError(
                'allowed_by takes a column and a dictionary, as in allowed_by(part("word"), {"run": ["VERB"]}), '
                f"got {key!r} and {type(dictionary).__name__}"
            )
        entries = []
        for entry, values in dictionary.items():
            if isinstance(values, str):
                raise InvalidInputError(
                    f"allowed_by: the entry {entry!r} of the dictionary must list values, got "
                    f"the text {quote(values)}; write [...] around it"
                )
            listed = sorted({plain(value) for value in values}, key=lambda value: (isinstance(value, str), value))
            entries.append((plain(entry), tuple(listed)))
        return Column("allowed_by", (self, key, tuple(entries)))

    def __hash__(self) -> int:
        return hash(repr(self))

    def __bool__(self) -> bool:
        raise InvalidInputError(
            f"{self!r} has one value per part, so it is neither true nor false; join conditions with &, |, ~ "
            "(each in parentheses) in place of and, or, not and chained comparisons"
        )

    def __repr__(self) -> str:
        if self.operation == "part":
            return f"part({quote(self.operands[0])})"
        binding = _BINDING[self.operation]
        first = _operand_text(self.operands[0], binding)
        if self.operation == "isin":
            return f"{first}.isin([{', '.join(literal_text(value) for value in self.operands[1])}])"
        if self.operation == "allowed_by":
            lists = ((literal_text(entry), map(literal_text, values)) for entry, values in self.operands[2])
            entries = ", ".join(f"{entry}: [{', '.join(values)}]" for entry, values in lists)
            return f"{first}.allowed_by({self.operands[1]!r}, {{{entries}}})"
        if self.operation in ("~", "negative"):
            return f"{'~' if self.operation == '~' else '-'}{first}"
        if self.operation in _COMPARISONS:
            first = _operand_text(self.operands[0], binding + 1)
        return f"{first} {self.operation} {_operand_text(self.operands[1], binding + 1)}"


def part(name: str) -> Column:
    """The column called ``name``: of the structure, or a user's own.

    Parameters
    ----------
    name : str
        For example ``"tag"``, ``"source"`` or ``"direction"``; which columns there are is the structure's
        ``columns`` plus the ``extra_columns`` given when the constraint is compiled.

    Returns
    -------
    Column

    Examples
    --------
    >>> part("source") != -1
    part("source") != -1
    """
    if not isinstance(name, str):
        raise InvalidInputError(f'part takes the name of a column as text, got {name!r}; write part("tag")')
    return Column("part", (name,))


def column_names(expression: Column) -> set[str]:
    """Names of all columns that an expression reads."""
    if expression.operation == "part":
        return {expression.operands[0]}
    return set().union(*(column_names(operand) for operand in expression.operands if isinstance(operand, Column)))


def compared(expression: Column) -> Iterator[tuple[str, str, tuple[Scalar, ...]]]:
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
                yield from compared(operand)


def holds_tags(name: str) -> bool:
    """Whether a column holds tags or labels, of which constraints may write 5 as ``"5"`` and ``"5"`` as 5."""
    return _TAGS.fullmatch(name) is not None


def evaluate(expression: Column, lookup: Callable[[str], Key]) -> Key:
    """The values of an expression over all parts.

    Comparisons with a missing value are false, but for ``!=``, which is the negation of ``==``. A tag or label is equal
    to a number or text that reads like it.

    Parameters
    ----------
    expression : Column
    lookup : callable
        Gives the array of shape (n_unary,), or coded text, of a column's name.

    Returns
    -------
    ndarray of shape (n_unary,)
        Booleans for a condition.

    Raises
    ------
    InvalidInputError
        If text meets numbers, or ``&``, ``|``, ``~`` meet anything but conditions.

    Examples
    --------
    >>> import numpy as np
    >>> evaluate(part("x") >= 2, {"x": np.array([1, 2, 3])}.__getitem__)
    array([False,  True,  True])
    """
    operation = expression.operation
    if operation == "part":
        return lookup(expression.operands[0])
    if operation == "isin":
        values = evaluate(expression.operands[0], lookup)
        listed = [_like(expression, values, value) for value in expression.operands[1]]
        for value in listed:
            _check_comparable(expression, values, value)
        if _is_void(values):
            return np.zeros(len(values), np.bool_)
        if values.dtype.kind != "U":
            return np.isin(values, np.array(listed))
        wanted, (found, code) = set(listed), distinct(values)
        return np.array([value in wanted for value in found.tolist()], np.bool_)[code]
    if operation == "allowed_by":
        return _allowed(expression, *(evaluate(operand, lookup) for operand in expression.operands[:2]))
    arguments: list[Any] = [evaluate(o, lookup) if isinstance(o, Column) else o for o in expression.operands]
    if operation in _COMPARISONS:
        if operation in ("==", "!=") and not isinstance(expression.operands[1], Column):
            arguments[1] = _like(expression, arguments[0], arguments[1])
        _check_comparable(expression, *arguments)
        if any(map(_is_void, arguments)):
            return np.full(np.broadcast_shapes(*map(np.shape, arguments)), operation == "!=")
        left, right = arguments
        if isinstance(left, Coded) and not isinstance(right, Coded | np.ndarray):
            return left.look_up(_COMPARISONS[operation](left.values, right), operation == "!=")
        return _COMPARISONS[operation](*map(np.asarray, arguments))
    if operation in ("&", "|", "~"):
        for operand, argument in zip(expression.operands, arguments, strict=True):
            if np.asarray(argument).dtype != np.bool_:
                raise InvalidInputError(
                    f"{expression!r}: {operation} joins conditions, and {operand!r} holds {_kind(argument)}; "
                    f"compare it with a value first, as in {operand!r} == 1"
                )
        conditions = [np.asarray(argument) for argument in arguments]
        return ~conditions[0] if operation == "~" else _joined(operation, *conditions)
    for operand, argument in zip(expression.operands, arguments, strict=True):
        if _kind(argument) == "text":
            raise InvalidInputError(f"{expression!r}: arithmetic needs numbers, and {operand!r} is text")
    numbers = [np.asarray(argument, dtype=np.float64) for argument in arguments]
    if operation == "negative":
        return -numbers[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(_ARITHMETIC[operation](*numbers))


def plain(value: object) -> Scalar:
    """A finite number, truth value or text as a plain Python value; whole numbers become ``int``."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)) and math.isfinite(value):
        return int(value) if float(value).is_integer() else value
    raise InvalidInputError(
        f"expected a finite number, a text or another part(...), got {value!r} of type {type(value).__name__}; "
        "pass arrays as extra columns and name them with part(...)"
    )


def quote(text: str) -> str:
    """Text in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def literal_text(value: Scalar) -> str:
    """A plain value as source text."""
    return quote(value) if isinstance(value, str) else repr(value)


def _allowed(expression: Column, values: Key, keys: Key) -> NDArray[np.bool_]:
    dictionary = dict(expression.operands[2])
    used = set().union(*dictionary.values())
    like = {value: _like(expression, values, value) for value in used}
    if any(value is not other for value, other in like.items()):
        dictionary = {entry: [like[value] for value in listed] for entry, listed in dictionary.items()}
    for column, used in ((keys, set(dictionary)), (values, set(like.values()))):
        for kind in {isinstance(value, str): value for value in used}.values():
            _check_comparable(expression.operands[0], column, kind)
    (found, code), (entries, entry_code) = distinct(values), distinct(keys)
    number = {value: n for n, value in enumerate(found.tolist())}
    table = np.ones((len(entries), len(found)), np.bool_)
    for row, entry in enumerate(entries.tolist()):
        if entry in dictionary:
            table[row] = False
            table[row, [number[value] for value in dictionary[entry] if value in number]] = True
    return table[entry_code, code]


def _operand_text(operand: Column | Scalar, binding: int) -> str:
    if not isinstance(operand, Column):
        return literal_text(operand)
    return repr(operand) if _BINDING[operand.operation] >= binding else f"({operand!r})"


def _joined(operation: str, left: NDArray, right: NDArray) -> NDArray:
    return left & right if operation == "&" else left | right


def _kind(value: object) -> str:
    if isinstance(value, Coded):
        return "text"
    return "text" if np.asarray(value).dtype.kind in "UST" else "numbers"


def _is_void(values: object) -> bool:
    """Whether it is a column of nothing, or missing throughout, of which no kind is known."""
    if isinstance(values, Coded):
        return bool((values.codes < 0).all())
    if not isinstance(values, np.ndarray):
        return False
    return not values.size or (values.dtype.kind == "f" and bool(np.isnan(values).all()))


def _like(expression: Column, values: Key, value: Scalar) -> Scalar:
    """A value with which an expression compares tags or labels, of the type of these; others as they are."""
    first, is_text = expression.operands[0], _kind(values) == "text"
    if isinstance(value, str) == is_text or first.operation != "part" or not holds_tags(first.operands[0]):
        return value
    if not isinstance(value, str):
        return str(value)
    try:
        number = plain(float(value))
    except (ValueError, InvalidInputError):
        return value
    return number if str(number) == value else value


def _check_comparable(expression: Column, left: object, right: object) -> None:
    if _kind(left) != _kind(right) and not (_is_void(left) or _is_void(right)):
        raise InvalidInputError(
            f"{expression!r} compares {_kind(left)} with {_kind(right)}; use a value of the column's own kind, "
            "or give the other kind as an extra column"
        )
