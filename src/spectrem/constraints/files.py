"""Constraints as data: files that can live in a repository, beside a model."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TextIO

from spectrem._outputs import open_bytes
from spectrem.constraints.clusters import AnyLinks
from spectrem.constraints.compile import Constraints, flatten
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.file_columns import Names
from spectrem.constraints.file_layout import json_text, yaml_text
from spectrem.constraints.file_nodes import parse_json, parse_yaml
from spectrem.constraints.file_shortcuts import read_entry
from spectrem.constraints.file_writing import entry_data
from spectrem.data.decoding import decode
from spectrem.data.readers import read_bytes
from spectrem.exceptions import InvalidInputError

_FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
_SUFFIXES = ", ".join(_FORMATS)


def read_constraints(
    source: str | os.PathLike[str] | TextIO, *, format: str | None = None, columns: Collection[str] | None = None
) -> list[Constraint | AnyLinks]:
    """Read constraints from a file in YAML or JSON; ``docs/constraints.md`` describes the fields.

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
        In the order of the file.

    Raises
    ------
    InvalidInputError
        If the file breaks a rule: a ``ConstraintFileError`` that names the file, line and field.

    Examples
    --------
    >>> import io
    >>> text = '[{"expect": {"tag": ["VERB", "AUX"]}, "at_least": 1, "per": "sentence"}]'
    >>> read_constraints(io.StringIO(text), format="json")
    [(E[part("tag").isin(["VERB", "AUX"])] >= 1).per("sentence")]
    """
    name, chosen = _format_of(source, format, "read_constraints")
    if isinstance(source, (str, os.PathLike)):
        text = decode(read_bytes(source, may_be_empty=True), name)
    else:
        text = source.read()
        if not isinstance(text, str):
            raise InvalidInputError(f"read_constraints: {name} gives {type(text).__name__}, not text; open it as text")
    top = parse_yaml(text, name) if chosen == "yaml" else parse_json(text, name)
    names = Names(columns)
    return [made for node in top.items("a list of constraints") for made in read_entry(node, names)]


def write_constraints(
    constraints: Constraints, target: str | os.PathLike[str] | TextIO, *, format: str | None = None
) -> None:
    """Write constraints to a file in YAML or JSON, from which :func:`read_constraints` makes equal ones.

    Parameters
    ----------
    constraints : constraint or iterable of constraints, nested as you like
        Of the language of ``E``, or made by shortcuts.
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
    >>> write_constraints((E[part("label") == "spam"] <= 0.3 * E.count(..., each="row")).per("document"),
    ...     sys.stdout, format="yaml")
    - expect: {label: spam}
      at_most: 0.3
      of: row
      per: document
    """
    _, chosen = _format_of(target, format, "write_constraints")
    entries = [entry_data(constraint, number) for number, constraint in enumerate(flatten(constraints))]
    text = yaml_text(entries) if chosen == "yaml" else json_text(entries)
    if isinstance(target, (str, os.PathLike)):
        with open_bytes(target) as stream:
            stream.write(text.encode())
    else:
        target.write(text)


def _format_of(file: str | os.PathLike[str] | TextIO, format: str | None, function: str) -> tuple[str, str]:
    """The file's name for messages, and its format."""
    is_path = isinstance(file, (str, os.PathLike))
    if not is_path and not hasattr(file, "read") and not hasattr(file, "write"):
        raise InvalidInputError(f"{function} takes a path or a stream of text, got {file!r}")
    name = os.fspath(file) if isinstance(file, (str, os.PathLike)) else str(getattr(file, "name", "<stream>"))
    if format is not None:
        if format not in ("yaml", "json"):
            raise InvalidInputError(f"{function}: format must be 'yaml' or 'json', got {format!r}")
        return name, format
    chosen = _FORMATS.get(Path(name).suffix.lower())
    if chosen is None:
        raise InvalidInputError(
            f"{function}: the format of {name!r} cannot be told by its name, which ends in none of {_SUFFIXES}; "
            "give format='yaml' or format='json', and wrap text itself in io.StringIO"
        )
    return name, chosen
