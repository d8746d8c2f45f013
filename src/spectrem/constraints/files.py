"""Files of constraints: texts in a list, or under names, in YAML or JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TextIO

from spectrem._outputs import open_bytes
from spectrem.constraints.compilation.compile import Constraints, flatten
from spectrem.constraints.constraint import Constraint, LinearConstraint, MaxOver
from spectrem.constraints.links import ColumnLinks, RowLinks
from spectrem.constraints.text import HINT, ConstraintTextError, parse_constraint, source_text
from spectrem.data.files import decode, read_bytes
from spectrem.exceptions import InvalidInputError, shorten

_FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
SUFFIXES = tuple(_FORMATS)
_LONGEST_NAME = 500  # YAML reads no longer ones than 1024 characters, quotes and escapes included
_DEEPEST = 2
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
        By default told by the suffix of the name; needed for streams without a name. YAML needs PyYAML.
    columns : collection of str, optional
        Names of the columns there are; a constraint that names another is refused with its line. By default
        names are checked when the constraints are compiled.

    Returns
    -------
    list of Constraint, or of links of rows
        In the order of the file. The language is that of `parse_constraint`; ``docs/constraints.md`` describes it.

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
    made: list[Any] = []
    tokens = list(_yaml_tokens(file) if chosen == "yaml" else _json_tokens(file))  # errors of the format come first
    for key, held in _entries(file, iter(tokens)):
        given = None if key is None else key.value
        made += flatten(parse_constraint(held.value, columns, name=given, place=partial(file.place_in, held)))
    return made


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
        By default told by the suffix of the name; needed for streams without a name.

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
        lines = [_yaml(held) if key is None else f"{_yaml(key)}: {_yaml(held)}" for key, held in entries]
        text = "".join(f"- {line}\n" for line in lines) or "[]\n"
    else:
        lines = [_json(held) if key is None else f"{{{_json(key)}: {_json(held)}}}" for key, held in entries]
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

    def place_in(self, held: _Token, at: int) -> str:
        """File, line and column of a character of a text.

        The n-th character that is not white space is also the n-th in the file, where an escape counts as one.
        """
        n = len("".join(held.value[:at].split()))
        units = _UNITS[held.style].finditer(self.text, held.start, held.stop)
        starts = [unit.start() for unit in units if unit.lastgroup != "gap"]
        return self.place(starts[n] if n < len(starts) else held.start)


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
        file.fail(0, "expected a list of constraints, found lists inside each other without end; write them flat")
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
    if not isinstance(constraint, (Constraint, RowLinks, ColumnLinks)):
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
    if (
        _PLAIN.fullmatch(text)
        and not text.endswith((" ", ":"))
        and not _is_open(text)
        and not _UNPRINTABLE.search(text)
    ):
        return text
    return _json(text) if _UNPRINTABLE.search(text) else "'" + text.replace("'", "''") + "'"


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
            f"{', '.join(SUFFIXES)}; give format='yaml' or format='json', and wrap text itself in io.StringIO"
        )
    return name, chosen
