"""Rules that parameters of several estimators obey."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from spectrem.exceptions import InvalidInputError


def check_number(name: str, value: Any) -> None:
    """A number, and no truth value."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInputError(f"{name} must be a number, got {value!r}")


def check_amount(name: str, value: Any) -> None:
    """A finite number of at least 0."""
    check_number(name, value)
    if not 0 <= value < np.inf:
        raise InvalidInputError(f"{name} must be finite and at least 0, got {value}")


def check_count(name: str, value: Any, least: int, hint: str = "") -> None:
    """An integer, and no truth value, of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidInputError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise InvalidInputError(f"{name} must be at least {least}, got {value}{hint}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """One of some names."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidInputError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
