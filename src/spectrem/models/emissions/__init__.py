"""What the states of a hidden Markov model emit: numbers, counts, categories, and columns of several of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.emissions.categorical import Categorical
from spectrem.models.emissions.emission import Emission
from spectrem.models.emissions.gaussian import Gaussian
from spectrem.models.emissions.gaussian_mixture import GaussianMixture
from spectrem.models.emissions.joined import Joined
from spectrem.models.emissions.multinomial import Multinomial
from spectrem.models.emissions.negative_binomial import NegativeBinomial
from spectrem.models.emissions.poisson import Poisson
from spectrem.models.emissions.student_t import StudentT

__all__ = [
    "Categorical", "Emission", "Gaussian", "GaussianMixture", "Joined", "Multinomial", "NegativeBinomial", "Poisson",
    "StudentT",
]  # fmt: skip

_FAMILIES: dict[str, type] = {
    "gaussian": Gaussian,
    "student-t": StudentT,
    "gaussian-mixture": GaussianMixture,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
    "categorical": Categorical,
    "multinomial": Multinomial,
}


def resolve(emissions: Any, names: Sequence[str]) -> Emission:
    """The emission that a name, a value, or a mapping from columns to these, stands for.

    Keys of a mapping are names or numbers of columns, or tuples of these for columns that are emitted together.

    Raises
    ------
    InvalidInputError
        If there is no such family or column.
    """
    if isinstance(emissions, Mapping):
        parts: dict[Any, Emission] = {_numbers_of(key, names): resolve(one, names) for key, one in emissions.items()}
        return Joined(parts, ["_".join(names[column] for column in key) for key in parts])
    if isinstance(emissions, str):
        if emissions not in _FAMILIES:
            raise InvalidInputError(f"emissions must be one of {', '.join(_FAMILIES)}, got {quoted(emissions)}")
        return _FAMILIES[emissions]()
    if not hasattr(emissions, "m_step"):
        raise InvalidInputError(
            f"emissions must be a name such as 'gaussian' or a value of spectrem.emissions, got {quoted(emissions)}"
        )
    chosen: Emission = emissions
    return chosen


def _numbers_of(key: Any, names: Sequence[str]) -> tuple[int, ...]:
    """Numbers of the columns that a key of a mapping of emissions names."""
    listed = list(names)
    numbers = [listed.index(one) if one in listed else one for one in (key if isinstance(key, tuple) else (key,))]
    for one in numbers:
        if isinstance(one, bool) or one not in range(len(listed)):
            raise InvalidInputError(
                f"emissions must be by names of columns ({', '.join(listed)}) or numbers, got {quoted(one)}; correct it"
            )
    return tuple(map(int, numbers))


def check_texts(emission: Any, names: Sequence[str], texts: Collection[str]) -> None:
    """Raise `InvalidInputError` if a column of text, by its name, is emitted by another family than `Categorical`."""
    parts = emission.emissions if isinstance(emission, Joined) else {tuple(range(len(names))): emission}
    for key, one in parts.items():
        for name in (names[number] for number in np.atleast_1d(key)):
            if name in texts and not isinstance(one, Categorical):
                raise InvalidInputError(
                    f"column {name} must hold numbers where emissions are {type(one).__name__}, got text; let states "
                    f"emit categories, emissions={{{name!r}: 'categorical', ...}}, or "
                    "leave the column out (columns, if constraints read it)"
                )


def settings_of(emission: Any) -> dict[str, Any]:
    """The settings of an emission as JSON can hold them."""
    values = {field.name: _plain(getattr(emission, field.name)) for field in fields(emission)}
    return {"kind": type(emission).__name__, **values}


def of_settings(values: Mapping[str, Any]) -> Any:
    """The emission that `settings_of` described."""
    settings = {name: value for name, value in values.items() if name != "kind"}
    if values["kind"] == "Joined":
        return Joined({tuple(key): of_settings(one) for key, one in settings["emissions"]}, settings["names"])
    return {kind.__name__: kind for kind in _FAMILIES.values()}[values["kind"]](**settings)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [[np.atleast_1d(key).tolist(), settings_of(one)] for key, one in value.items()]
    return value.tolist() if isinstance(value, np.ndarray) else value
