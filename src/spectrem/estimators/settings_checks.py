"""Rules that parameters and weights of several estimators obey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats
from spectrem.constraints.compile import flatten
from spectrem.constraints.constraint import Constraint, LinearConstraint, MaxOver
from spectrem.exceptions import InvalidInputError
from spectrem.learning.schedule import check_gamma


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


def as_weights(sample_weight: ArrayLike | None, n: int, unit: str, hint: str = "") -> Floats:
    """One weight per ``unit``, 1 by default, shape (n,)."""
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (n,) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise InvalidInputError(
            f"sample_weight must hold {n} finite numbers of at least 0, one per {unit}, got an array of shape "
            f"{weights.shape} with minimum {weights.min(initial=np.inf):g}{hint}"
        )
    return weights


def check_gammas(gamma: Any, schedule: Any) -> None:
    """A gamma; or a schedule, something that yields gammas, and then no other ``gamma`` beside it."""
    check_number("gamma", gamma)
    check_gamma(gamma)
    if schedule is None:
        return
    if not hasattr(schedule, "gammas"):
        raise InvalidInputError(
            f"schedule must yield gammas, such as Anneal(beta_min=0.1), got {schedule!r}; for one, give gamma"
        )
    if gamma != 1.0:
        raise InvalidInputError(
            f"gamma and schedule must not both be given, got gamma {gamma}; put it into the schedule, as in "
            "Anneal(beta_min, 1 / gamma)"
        )
    gammas = list(schedule.gammas())
    if not gammas:
        raise InvalidInputError("schedule must yield at least one gamma, got none")
    for value in gammas:
        check_gamma(value)


def check_constraints(constraints: Any) -> None:
    """A text, a mapping of names, or a sequence, which can be gone through more than once, of constraints."""
    if not isinstance(constraints, Sequence | Mapping):
        raise InvalidInputError(f"constraints must be a sequence of constraints, got {constraints!r}; put it in a list")
    for constraint in flatten(constraints):
        if not hasattr(constraint, "rows") and not isinstance(constraint, Constraint | LinearConstraint | MaxOver):
            raise InvalidInputError(
                f"constraints must be made with E or shortcuts, got {constraint!r}; see spectrem.constraints"
            )
