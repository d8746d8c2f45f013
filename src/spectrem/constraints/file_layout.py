"""Plain data as text that people like to read: short things on one line, in YAML and in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

_WIDTH = 110
_PLAIN = re.compile(r"[^\W\d]\w*(?:[ -]\w+)*")
_OTHER_MEANINGS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_encode = json.JSONEncoder(ensure_ascii=False).encode
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def yaml_text(entries: Iterable[dict[str, Any]]) -> str:
    """Entries as YAML, one field per line.

    Examples
    --------
    >>> print(yaml_text([{"expect": {"tag": ["VERB", "NO"]}, "at_least": 1}]), end="")
    - expect: {tag: [VERB, "NO"]}
      at_least: 1
    """
    lines = []
    for entry in entries:
        for number, (field, value) in enumerate(entry.items()):
            lines.append(f"{'  ' if number else '- '}{field}: {_laid_out(value, _yaml_atom, 4, len(field) + 4)}\n")
    return "".join(lines) or "[]\n"


def json_text(entries: Iterable[dict[str, Any]]) -> str:
    """Entries as JSON, one field per line.

    Examples
    --------
    >>> print(json_text([{"expect": {"tag": "VERB"}, "at_least": 1}]), end="")
    [
      {
        "expect": {"tag": "VERB"},
        "at_least": 1
      }
    ]
    """
    objects = []
    for entry in entries:
        fields = [f'    "{key}": {_laid_out(value, _json_atom, 4, len(key) + 8)}' for key, value in entry.items()]
        objects.append("  {\n" + ",\n".join(fields) + "\n  }")
    return "[\n" + ",\n".join(objects) + "\n]\n" if objects else "[]\n"


def _laid_out(value: Any, atom: Callable[[Any], str], indent: int, column: int) -> str:
    """On one line if it fits, else one member per line."""
    text = _on_one_line(value, atom)
    if column + len(text) <= _WIDTH or not isinstance(value, (dict, list)) or not value:
        return text
    if isinstance(value, dict) and len(value) == 1:
        [(key, member)] = value.items()
        return f"{{{atom(key)}: {_laid_out(member, atom, indent, column + len(atom(key)) + 3)}}}"
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        keys = [atom(key) for key in value]
        members = [
            f"{key}: {_laid_out(member, atom, indent + 2, indent + 4 + len(key))}"
            for key, member in zip(keys, value.values(), strict=True)
        ]
    else:
        members = [_laid_out(member, atom, indent + 2, indent + 2) for member in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(members) + f"\n{' ' * indent}{closing}"


def _on_one_line(value: Any, atom: Callable[[Any], str]) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{atom(key)}: {_on_one_line(member, atom)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_on_one_line(member, atom) for member in value) + "]"
    return atom(value)


def _json_atom(value: Any) -> str:
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", _encode(value))


def _yaml_atom(value: Any) -> str:
    """Bare where every version of YAML reads the same text, else as in JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _OTHER_MEANINGS:
        return value
    return _json_atom(value)
