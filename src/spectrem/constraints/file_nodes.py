"""YAML and JSON text as nodes that know where they stand, so that errors can say so."""

from __future__ import annotations

import bisect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from typing import Any, NoReturn

from spectrem.constraints.columns import Scalar, quote
from spectrem.exceptions import InvalidInputError, shorten

_DEEPEST = 100
# Values of a file whose aliases are written out.
_MOST_NODES = 1_000_000
_YAML = "tag:yaml.org,2002:"
# YAML 1.2 rather than 1.1: the tags NO and ON are text, and 1e-3 is a number.
_PLAIN_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
# A text that is not closed runs to the end, so that each character is looked at once.
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{},:]|[^\s\[\]{},:"]+')
_TOO_DEEP = f"lists are nested more than {_DEEPEST} deep; write them flat"


class ConstraintFileError(InvalidInputError):
    """A file of constraints breaks a rule.

    Attributes
    ----------
    source : str
        Name of the file.
    line : int
        Counted from 1.
    field : str
        Path of the field, such as ``[0].slack.norm``; entries count from 0, and the whole file is empty text.
    """

    def __init__(self, source: str, line: int, field: str, message: str) -> None:
        super().__init__(f"{source}, line {line}, {field}: {message}" if field else f"{source}, line {line}: {message}")
        self.source, self.line, self.field = source, line, field


@dataclass(frozen=True, eq=False)
class Node:
    """A value of a file.

    Attributes
    ----------
    value : dict of key -> Node, list of Node, or a plain value
    line : int
        Where it starts, or its key if it has one; counted from 1.
    field : str
        Path from the top of the file.
    source : str
        Name of the file.
    """

    value: dict[Scalar, Node] | list[Node] | Scalar | None
    line: int
    field: str
    source: str

    @property
    def found(self) -> str:
        """What stands there, in a few words."""
        if isinstance(self.value, dict):
            return "a mapping with " + (shorten(", ".join(map(str, self.value))) or "no fields")
        if isinstance(self.value, list):
            return f"a list of {len(self.value)}"
        if self.value is None:
            return "nothing (null; put quotes around it if it is a text)"
        text = quote(self.value) if isinstance(self.value, str) else json.dumps(self.value)
        return f"the text {shorten(text)}" if isinstance(self.value, str) else shorten(text)

    def fail(self, message: str) -> NoReturn:
        """Raise a :class:`ConstraintFileError` about this place."""
        raise ConstraintFileError(self.source, self.line, self.field, message)

    def mapping(self, wanted: str) -> dict[Scalar, Node]:
        """Its fields; refuses anything but a mapping."""
        return self.value if isinstance(self.value, dict) else self.fail(f"expected {wanted}, found {self.found}")

    def items(self, wanted: str) -> list[Node]:
        """Its members; refuses anything but a list."""
        return self.value if isinstance(self.value, list) else self.fail(f"expected {wanted}, found {self.found}")

    def text(self, wanted: str) -> str:
        """Its text; refuses anything else, and the empty text."""
        if not isinstance(self.value, str) or not self.value:
            self.fail(f"expected {wanted}, found {self.found}")
        return self.value

    def number(self, wanted: str = "a number") -> float:
        """Its value; refuses anything but finite numbers."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            self.fail(f"expected {wanted}, found {self.found}")
        if not abs(self.value) <= sys.float_info.max:
            self.fail(f"expected {wanted} that is finite, found {self.value}")
        return self.value if abs(self.value) < 2**63 else float(self.value)

    def scalar(self, wanted: str) -> Scalar:
        """Its text, number or truth value."""
        if isinstance(self.value, (dict, list)) or self.value is None:
            self.fail(f"expected {wanted}, found {self.found}")
        return self.value if isinstance(self.value, (str, bool)) else self.number(wanted)

    def only(self, allowed: Iterable[str], what: str) -> dict[Scalar, Node]:
        """Its fields; refuses those that are not allowed."""
        known = list(allowed)
        fields = self.mapping(f"a mapping with fields out of {', '.join(known)}")
        for key, node in fields.items():
            if key not in known:
                close = get_close_matches(str(key), known, 1)
                hint = f"did you mean {close[0]!r}? " if close else ""
                node.fail(f"{what} has no field {key!r}; {hint}its fields are {', '.join(known)}")
        return fields


def parse_json(text: str, source: str) -> Node:
    """Nodes of a JSON text.

    Raises
    ------
    ConstraintFileError
        If it is no JSON, or a name occurs twice in one object.

    Examples
    --------
    >>> parse_json('[{"name": "x"}]', "c.json").value[0].value["name"].field
    '[0].name'
    """
    breaks = [match.start() for match in re.finditer("\n", text)]
    tokens = [(match[0], bisect.bisect(breaks, match.start()) + 1) for match in _JSON_TOKEN.finditer(text)]
    _check_depth((((token in "[{") - (token in "]}"), line) for token, line in tokens), source)
    try:
        json.loads(text, parse_int=str)  # whole numbers too long for Python are found with their place below
    except json.JSONDecodeError as error:
        raise ConstraintFileError(source, error.lineno, "", f"this is no JSON: {error.msg}") from None
    return _from_json(tokens, 0, None, "", source)[0]


def parse_yaml(text: str, source: str) -> Node:
    """Nodes of a YAML text, with the plain values of YAML 1.2.

    Raises
    ------
    ConstraintFileError
        If it is no YAML, holds several documents, a key twice in one mapping, or tags of other programs.
    InvalidInputError
        If PyYAML is not installed.

    Examples
    --------
    >>> parse_yaml("- tag: NO", "c.yaml").value[0].value["tag"].value
    'NO'
    """
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise InvalidInputError(
            f"{source}: reading YAML needs PyYAML, which is not installed; install pyyaml, or write the constraints "
            "as JSON"
        ) from None
    try:
        # the composer of PyYAML recurses in C, where nothing stops it before the stack ends
        _check_depth(_steps(yaml, text), source)
        composed = yaml.compose(text, _loader())
        sizes: dict[int, int] = {}
        size = 0 if composed is None else _size(composed, sizes)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConstraintFileError(
            source, mark.line + 1 if mark else 1, "", f"this is no YAML: {error.problem or error.context}"
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConstraintFileError(source, line, "", f"this is no YAML: {error.reason}") from None
    if composed is None:
        raise ConstraintFileError(source, 1, "", "the file is empty; write [] for no constraints")
    if size > max(_MOST_NODES, 2 * len(sizes)):
        raise ConstraintFileError(
            source, 1, "", f"aliases (*name) repeat its {len(sizes)} values until they are {size}; write them out"
        )
    return _from_yaml(composed, None, "", source, 0)


def _steps(yaml: Any, text: str) -> Iterator[tuple[int, int]]:
    """For every event of the parser, by how much it changes the depth, and its line."""
    for event in yaml.parse(text, _loader()):
        step = isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        yield step, event.start_mark.line + 1


def _check_depth(steps: Iterable[tuple[int, int]], source: str) -> None:
    """Refuse a text whose steps lead too deep, before anything recurses into it."""
    depth = 0
    for step, line in steps:
        depth += step
        if depth > _DEEPEST:
            raise ConstraintFileError(source, line, "", _TOO_DEEP)


def _size(node: Any, sizes: dict[int, int]) -> int:
    """Values below a YAML node with aliases written out; one inside itself counts as nothing there."""
    if id(node) in sizes:
        return sizes[id(node)]
    sizes[id(node)] = 0
    children = node.value if isinstance(node.value, list) else []
    flat = (part for child in children for part in (child if isinstance(child, tuple) else (child,)))
    sizes[id(node)] = 1 + sum(_size(child, sizes) for child in flat)
    return sizes[id(node)]


@cache
def _loader() -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str | None, list[Any]] = {}  # noqa: RUF012 - where PyYAML looks for them

    for name, pattern in _PLAIN_SCALARS.items():
        Loader.add_implicit_resolver(_YAML + name, re.compile(rf"(?:{pattern})\Z"), None)
    return Loader


def _from_yaml(node: Any, line: int | None, field: str, source: str, depth: int) -> Node:
    line = node.start_mark.line + 1 if line is None else line
    if depth > _DEEPEST:  # an alias inside itself
        raise ConstraintFileError(source, line, "", _TOO_DEEP)
    name = node.tag.removeprefix(_YAML)
    if name == "map":
        fields: dict[Scalar, Node] = {}
        for key_node, value in node.value:
            key = _from_yaml(key_node, None, field, source, depth + 1)
            path, at = _joined(field, key.value), key.line
            _add(fields, key, _from_yaml(value, at, path, source, depth + 1))
        return Node(fields, line, field, source)
    if name == "seq":
        members = [_from_yaml(v, None, f"{field}[{n}]", source, depth + 1) for n, v in enumerate(node.value)]
        return Node(members, line, field, source)
    if name not in ("str", *_PLAIN_SCALARS):
        raise ConstraintFileError(source, line, field, f"the tag {node.tag} is not understood; leave it out")
    return _plain_node(node.value, partial(_plain_value, name), line, field, source)


def _plain_node(text: str, read: Callable[[str], Scalar | None], line: int, field: str, source: str) -> Node:
    """The node of a plain value; whole numbers beyond those of float64 are refused."""
    try:
        value = read(text)
        if isinstance(value, int):
            float(value)
    except (ValueError, OverflowError):
        problem = f"{shorten(quote(text))} is no number below 1e308; put quotes around it if it is a text"
        raise ConstraintFileError(source, line, field, problem) from None
    return Node(value, line, field, source)


def _plain_value(name: str, text: str) -> Scalar | None:
    if name == "null":
        return None
    if name == "bool":
        return text.lower() == "true"
    if name == "int":
        return int(text, {"0x": 16, "0o": 8}.get(text[:2], 10))
    return float(re.sub(r"\.(?=inf|nan)", "", text.lower())) if name == "float" else text


def _from_json(tokens: list[tuple[str, int]], at: int, line: int | None, field: str, source: str) -> tuple[Node, int]:
    """The node whose first token is number ``at``, and the number of the token after it, of a text that is JSON."""
    token, own_line = tokens[at]
    line = own_line if line is None else line
    if token not in ("[", "{"):
        return _plain_node(token, json.loads, line, field, source), at + 1
    fields: dict[Scalar, Node] = {}
    members: list[Node] = []
    at += 1
    while tokens[at][0] not in ("]", "}"):
        if tokens[at][0] == ",":
            at += 1
        elif token == "[":
            member, at = _from_json(tokens, at, None, f"{field}[{len(members)}]", source)
            members.append(member)
        else:
            key, after = _from_json(tokens, at, None, field, source)
            member, at = _from_json(tokens, after + 1, key.line, _joined(field, key.value), source)
            _add(fields, key, member)
    return Node(members if token == "[" else fields, line, field, source), at + 1


def _add(fields: dict[Scalar, Node], key: Node, value: Node) -> None:
    if isinstance(key.value, (dict, list)) or key.value is None:
        key.fail(f"a field has a name, found {key.found}; write name: value")
    if key.value in fields:
        value.fail(f"{key.value!r} stands here a second time, first on line {fields[key.value].line}; drop one")
    fields[key.value] = value


def _joined(field: str, key: object) -> str:
    name = key if isinstance(key, (str, int, float)) else "?"
    return f"{field}.{name}" if field else f"{name}"
