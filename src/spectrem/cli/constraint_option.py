"""Constraints from the texts of the option ``--constraint``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spectrem.constraints import Constraint


def parse_options(texts: Iterable[str], columns: Collection[str]) -> list[Constraint | Any]:
    """Constraints from texts over known columns.

    Raises
    ------
    InvalidInputError
        Naming the option, the text and the character in it.

    Examples
    --------
    >>> parse_options(["at_least(1, 'VERB')"], ["sentence", "label"])
    [(E[part("label") == "VERB"] >= 1).per("sentence").named("at least 1 VERB per sentence")]
    """
    from spectrem.constraints.compilation.compile import flatten
    from spectrem.constraints.text import parse_constraint

    return flatten([parse_constraint(text, columns, place=partial(_place, text)) for text in texts])


def _place(text: str, at: int) -> str:
    return f"--constraint {text!r}, character {at + 1}"
