"""Conditions and numbers over the named columns of parts, part("tag") == "VERB", and the columns of users."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools
from spectrem.constraints.compilation.groups import Coded, Key, as_key, distinct
from spectrem.data.frames import as_frame, as_series
from spectrem.exceptions import InvalidInputError, no_such, quoted, shorten
from spectrem.structures._columns import TEXT

if TYPE_CHECKING:
    import narwhals

_EXACT = 2**53  # float64 holds every whole number up to it


def as_column(name: str, values: ArrayLike | Coded) -> Key:
    """A user's column as numbers, truth values or text; dates and times are text as of ISO 8601, to be sorted as text.

    Parameters
    ----------
    name : str
        For errors.
    values : array-like of shape (n,), or of numbers of shape (n, n_labels)
        An array, a list, or a column of pandas, polars or Arrow. None, NaN, ``pandas.NA``, ``NaT``, null and masked
        entries are missing. A matrix has a number for every label, such as its cost.

    Returns
    -------
    ndarray of shape (n,) or (n, n_labels), or Coded
        Text is coded, unless it is an array of it. Missing numbers are NaN, beside which whole numbers and truth values
        are floats (and whole numbers that floats would round are text).

    Raises
    ------
    InvalidInputError
        If it has other dimensions or holds other values, such as lists, or text beside numbers.

    Examples
    --------
    >>> as_column("household", ["a", None, "b"]).codes
    array([ 0, -1,  1], dtype=int32)
    >>> as_column("age", [31, None, 4])
    array([31., nan,  4.])
    >>> as_column("day", np.array(["2026-01-31", "NaT"], "datetime64[s]")).values.tolist()
    ['2026-01-31']
    """
    if isinstance(values, Coded):
        return values
    column = _read(values)
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.dtype.kind == "O":
        column = np.array(column.tolist())
    if len(column.shape) != 1 and not (len(column.shape) == 2 and column.dtype.kind in "biuf"):
        raise InvalidInputError(
            f"extra column {name!r} must have one dimension, or be a matrix of numbers with a column for every label, "
            f"got {column.dtype} of shape {column.shape}"
        )
    if isinstance(column, Coded):
        return column
    if column.dtype == TEXT:
        missing = np.isnan(column)
        return _text(column[~missing].tolist(), missing) if not missing.all() else np.full(len(column), np.nan)
    if column.dtype.kind in "OT":
        return _typed(name, column.tolist())
    if column.dtype.kind == "M":
        return _dates(column)
    if column.dtype.kind not in "biufU":
        raise _refused(name, f"dtype {column.dtype}")
    return column


def missing_of(values: Key) -> Bools | None:
    """Where a user's column is missing; None where its kind has no missing values."""
    if isinstance(values, Coded):
        return values.missing
    return np.isnan(values) if values.dtype.kind == "f" else None


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT, or the NA of pandas.

    Examples
    --------
    >>> [is_missing(value) for value in (None, float("nan"), 0, "", "nan")]
    [True, True, False, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.generic) and bool(value != value)


def _read(values: Any) -> Key:
    """A user's column, of objects unless its kind is plain."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(values.tolist(), object)
    if isinstance(values, np.ndarray):
        return values
    series = as_series(values)
    if series is not None:
        return _read_series(series)
    if hasattr(values, "to_pylist"):  # an array of Arrow, which is not a column of a table
        values = values.to_pylist()
    if isinstance(values, list | tuple):
        return np.asarray(values, object)  # NumPy would turn NaN beside text into the text "nan"
    return np.asarray(values)


def _read_series(series: narwhals.Series[Any]) -> Key:
    """A column of a data frame; its text is never made into objects of Python."""
    import narwhals

    if series.dtype.is_numeric():
        if series.null_count() == 0 and series.dtype != narwhals.Decimal:
            return series.to_numpy()
        is_whole = series.dtype.is_integer() and series.null_count() < len(series)
        if is_whole and max(-int(series.min()), int(series.max())) > _EXACT:
            return np.asarray(series.to_list(), object)
        return series.cast(narwhals.Float64).to_numpy()
    if series.dtype in (narwhals.Date, narwhals.Datetime):
        clock = series.dt.replace_time_zone(None) if series.dtype == narwhals.Datetime else series
        return np.asarray(clock.to_list(), object)
    if series.dtype not in (narwhals.String, narwhals.Categorical, narwhals.Enum):
        return np.asarray(series.to_list(), object) if series.null_count() else series.to_numpy()
    if series.dtype != narwhals.String:
        values = series.drop_nulls().to_list()
        if not all(isinstance(value, str) for value in values):
            return np.asarray(series.to_list(), object)
        series = series.cast(narwhals.String)
    known = series.drop_nulls()
    distinct_text = sorted(known.unique().to_list())
    codes = np.full(len(series), -1, np.int32)
    numbers = known.replace_strict(distinct_text, range(len(distinct_text)), return_dtype=narwhals.Int32)
    codes[~series.is_null().to_numpy()] = numbers.to_numpy()
    return Coded(np.array(distinct_text, np.str_), codes)


def _typed(name: str, cells: list[Any]) -> Key:
    """A column of objects, as numbers or as text: whichever all values are that are not missing."""
    missing = np.fromiter(map(is_missing, cells), np.bool_, len(cells))
    known = [cell for cell, out in zip(cells, missing.tolist(), strict=True) if not out] if missing.any() else cells
    if known and all(isinstance(cell, str) for cell in known):
        return _text(known, missing)
    if known and all(isinstance(cell, date) for cell in known):
        times = [cell.replace(tzinfo=None) if isinstance(cell, datetime) else cell for cell in known]
        dates = np.full(len(missing), "NaT", "datetime64[us]")
        dates[~missing] = np.array(times, "datetime64[us]")
        return _dates(dates)
    for cell in known:
        if not isinstance(cell, bool | int | float | np.bool_ | np.integer | np.floating):
            mixed = isinstance(cell, str) or any(isinstance(other, str) for other in known)
            raise _refused(name, "text beside other values" if mixed else f"{type(cell).__name__}, as in {cell!r}")
    array = np.array(known) if known else np.zeros(0)
    is_float = not known or any(isinstance(cell, float | np.floating) for cell in known)
    if array.dtype.kind == "O" or (array.dtype.kind == "f" and not is_float):
        raise _refused(name, "whole numbers beyond 64 bits")
    if not missing.any():
        return array
    if array.dtype.kind in "iu" and max(map(abs, known), default=0) > _EXACT:
        return _text([str(cell) for cell in known], missing)
    numbers = np.full(len(missing), np.nan)
    numbers[~missing] = array
    return numbers


def _dates(values: NDArray[np.datetime64]) -> Coded:
    """Coded text of dates, as short as they all allow: without the time of day if that is midnight throughout."""
    distinct_dates, codes = np.unique(values, return_inverse=True)
    known = distinct_dates[~np.isnat(distinct_dates)]  # NaT comes last
    rounded = (known.astype(f"datetime64[{unit}]") for unit in ("D", "m", "s", "us", "ns"))
    text = np.datetime_as_string(next(times for times in rounded if (times == known).all()))
    return Coded(text.astype(np.str_), np.where(codes < len(known), codes, -1).astype(np.int32))


def _text(known: list[str], missing: Bools) -> Coded:
    """Coded text from the values that are not missing."""
    key = as_key(np.array(known, np.str_))
    assert isinstance(key, Coded)
    codes = np.full(len(missing), -1, np.int32)
    codes[~missing] = key.codes
    return Coded(key.values, codes)


def _refused(name: str, problem: str) -> InvalidInputError:
    return InvalidInputError(
        f"extra column {name!r} must hold numbers, truth values, text or dates, got {problem}; turn it into text or "
        "numbers"
    )


def no_such_column(name: str, known: Collection[str]) -> str:
    """A message about a column that does not exist; on tables, which have no sentences, with what to write instead.

    Examples
    --------
    >>> no_such_column("sentence", ["row", "label"]).partition("; at_least and at_most ")[2][:40]
    "are per sentence unless told: add per='d"
    """
    hint = (
        "; at_least and at_most are per sentence unless told: add per='document' or another column, or write "
        "E[label == 'x'] <= 2 for the whole table"
    )
    return no_such("column", name, known) + (hint if name == "sentence" and "row" in known else "")


@dataclass(frozen=True)
class UserColumns(Mapping[str, Key]):
    """Columns of a mapping or a data frame, turned into arrays when a constraint asks for them.

    Parameters
    ----------
    source : mapping of str -> array-like
    lengths : mapping of unit -> int
        How many values a column may have: one per unit ("rows") of each of these.
    hint : str
        The end of an error about a column of another length: what to do about it.

    Raises
    ------
    InvalidInputError
        If a column has another length, or holds neither numbers nor truth values nor text.

    Examples
    --------
    >>> columns = read_columns({"document": ["a", "a", "b"]}, {"rows": 3})
    >>> columns["document"].tolist()
    ['a', 'a', 'b']
    """

    source: Mapping[str, Any]
    lengths: Mapping[str, int]
    hint: str
    _known: dict[str, Key] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Key:
        if name not in self._known:
            column = as_key(as_column(name, self.source[name]))
            if len(column) not in self.lengths.values():
                sizes = ", ".join(f"{size} {unit}" for unit, size in self.lengths.items())
                raise InvalidInputError(
                    f"columns: {name!r} has shape {column.shape}, and the table has {sizes}; {self.hint}"
                )
            self._known[name] = column
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self.source

    def __iter__(self) -> Iterator[str]:
        yield from self.source

    def __len__(self) -> int:
        return len(self.source)


def read_columns(
    columns: Any, lengths: Mapping[str, int], *, taken: Collection[str] = (), hint: str = "give one for each"
) -> UserColumns:
    """A user's columns under their names; None has none.

    Raises
    ------
    InvalidInputError
        If it is neither a mapping nor a frame, or has a column whose name is ``taken``.
    """
    frame = as_frame(columns, "columns")
    if frame is not None:
        columns = dict(zip(frame.columns, frame.iter_columns(), strict=True))
    elif columns is not None and not isinstance(columns, Mapping):
        raise InvalidInputError(
            f"columns must be a data frame or a mapping from names to arrays, got {type(columns).__name__}; "
            'write columns={"document": [...]}'
        )
    source = {str(name): column for name, column in (columns or {}).items()}
    for name in taken:
        if name in source:
            raise InvalidInputError(f"columns: the name {name!r} belongs to the table; rename the column")
    return UserColumns(source, lengths, hint)


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

        Parameters
        ----------
        values : iterable of number or str

        Returns
        -------
        Column
            True or False of every part.

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
            raise InvalidInputError(
                f"isin takes a list of values, got the text {shorten(quote(values))}; write isin([...])"
            )
        if isinstance(values, (set, frozenset)):
            values = sorted(values)
        return Column("isin", (self, tuple(plain(value) for value in values)))

    def allowed_by(self, key: Column, dictionary: Mapping[Scalar, Iterable[Scalar]]) -> Column:
        """Whether the value is listed in a dictionary under another column's value, or nothing is listed under that.

        Parameters
        ----------
        key : Column
            Such as ``part("word")``.
        dictionary : mapping of number or str -> iterable of number or str

        Returns
        -------
        Column
            True or False of every part.

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
            f"{quoted(self)} has one value per part, so it is neither true nor false; join conditions with &, |, ~ "
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
        listed = _like(expression, values, expression.operands[1])
        for value in {isinstance(value, str): value for value in listed}.values():
            _check_comparable(expression, values, value)
        if _is_void(values):
            return np.zeros(len(values), np.bool_)
        if values.dtype.kind != "U":
            return np.isin(values, np.array(listed))
        wanted, (known, code) = set(listed), distinct(values)
        return np.array([value in wanted for value in known.tolist()], np.bool_)[code]
    if operation == "allowed_by":
        return _allowed(expression, *(evaluate(operand, lookup) for operand in expression.operands[:2]))
    arguments: list[Any] = [evaluate(o, lookup) if isinstance(o, Column) else o for o in expression.operands]
    if operation in _COMPARISONS:
        if operation in ("==", "!=") and not isinstance(expression.operands[1], Column):
            arguments[1:] = _like(expression, arguments[0], arguments[1:])
        _check_comparable(expression, *arguments)
        if any(map(_is_void, arguments)):
            return np.full(np.broadcast_shapes(*map(np.shape, arguments)), operation == "!=")
        left, right = arguments
        if isinstance(left, Coded) and not isinstance(right, Coded | np.ndarray):
            return np.append(_COMPARISONS[operation](left.values, right), operation == "!=")[left.codes]
        return _COMPARISONS[operation](*map(np.asarray, arguments))
    if operation in ("&", "|", "~"):
        for operand, argument in zip(expression.operands, arguments, strict=True):
            if np.asarray(argument).dtype != np.bool_:
                raise InvalidInputError(
                    f"{expression!r}: {operation} joins conditions, and {operand!r} holds {_kind(argument)}; "
                    f"compare it with a value first, as in {operand!r} == 1"
                )
        first, *others = map(np.asarray, arguments)
        if operation == "~":
            return ~first
        return first & others[0] if operation == "&" else first | others[0]
    for operand, argument in zip(expression.operands, arguments, strict=True):
        if _kind(argument) == "text":
            raise InvalidInputError(f"{quoted(expression)}: arithmetic needs numbers, and {quoted(operand)} is text")
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
        f"expected a finite number, a text or another part(...), got {quoted(value)}; "
        "pass arrays as extra columns and name them with part(...)"
    )


def quote(text: str) -> str:
    """Text in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def literal_text(value: Scalar) -> str:
    """A plain value as source text."""
    return quote(value) if isinstance(value, str) else repr(value)


def _allowed(expression: Column, values: Key, keys: Key) -> Bools:
    dictionary = dict(expression.operands[2])
    used = set().union(*dictionary.values())
    like = dict(zip(used, _like(expression, values, used), strict=True))
    if any(value is not other for value, other in like.items()):
        dictionary = {entry: [like[value] for value in listed] for entry, listed in dictionary.items()}
    for column, used in ((keys, set(dictionary)), (values, set(like.values()))):
        for kind in {isinstance(value, str): value for value in used}.values():
            _check_comparable(expression.operands[0], column, kind)
    (known, code), (entries, entry_code) = distinct(values), distinct(keys)
    number = {value: n for n, value in enumerate(known.tolist())}
    table = np.ones((len(entries), len(known)), np.bool_)
    for row, entry in enumerate(entries.tolist()):
        if entry in dictionary:
            table[row] = False
            table[row, [number[value] for value in dictionary[entry] if value in number]] = True
    return table[entry_code, code]


def _operand_text(operand: Column | Scalar, binding: int) -> str:
    if not isinstance(operand, Column):
        return literal_text(operand)
    return repr(operand) if _BINDING[operand.operation] >= binding else f"({operand!r})"


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


def _like(expression: Column, values: Key, listed: Iterable[Scalar]) -> list[Scalar]:
    """Values with which an expression compares tags or labels, in the type of these; others as they are."""
    first, is_text = expression.operands[0], _kind(values) == "text"
    if first.operation != "part" or not holds_tags(first.operands[0]):
        return list(listed)
    return [
        value if isinstance(value, str) == is_text else str(value) if is_text else _number(value) for value in listed
    ]


def _number(text: Scalar) -> Scalar:
    """The number that a text is the spelling of; other text as it is."""
    try:
        number = plain(float(text))
    except (ValueError, InvalidInputError):
        return text
    return number if str(number) == text else text


def _check_comparable(expression: Column, left: object, right: object) -> None:
    if _kind(left) != _kind(right) and not (_is_void(left) or _is_void(right)):
        raise InvalidInputError(
            f"{quoted(expression)} compares {_kind(left)} with {_kind(right)}; use a value of the column's own kind, "
            "or give the other kind as an extra column"
        )
