"""Constraints in saved models: as the texts that `spectrem.constraints.parse_constraint` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spectrem.constraints.links import RowLinks
from spectrem.constraints.text import parse_constraint
from spectrem.exceptions import InvalidInputError, warn


def write_constraints(estimator: Any) -> Any:
    """The constraints of an estimator as JSON can hold them, for `read_constraints`.

    Parameters
    ----------
    estimator : estimator
        Whose ``save`` calls the function that calls `spectrem.estimators.storage.settings_of`.

    Returns
    -------
    str, list or dict
        Texts as they were given; a constraint as ``{"text": ...}``; a mapping of names as ``{"named": {...}}``.

    Raises
    ------
    InvalidInputError
        If ``project_at_predict`` needs constraints that cannot be written as text: matrices, objects of one's own, and
        links between rows by number, since a saved model does not hold the rows.

    Warns
    -----
    UserWarning
        If such constraints are left out, because only training needs them.
    """
    left_out: list[str] = []
    written = write_texts(estimator.constraints, left_out)
    if left_out:
        model, names = type(estimator).__name__, ", ".join(left_out)
        if getattr(estimator, "project_at_predict", False):
            raise InvalidInputError(
                f"constraints that project_at_predict needs must be texts, or made with E or shortcuts, to be saved, "
                f"got {names}; set project_at_predict=False, or keep the {model} in memory"
            )
        warn(
            f"constraints that cannot be written as text are left out: {names}; to train the loaded {model} under "
            "them, give them again",
        )
    return written


def read_constraints(written: Any) -> Any:
    """The constraints of which `write_constraints` made this.

    Examples
    --------
    >>> read_constraints(["agreement", {"text": "E[label == 1] <= 3"}])
    ('agreement', E[part("label") == 1] <= 3)
    """
    if isinstance(written, str):
        return written
    if not isinstance(written, dict):
        return tuple(read_constraints(one) for one in written)
    [(kind, held)] = written.items()
    if kind == "text":
        return parse_constraint(held)
    return {name: read_constraints(one) for name, one in {"named": held}[kind].items()}


def write_texts(constraints: Any, left_out: list[str]) -> Any:
    """Constraints as JSON can hold them; those that no text says are left out and described in ``left_out``."""
    if isinstance(constraints, str):
        return constraints
    if isinstance(constraints, Mapping):
        named = {str(name): write_texts(held, left_out) for name, held in constraints.items()}
        return {"named": {name: held for name, held in named.items() if held is not None}}
    if isinstance(constraints, Sequence):
        return [written for one in constraints if (written := write_texts(one, left_out)) is not None]
    text = _text(constraints)
    if text is None:
        name = getattr(constraints, "name", None)
        left_out.append(type(constraints).__name__ + ("" if name is None else f" {name!r}"))
        return None
    return {"text": text}


def _text(constraint: Any) -> str | None:
    """The text from which the same constraint is read; None where no text says it."""
    if isinstance(constraint, RowLinks):
        return None
    try:
        text = repr(constraint)
        return text if parse_constraint(text) == constraint else None
    except InvalidInputError:
        return None
