"""What to do about constraints that an instance cannot meet."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from spectrem.exceptions import InvalidInputError

Infeasible: TypeAlias = Literal["raise", "skip"]


def check_infeasible(infeasible: str) -> None:
    """Raise unless ``infeasible`` is "raise" or "skip"."""
    if infeasible not in get_args(Infeasible):
        raise InvalidInputError(
            f'infeasible must be "raise" or "skip", got {infeasible!r}; "raise" names the constraint'
        )
