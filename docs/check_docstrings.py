"""Check the docstrings of public names by numpydoc: what is there has a page, and what can be called is explained.

``python docs/check_docstrings.py`` ends with 1 and a line for every fault.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module

import protocols
import public_names
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

EVERYWHERE = {"GL01", "GL02", "GL03", "GL05", "GL06", "GL07", "GL08", "GL09", "PR02", "SS01", "SS03", "SS04", "SS06"}
"""Layout, sections in order, a summary of one sentence and one line, and no parameter that does not exist."""
METHODS = EVERYWHERE | {"PR01", "PR10", "RT01", "YD01"}
"""And every parameter, and what is returned; the class has the example."""
FUNCTIONS = METHODS | {"EX01"}
"""And an example."""
CLASSES = EVERYWHERE | {"EX01"}
"""And an example; parameters may be described as the attributes that they become, see `undescribed`."""

_A_MODEL = "it needs a whole model, such as that of docs/start/own_model.md"
WITHOUT_EXAMPLE = {
    **dict.fromkeys(("run_em", "run_ascent", "run_online", "FitResult", "Model", "Kernel"), _A_MODEL),
    **dict.fromkeys(("Posed", "PosedCorpus", "Step"), _A_MODEL),
    "connect": "it needs a cluster that is running",
    "ConvergenceWarning": "its class is made where scikit-learn is loaded; `Unconverged` has an example",
}
"""Public names without an example, and why."""


def public_objects() -> Iterator[tuple[str, set[str]]]:
    """Full name of every public function, class and method once, and the codes that hold for it."""
    seen = set()
    for room in public_names.ROOMS:
        for name in public_names.names_of(room):
            value = getattr(public_names.import_room(room), name)
            if id(value) in seen or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            seen.add(id(value))
            yield f"{room}.{name}", CLASSES if inspect.isclass(value) else FUNCTIONS
            if inspect.isclass(value):
                for key, member in vars(value).items():
                    if not key.startswith("_") and isinstance(member, (classmethod, staticmethod, type(validate))):
                        yield f"{room}.{name}.{key}", METHODS


def undescribed(cls: type) -> list[str]:
    """The parameters of a class that its docstring has neither among the parameters nor among the attributes."""
    if issubclass(cls, Enum | Exception):  # whose constructors are Python's
        return []
    doc = NumpyDocString(inspect.getdoc(cls) or "")
    described = {
        name for section in ("Parameters", "Attributes") for one in doc[section] for name in one.name.split(", ")
    }
    taken = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    parameters = inspect.signature(cls).parameters.values()
    return [one.name for one in parameters if one.kind in taken and one.name not in described and one.name[0] != "_"]


def faults() -> list[str]:
    """A line for each fault."""
    protocols.complete_docstrings()
    wrong = []
    for name, codes in public_objects():
        wrong += [
            f"{name}: {code} {message}"
            for code, message in validate(name)["errors"]
            if code in codes and not (code == "EX01" and name.rpartition(".")[2] in WITHOUT_EXAMPLE)
        ]
        if codes is CLASSES:
            room, _, short = name.rpartition(".")
            missing = undescribed(getattr(import_module(room), short))
            wrong += [f"{name}: PR01 Parameters {missing} not documented"] if missing else []
    return wrong


if __name__ == "__main__":
    wrong = faults()
    print("\n".join(wrong) or "docstrings of all public names are whole")
    sys.exit(bool(wrong))
