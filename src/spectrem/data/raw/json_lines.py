"""Files of one JSON object a line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from spectrem.data.reading import display_name, iter_lines
from spectrem.exceptions import InvalidInputError, quoted


def read_objects(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, each with its line, counted from 1; blank lines are passed over.

    Parameters
    ----------
    path : path or "-"
        Plain or gzipped; ``-`` is standard input.

    Raises
    ------
    InvalidInputError
        Naming the file, if it holds none, and the line that is not a JSON object, or whose text cannot be written as
        UTF-8.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/trees.jsonl", ['{"en": "tree"}', "", '{"en": "wood"}'])
    ...     list(read_objects(f"{folder}/trees.jsonl"))
    [(1, {'en': 'tree'}), (3, {'en': 'wood'})]
    """
    return parse_objects(iter_lines(path), display_name(path))


def parse_objects(lines: Iterable[str], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """As `read_objects`, of the lines of a text that errors call ``name``."""
    found = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            reason = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else error
            raise InvalidInputError(
                f"{name}, line {number}: is not JSON: {reason}; write one JSON object on every line"
            ) from None
        except RecursionError:
            raise InvalidInputError(f"{name}, line {number}: is nested too deeply; make it flatter") from None
        if "\\u" in line and not _is_unicode(found):
            raise InvalidInputError(
                f"{name}, line {number}: holds an unpaired surrogate, which UTF-8 cannot write: {quoted(line)}; "
                "correct the escapes \\ud800 to \\udfff there"
            )
        if not isinstance(found, dict):
            raise InvalidInputError(
                f"{name}, line {number}: holds {describe(found)}, not a JSON object; write one object on every line"
            )
        yield number, found
    if found is None:
        raise InvalidInputError(f"{name}: holds no JSON object; give it one a line")


def _is_unicode(value: object) -> bool:
    """Whether all text in a value of JSON can be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def describe(value: object) -> str:
    """The type of a value of JSON in words, for messages.

    Examples
    --------
    >>> describe({}), describe([]), describe(None)
    ('an object', 'a list', 'null')
    """
    kinds = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "a truth value",
        int: "a number",
        float: "a number",
    }
    return kinds.get(type(value), "null")
