"""Entries of files of constraints: what is expected, its bounds, groups, slack and name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from spectrem.constraints.columns import Scalar
from spectrem.constraints.constraint import Constraint, max_over
from spectrem.constraints.expectation import E, Expectation
from spectrem.constraints.file_columns import Names, read_weight
from spectrem.constraints.file_nodes import ConstraintFileError, Node
from spectrem.constraints.rows import Norm
from spectrem.exceptions import InvalidInputError

BOUNDS = ("at_least", "at_most", "equals", "between")
NORMS: tuple[Norm, ...] = ("l1", "l2", "linf")
_GENERAL = ("expect", *BOUNDS, "of", "per", "slack", "allow_empty", "name")
_MAX_OVER = ("expect", "max_over", "penalty", "per", "allow_empty", "name")
_BOUND = "a number, a percentage such as 30% with the field of, a condition in braces or a list of terms"
_PERCENT = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*%\s*")


def read_expectation_entry(node: Node, names: Names) -> Constraint:
    """A constraint of the general form, ``expect`` and bounds, or ``expect`` and ``max_over``."""
    fields = node.mapping("a mapping")
    if "max_over" in fields:
        return _read_max_over(node, names)
    node.only(_GENERAL, "an entry with 'expect'")
    expression = read_side(fields["expect"], names)
    given = [key for key in BOUNDS if key in fields]
    if not given or (len(given) > 1 and given != ["at_least", "at_most"]):
        node.fail(
            f"give one of {', '.join(BOUNDS)}, or at_least and at_most together; found {', '.join(given) or 'none'}"
        )
    total = _read_total(fields["of"], names) if "of" in fields else None
    with located(node):
        if given == ["equals"]:
            made = expression == _read_bound(fields["equals"], total, names)
        elif given == ["at_least"]:
            made = expression >= _read_bound(fields["at_least"], total, names)
        elif given == ["at_most"]:
            made = expression <= _read_bound(fields["at_most"], total, names)
        else:
            low, high = _pair(fields["between"]) if given == ["between"] else (fields["at_least"], fields["at_most"])
            made = expression.between(*_read_range(low, high, total, names))
    return finish_entry(made, fields, names)


def finish_entry(made: Constraint, fields: Mapping[Scalar, Node], names: Names) -> Constraint:
    """The constraint with its ``per``, ``slack``, ``allow_empty`` and ``name``, as far as they are given."""
    if "per" in fields:
        with located(fields["per"]):
            made = made.per(*read_columns(fields["per"], names))
    if "slack" in fields:
        made = read_slack(made, fields["slack"])
    if "allow_empty" in fields:
        if not isinstance(fields["allow_empty"].value, bool):
            fields["allow_empty"].fail(f"expected true or false, found {fields['allow_empty'].found}")
        made = made.allow_empty() if fields["allow_empty"].value else made
    return made.named(fields["name"].text("a text that is not empty")) if "name" in fields else made


def read_slack(made: Constraint, node: Node) -> Constraint:
    """The constraint with the slack of a field ``{penalty: 10, norm: l1}`` or ``{bound: 0.1, norm: l2}``."""
    fields = node.only(("penalty", "bound", "norm"), "slack")
    if len({"penalty", "bound"} & set(fields)) != 1:
        node.fail(f"give one of penalty and bound, as in {{penalty: 10, norm: l1}}; found {node.found}")
    norm = fields["norm"].text(f"one of {', '.join(NORMS)}") if "norm" in fields else "l2"
    known = [name for name in NORMS if name == norm]
    if not known:
        fields["norm"].fail(f"there is no norm {norm!r}; the norms are {', '.join(NORMS)}")
    which = "penalty" if "penalty" in fields else "bound"
    strength = fields[which].number("a positive number")
    if strength <= 0:
        fields[which].fail(f"expected a positive number, found {strength!r}; for no slack leave slack out")
    if which == "penalty":
        return made.slack(penalty=strength, norm=known[0])
    return made.slack(bound=strength, norm=known[0])


def read_columns(node: Node, names: Names) -> list[str]:
    """Names of columns: one, or a list of them."""
    members = node.value if isinstance(node.value, list) else [node]
    if not members:
        node.fail("expected the name of a column or a list of them, found an empty list; leave per out for one row")
    return [names.column(member) for member in members]


def read_side(node: Node, names: Names) -> Expectation:
    """A linear expression: a condition, a number, one term, or a list of those, which are added."""
    if not isinstance(node.value, list):
        return _read_term(node, names)
    side = Expectation(())
    for member in node.value:
        side = side + _read_term(member, names)
    return side


def read_share(node: Node) -> float:
    """A number, or a percentage as the number that it is."""
    return _percentage(node) if isinstance(node.value, str) else node.number("a number or a percentage such as 30%")


@contextmanager
def located(node: Node) -> Iterator[None]:
    """Errors of the language say where in the file they arose."""
    try:
        yield
    except ConstraintFileError:
        raise
    except InvalidInputError as error:
        node.fail(str(error))


def required(fields: Mapping[Scalar, Node], key: str, node: Node) -> Node:
    """A field that must be there."""
    return fields[key] if key in fields else node.fail(f"the field {key} is missing")


def _read_max_over(node: Node, names: Names) -> Constraint:
    fields = node.only(_MAX_OVER, "an entry with 'max_over'")
    column = names.column(fields["max_over"])
    price = required(fields, "penalty", node)
    strength = price.number("a positive number")
    if strength <= 0:
        price.fail(f"expected a positive number, found {strength!r}")
    expression = read_side(fields["expect"], names)
    with located(node):
        if "per" in fields:
            expression = expression.per(*read_columns(fields["per"], names))
        made = max_over(column, expression).penalty(strength)
    return finish_entry(made, {key: fields[key] for key in ("allow_empty", "name") if key in fields}, names)


def _read_term(node: Node, names: Names) -> Expectation:
    """``{expect: condition, times: 2}``, ``{count: condition, each: column, times: 0.1}``, a condition or a number."""
    if isinstance(node.value, (bool, int, float)):
        return Expectation((), 0) + node.number()
    kind = next((kind for kind in ("expect", "count") if isinstance(node.value, dict) and kind in node.value), None)
    if kind is None:
        return E[read_weight(node, names)]
    fields = node.only((kind, "times", *(("each",) if kind == "count" else ())), f"a term with {kind!r}")
    weight = read_weight(fields[kind], names)
    times = fields["times"].number() if "times" in fields else 1
    if kind == "expect":
        return times * E[weight]
    return times * E.count(weight, each=names.column(fields["each"]) if "each" in fields else None)


def _read_total(node: Node, names: Names) -> Expectation:
    """The whole that bounds are shares of: by a column's name the number of its values, else a side."""
    if isinstance(node.value, str):
        return E.count(..., each=names.column(node))
    return read_side(node, names)


def _read_bound(node: Node, total: Expectation | None, names: Names) -> Expectation | float:
    if total is not None:
        return read_share(node) * total
    if isinstance(node.value, str) and "%" in node.value:
        _percentage(node)
        node.fail(f"{node.value} of what? add the field of, as in of: occurrence (tokens) or of: {{word: run}}")
    if isinstance(node.value, (int, float)):
        return node.number(_BOUND)
    if isinstance(node.value, str) or node.value is None:
        node.fail(f"expected {_BOUND}, found {node.found}")
    return read_side(node, names)


def _pair(node: Node) -> tuple[Node, Node]:
    members = node.items("a list [low, high]")
    return (members[0], members[1]) if len(members) == 2 else node.fail(f"expected [low, high], found {node.found}")


def _read_range(
    low: Node, high: Node, total: Expectation | None, names: Names
) -> tuple[Expectation | float, Expectation | float]:
    is_number = total is not None or not any(isinstance(end.value, (dict, list, str)) for end in (low, high))
    if is_number and read_share(low) > read_share(high):
        low.fail(f"the lower bound {low.value} is above the upper one, {high.value}; swap them")
    return _read_bound(low, total, names), _read_bound(high, total, names)


def _percentage(node: Node) -> float:
    match = _PERCENT.fullmatch(node.text("a number or a percentage such as 30%"))
    if match is None or math.isinf(float(match[1])):
        node.fail(f"expected a number or a percentage such as 30%, found {node.found}")
    return float(match[1]) / 100
