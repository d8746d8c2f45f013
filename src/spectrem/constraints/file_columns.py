"""Conditions and weights of files of constraints: ``{tag: [VERB, AUX]}``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from types import EllipsisType

from spectrem.constraints.columns import Column, Scalar, part, plain
from spectrem.constraints.file_nodes import Node

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*", "/")
JOINS = {"all": "&", "any": "|"}
RESERVED = ("column", "not", *JOINS, "in", "allowed_by", "expect", "count", *COMPARISONS, *ARITHMETIC)
_TESTS = (*COMPARISONS, "not", "allowed_by")
_CONDITION = "a condition such as {tag: VERB}"


@dataclass(frozen=True)
class Names:
    """The columns that a file may name; None where they are not known."""

    known: Collection[str] | None = None

    def column(self, node: Node) -> str:
        """Name of a column."""
        return self.check(node.text("the name of a column"), node)

    def check(self, name: Scalar, node: Node) -> str:
        """The name, if it is a text and there is such a column."""
        if not isinstance(name, str) or not name:
            node.fail(f"expected the name of a column, which is a text, found {name!r}; put quotes around it")
        if self.known is not None and name not in self.known and name.removesuffix("_frequency") not in self.known:
            close = get_close_matches(name, self.known, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            node.fail(f"there is no column {name!r}; {hint}the columns are {', '.join(map(str, self.known))}")
        return name


def read_weight(node: Node, names: Names) -> Column | EllipsisType:
    """What ``E[...]`` takes: ``all``, a condition, or a column or formula of weights."""
    return ... if node.value == "all" else read_condition(node, names)


def read_condition(node: Node, names: Names) -> Column:
    """A condition, or a weight.

    A text is the column of that name, a mapping tests columns (``{tag: VERB, length: {">=": 3}}``, all of which must
    hold) or applies one operator (``{any: [...]}``).
    """
    if isinstance(node.value, str):
        return part(names.column(node))
    fields = node.mapping(f"{_CONDITION}, or the name of a column")
    if not fields:
        node.fail(f"expected {_CONDITION}, found a mapping with no fields; write all for every part")
    operators = [key for key in fields if key in RESERVED]
    if not operators:
        tests = [
            test for name, value in fields.items() for test in _tests(part(names.check(name, value)), value, names)
        ]
        return reduce(lambda left, right: left & right, tests)
    operator = str(operators[0])
    if len(fields) > 1:
        fields[operator].fail(
            f"{operator!r} stands alone in its braces, found {node.found}; join conditions by all: [...], and write a "
            f"column of that name as {{column: {operator}}}"
        )
    return _operation(operator, fields[operator], names)


def read_values(node: Node) -> list[Scalar]:
    """Values of a column: one or a list of them."""
    members = node.value if isinstance(node.value, list) else [node]
    return [member.scalar("a value: a text, a number, true or false") for member in members]


def read_dictionary(node: Node) -> dict[Scalar, list[Scalar]]:
    """Values by key, given as a mapping or, where keys are no texts, as a list of pairs."""
    return {key: read_values(value) for key, value in read_pairs(node, "a mapping such as {run: [NOUN, VERB]}")}


def read_pairs(node: Node, wanted: str) -> list[tuple[Scalar, Node]]:
    """Keys and values of a mapping or of a list of pairs."""
    if isinstance(node.value, dict):
        return list(node.value.items())
    pairs: dict[Scalar, Node] = {}
    for member in node.items(wanted):
        both = member.items("a pair [key, value]")
        if len(both) != 2:
            member.fail(f"expected a pair [key, value], found {member.found}")
        key = both[0].scalar("a key: a text or a number")
        if key in pairs:
            both[0].fail(f"{key!r} stands here a second time, first on line {pairs[key].line}; drop one")
        pairs[key] = both[1]
    return list(pairs.items())


def _tests(column: Column, node: Node, names: Names) -> list[Column]:
    if isinstance(node.value, list):
        return [column.isin(read_values(node))]
    if not isinstance(node.value, dict):
        return [column == node.scalar(f"a value, a list of values, or a mapping with {', '.join(_TESTS)}")]
    fields = node.only(_TESTS, "the test of a column")
    if not fields:
        node.fail(f"expected a value, a list of values, or a mapping with {', '.join(_TESTS)}, found {node.found}")
    return [_test(column, str(key), value, names) for key, value in fields.items()]


def _test(column: Column, operator: str, node: Node, names: Names) -> Column:
    if operator == "not":
        return ~column.isin(read_values(node)) if isinstance(node.value, list) else column != node.scalar("a value")
    if operator != "allowed_by":
        return Column(operator, (column, _operand(node, names)))
    fields = node.mapping("one column and its dictionary, as in {word: {run: [NOUN, VERB]}}")
    if len(fields) != 1:
        node.fail(f"expected one column and its dictionary, as in {{word: {{run: [NOUN, VERB]}}}}, found {node.found}")
    [(name, dictionary)] = fields.items()
    return column.allowed_by(part(names.check(name, dictionary)), read_dictionary(dictionary))


def _operation(operator: str, node: Node, names: Names) -> Column:
    if operator == "column":
        return part(names.column(node))
    if operator == "not":
        return ~read_condition(node, names)
    if operator in JOINS:
        return _fold(JOINS[operator], node, names, _condition_or_value)
    if operator == "in":
        first, values = _listed(node, 2, "[column, [values]]")
        return read_condition(first, names).isin(read_values(values))
    if operator == "allowed_by":
        first, key, dictionary = _listed(node, 3, "[column, column, dictionary]")
        return read_condition(first, names).allowed_by(read_condition(key, names), read_dictionary(dictionary))
    if operator in COMPARISONS:
        first, second = _listed(node, 2, "[column, value]")
        return Column(operator, (read_condition(first, names), _operand(second, names)))
    if operator in ARITHMETIC:
        if operator == "-" and isinstance(node.value, list) and len(node.value) == 1:
            return Column("negative", (read_condition(node.value[0], names),))
        return _fold(operator, node, names, _condition_or_value)
    return node.fail(f"{operator!r} is a sum of expectations and cannot stand inside a condition; see expect: and of:")


def _listed(node: Node, count: int, wanted: str) -> list[Node]:
    members = node.items(f"a list {wanted}")
    return members if len(members) == count else node.fail(f"expected a list {wanted}, found {node.found}")


def _fold(operation: str, node: Node, names: Names, read: Callable[[Node, Names], Column | Scalar]) -> Column:
    members = node.items("a list of two or more")
    if len(members) < 2:
        node.fail(f"expected a list of two or more, found {node.found}")
    left, *rest = (read(member, names) for member in members)
    for right in rest:
        if not isinstance(left, Column) and not isinstance(right, Column):
            node.fail("there is no column in it; name one as {column: name}")
        left = Column(operation, (left, right))
    assert isinstance(left, Column)
    return left


def _operand(node: Node, names: Names) -> Column | Scalar:
    """What a column is compared with: a plain value, or an expression in braces."""
    if isinstance(node.value, dict):
        return read_condition(node, names)
    return plain(node.scalar("a value, or a column in braces as in {column: name}"))


def _condition_or_value(node: Node, names: Names) -> Column | Scalar:
    """A member of ``all`` or of a sum: text names a column here, since it can be nothing else."""
    if isinstance(node.value, (bool, int, float)):
        return plain(node.scalar("a number"))
    return read_condition(node, names)
