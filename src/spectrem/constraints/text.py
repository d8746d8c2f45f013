"""Constraints as text: what ``repr`` prints, with bare names as columns, read by a whitelist and never evaluated."""

from __future__ import annotations

import ast
import inspect
import io
import keyword
import operator
import tokenize
from collections.abc import Callable, Collection
from types import EllipsisType
from typing import Any, NoReturn

from spectrem.constraints import shortcuts
from spectrem.constraints.all_of import AllOf
from spectrem.constraints.columns import Column, part
from spectrem.constraints.compilation.draft import used_columns
from spectrem.constraints.constraint import Constraint, E, Expectation, ExpectationOperator, MaxOver
from spectrem.constraints.links import ColumnLinks, RowLinks
from spectrem.exceptions import InvalidInputError, did_you_mean, no_such, shorten

_SHORTCUTS: dict[str, Callable[..., Any]] = {name: getattr(shortcuts, name) for name in shortcuts.__all__}
_METHODS: dict[type, tuple[str, tuple[str, ...]]] = {
    Column: ("a column or condition", ("isin", "allowed_by")),
    ExpectationOperator: ("E", ("count",)),
    Expectation: ("an expectation", ("per", "between", "at")),
    Constraint: ("a constraint", ("per", "slack", "named", "allow_empty")),
    AllOf: ("constraints", ("per", "slack", "named", "allow_empty")),
    MaxOver: ("max_over(...)", ("penalty",)),
    RowLinks: ("links", ("named",)),
    ColumnLinks: ("links", ("named",)),
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
_OF_COLUMNS = (Column, Expectation, Constraint, AllOf, RowLinks, ColumnLinks)
_LONG = "it is nested too deeply; write lists of values as .isin([...]) and several constraints one by one"
HINT = "write a bound on an expectation, such as E[label == 'spam'] <= 3"


class ConstraintTextError(InvalidInputError):
    """The text of a constraint, or a file of them, breaks a rule.

    Attributes
    ----------
    place : str
        Where: a file with line and column, or the text itself and the character in it, all counted from 1.
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
    Constraint, AllOf, RowLinks or ColumnLinks

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
    made = reader.read()
    return made if name is None else made.named(name)


def source_text(constraint: Constraint | RowLinks | ColumnLinks) -> str:
    """The text of a constraint with bare names where they can stand, from which `parse_constraint` makes an equal one.

    Examples
    --------
    >>> source_text((E[part("label") == "title"] <= 1).per("document"))
    "(E[label == 'title'] <= 1).per('document')"
    """
    return ast.unparse(_Bare().visit(ast.parse(repr(constraint), mode="eval")))


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
        self._text, self._flat = text, text.replace("\n", " ").replace("\r", " ")
        self._start = len(self._flat) - len(self._flat.lstrip())
        self._bytes = self._flat.encode(errors="surrogatepass")
        self._columns, self._place = columns, place

    def read(self) -> Any:
        """The constraint."""
        if not self._flat.strip():
            self._fail(0, f"there is nothing; {HINT}")
        try:
            tree = ast.parse(self._flat.lstrip(), mode="eval").body
            self._refuse_comments()
            if isinstance(tree, ast.Name):
                tree = ast.copy_location(ast.Call(tree, [], []), tree)
            made = self._value(tree)
        except SyntaxError as error:
            self._fail(self._start + (error.offset or 1) - 1, self._unreadable(error))
        except (RecursionError, MemoryError):
            self._fail(0, _LONG)
        except ConstraintTextError:
            raise
        except (ValueError, tokenize.TokenError) as error:  # half a character, the null character
            self._fail(0, f"this is not a Python expression ({error}); {HINT}")
        if isinstance(made, MaxOver):
            self._fail(tree, "max_over(...) is not finished; add .penalty(strength)")
        if not isinstance(made, (Constraint, AllOf, RowLinks, ColumnLinks)):
            self._fail(tree, f"{ast.unparse(tree)} is not a constraint; {HINT}")
        return made

    def _refuse_comments(self) -> None:
        for token in tokenize.generate_tokens(io.StringIO(self._flat.lstrip()).readline):
            if token.type == tokenize.COMMENT:
                self._fail(
                    self._start + token.start[1], "a comment ends the constraint; write it on a line above or below"
                )

    def _unreadable(self, error: SyntaxError) -> str:
        if self._flat[self._start + (error.offset or 1) - 1 :].startswith("="):
            return "two sides are compared by ==, <= or >=, not by ="
        message = str(error.msg)
        if message.startswith("Exceeds the limit"):
            return "a number has too many digits; write one below 1e308"
        return f"this is not a Python expression ({message}); {HINT}"

    def _value(self, node: ast.expr) -> Any:
        """The value of an expression: a column, a constraint, a number, a list ..."""
        match node:
            case ast.Constant(value):
                return self._constant(node, value)
            case ast.Name(name):
                return self._column(node, name)
            case ast.Subscript(value=ast.Name("E"), slice=index):
                return self._made(node, lambda: E[self._value(index)])
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]) if type(sign) in _OPERATORS:
                return self._operation(node, _OPERATORS[type(sign)], self._value(left), self._value(right))
            case ast.UnaryOp(ast.USub() | ast.UAdd() | ast.Invert() as sign, operand):
                return self._unary(node, sign, self._value(operand))
            case ast.List(members) | ast.Tuple(members) | ast.Set(members):
                listed = [self._member(member) for member in members]
                kind = {ast.Tuple: tuple, ast.Set: set}.get(type(node), list)
                return self._made(node, lambda: kind(listed))
            case ast.Dict(keys, values):
                return self._dictionary(node, keys, values)
        return self._refuse(node)

    def _constant(self, node: ast.expr, value: object) -> object:
        # where a node stands is counted from the start of the text, too slow for every value of a long dictionary
        several = isinstance(value, str) and self._flat != self._text
        if several and not {"\n", "\r"}.isdisjoint(self._text[self._at(node) : self._end(node)]):
            self._fail(node, "a text ends on the line on which it begins; write \\n for the end of a line")
        if isinstance(value, (bytes, complex)) or (isinstance(value, int) and abs(value) > 1e308):
            self._fail(node, f"expected a number below 1e308 or a text, found {shorten(repr(value)[:300])}")
        return value

    def _column(self, node: ast.Name, name: str) -> Any:
        if name == "E":
            return E
        if not self._is_known(name):
            message = no_such("column", name, self._columns or ())
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
        made = self._made(node, lambda: function(*arguments, **options))
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
                self._fail(node, f"there is no shortcut {name!r}; {message}")
            case ast.Attribute(value, method):
                owner = self._value(value)
                what, methods = _METHODS.get(type(owner), (_kind(owner), ()))
                if method in methods:
                    found: Callable[..., Any] = getattr(owner, method)
                    return found
                listed = f"{did_you_mean(method, methods)}it has {', '.join(methods)}" if methods else "it has none"
                self._fail(self._end(value), f"{what} has no method {method!r}; {listed}")
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
                texts = (found for found in ast.walk(node) if isinstance(found, ast.Constant) and found.value == name)
                self._fail(next(texts, node), no_such("column", name, self._columns or ()))

    def _operation(self, node: ast.expr, how: tuple[str, Callable[[Any, Any], Any]], left: Any, right: Any) -> Any:
        sign, apply = how
        numbers = all(isinstance(side, (int, float)) for side in (left, right)) and sign in "+-*/"
        if not numbers and not isinstance(left, _OF_COLUMNS) and not isinstance(right, _OF_COLUMNS):
            self._fail(node, f"{_kind(left)} {sign} {_kind(right)}: there is no column on either side; {HINT}")
        return self._made(node, lambda: apply(left, right))

    def _unary(self, node: ast.expr, sign: ast.unaryop, value: Any) -> Any:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if isinstance(sign, ast.Invert):
            return self._made(node, lambda: ~value) if isinstance(value, Column) else self._refuse(node)
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
        made: dict[Any, Any] = {}
        for key_node, value in zip(keys, values, strict=True):
            if key_node is None:
                self._refuse(node)
            key = self._member(key_node)
            if isinstance(key, list):
                self._fail(key_node, f"{key!r} cannot be a key; write a text or a number")
            if key in made:
                self._fail(key_node, f"the key {key!r} stands here a second time; drop one")
            made[key] = self._member(value)
        return made

    def _made(self, node: ast.expr, make: Callable[[], Any]) -> Any:
        """The result of ``make``; errors name the place in the text."""
        try:
            return make()
        except ConstraintTextError:
            raise
        except InvalidInputError as error:
            self._fail(node, str(error))
        except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
            self._fail(node, f"{ast.unparse(node)} has no meaning: {error}")

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
                message = f".{name} must be called, as in .{name}(...)"
            case _:
                message = f"{shorten(ast.unparse(node))} cannot stand in a constraint; {HINT}"
        self._fail(node, message)

    def _at(self, node: ast.expr) -> int:
        """The character at which a node starts."""
        return self._character(node.col_offset)

    def _end(self, node: ast.expr) -> int:
        return self._character(node.end_col_offset or 0)

    def _character(self, offset: int) -> int:
        start = len(self._flat[: self._start].encode())
        return len(self._bytes[: start + offset].decode(errors="replace"))

    def _fail(self, at: int | ast.expr, message: str) -> NoReturn:
        """Raise an error about a character, or about where a node starts."""
        place = self._place(at if isinstance(at, int) else self._at(at))
        raise ConstraintTextError(place, message) from None


def _parameters(function: Callable[..., Any]) -> str:
    """The signature of a function, without types."""
    parameters = inspect.signature(function).parameters.values()
    return str(inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in parameters]))


def _kind(value: object) -> str:
    """A value in a few words, for errors."""
    if isinstance(value, (str, EllipsisType)):
        return "..." if value is ... else f"the text {shorten(repr(value))}"
    if isinstance(value, (list, dict, tuple)):
        return f"a {type(value).__name__}"
    return shorten(repr(value))
