"""A fitted DependencyModel as a file."""

from __future__ import annotations

import os
from typing import Any

from spectrem.estimators.grammar.parameters import TABLES, check_settings
from spectrem.estimators.shared_parameters import NOT_SAVED
from spectrem.estimators.storage import (
    check_probabilities,
    damage_named,
    load_arrays,
    read_parameters,
    save_arrays,
    settings_of,
    take_saved_course,
)
from spectrem.estimators.tagging.text import check_tag
from spectrem.learning.schedule import check_gamma
from spectrem.models.grammar import GrammarParameters, ValenceModel

_KIND, _LAYOUT = "DependencyModel", 1
_MEMBERS = {"root": ("f8", 1), "choose": ("f8", 4), "stop": ("f8", 4)}
_APART = ("tags", *NOT_SAVED)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write tags, tables, and the settings that JSON can hold."""
    header = {
        **settings_of(model, _APART),
        "tags": list(model.tags_),
        "gamma": model.gamma_,
        "log_likelihood": model.log_likelihood_,
    }
    save_arrays(path, _KIND, _LAYOUT, header, {name: getattr(model.params_, name) for name in TABLES})


def load(model: Any, path: str | os.PathLike[str]) -> Any:
    """Fill a new model with what `save` wrote, and return it."""
    header, arrays = load_arrays(path, _KIND, _LAYOUT, _MEMBERS)
    with damage_named(path, _KIND):
        model.set_params(**read_parameters(header))
        check_settings(model)
        tags = tuple(check_tag(tag, "tags") for tag in header["tags"])
        if len(set(tags)) < len(tags) or not tags:
            raise ValueError("tags must be distinct")
        for name, shape in zip(TABLES, ValenceModel(len(tags), model.adjacency).shapes, strict=True):
            if arrays[name].shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {arrays[name].shape}")
            check_probabilities(name, arrays[name])
            # a mean-field prior makes the sums smaller
            if (arrays[name].sum(axis=-1) > 1 + 1e-6).any():
                raise ValueError(f"{name} must have rows that sum to 1 at most")
        gamma, value = float(header["gamma"]), float(header["log_likelihood"])
        check_gamma(gamma)
        model.set_params(tags=list(tags))
        take_saved_course(model, header)
    model._take(tags, GrammarParameters(arrays["root"], arrays["choose"], arrays["stop"]), gamma)
    model.log_likelihood_ = value
    return model
