"""What the states of a hidden Markov model emit: Gaussians, counts, categories, and columns of several of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.emissions.emission import Emission
from spectrem.models.emissions.gaussian import Gaussian

__all__ = ["Emission", "Gaussian"]

_FAMILIES: dict[str, type] = {"gaussian": Gaussian}


def resolve(emissions: Any, names: Sequence[str]) -> Emission:
    """The emission that a name, a value, or a mapping from columns to these, stands for.

    Raises
    ------
    InvalidInputError
        If there is no such family, or a mapping does not name every column once.
    """
    if isinstance(emissions, str):
        if emissions not in _FAMILIES:
            raise InvalidInputError(f"emissions must be one of {', '.join(_FAMILIES)}, got {quoted(emissions)}")
        return _FAMILIES[emissions]()
    if not hasattr(emissions, "m_step"):
        raise InvalidInputError(
            f"emissions must be a name such as 'gaussian' or a value of spectrem.models.emissions, got "
            f"{quoted(emissions)}"
        )
    chosen: Emission = emissions
    return chosen


def settings_of(emission: Any) -> dict[str, Any]:
    """The settings of an emission as JSON can hold them."""
    values = {field.name: getattr(emission, field.name) for field in fields(emission)}
    return {"kind": type(emission).__name__, **{name: _plain(value) for name, value in values.items()}}


def of_settings(values: Mapping[str, Any]) -> Any:
    """The emission that `settings_of` described."""
    kinds = {kind.__name__: kind for kind in _FAMILIES.values()}
    settings = {name: np.array(v) if isinstance(v, list) else v for name, v in values.items() if name != "kind"}
    return kinds[values["kind"]](**settings)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
