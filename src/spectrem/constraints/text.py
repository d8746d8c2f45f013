"""Constraints as text, what ``repr`` prints with bare names as columns, read by a whitelist, and files of them."""

from __future__ import annotations

import ast
import inspect
import io
import json
import keyword
import operator
import os
import re
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import Any, NoReturn, TextIO, Union

from spectrem._outputs import open_bytes
from spectrem.constraints import shortcuts
from spectrem.constraints.columns import Column, no_such_column, part
from spectrem.constraints.compilation.draft import used_columns
from spectrem.constraints.constraint import (
    AllOf,
    AnyConstraint,
    Constraint,
    E,
    Expectation,
    ExpectationOperator,
    LinearConstraint,
    MaxOver,
)
from spectrem.constraints.links import RowLinks
from spectrem.data.files import decode, read_bytes
from spectrem.exceptions import InvalidInputError, did_you_mean, quoted, shorten

Constraints = Union[AnyConstraint, str, Mapping[str, "Constraints"], Iterable["Constraints"]]  # noqa: UP007
_SHORTCUTS: dict[str, Callable[..., Any]] = {name: getattr(shortcuts, name) for name in shortcuts.__all__}
_METHODS: dict[type, tuple[str, tuple[str, ...]]] = {
    Column: ("a column or condition", ("isin", "allowed_by")),
    ExpectationOperator: ("E", ("count",)),
    Expectation: ("an expectation", ("per", "between", "at")),
    Constraint: ("a constraint", ("per", "slack", "named", "allow_empty")),
    AllOf: ("constraints", ("per", "slack", "named", "allow_empty")),
    MaxOver: ("max_over(...)", ("penalty",)),
    RowLinks: ("links", ("named",)),
}
_OPERATORS: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
_OF_COLUMNS = (Column, Expectation, Constraint, AllOf, RowLinks)
_LONG = "it is nested too deeply; write lists of values as .isin([...]) and several constraints one by one"
HINT = "write a bound on an expectation, such as E[label == 'spam'] <= 3"


class ConstraintTextError(InvalidInputError):
    """The text of a constraint, or a file of them, breaks a rule.

    Attributes
    ----------
    place : str
        Where: a file with line and column, or the text itself and the character in it, all counted from 1.

    Examples
    --------
    >>> from spectrem.constraints import parse_constraint
    >>> try:
    ...     parse_constraint("E[tag == 'VERB'] >= ")
    ... except ConstraintTextError as error:
    ...     print(error.place)
    constraint "E[tag == 'VERB'] >= ", character 1
    """

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place}: {message}")
        self.place = place


def parse_constraint(
    text: str,
    columns: Collection[str] | None = None,
    *,
    name: str | None = None,
    place: Callable[[int], str] | None = None,
) -> Any:
    """Read one constraint from the text of an expression in Python, in which bare names are columns.

    The expression means what it means in Python where ``label`` is ``part("label")``. It may hold numbers, texts, lists
    and dictionaries of them, the operators of columns, expectations and constraints, their methods, ``E``, ``part`` and
    the shortcuts of `spectrem.constraints`; everything else is refused, and nothing is evaluated as code. The name of
    a shortcut alone, such as ``agreement``, is the shortcut called without arguments.

    Parameters
    ----------
    text : str
    columns : collection of str, optional
        Names of the columns there are, of which others are refused where they stand. By default names are looked at
        when the constraint is compiled. Frequencies such as ``word_frequency`` come with their column.
    name : str, optional
        The name in errors and reports, as by `Constraint.named`.
    place : callable, optional
        From a character of the text, counted from 0, to where that is, for errors.

    Returns
    -------
    Constraint, AllOf or RowLinks

    Raises
    ------
    ConstraintTextError
        Naming the place and the rule.

    Examples
    --------
    >>> parse_constraint('(E[label == "title"] <= 1).per("document")')
    (E[part("label") == "title"] <= 1).per("document")
    >>> parse_constraint('at_most("20%", "spam", per="document")').name
    'at most 20% spam per document'
    >>> parse_constraint('E[lable == "spam"] <= 3', ["row", "label"])  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    spectrem.constraints.text.ConstraintTextError: constraint 'E[lable == "spam"] <= 3', character 3: there is no column
    'lable'; did you mean 'label'? the columns are 'row', 'label'; put quotes around it if it is a text
    """
    reader = _Reader(text, columns, place or (lambda at: f"constraint {shorten(repr(text))}, character {at + 1}"))
    constraint = reader.read()
    return constraint if name is None else constraint.named(name)


def source_text(constraint: Constraint | RowLinks) -> str:
    """The text of a constraint with bare names where they can stand, from which `parse_constraint` makes an equal one.

    Examples
    --------
    >>> source_text((E[part("label") == "title"] <= 1).per("document"))
    "(E[label == 'title'] <= 1).per('document')"
    """
    return ast.unparse(_Bare().visit(ast.parse(repr(constraint), mode="eval")))


def flatten(constraints: Constraints, columns: Collection[str] | None = None) -> list[Any]:
    """One list of constraints.

    Parameters
    ----------
    constraints : constraint, text of one, mapping from names to these, or iterable of all of these
        Nested as you like; a mapping gives its names to what it holds.
    columns : collection of str, optional
        As in `parse_constraint`.

    Raises
    ------
    InvalidInputError
        If a text is not a constraint, or a mapping holds what cannot be named.

    Examples
    --------
    >>> flatten(["E[a] <= 1", {"few": "E[b] <= 2"}])
    [E[part("a")] <= 1, (E[part("b")] <= 2).named("few")]
    """
    if isinstance(constraints, str):
        return flatten(parse_constraint(constraints, columns))
    if isinstance(constraints, Mapping):
        named = ((name, flatten(inner, columns)) for name, inner in constraints.items())
        return [one for name, inner in named for one in _named(str(name), inner)]
    if not isinstance(constraints, Iterable):
        return [constraints]
    return [single for listed in constraints for single in flatten(listed, columns)]


def _named(name: str, constraints: list[Any]) -> list[Any]:
    for one in constraints:
        if not hasattr(one, "named"):
            raise InvalidInputError(f"constraints: {quoted(one)} takes no name, got {quoted(name)}; put it in a list")
    return [constraints[0].named(name)] if len(constraints) == 1 else list(AllOf(tuple(constraints)).named(name))


class _Bare(ast.NodeTransformer):
    """``part("label")`` as ``label``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name("part"), args=[ast.Constant(str(name))]) if _is_bare(name):
                return ast.Name(name)
        return self.generic_visit(node)


def _is_bare(name: str) -> bool:
    plain = name.isidentifier() and name.isascii() and not keyword.iskeyword(name)  # Python folds other letters
    return plain and name not in ("E", "part", *_SHORTCUTS)


class _Reader:
    """Reads the text of one constraint, node by node of its syntax tree."""

    def __init__(self, text: str, columns: Collection[str] | None, place: Callable[[int], str]) -> None:
        self._text, self._line = text, text.replace("\n", " ").replace("\r", " ").lstrip()
        self._start = len(text) - len(self._line)
        self._columns, self._place = columns, place

    def read(self) -> Any:
        """The constraint."""
        if not self._line:
            self._fail(0, f"there is nothing; {HINT}")
        try:
            tree = ast.parse(self._line, mode="eval").body
            self._refuse_comments()
            if isinstance(tree, ast.Name):
                tree = ast.copy_location(ast.Call(tree, [], []), tree)
            constraint = self._value(tree)
        except SyntaxError as error:
            self._fail(self._start + (error.offset or 1) - 1, self._unreadable(error))
        except (RecursionError, MemoryError):
            self._fail(0, _LONG)
        except ConstraintTextError:
            raise
        except (ValueError, tokenize.TokenError) as error:  # half a character, the null character
            self._fail(0, f"this is not a Python expression ({error}); {HINT}")
        if isinstance(constraint, MaxOver):
            self._fail(tree, "max_over(...) is not finished; add .penalty(strength)")
        if not isinstance(constraint, (Constraint, AllOf, RowLinks)):
            self._fail(tree, f"{_source(tree)} is not a constraint; {HINT}")
        return constraint

    def _refuse_comments(self) -> None:
        for token in tokenize.generate_tokens(io.StringIO(self._line).readline):
            if token.type == tokenize.COMMENT:
                self._fail(
                    self._start + token.start[1], "a comment ends the constraint; write it on a line above or below"
                )

    def _unreadable(self, error: SyntaxError) -> str:
        if self._line[(error.offset or 1) - 1 :].startswith("="):
            return "two sides are compared by ==, <= or >=, not by ="
        message = str(error.msg)
        if message.startswith("Exceeds the limit"):
            return "a number has too many digits; write one below 1e308"
        return f"this is not a Python expression ({message}); {HINT}"

    def _value(self, node: ast.expr) -> Any:
        """The value of an expression: a column, a constraint, a number, a list ...; errors name its place."""
        try:
            match node:
                case ast.Constant(value):
                    return self._constant(node, value)
                case ast.Name(name):
                    return self._column(node, name)
                case ast.Subscript(value=ast.Name("E"), slice=index):
                    return E[self._value(index)]
                case ast.Call():
                    return self._call(node)
                case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]) if type(sign) in _OPERATORS:
                    return self._operation(node, _OPERATORS[type(sign)], self._value(left), self._value(right))
                case ast.UnaryOp(ast.USub() | ast.UAdd() | ast.Invert() as sign, operand):
                    return self._unary(node, sign, self._value(operand))
                case ast.List(members) | ast.Tuple(members) | ast.Set(members):
                    return {ast.Tuple: tuple, ast.Set: set}.get(type(node), list)(map(self._member, members))
                case ast.Dict(keys, values):
                    return self._dictionary(node, keys, values)
            return self._refuse(node)
        except ConstraintTextError:
            raise
        except InvalidInputError as error:
            self._fail(node, str(error))
        except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
            self._fail(node, f"{_source(node)} has no meaning: {error}")

    def _constant(self, node: ast.expr, value: object) -> object:
        # where a node stands is counted from the start of the text, too slow for every value of a long dictionary
        several = isinstance(value, str) and not self._text.endswith(self._line)
        if several and not {"\n", "\r"}.isdisjoint(self._text[self._at(node) : self._end(node)]):
            self._fail(node, "a text ends on the line on which it begins; write \\n for the end of a line")
        if isinstance(value, (bytes, complex)) or (isinstance(value, int) and abs(value) > 1e308):
            self._fail(node, f"expected a number below 1e308 or a text, found {shorten(repr(value)[:300])}")
        return value

    def _column(self, node: ast.Name, name: str) -> Any:
        if name == "E":
            return E
        if not self._is_known(name):
            message = no_such_column(name, self._columns or ())
            message += f"; {name} is a shortcut, write {name}(...)" if name in _SHORTCUTS else ""
            self._fail(node, message + "; put quotes around it if it is a text")
        return part(name)

    def _is_known(self, name: str) -> bool:
        known = self._columns
        return known is None or name in known or name.removesuffix("_frequency") in known

    def _call(self, node: ast.Call) -> Any:
        arguments = [self._value(argument) for argument in node.args]
        options: dict[str, Any] = {}
        for option in node.keywords:
            if option.arg is None or option.arg in options:
                self._fail(option.value, "arguments are given one by one, each once")
            options[option.arg] = self._value(option.value)
        function = self._function(node)
        try:
            inspect.signature(function).bind(*arguments, **options)
        except TypeError as error:
            self._fail(node.func, f"{function.__name__}{_parameters(function)}: {error}")
        try:
            made = function(*arguments, **options)
        except InvalidInputError:
            raise
        except (TypeError, ValueError, AttributeError):
            given = ", ".join(map(_kind, [*arguments, *options.values()]))
            example = _example(function)
            self._fail(node.func, f"{function.__name__}{_parameters(function)} does not take {given}{example}")
        if self._columns is not None:
            self._check_columns(node, made)
        return made

    def _function(self, node: ast.Call) -> Callable[..., Any]:
        match node.func:
            case ast.Name("part"):
                return part
            case ast.Name(name):
                if name in _SHORTCUTS:
                    return _SHORTCUTS[name]
                message = f"{did_you_mean(name, _SHORTCUTS)}they are {', '.join(_SHORTCUTS)}; or {HINT}"
                self._fail(node, f"there is no shortcut {quoted(name)}; {message}")
            case ast.Attribute(value, method):
                owner = self._value(value)
                what, methods = _METHODS.get(type(owner), (_kind(owner), ()))
                if method in methods:
                    bound_method: Callable[..., Any] = getattr(owner, method)
                    return bound_method
                listed = f"{did_you_mean(method, methods)}it has {', '.join(methods)}" if methods else "it has none"
                self._fail(self._end(value), f"{what} has no method {quoted(method)}; {listed}")
        return self._refuse(node.func)

    def _check_columns(self, node: ast.Call, made: Any) -> None:
        """Refuse columns that a call names as texts."""
        names: set[str] = set()
        for one in made if isinstance(made, AllOf) else [made]:
            names |= used_columns(one)
            names |= set(one.groups or ()) if isinstance(one, Expectation) else set()
            names |= {term.each for term in getattr(one, "terms", ()) if term.each is not None}
            names |= {one.operands[0]} if isinstance(one, Column) and one.operation == "part" else set()
        for name in sorted(names):
            if not self._is_known(name):
                texts = (text for text in ast.walk(node) if isinstance(text, ast.Constant) and text.value == name)
                self._fail(next(texts, node), no_such_column(name, self._columns or ()))

    def _operation(self, node: ast.expr, how: tuple[str, Callable[[Any, Any], Any]], left: Any, right: Any) -> Any:
        sign, apply = how
        numbers = all(isinstance(side, (int, float)) for side in (left, right)) and sign in "+-*/"
        if not numbers and not isinstance(left, _OF_COLUMNS) and not isinstance(right, _OF_COLUMNS):
            self._fail(node, f"{_kind(left)} {sign} {_kind(right)}: there is no column on either side; {HINT}")
        try:
            return apply(left, right)
        except TypeError:
            self._fail(node, f"{_source(node)} has no meaning; {HINT}")

    def _unary(self, node: ast.expr, sign: ast.unaryop, value: Any) -> Any:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if isinstance(sign, ast.Invert):
            return ~value if isinstance(value, Column) else self._refuse(node)
        if not number and not isinstance(value, (Column, Expectation)):
            self._fail(node, f"a sign stands before numbers and expectations, not before {_kind(value)}")
        return value if isinstance(sign, ast.UAdd) else -value

    def _member(self, node: ast.expr) -> Any:
        """A member of a list: a value or a list of values."""
        value = self._value(node)
        if not isinstance(value, (str, int, float, list, tuple)):
            self._fail(node, f"a list holds texts and numbers, found {_kind(value)}; put quotes around texts")
        return value

    def _dictionary(self, node: ast.expr, keys: list[ast.expr | None], values: list[ast.expr]) -> dict[Any, Any]:
        dictionary: dict[Any, Any] = {}
        for key_node, value in zip(keys, values, strict=True):
            if key_node is None:
                self._refuse(node)
            key = self._member(key_node)
            if isinstance(key, list):
                self._fail(key_node, f"{quoted(key)} cannot be a key; write a text or a number")
            if key in dictionary:
                self._fail(key_node, f"the key {quoted(key)} stands here a second time; drop one")
            dictionary[key] = self._member(value)
        return dictionary

    def _refuse(self, node: ast.expr) -> NoReturn:
        match node:
            case ast.BoolOp() | ast.UnaryOp(ast.Not()):
                message = "conditions are joined by &, | and ~, each in parentheses, not by and, or, not"
            case ast.Compare(ops=[ast.In() | ast.NotIn()]):
                message = (
                    'values are looked up by .isin([...]), as in label.isin(["a", "b"]); ~ before it is the contrary'
                )
            case ast.Compare(ops=[_, _, *_]):
                message = "comparisons are not chained; for two bounds write E[...].between(low, high)"
            case ast.Subscript():
                message = "square brackets stand behind E only, as in E[label == 1]"
            case ast.Attribute(attr=name):
                message = f".{shorten(name)} must be called, as in .{shorten(name)}(...)"
            case _:
                message = f"{_source(node)} cannot stand in a constraint; {HINT}"
        self._fail(node, message)

    def _at(self, node: ast.expr) -> int:
        """The character at which a node starts."""
        return self._character(node.col_offset)

    def _end(self, node: ast.expr) -> int:
        return self._character(node.end_col_offset or 0)

    def _character(self, offset: int) -> int:
        return self._start + len(self._line.encode(errors="surrogatepass")[:offset].decode(errors="replace"))

    def _fail(self, at: int | ast.expr, message: str) -> NoReturn:
        """Raise an error about a character, or about where a node starts."""
        place = self._place(at if isinstance(at, int) else self._at(at))
        raise ConstraintTextError(place, message) from None


def _example(function: Callable[..., Any]) -> str:
    """The first call of a shortcut in its docstring, as the end of an error; "" without one."""
    call = re.search(rf">>> .*?\b({function.__name__}\((?:[^()]|\([^()]*\))*\))", function.__doc__ or "")
    return "" if call is None else f"; write it as in {call[1]}"


def _source(node: ast.expr) -> str:
    return shorten(ast.unparse(node))


def _parameters(function: Callable[..., Any]) -> str:
    """The signature of a function, without types."""
    parameters = inspect.signature(function).parameters.values()
    return str(inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in parameters]))


def _kind(value: object) -> str:
    """A value in a few words, for errors."""
    if isinstance(value, (str, EllipsisType)):
        return "..." if value is ... else f"the text {shorten(repr(value))}"
    if isinstance(value, (list, dict, tuple)):
        return {list: "a list", dict: "a dictionary"}.get(type(value), "a list in parentheses")
    return shorten(repr(value))


_FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
_LONGEST_NAME = 500  # YAML reads no longer ones than 1024 characters, quotes and escapes included
_DEEPEST = 2
_NESTED = "expected a list of constraints, found lists inside each other without end; write them flat"
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]|[^\s\[\]{},:"]+')
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = rf"{_PAIR}|\\u[0-9a-fA-F]{{4}}|\\x[0-9a-fA-F]{{2}}|\\U[0-9a-fA-F]{{8}}|\\."
_UNITS = {
    '"': re.compile(rf"(?P<gap>(?:\s|\\[ntrvf_ NLP\t]|\\\n)+)|{_ESCAPE}|.", re.DOTALL),
    "'": re.compile(r"(?P<gap>\s+)|''|.", re.DOTALL),
    "": re.compile(r"(?P<gap>\s+)|.", re.DOTALL),
}
_PLAIN = re.compile(r"[A-Za-z(](?:[^:#\x00-\x1f]|:(?! )|(?<! )#)*")
_CALL = re.compile(r"\(*\w+[(\[]")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def read_constraints(
    source: str | os.PathLike[str] | TextIO, *, format: str | None = None, columns: Collection[str] | None = None
) -> list[Any]:
    """Read constraints from a file in YAML or JSON: a list of texts, or texts under names.

    Parameters
    ----------
    source : path or text stream
    format : {"yaml", "json"}, optional
        By default the suffix of the name says it; needed for streams without a name. YAML needs PyYAML.
    columns : collection of str, optional
        Names of the columns there are; a constraint that names another is refused with its line. By default
        names are checked when the constraints are compiled.

    Returns
    -------
    list of Constraint, or of links of rows
        In the order of the file; ``docs/guide/constraints.md`` describes the language, which `parse_constraint` reads.

    Raises
    ------
    InvalidInputError
        If the file breaks a rule: a `ConstraintTextError` that names the file, line and column.

    Examples
    --------
    >>> import io
    >>> text = '[{"a verb": "(E[tag == \\'VERB\\'] >= 1).per(\\'sentence\\')"}, "agreement"]'
    >>> read_constraints(io.StringIO(text), format="json")[0]
    (E[part("tag") == "VERB"] >= 1).per("sentence").named("a verb")
    """
    name, chosen = _format_of(source, format, "read_constraints")
    if isinstance(source, (str, os.PathLike)):
        text = decode(read_bytes(source, may_be_empty=True), name)
    else:
        text = source.read()
        if not isinstance(text, str):
            raise InvalidInputError(f"read_constraints: {name} gives {type(text).__name__}, not text; open it as text")
    file = _File(name, text)
    constraints: list[Any] = []
    tokens = list(_yaml_tokens(file) if chosen == "yaml" else _json_tokens(file))  # errors of the format come first
    for key, token in _entries(file, iter(tokens)):
        label = None if key is None else key.value
        constraints += flatten(parse_constraint(token.value, columns, name=label, place=partial(file.place_in, token)))
    return constraints


def write_constraints(
    constraints: Constraints, target: str | os.PathLike[str] | TextIO, *, format: str | None = None
) -> None:
    """Write constraints to a file in YAML or JSON, from which :func:`read_constraints` makes equal ones.

    Parameters
    ----------
    constraints : constraint, text of one, mapping from names to these, or iterable of all of these
        Constraints made with ``E`` or by shortcuts.
    target : path or text stream
    format : {"yaml", "json"}, optional
        By default the suffix of the name says it; needed for streams without a name.

    Raises
    ------
    InvalidInputError
        If a constraint is a matrix (:func:`~spectrem.constraints.linear`) or a user's own object; nothing is written.

    Examples
    --------
    >>> import sys
    >>> from spectrem.constraints import E, part
    >>> few = (E[part("label") == "spam"] <= "30%").per("document")
    >>> write_constraints([few, few.named("little spam")], sys.stdout, format="yaml")
    - (E[label == 'spam'] <= 0.3 * E.count(...)).per('document')
    - little spam: (E[label == 'spam'] <= 0.3 * E.count(...)).per('document')
    """
    _, chosen = _format_of(target, format, "write_constraints")
    entries = [_entry_of(constraint, number) for number, constraint in enumerate(flatten(constraints))]
    if chosen == "yaml":
        lines = [_yaml(body) if key is None else f"{_yaml(key)}: {_yaml(body)}" for key, body in entries]
        text = "".join(f"- {line}\n" for line in lines) or "[]\n"
    else:
        lines = [_json(body) if key is None else f"{{{_json(key)}: {_json(body)}}}" for key, body in entries]
        text = "[\n" + ",\n".join(f"  {line}" for line in lines) + "\n]\n" if lines else "[]\n"
    if isinstance(target, (str, os.PathLike)):
        with open_bytes(target) as stream:
            stream.write(text.encode())
    else:
        target.write(text)


@dataclass(frozen=True)
class _Token:
    """A text of a file, one of the brackets ``[]{}``, or anything else that JSON has.

    Attributes
    ----------
    kind : {"text", "[", "]", "{", "}", "other"}
    value : str
    start, stop : int
        Its characters in the file, without quotes.
    style : {"", "'", '"'}
        Its quotes.
    """

    kind: str
    value: str
    start: int
    stop: int
    style: str = ""


@dataclass(frozen=True)
class _File:
    """The name of a file and what it holds."""

    name: str
    text: str

    def place(self, at: int) -> str:
        """File, line and column of a character."""
        line_start = self.text.rfind("\n", 0, at) + 1
        return f"{self.name}, line {self.line(at)}, column {at - line_start + 1}"

    def line(self, at: int) -> int:
        """The line of a character, from 1."""
        return self.text.count("\n", 0, at) + 1

    def fail(self, at: int, message: str) -> NoReturn:
        """Raise an error about a character."""
        raise ConstraintTextError(self.place(at), message) from None

    def place_in(self, token: _Token, at: int) -> str:
        """File, line and column of a character of a text.

        The n-th character that is not white space is also the n-th in the file, where an escape counts as one.
        """
        n = len("".join(token.value[:at].split()))
        units = _UNITS[token.style].finditer(self.text, token.start, token.stop)
        starts = [unit.start() for unit in units if unit.lastgroup != "gap"]
        return self.place(starts[n] if n < len(starts) else token.start)


def _entries(file: _File, tokens: Iterator[_Token]) -> Iterator[tuple[_Token | None, _Token]]:
    """The constraints of a file: the name, if it has one, and the text of each."""
    top = next(tokens, None)
    if top is None:
        file.fail(0, "the file is empty; write [] for no constraints")
    if top.kind == "{":
        yield from _pairs(file, tokens)
    elif top.kind == "[":
        for token in tokens:
            if token.kind == "]":
                break
            if token.kind == "{":
                yield from _pairs(file, tokens)
            else:
                yield None, _wanted(file, token, "the text of a constraint, or name: text")
    else:
        file.fail(top.start, f"expected a list of constraints, or names with texts, found {_found(top)}")
    for token in tokens:
        file.fail(token.start, "a file holds one list of constraints; put them together")


def _pairs(file: _File, tokens: Iterator[_Token]) -> Iterator[tuple[_Token, _Token]]:
    before: dict[str, int] = {}
    for token in tokens:
        if token.kind == "}":
            return
        key = _wanted(file, token, "the name of a constraint")
        if not key.value:
            file.fail(key.start, "a name is a text that is not empty; give one, or put the text into a list")
        if key.value in before:
            first = f"first on line {before[key.value]}"
            file.fail(key.start, f"{key.value!r} stands here a second time, {first}; drop one")
        if not key.style and _CALL.match(key.value) and _is_open(key.value):
            file.fail(key.start, "this text holds ': ', which ends a name in YAML; put single quotes around all of it")
        before[key.value] = file.line(key.start)
        yield key, _wanted(file, next(tokens), "the text of a constraint")


def _is_open(text: str) -> bool:
    return text.count("(") > text.count(")")


def _wanted(file: _File, token: _Token, wanted: str) -> _Token:
    if token.kind != "text":
        file.fail(token.start, f"expected {wanted}, found {_found(token)}; {HINT}")
    return token


def _found(token: _Token) -> str:
    kinds = {"[": "a list", "{": "a mapping", "}": "nothing", "]": "nothing"}
    return kinds.get(token.kind, shorten(repr(token.value)))


def _json_tokens(file: _File) -> Iterator[_Token]:
    try:
        json.loads(file.text, parse_int=str)  # whole numbers may be too long for Python
    except json.JSONDecodeError as error:
        if not file.text.strip():
            return
        file.fail(error.pos, f"this is not valid JSON: {error.msg}")
    except RecursionError:
        file.fail(0, _NESTED)
    for match in _JSON_TOKEN.finditer(file.text):
        token = match[0]
        if token[0] == '"':
            yield _Token("text", json.loads(token), match.start() + 1, match.end() - 1, '"')
        else:
            yield _Token(token if token in "[]{}" else "other", token, match.start(), match.end())


def _yaml_tokens(file: _File) -> Iterator[_Token]:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise InvalidInputError(
            f"{file.name}: reading YAML needs PyYAML, which is not installed; install pyyaml, or write the constraints "
            "as JSON"
        ) from None
    brackets = {
        yaml.SequenceStartEvent: "[", yaml.SequenceEndEvent: "]", yaml.MappingStartEvent: "{", yaml.MappingEndEvent: "}"
    }  # fmt: skip
    depth = 0
    try:
        for event in yaml.parse(file.text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            start, stop = event.start_mark.index, event.end_mark.index
            if isinstance(event, yaml.AliasEvent):
                file.fail(start, "aliases (*name) are not read; write the text out")
            if getattr(event, "tag", None):
                file.fail(start, f"the tag {event.tag} is not understood; leave it out")
            if isinstance(event, yaml.ScalarEvent):
                yield _scalar_token(file, event.value, event.style or "", start, stop)
            elif type(event) in brackets:
                token = _Token(brackets[type(event)], "", start, stop)
                depth += 1 if token.kind in "[{" else -1
                yield token
                if depth > _DEEPEST:  # refused where it begins: libyaml takes long over deep files
                    return
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if "nesting depth" in (error.problem or ""):  # newer releases of PyYAML bound the depth before any event
            file.fail(mark.index, _NESTED)
        hint = "; put single quotes around a text that holds ': ' or ' #', and around all of it if it begins with one"
        file.fail(mark.index if mark else 0, f"this is not valid YAML: {error.problem or error.context}{hint}")
    except yaml.reader.ReaderError as error:
        file.fail(error.position, f"this is not valid YAML: {error.reason}; remove the character")


def _scalar_token(file: _File, value: str, style: str, start: int, stop: int) -> _Token:
    if style in ("|", ">"):  # the text begins on the next line
        return _Token("text", value, file.text.find("\n", start) + 1, stop)
    return _Token("text", value, start + len(style), stop - len(style), style)


def _entry_of(constraint: Any, number: int) -> tuple[str | None, str]:
    """The name, if it can stand before a colon, and the text of a constraint."""
    if not isinstance(constraint, (Constraint, RowLinks)):
        raise InvalidInputError(f"write_constraints: constraint {number} cannot be written: {_why_not(constraint)}")
    name = constraint.label
    if name is None or len(name) > _LONGEST_NAME:
        return None, source_text(constraint)
    return name, source_text(replace(constraint, label=None))


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


def _yaml(text: str) -> str:
    """Bare where YAML reads the same text, else in single quotes, or as in JSON."""
    if _UNPRINTABLE.search(text):
        return _json(text)
    is_bare = _PLAIN.fullmatch(text) and not text.endswith((" ", ":")) and not _is_open(text)
    return text if is_bare else "'" + text.replace("'", "''") + "'"


def _json(text: str) -> str:
    encoded = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded)


def _format_of(file: str | os.PathLike[str] | TextIO, format: str | None, function: str) -> tuple[str, str]:
    """The file's name for messages, and its format."""
    if isinstance(file, (str, os.PathLike)):
        name = os.fspath(file)
    elif hasattr(file, "read") or hasattr(file, "write"):
        name = str(getattr(file, "name", "<stream>"))
    else:
        raise InvalidInputError(f"{function} takes a path or a stream of text, got {file!r}")
    if format is not None:
        if format not in ("yaml", "json"):
            raise InvalidInputError(f"{function}: format must be 'yaml' or 'json', got {format!r}")
        return name, format
    chosen = _FORMATS.get(Path(name).suffix.lower())
    if chosen is None:
        raise InvalidInputError(
            f"{function}: the format of {name!r} cannot be told by its name, which ends in none of "
            f"{', '.join(_FORMATS)}; give format='yaml' or format='json', and wrap text itself in io.StringIO"
        )
    return name, chosen
