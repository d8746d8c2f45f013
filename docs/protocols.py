"""Docstrings of classes that follow a protocol, completed by what the protocol says of its methods.

``Local.derive`` says "As `Corpus.derive`."; the pages of the API, and the check of docstrings, have the parameters,
results and errors of `Corpus.derive` there, too.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import public_names

from spectrem.corpus import Corpus
from spectrem.durations import Durations
from spectrem.emissions import Emission
from spectrem.inference import Solver
from spectrem.learning import Schedule
from spectrem.structures import Differentiable, Structure
from spectrem.structures.derivations import Derived

PROTOCOLS: dict[str, tuple[type, ...]] = {
    "spectrem.corpus": (Corpus,),
    "spectrem.structures": (Structure, Derived, Differentiable),
    "spectrem.inference": (Solver,),
    "spectrem.learning": (Schedule,),
    "spectrem.emissions": (Emission,),
    "spectrem.durations": (Durations,),
}
"""The protocols that the classes of a room may follow."""

_ORDER = ("Parameters", "Returns", "Yields", "Raises", "Warns", "Notes", "Examples")


def complete_docstrings() -> None:
    """Complete the docstrings of the methods of all public classes, in this process."""
    for room, protocols in PROTOCOLS.items():
        for name in public_names.names_of(room):
            value = getattr(import_module(room), name)
            if inspect.isclass(value) and value not in protocols:
                for method in vars(value):
                    add_sections(value, method, protocols)


def add_sections(cls: type, name: str, protocols: tuple[type, ...]) -> None:
    """Add to the docstring of a method those sections that the one of a protocol has and it does not have."""
    method, said = vars(cls)[name], {}
    for protocol in protocols:
        said |= sections_of(vars(protocol).get(name))
    own = sections_of(method)
    if said and inspect.isfunction(method):
        merged = said | own
        pieces = [merged[""], *(f"{key}\n{'-' * len(key)}\n{merged[key]}" for key in _ORDER if key in merged)]
        method.__doc__ = "\n\n".join(pieces) + "\n"


def sections_of(method: object) -> dict[str, str]:
    """The sections of the docstring of a function by their headings, and under "" what stands before them."""
    if not inspect.isfunction(method) or not method.__doc__:
        return {}
    head, *parts = re.split(r"(?m)^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(method.__doc__))
    return {"": head.strip()} | {name: text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}
