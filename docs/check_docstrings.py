"""Check the docstrings of public names by numpydoc: what is there has a page, and what can be called is explained.

``python docs/check_docstrings.py`` ends with 1 and a line for every fault.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module

import public_names
from numpydoc.validate import validate

EVERYWHERE = {"GL01", "GL02", "GL03", "GL05", "GL06", "GL07", "GL08", "GL09", "PR02", "SS01", "SS03", "SS04", "SS06"}
"""Layout, sections in order, a summary of one sentence and one line, and no parameter that does not exist."""
FUNCTIONS = EVERYWHERE | {"PR01", "PR10", "RT01", "YD01", "EX01"}
"""And every parameter, what is returned, and an example."""
WITHOUT_EXAMPLE = {"run_em", "run_ascent", "run_online", "connect"}
"""Functions that need a whole model or a running cluster; docs/start/own_model.md shows the first."""


def public_objects() -> Iterator[tuple[str, bool]]:
    """Full name of every public function, class and method once, and whether it is a function of a room."""
    seen = set()
    for room in public_names.ROOMS:
        for name in public_names.names_of(room):
            value = getattr(import_module(room), name)
            if id(value) in seen or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            seen.add(id(value))
            yield f"{room}.{name}", inspect.isfunction(value)
            if inspect.isclass(value):
                for key, member in vars(value).items():
                    if not key.startswith("_") and isinstance(member, (classmethod, staticmethod, type(validate))):
                        yield f"{room}.{name}.{key}", False


def faults() -> list[str]:
    """A line for each fault."""
    return [
        f"{name}: {code} {message}"
        for name, is_function in public_objects()
        for code, message in validate(name)["errors"]
        if code in (FUNCTIONS if is_function else EVERYWHERE)
        and not (code == "EX01" and name.rpartition(".")[2] in WITHOUT_EXAMPLE)
    ]


if __name__ == "__main__":
    wrong = faults()
    print("\n".join(wrong) or "docstrings of all public names are whole")
    sys.exit(bool(wrong))
